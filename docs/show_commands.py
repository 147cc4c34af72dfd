"""Put what the commands really print into docs/commands.md: `make commands`."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).with_name("commands.md")
BIN = Path(sys.executable).parent
BLOCK = re.compile(r"(<!-- output of the commands: made by `make commands` -->\n```\n)(.*?)(```\n)", re.DOTALL)

DATA = """\
from sklearn.datasets import load_breast_cancer
frame = load_breast_cancer(as_frame=True).frame.sample(frac=1, random_state=0)
frame["malignant"] = 1 - frame.pop("target")
good = frame[frame.malignant == 0]
good[:250].to_csv("good.csv", index_label="case")
frame.drop(index=good.index[:250]).to_csv("new.csv", index_label="case")
"""
COMMANDS = (
    "indubio fit good.csv --id case --label malignant --out model",
    "indubio assess new.csv --model model --out assessed.csv",
    "head -n 4 assessed.csv",
    "indubio evaluate assessed.csv --label malignant",
    "indubio report new.csv --model model --out report.html",
    "indubio export model --out model.onnx",
)


def shown() -> str:
    """Every command with what it prints, run one after the other in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", DATA], cwd=folder, check=True)
        parts = []
        for command in COMMANDS:
            done = subprocess.run(
                command,
                shell=True,
                cwd=folder,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=True,
                env=os.environ | {"PATH": f"{BIN}:/usr/bin:/bin", "COLUMNS": "100", "HOME": folder},
            )
            lines = [line[:140].rstrip() for line in done.stdout.splitlines()]
            parts.append("\n".join([f"$ {command}", *lines]))
        return "\n\n".join(parts) + "\n"


def main() -> None:
    """Replace the block on the page."""
    text = PAGE.read_text()
    if not BLOCK.search(text):
        raise SystemExit("docs/commands.md has no block for the output of the commands")
    output = shown()
    PAGE.write_text(BLOCK.sub(lambda match: match[1] + output + match[3], text))


if __name__ == "__main__":
    main()
