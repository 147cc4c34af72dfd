"""Trace one row through a real `indubio assess`, and one through the server, into docs/life-of-a-row.md: `make life`.

A room is the first folder below `indubio`, or a module beside the folders. A function counts once, however often it is
called; what stands within one (comprehensions, lambdas, generators in place) belongs to it. A change of room is a call
from a function of one room to a function of another, and counts once too. A call back is one into a room that waits for
the call to end, other than the caller's own.
"""

import contextlib
import io
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import CO_OPTIMIZED
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import typer
import uvicorn

import indubio
from indubio import Detector, save
from indubio.cli.app import app
from indubio.inputs import read_table
from indubio.inputs.reading import Reading
from indubio.inputs.tables import Roles
from indubio.server.http.app import build_app
from indubio.server.http.process import configured
from indubio.server.server_settings import ServerSettings
from indubio.server.service import Service
from indubio.server.store import ServerStore

PAGE = Path(__file__).parent / "life-of-a-row.md"
ROOT = Path(indubio.__file__).parent
NAMES = ("temperature", "pressure", "flow", "torque")
FIRST, LAST = "CsvSource.batches", "_CsvSink.write"  # from the first row that is read to the verdict that is written
SERVER = "A request to the server with one row runs through "
BESIDE = ("indubio-drift",)  # threads that no answer waits for


@dataclass(frozen=True)
class Function:
    """A function of indubio.

    Args:
        room: where it lives.
        file: its path below the package.
        name: with its class.
    """

    room: str
    file: str
    name: str


@dataclass
class Trace:
    """What was called.

    Args:
        functions: in the order of their first calls.
        changes: calls from one room into another, likewise.
        back: those of them into a room that waits for the call to end.
    """

    functions: dict[Function, None] = field(default_factory=dict)
    changes: dict[tuple[Function, Function], None] = field(default_factory=dict)
    back: dict[tuple[Function, Function], None] = field(default_factory=dict)

    def called(self, callee: Function, waiting: list[Function]) -> None:
        """One call.

        Args:
            callee: what is called.
            waiting: what waits for it to end, the caller first.
        """
        self.functions[callee] = None
        if waiting and waiting[0].room != callee.room:
            self.changes[waiting[0], callee] = None
            if callee.room in {function.room for function in waiting}:
                self.back[waiting[0], callee] = None


