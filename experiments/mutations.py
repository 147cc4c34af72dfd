"""Which wrong lines do the tests notice? Random changes to single lines of the library, each tried on a copy.

python -m experiments.mutations --out FOLDER [--count 50] [--seed 0] [--in engine]      goes on where it stopped

A change is to one comparison, number, sign or condition, or leaves out one argument. It is tried with the tests that
import what its module defines, then with the unit tests of its room and those that import from it, then with all of
tests/contract. A change that nothing notices either means nothing or is a test that is missing.
"""

import argparse
import ast
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

OTHERS = {"server", "paper", "benchmark", "collections", "grids", "tuning", "cli"}  # rooms that are not the library
SECONDS = 600  # of one core, for the tests of one change
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One change.

    Args:
        file: below the root of the repository.
        line: its number.
        kind: what was changed.
        was: the line.
        now: the line afterwards.
    """

    file: str
    line: int
    kind: str
    was: str
    now: str


# ----- what can be changed


def mutations(root: Path, file: Path) -> Iterator[Mutation]:
    """Every change to a file that there is to try."""
    text = file.read_text()
    lines = text.split("\n")
    for node in _running(ast.parse(text)):
        for changed, other, kind in _others(node):
            if changed.lineno != changed.end_lineno:
                continue
            was = lines[changed.lineno - 1]
            line = was.encode()
            now = (line[: changed.col_offset] + other.encode() + line[changed.end_col_offset :]).decode()
            if now != was:
                yield Mutation(file.relative_to(root).as_posix(), changed.lineno, kind, was, now)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that are computed: no annotations, decorators or `zip(strict=True)`; no f-strings, they have no places."""
    yield tree
    left_out = isinstance(tree, ast.JoinedStr) or (isinstance(tree, ast.keyword) and tree.arg == "strict")
    for name, value in ast.iter_fields(tree):
        if left_out or name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _running(child)


def _others(node: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    """Expressions to replace, with what, and what kind of change it is."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED:
        other = ast.Compare(node.left, [FLIPPED[type(node.ops[0])]()], node.comparators)
        yield node, ast.unparse(other), "comparison"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield node, ast.unparse(ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)), "sign"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value), "constant"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield node, str(node.value + 1), "constant"
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test, f"(not ({ast.unparse(node.test)}))", "condition"
    elif isinstance(node, ast.Call):
        for place in (place for place, keyword in enumerate(node.keywords) if keyword.arg != "strict"):
            fewer = ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :])
            yield node, ast.unparse(fewer), "argument"


def library(root: Path) -> list[Path]:
    """Files of the library."""
    (package,) = [*root.glob("packages/indubio/src/indubio"), *root.glob("packages/indubio/src/indubio")]
    files = (file for file in sorted(package.rglob("*.py")) if file.name != "__init__.py")
    return [file for file in files if file.relative_to(package).parts[0] not in OTHERS and "native" not in file.parts]


# ----- what tries it


def tests_of(root: Path, file: str) -> list[str]:
    """Test files, the closest to the module first."""
    inside = Path(file).parts[Path(file).parts.index("src") + 1 :]
    module = ".".join(inside).removesuffix(".py")
    defined = {getattr(node, "name", "") for node in ast.parse((root / file).read_text()).body}
    room = inside[1].removesuffix(".py")
    ranked = []
    for folder in ("unit", "contract", "reference"):
        for test in sorted((root / "tests" / folder).rglob("test_*.py")):
            closeness = _closeness(test, module, defined)
            mirrors = test.is_relative_to(root / "tests" / "unit" / room) or test.name == f"test_{room}.py"
            if closeness or mirrors or folder == "contract":
                ranked.append((-closeness, not mirrors, folder != "unit", test.relative_to(root).as_posix()))
    return [test for *_, test in sorted(ranked)]


def _closeness(test: Path, module: str, defined: set[str]) -> int:
    """2 for a test that imports what the module defines, by whichever door; 1 for one that knocks at its room's."""
    closeness = 0
    for node in ast.walk(ast.parse(test.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and f"{module}.".startswith(f"{node.module}."):
            names = {alias.name for alias in node.names}
            if node.module == module or names & (defined | {module.removeprefix(f"{node.module}.")}):
                return 2
            closeness = max(closeness, int("." in node.module))
    return closeness


class Copy:
    """A copy of the repository to try changes on.

    Args:
        root: the repository.
        folder: where the copy is, or will be.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder
        if not folder.exists():
            tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True)
            cores = [core.relative_to(root).as_posix() for core in root.rglob("libindubio_core.*")]
            for name in [*filter(None, tracked.stdout.split("\0")), *cores]:
                if (root / name).is_file():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(root / name, folder / name)
        self._sources = ":".join(str(source) for source in [folder / "src", *folder.glob("packages/*/src")])
        self._flaky = dict[str, bool]()

    def tried(self, mutation: Mutation) -> tuple[str, str]:
        """Found, missed or out of time; and the test that found it."""
        file = self.root / mutation.file
        text = file.read_text()
        lines = text.split("\n")
        lines[mutation.line - 1] = mutation.now
        try:
            file.write_text("\n".join(lines))
            outcome, test = self._run(tests_of(self.root, mutation.file))
        finally:
            file.write_text(text)
        if outcome == "found" and self._fails_anyway(test):
            return "broken test", test
        return outcome, test

    def _fails_anyway(self, test: str) -> bool:
        if test not in self._flaky:
            self._flaky[test] = self._run([test])[0] != "missed"
        return self._flaky[test]

    def _run(self, tests: list[str]) -> tuple[str, str]:
        if not tests:
            return "missed", ""
        options = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-m", "not slow"]
        limit = partial(resource.setrlimit, resource.RLIMIT_CPU, (SECONDS, SECONDS))
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": self._sources, "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=limit,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if ran.returncode in (0, 5):
            return "missed", ""
        if ran.returncode < 0:
            return "out of time", ""
        failed = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return "found", failed[0] if failed else tests[0]


def main() -> None:
    """Try what has not been tried, and count."""
    given = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    given.add_argument("--out", type=Path, required=True, help="folder of the copy and of the results")
    given.add_argument("--count", type=int, default=50)
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--in", dest="within", default="", help="only files whose path has this")
    options = given.parse_args()
    root = Path.cwd()
    options.out.mkdir(parents=True, exist_ok=True)
    files = [file for file in library(root) if options.within in file.as_posix()]
    every = [mutation for file in files for mutation in mutations(root, file)]
    chosen = random.Random(options.seed).sample(every, min(options.count, len(every)))
    copy, results = Copy(root, options.out / "copy"), options.out / "mutations.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    outcomes = {Mutation(**row["mutation"]): row["outcome"] for row in rows}
    for mutation in chosen:
        if mutation not in outcomes:
            start = time.monotonic()
            outcomes[mutation], test = copy.tried(mutation)
            row = {"mutation": asdict(mutation), "outcome": outcomes[mutation], "test": test}
            with results.open("a") as file:
                file.write(json.dumps(row | {"seconds": round(time.monotonic() - start)}) + "\n")
        print(f"{outcomes[mutation]:12} {mutation.file}:{mutation.line} {mutation.kind}")
        print(f"    - {mutation.was.strip()}\n    + {mutation.now.strip()}", flush=True)
    print(dict(Counter(outcomes[mutation] for mutation in chosen)))


if __name__ == "__main__":
    main()
