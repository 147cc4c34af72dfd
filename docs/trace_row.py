"""Trace one row through a whole `indubio assess` in a fresh process, into docs/life-of-a-row.md: `make life`.

A room is the first folder or file below a package. A visit begins whenever control comes to another room: by a call, by
the end of one, or as a generator goes on. Nothing runs beforehand that the command would not run itself.
"""

import ast
import multiprocessing
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from io import StringIO
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PAGE = Path(__file__).parent / "life-of-a-row.md"
PACKAGES = ("indubio", "indubio_server", "indubio_lab")
NAMES = ("temperature", "pressure", "flow", "torque")
READ, WRITTEN = ".batches", ".write"  # a row's way: from the first call of the one to the last end of the other
BESIDE = ("indubio-drift",)  # threads that no answer waits for


@cache
def roots() -> dict[str, Path]:
    """Folder of every package that is installed."""
    specs = {package: find_spec(package) for package in PACKAGES}
    return {package: Path(spec.origin).parent for package, spec in specs.items() if spec and spec.origin}


def room_of(package: str, inside: Path) -> str:
    """Room of a file, given its path below the package; the library's rooms go by their bare names."""
    room = inside.parts[0].removesuffix(".py")
    return room if package == PACKAGES[0] else f"{package}.{room}"


@dataclass(frozen=True)
class Function:
    """A function of ours: its room, its file below the package, and its name with its class."""

    room: str
    file: str
    name: str


@dataclass
class Trace:
    """What ran, in the order of time.

    Args:
        steps: "call" of a function (or a generator that goes on) or "end" of one; and the function that control is in
            afterwards, None where that is not one of ours.
    """

    steps: list[tuple[str, Function, Function | None]] = field(default_factory=list)

    @property
    def functions(self) -> list[Function]:
        """Every function once, in the order of the first calls."""
        return list(dict.fromkeys(function for kind, function, _ in self.steps if kind == "call"))

    @property
    def files(self) -> set[str]:
        """The files that they stand in."""
        return {function.file for function in self.functions}

    def way_of_the_row(self) -> "Trace":
        """From the first row that is read to the verdict that is written."""
        first = next(place for place, step in enumerate(self.steps) if step[1].name.endswith(READ))
        last = max(place for place, step in enumerate(self.steps) if step[1].name.endswith(WRITTEN))
        return Trace(self.steps[first:last])

    def visits(self) -> list[tuple[str, list[str]]]:
        """Rooms in the order of time, each with the functions that are called during the visit."""
        inside = [(kind, there) for kind, _, there in self.steps if there is not None]
        grouped = groupby(inside, key=lambda step: step[1].room)
        return [
            (room, list(dict.fromkeys(function.name for kind, function in steps if kind == "call")))
            for room, steps in ((room, list(steps)) for room, steps in grouped)
        ]


class Profiler:
    """Fills a trace while it is on; what runs because a module is imported is no part of it."""

    def __init__(self) -> None:
        self.trace, self.on = Trace(), True
        self._roots, self._importing = roots(), defaultdict[int, int](int)
        self._functions: dict[CodeType, Function | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """What Python tells of every call and return."""
        if event not in ("call", "return") or not self.on:
            return
        thread = threading.current_thread()
        if frame.f_code.co_name == "<module>":
            self._importing[thread.native_id or 0] += 1 if event == "call" else -1
        elif not self._importing[thread.native_id or 0] and not thread.name.startswith(BESIDE):
            function = self._function(frame.f_code)
            if function is not None and event == "call":
                self.trace.steps.append(("call", function, function))
            elif function is not None:
                self.trace.steps.append(("end", function, next(self._waiting(frame), None)))

    def _waiting(self, frame: FrameType) -> Iterator[Function]:
        below = frame.f_back
        while below is not None:
            function = self._function(below.f_code)
            if function is not None:
                yield function
            below = below.f_back

    def _function(self, code: CodeType) -> Function | None:
        if code not in self._functions:
            self._functions[code] = self._described(code)
        return self._functions[code]

    def _described(self, code: CodeType) -> Function | None:
        name = code.co_qualname.partition(".<locals>.<")[0]  # a comprehension or lambda belongs to what it stands in
        if not code.co_flags & CO_OPTIMIZED or name.startswith("<"):  # the body of a class is no function
            return None
        path = Path(code.co_filename)
        for package, root in self._roots.items():
            if path.is_relative_to(root):
                inside = path.relative_to(root)
                return Function(room_of(package, inside), f"{package}/{inside.as_posix()}", name)
        return None


@contextmanager
def profiled() -> Iterator[Profiler]:
    """A profiler of this thread and of all that start meanwhile."""
    profiler = Profiler()
    threading.setprofile(profiler)
    sys.setprofile(profiler)
    try:
        yield profiler
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def traced_command(*given: str) -> Trace:
    """One `indubio` command, from its first line to its last."""
    import typer

    from indubio.cli.app import app

    command = typer.main.get_command(app)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), profiled() as profiler:
        command.main(args=list(given), standalone_mode=False)
    return profiler.trace


