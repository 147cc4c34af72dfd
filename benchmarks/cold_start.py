"""From the first second: what a new user waits for, in a fresh environment without torch.

    python -m benchmarks.cold_start            # also into docs/benchmarks.md
    python -m benchmarks.cold_start --print    # on the terminal only

An environment is made in a temporary folder from this checkout and constraints.txt, and every command is timed by the
wall clock as a user gives it: first in an empty home, then with the packages on a read-only mount and no home at all.
"""

import argparse
import http.client
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.measuring import Timing
from benchmarks.processor import processor
from benchmarks.report import FIRST_SECOND, Section, put_section
from benchmarks.serving import free_port

ROOT = Path(__file__).parents[1]
SOURCES = ("packages", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
FEATURES, TRAINING_ROWS, NEW_ROWS = 32, 750, 850
AGAIN = 3
START = 60.0  # seconds a server may take

# Of the engine before this one, which Numba compiled at the first use; on another machine.
BEFORE = {
    "site": "1,500 MB",
    "demo": '"trained in 34 s"',
    "fit": "33 s, then 12 s",
    "assess": "7 s",
    "inspect": "5 s",
    "request": "11 s",
}
NAMES = {
    "fit": f"`indubio fit`, {TRAINING_ROWS} rows of {FEATURES} features",
    "assess": f"`indubio assess`, {NEW_ROWS} rows",
    "inspect": "`indubio inspect`",
    "help": "`indubio --help`",
    "demo": "`indubio demo`",
    "ready": "`indubio serve` until it says that it is ready",
    "request": "the first request to it, explained",
}
SLOWER = 1.2  # the first fit to the next ones
SECONDS = {"demo": 15.0, "assess": 2.0, "inspect": 1.0, "request": 0.1}


@dataclass
class Surroundings:
    """Where commands run.

    Args:
        indubio: the command.
        folder: for models, inputs and outputs.
        home: of the user.
        prefix: command that makes the packages read-only for what follows it.
    """

    indubio: Path
    folder: Path
    home: Path
    prefix: list[str] = field(default_factory=list)

    def command(self, *arguments: str | Path) -> list[str]:
        """As it is started."""
        return [*self.prefix, str(self.indubio), *map(str, arguments)]

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the caller's but the search path."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}

    def timing(self, *arguments: str | Path) -> Timing:
        """Of a command that must succeed, all its processes and threads counted in the CPU time."""
        began, used = time.perf_counter(), children_cpu()
        done = subprocess.run(
            self.command(*arguments), env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        taken = Timing(children_cpu() - used, time.perf_counter() - began)
        if done.returncode:
            raise RuntimeError(f"indubio {' '.join(map(str, arguments))} failed:\n{done.stdout}{done.stderr}")
        return taken


def children_cpu() -> float:
    """CPU seconds of the processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--print", action="store_true", help="leave docs/benchmarks.md as it is")
    options.add_argument("--again", type=int, default=AGAIN, help="runs after the first, at least 1")
    chosen = options.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say("A fresh environment ...")
        python = environment(folder)
        site = site_packages(python)
        base, parts = sizes(site)
        say(f"{base / 1e6:.0f} MB")
        write_rows(folder)
        usual = Surroundings(python.with_name("indubio"), made(folder / "work"), made(folder / "home"))
        with unchanged(site):
            found = commands(usual, chosen.again)
        install(python, folder / "checkout", "[server]")
        with unchanged(site):
            found |= serving(usual, chosen.again)
        say("Once more, read-only and without a home ...")
        (folder / "no folder").touch()
        how, prefix = read_only(site)
        bare = Surroundings(usual.indubio, made(folder / "work, bare"), folder / "no folder" / "home", prefix)
        with unchanged(site):
            alone = commands(bare, 0) | serving(bare, 0)
        left = sorted(str(path.relative_to(usual.home)) for path in usual.home.rglob("*") if path.is_file())
    section = table(base, found, alone)
    note = notes(parts, how, left, load)
    text = f"{section.markdown()}\n{note}\n"
    print(text)
    if not chosen.print:
        put_section(FIRST_SECOND, text)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def environment(folder: Path) -> Path:
    """A virtual environment with the base install; its Python. The checkout is copied, for the build writes into it."""
    ignored = shutil.ignore_patterns("__pycache__", "libindubio_core.*")
    for name in SOURCES:
        source, copy = ROOT / name, folder / "checkout" / name
        copy.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=ignored)
        else:
            shutil.copy2(source, copy)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    install(python, folder / "checkout")
    return python


def install(python: Path, checkout: Path, extra: str = "") -> None:
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", ROOT / "constraints.txt", f"{checkout}{extra}"], check=True)


def site_packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())


def sizes(site: Path) -> tuple[int, dict[str, int]]:
    """Bytes below a folder, and by package, the largest first; what a package's libraries weigh counts as its own."""
    each: dict[str, int] = {}
    for path in site.rglob("*"):
        if path.is_file() and not path.is_symlink():
            name = path.relative_to(site).parts[0].removesuffix(".libs")
            each[name] = each.get(name, 0) + path.stat().st_size
    return sum(each.values()), dict(sorted(each.items(), key=lambda item: -item[1]))


@contextmanager
def unchanged(site: Path) -> Iterator[None]:
    """Refuse that anything below a folder is made, changed or taken away."""
    before = snapshot(site)
    yield
    if changed := sorted(path for path, _ in before ^ snapshot(site)):
        raise RuntimeError(f"something below site-packages was written: {', '.join(changed[:5])}")


def snapshot(site: Path) -> set[tuple[str, tuple[int, int]]]:
    """Everything below a folder, with size and time of change."""
    return {(str(path), (path.lstat().st_size, path.lstat().st_mtime_ns)) for path in site.rglob("*")}


def write_rows(folder: Path) -> None:
    """Correlated features; the last of the new rows are off."""
    random = np.random.default_rng(0)
    mixing = random.normal(size=(6, FEATURES))
    header = ",".join(names())

    def rows(count: int) -> np.ndarray:
        return np.tanh(random.normal(size=(count, 6)) @ mixing) + 0.1 * random.normal(size=(count, FEATURES))

    new = rows(NEW_ROWS)
    new[-50:] += 3
    for name, values in (("training", rows(TRAINING_ROWS)), ("new", new)):
        np.savetxt(folder / f"{name}.csv", values, fmt="%.6g", delimiter=",", header=header, comments="")


def names() -> list[str]:
    return [f"s{number}" for number in range(FEATURES)]


def commands(where: Surroundings, again: int) -> dict[str, list[Timing]]:
    """Every command: the first time, and so many times again. The fit is the first of all."""
    data = where.folder.parent
    works: dict[str, Callable[[], Timing]] = {
        "fit": lambda: where.timing("fit", data / "training.csv", "--out", "model", "--overwrite"),
        "assess": lambda: where.timing("assess", data / "new.csv", "--model", "model", "--out", "found.csv"),
        "inspect": lambda: where.timing("inspect", "model"),
        "help": lambda: where.timing("--help"),
        "demo": lambda: where.timing("demo"),
    }
    found = {}
    for name, work in works.items():
        found[name] = [work() for _ in range(1 + again)]
        say(f"{name}: {', '.join(f'{one.wall:.2f}' for one in found[name])} s")
    return found


def serving(where: Surroundings, again: int) -> dict[str, list[Timing]]:
    """Seconds until a fresh server is ready, and those of its first explained request."""
    ready, request = [], []
    for number in range(1 + again):
        began = time.perf_counter()
        with server(where, f"state {number}") as port:
            ready.append(time.perf_counter() - began)
            request.append(first_request(port))
    say(f"ready: {', '.join(f'{one:.2f}' for one in ready)} s; request: {', '.join(f'{one:.3f}' for one in request)} s")
    return {
        name: [Timing(float("nan"), wall) for wall in walls] for name, walls in (("ready", ready), ("request", request))
    }


@contextmanager
def server(where: Surroundings, state: str) -> Iterator[int]:
    """The port of a fresh server, from when it says that it is ready."""
    port = free_port()
    command = where.command("serve", "--open", "--model", "m=model", "--state", state, "--port", str(port))
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=where.environment, cwd=where.folder, stdout=log, stderr=log)
        try:
            until = time.monotonic() + START
            while not is_ready(port):
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise RuntimeError(log.read().decode())
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()
            process.wait()


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def first_request(port: int) -> float:
    """Seconds of a request for one row that is off, with its reasons."""
    body = json.dumps({"rows": [dict.fromkeys(names(), 5.0)], "top": 5}).encode()
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/assess", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    said = json.loads(answer.read())
    taken = time.perf_counter() - began
    connection.close()
    if answer.status != 200 or len(said["results"][0]["top_features"]) != 5:
        raise RuntimeError(f"the server answered {answer.status}: {said}")
    return taken


def read_only(site: Path) -> tuple[str, list[str]]:
    """How site-packages is kept from changing, and the command before a command that does it.

    Permissions do not bind root, so root mounts the folder read-only for the command alone. Either way it is looked at
    afterwards.
    """
    if os.geteuid():
        for path in (site, *site.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~0o222)
        return "its permissions", []
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", mount, str(site)]
    if shutil.which("unshare") and not subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        probe = subprocess.run([*prefix, "touch", str(site / "probe")], check=False, capture_output=True)
        if probe.returncode:
            return "a read-only mount", prefix
    return "nothing but a look at it afterwards", []


def table(base: int, found: dict[str, list[Timing]], alone: dict[str, list[Timing]]) -> Section:
    rows = [["installed, without torch", BEFORE["site"], f"{base / 1e6:.0f} MB", *["-"] * 5]]
    for name, (first, *again) in found.items():
        later = statistics.median(one.wall for one in again)
        target, met = judged(name, first.wall, later)
        shown = map(seconds, (first.wall, first.cpu, later, alone[name][0].wall))
        rows.append([NAMES[name], BEFORE.get(name, "-"), *shown, target, met])
    return Section(
        key="cold",
        title=FIRST_SECOND,
        headers=["what", "before", "the first time", "its CPU time", "again", "read-only, no home", "target", "met"],
        rows=rows,
        note="Wall time but where CPU is said, in a fresh virtual environment of the base install (`make bench-cold`). "
        "The fit is the first thing that runs in it. *Again* is the median of the runs after the first; targets are "
        "judged by the first. A server is a fresh process each time, and needs the server extra. *Before* is the "
        "engine that Numba compiled at its first use, measured on another machine.",
    )


def judged(name: str, first: float, later: float) -> tuple[str, str]:
    """A target, and whether it was met."""
    if name == "fit":
        return f"first at most {SLOWER:g}x of again", f"{verdict(first <= SLOWER * later)}, {first / later:.2f}x"
    if name in SECONDS:
        return f"at most {seconds(SECONDS[name])}", verdict(first <= SECONDS[name])
    return "-", "-"


def verdict(good: bool) -> str:
    return "met" if good else "missed"


def seconds(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{1000 * value:.0f} ms" if value < 0.2 else f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def notes(parts: dict[str, int], how: str, left: list[str], load: float) -> str:
    largest = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in list(parts.items())[:7])
    core = parts["indubio"] / 1e6
    home = f"The empty home had afterwards: {', '.join(left)}." if left else "The empty home was empty afterwards."
    return (
        f"{processor()}; load average {load:.1f} before.\n\n"
        f"The largest packages: {largest}; indubio itself, with its core, {core:.1f} MB. "
        f"With site-packages read-only (by {how}) and a home that does not exist and cannot be made, every command and "
        f"the server worked. No file below site-packages was made or changed, in that round or before. {home}"
    )


if __name__ == "__main__":
    main()