class Profiler:
    """Fills a trace while it is on.

    Args:
        first: name of the function whose call begins it; None begins at once.
        last: name of the function whose end ends it; None ends with the block.
    """

    def __init__(self, first: str | None = None, last: str | None = None) -> None:
        self.trace, self.on, self._first, self._last = Trace(), first is None, first, last
        self._known: dict[CodeType, Function | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """What Python tells of every call and return."""
        if event not in ("call", "return") or threading.current_thread().name.startswith(BESIDE):
            return
        function = self._function(frame.f_code)
        if function is None:
            return
        if event == "call":
            self.on = self.on or function.name == self._first
            if self.on:
                self.trace.called(function, list(self._waiting(frame)))
        elif self.on and function.name == self._last:
            self.on, self._first = False, None

    def _waiting(self, frame: FrameType) -> Iterator[Function]:
        below = frame.f_back
        while below is not None:
            function = self._function(below.f_code)
            if function is not None:
                yield function
            below = below.f_back

    def _function(self, code: CodeType) -> Function | None:
        if code not in self._known:
            path = Path(code.co_filename)
            inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else None
            name = code.co_qualname.partition(".<locals>.<")[0]
            there = code.co_flags & CO_OPTIMIZED and not name.startswith("<")  # the body of a class is no function
            self._known[code] = (
                Function(inside.parts[0].removesuffix(".py"), inside.as_posix(), name) if there and inside else None
            )
        return self._known[code]


def traced_assessment(folder: Path) -> Trace:
    """One row of a CSV file through `indubio assess`, top features and all."""
    row = {name: [value] for name, value in zip(NAMES, (90.0, 1.0, 20.0, -50.0), strict=True)}
    arrow_csv.write_csv(pa.table({"part": [7], **row}), folder / "new.csv")
    command = typer.main.get_command(app)
    given = ["assess", folder / "new.csv", "--model", folder / "model", "--out", folder / "out.csv"]
    profiler = Profiler(FIRST, LAST)
    with contextlib.redirect_stderr(io.StringIO()):
        sys.setprofile(profiler)
        try:
            command.main(args=[str(one) for one in given], standalone_mode=False)
        finally:
            sys.setprofile(None)
    return profiler.trace


def traced_request(folder: Path) -> Trace:
    """One row through the server, once it has answered another."""
    profiler = Profiler()
    profiler.on = False
    row = {"rows": [dict.fromkeys(NAMES, 1.0)]}
    threading.setprofile(profiler)  # of the threads that start from here on
    try:
        with _answering(folder) as ask:
            ask(row)
            profiler.on = True
            ask(row)
            profiler.on = False
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    return profiler.trace


@contextlib.contextmanager
def _answering(folder: Path) -> Iterator[Callable[[Any], None]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ServerStore(f"sqlite:///{folder / 'store.sqlite'}") as store:
        service = Service(store, {"press": folder / "model"}, folder / "state", ServerSettings())
        server = uvicorn.Server(configured(build_app(service), host="127.0.0.1", port=port))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

            def ask(body: Any) -> None:
                client.post("/assess", json=body).raise_for_status()

            try:
                yield ask
            finally:
                server.should_exit = True
                thread.join()
                service.close()


def saved_model(folder: Path) -> None:
    """A small detector that was fitted on a file."""
    rows = np.random.default_rng(0).normal([70, 12, 4, 30], size=(60, len(NAMES)))
    table = pa.table({"part": np.arange(60), **dict(zip(NAMES, rows.T, strict=True))})
    fitted = Detector().fit(read_table(table, columns=NAMES, ids=("part",)))
    save(fitted.read_by(Reading(table=Roles(columns=NAMES, ids=("part",)))), folder / "model")


def page(assessed: Trace, asked: Trace) -> str:
    """The page."""
    files = len({function.file for function in assessed.functions})
    lines = [
        "# The life of a row",
        "",
        "What one row of a CSV file meets on its way through `indubio assess` to a verdict, traced in a real run by",
        "`make life`; a test holds the numbers and that this page is true.",
        "",
        "A detector is a chain of objects. Each takes what the one before it gives, and none calls back:",
        "",
        "```",
        "row -> Inputs      pipeline/inputs.py               matched by name, checked, filled in, scaled",
        "    -> Scorer      pipeline/autoencoder_scorer.py   a score under every draw, nll (M, N)",
        "    -> Calibrated  pipeline/calibrated.py           what a score means: probability (M, N), uncertainties (N)",
        "    -> Decider     pipeline/decider.py              INLIER, ANOMALY or REFER, the reason, the p-value",
        "    -> Assessment  assessment.py                    one array per statement, and a table to write",
        "```",
        "",
        f"From the first row that is read to the verdict that is written it is {len(assessed.functions)} functions in",
        f"{files} files, {len(assessed.changes)} changes of room and {len(assessed.back)} calls back into a room that "
        "the call came from.",
        f"{SERVER}{len(asked.functions)} functions.",
        "",
        *_paragraph(__doc__ or ""),
        "",
        "## The rooms, in the order of the first calls",
        "",
        "| room | functions |",
        "|---|---|",
    ]
    for room, functions in groupby(assessed.functions, key=lambda function: function.room):
        lines.append(f"| `{room}` | {', '.join(f'`{function.name}`' for function in functions)} |")
    lines += ["", "## The changes of room", "", "| from | | to | |", "|---|---|---|---|"]
    for caller, callee in assessed.changes:
        lines.append(f"| `{caller.room}` | `{caller.name}` | `{callee.room}` | `{callee.name}` |")
    return "\n".join([*lines, ""])


def _paragraph(text: str) -> list[str]:
    return text.split("\n\n", 1)[1].strip().splitlines()


def without_the_server(text: str) -> str:
    """The page without the one number that depends on how threads take turns."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(SERVER))


def traces() -> tuple[Trace, Trace]:
    """Both, in a folder of their own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        saved_model(folder)
        return traced_assessment(folder), traced_request(folder)


if __name__ == "__main__":
    PAGE.write_text(page(*traces()))