def in_fresh_process(function: Callable[..., Any], *given: Any) -> Any:
    """What the function returns where nothing has run before it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, given)


def write_files(folder: Path) -> None:
    """good.csv to fit on, labelled.csv to report on, and new.csv with one row to assess."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    rows = np.random.default_rng(0).normal([70, 12, 4, 30], size=(60, len(NAMES)))
    good = pa.table({"part": np.arange(60), **dict(zip(NAMES, rows.T, strict=True))})
    arrow_csv.write_csv(good, folder / "good.csv")
    labels = pa.array(np.arange(60) % 10 == 0).cast(pa.int8())
    arrow_csv.write_csv(good.append_column("label", labels), folder / "labelled.csv")
    odd = {name: [value] for name, value in zip(NAMES, (90.0, 1.0, 20.0, -50.0), strict=True)}
    arrow_csv.write_csv(pa.table({"part": [7], **odd}), folder / "new.csv")


def fit_arguments(folder: Path) -> list[str]:
    """`indubio fit` of good.csv."""
    return ["fit", str(folder / "good.csv"), "--id", "part", "--out", str(folder / "model")]


def assess_arguments(folder: Path) -> list[str]:
    """`indubio assess` of new.csv."""
    return ["assess", str(folder / "new.csv"), "--model", str(folder / "model"), "--out", str(folder / "out.csv")]


def first_sentence(room: str) -> str:
    """What a room says of itself."""
    package, _, name = room.rpartition(".")
    there = roots()[package or PACKAGES[0]] / name
    file = there / "__init__.py" if there.is_dir() else there.with_suffix(".py")
    paragraph = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


def page(assessed: Trace) -> str:
    """The page."""
    row, rooms = assessed.way_of_the_row(), defaultdict(list)
    for function in assessed.functions:
        rooms[function.room].append(function)
    visits, of_row = row.visits(), Counter(room for room, _ in row.visits())
    lines = [
        "# The life of a row",
        "",
        "What one row of a CSV file meets in `indubio assess` on its way to a verdict: written by `make life` from a",
        "run in a fresh process. A test compares the rooms of the visits with another run.",
        "",
        *(__doc__ or "").split("\n\n", 1)[1].strip().splitlines(),
        "",
        f"The whole command runs {len(assessed.functions)} functions in {len(assessed.files)} files of {len(rooms)} "
        "rooms;",
        f"from the first row that is read to the verdict that is written it is {len(row.functions)} functions and "
        f"{len(visits)} visits to {len(of_row)} rooms.",
        "",
        "## The rooms, in the order of their first calls",
        "",
        "| room | what it is | functions of the command | visits of the row |",
        "|---|---|---|---|",
        *(
            f"| `{room}` | {first_sentence(room)} | {len(functions)} | {of_row[room]} |"
            for room, functions in rooms.items()
        ),
        "",
        "## The visits of the row, in the order of time",
        "",
        "A visit without a function is a return: what waits there goes on.",
        "",
        "| | room | calls |",
        "|---|---|---|",
    ]
    for number, (room, functions) in enumerate(visits, 1):
        lines.append(f"| {number} | `{room}` | {', '.join(f'`{function}`' for function in functions)} |")
    return "\n".join([*lines, ""])


def rooms_on(text: str) -> list[str]:
    """Rooms of the visits on a page, in the order of time."""
    visits = text.partition("in the order of time\n")[2]
    return [line.split("`")[1] for line in visits.splitlines() if line.startswith("| ") and "`" in line]


def made_page() -> str:
    """The page, of a model that is fitted for it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        in_fresh_process(traced_command, *fit_arguments(folder))
        return page(in_fresh_process(traced_command, *assess_arguments(folder)))


if __name__ == "__main__":
    Path(*sys.argv[1:2] or [PAGE]).write_text(made_page())
