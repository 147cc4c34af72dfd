"""`indubio export`: a model as one ONNX file."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="ONNX file to write.")],
) -> None:
    """Write a model as one ONNX graph, for ONNX Runtime on other devices and in other languages."""
    from indubio.cli.consoles import terminal
    from indubio.export import export_onnx
    from indubio.storage import load

    export_onnx(load(model), out)
    terminal(stderr=True).print(f"{out}: {out.stat().st_size / 1024:.0f} kB.")
