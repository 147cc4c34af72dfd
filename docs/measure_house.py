"""Measure how much house there is, for whoever changes it: `python docs/measure_house.py` prints the table.

Commands are traced whole, each in a fresh process; everything else is read off the sources. A room's door is its
`__init__`: an import past it names one of the room's files from another room.
"""

import ast
import io
import os
import socket
import tempfile
import threading
import time
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trace_row import (
    NAMES,
    Trace,
    assess_arguments,
    fit_arguments,
    in_fresh_process,
    profiled,
    room_of,
    roots,
    traced_command,
    write_files,
)

KINDS = {"Table", "Windows", "Images", "Examples", "Rows", "ExampleStream", "Outline"}
MOST_PARAMETERS = 12


# ----- whole commands


def traced_request(folder: Path) -> Trace:
    """One row through the server, which has answered nothing before."""
    with profiled() as profiler:
        profiler.on = False
        with _answering(folder) as ask:
            profiler.on = True
            ask({"rows": [dict.fromkeys(NAMES, 1.0)]})
            profiler.on = False
    return profiler.trace


@contextmanager
def _answering(folder: Path) -> Iterator[Callable[[Any], None]]:
    import httpx
    import uvicorn

    from indubio_server.app import build_app
    from indubio_server.process import configured
    from indubio_server.server_settings import ServerSettings
    from indubio_server.service import Service
    from indubio_server.store import ServerStore

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ServerStore(f"sqlite:///{folder / 'store.sqlite'}") as store:
        service = Service(store, {"press": folder / "model"}, folder / "state", ServerSettings(open=True))
        server = uvicorn.Server(configured(build_app(service), host="127.0.0.1", port=port))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            try:
                yield lambda body: client.post("/assess", json=body).raise_for_status()
            finally:
                server.should_exit = True
                thread.join()
                service.close()


def traces(folder: Path) -> dict[str, Trace]:
    """What ran, by command."""
    write_files(folder)
    report = ["report", str(folder / "labelled.csv"), "--label", "label", "--model", str(folder / "model")]
    return {
        "indubio fit": in_fresh_process(traced_command, *fit_arguments(folder)),
        "indubio assess": in_fresh_process(traced_command, *assess_arguments(folder)),
        "indubio report": in_fresh_process(traced_command, *report, "--out", str(folder / "report.html")),
        "a request with one row": in_fresh_process(traced_request, folder),
    }


# ----- sources


def sources() -> dict[tuple[str, Path], ast.Module]:
    """Every file of every package: its package, its path below it, and its tree."""
    return {
        (package, file.relative_to(root)): ast.parse(file.read_text())
        for package, root in roots().items()
        for file in sorted(root.rglob("*.py"))
    }


def behind_doors(package: str, file: Path, tree: ast.Module) -> Iterator[str]:
    """Modules of other rooms, behind their doors, that a file imports; a statement counts once for each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            imported = {_module(node.module, alias.name) for alias in node.names}
        else:
            continue
        for module in sorted(imported):
            other, *inside = module.split(".")
            if other in roots() and len(inside) > 1 and room_of(other, Path(*inside)) != room_of(package, file):
                yield module


def _module(module: str, name: str) -> str:
    """Where the name is from: `from indubio.room import file` names a module too."""
    package, *inside = module.split(".")
    below = roots().get(package, Path()).joinpath(*inside, name)
    is_module = below.with_suffix(".py").is_file() or (below / "__init__.py").is_file()
    return f"{module}.{name}" if is_module else module


def asks_for_kinds(tree: ast.Module) -> int:
    """Places that ask which kind some examples are, by `isinstance` or `match`."""
    asked = [node.cls for node in ast.walk(tree) if isinstance(node, ast.MatchClass)] + [
        node.args[1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    ]
    return sum(any(isinstance(name, ast.Name) and name.id in KINDS for name in ast.walk(kinds)) for kinds in asked)


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without `self` and `cls`."""
    given = function.args
    return sum(one.arg not in ("self", "cls") for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Of a file, its classes and its functions."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return (ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, documented))


def lines_of_code(text: str, tree: ast.Module) -> int:
    """Lines that are not blank, comment or docstring."""
    left_out = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in left_out
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


# ----- what is printed


def printed_commands() -> Iterator[str]:
    """Functions, files and rooms of whole commands, and the visits of a row."""
    with tempfile.TemporaryDirectory() as name:
        by_command = traces(Path(name))
    for command, trace in by_command.items():
        rooms = {function.room for function in trace.functions}
        yield f"{command}: {len(trace.functions)} functions in {len(trace.files)} files of {len(rooms)} rooms"
    row = by_command["indubio assess"].way_of_the_row()
    yield f"a row of indubio assess: {len(row.functions)} functions, {len(row.visits())} visits to rooms"
    yield "  " + ", ".join(f"{room} {count}" for room, count in Counter(room for room, _ in row.visits()).most_common())


def printed_sources() -> Iterator[str]:
    """What is counted in the sources."""
    trees = sources()
    rooms = {room_of(package, file) for package, file in trees if file.name != "__init__.py" or len(file.parts) > 1}
    past = Counter(module for (package, file), tree in trees.items() for module in behind_doors(package, file, tree))
    long = sorted(
        (-parameters(function), f"{package}/{file.as_posix()}:{function.lineno} {function.name}")
        for (package, file), tree in trees.items()
        for function in functions_of(tree)
        if parameters(function) > MOST_PARAMETERS
    )
    same = sum(text.startswith("The same") for tree in trees.values() for text in docstrings(tree))
    yield f"rooms: {len(rooms)}"
    yield f"imports past a door: {past.total()}"
    yield "  most: " + ", ".join(f"{module} {count}" for module, count in past.most_common(8))
    yield f"isinstance on kinds of examples: {sum(map(asks_for_kinds, trees.values()))}"
    yield f'docstrings that begin with "The same": {same}'
    yield f"functions with more than {MOST_PARAMETERS} parameters: {len(long)}"
    yield from (f"  {-count} {place}" for count, place in long)


def printed_lines() -> Iterator[str]:
    """Lines by package and room."""
    lines, code = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (package, file), tree in sources().items():
        text = (roots()[package] / file).read_text()
        room = room_of(package, file).removesuffix("__init__") or "(the package)"
        lines[package, room] += len(text.splitlines())
        code[package, room] += lines_of_code(text, tree)
    yield f"lines: {lines.total()}, of code {code.total()}"
    for package in roots():
        own = [key for key in lines if key[0] == package]
        yield f"{package}: {sum(lines[key] for key in own)}, of code {sum(code[key] for key in own)}"
        yield from (f"  {lines[key]:6} {code[key]:6} {key[1]}" for key in sorted(own, key=lambda key: -lines[key]))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for part in (printed_commands, printed_sources, printed_lines):
        for line in part():
            print(line)
