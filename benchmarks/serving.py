"""Load on the server: 16 clients, one row a request, against a plain FastAPI endpoint that calls the model per request.

    python -m benchmarks.serving                 # both in turns, requests/s, latencies and their ratio
    python -m benchmarks.serving --minutes 10    # one long run of our server alone: does its memory grow?
    python -m benchmarks.serving --against SRC   # ours against another state of the source, such as a commit before

What was measured is printed, and written to build/server_load.txt or build/server_memory.txt (`--out` for elsewhere);
`--against` only prints, unless `--out` names a file. SRC is the `src` of a `git worktree` of another commit, with the
core built in it (`python packages/indubio/src/indubio/numerics/native/build.py`).

All settings are the defaults: the audit log is on, and referrals and control cases are durable before they are
answered. `--control-share 0` keeps no control cases, to compare with a state of the source that kept none. Clients are
one process that speaks HTTP over plain sockets, so that little of the machine goes to asking.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

FEATURES, MEMBERS, CLIENTS = 21, 10, 16
NAMES = [f"s{place}" for place in range(FEATURES)]
START = 120.0  # seconds a server may take to start on a busy machine


@dataclass(frozen=True)
class Load:
    """What a run of clients measured."""

    requests: int
    seconds: float
    latencies: np.ndarray
    failures: int
    cpu: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def cpu_of_request(self) -> float:
        """Seconds of the server's CPU for a request."""
        return self.cpu / self.requests

    def percentile(self, share: float) -> float:
        """Milliseconds within which this share was answered."""
        return float(1000 * np.quantile(self.latencies, share))


def fitted_model(folder: Path) -> Path:
    """A model of 10 members on 21 features, and its name."""
    import pandas as pd

    from indubio import AnchoredEnsemble, Detector, save
    from indubio.networks import Training

    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(2000, FEATURES)), columns=NAMES)
    save(Detector(posterior=AnchoredEnsemble(members=MEMBERS), training=Training(epochs=10)).fit(rows), folder)
    return folder


def bodies(kind: str, count: int = 500) -> list[bytes]:
    """Requests of one row each, like the training rows: some are anomalies and some are referred."""
    rows = np.random.default_rng(1).normal(size=(count, FEATURES)).tolist()
    if kind == "infer":
        tensor = {"name": "rows", "shape": [1, FEATURES], "datatype": "FP64"}
        return [json.dumps({"inputs": [tensor | {"data": row}]}).encode() for row in rows]
    return [json.dumps({"rows": [dict(zip(NAMES, row, strict=True))]}).encode() for row in rows]


def requests_of(path: str, kind: str) -> list[bytes]:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
    return [head.encode() + str(len(body)).encode() + b"\r\n\r\n" + body for body in bodies(kind)]


class Client(asyncio.Protocol):
    """One client: the next request follows the answer."""

    def __init__(self, requests: list[bytes], first: int, until: float) -> None:
        self._requests, self._at, self._until = requests, first, until
        self.latencies: list[float] = []
        self.failures = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first time."""
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._at += 1
        self._began = time.perf_counter()
        self._transport.write(self._requests[self._at % len(self._requests)])  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Ask again once the answer is whole."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._buffer) < end + 4 + size:
            return
        now = time.perf_counter()
        self.latencies.append(now - self._began)
        self.failures += not head.startswith(b"http/1.1 200")
        self._buffer = b""
        if now < self._until:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        """The end."""
        if not self.ended.done():
            self.ended.set_result(None)


async def _load(process: "subprocess.Popen[bytes]", port: int, requests: list[bytes], seconds: float) -> Load:
    loop = asyncio.get_running_loop()
    used = cpu_seconds(process)
    began = time.perf_counter()
    clients = [
        (await loop.create_connection(lambda n=n: Client(requests, 31 * n, began + seconds), "127.0.0.1", port))[1]
        for n in range(CLIENTS)
    ]
    await asyncio.gather(*(client.ended for client in clients))
    latencies = np.concatenate([client.latencies for client in clients])
    return Load(
        requests=len(latencies),
        seconds=time.perf_counter() - began,
        latencies=latencies,
        failures=sum(client.failures for client in clients),
        cpu=cpu_seconds(process) - used,
    )


def load(process: "subprocess.Popen[bytes]", port: int, requests: list[bytes], seconds: float) -> Load:
    """16 clients for some seconds."""
    import uvloop

    return uvloop.run(_load(process, port, requests, seconds))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def server(
    command: list[str], port: int, ready: str, source: Path | None = None, trust: ssl.SSLContext | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server process, from when it answers on.

    Args:
        command: what starts it.
        port: that it listens at.
        ready: a path that is answered then.
        source: the folder with its package; None for the present one.
        trust: the certificates to ask by TLS with; None to ask without.
    """
    url = f"{'https' if trust else 'http'}://127.0.0.1:{port}{ready}"
    with tempfile.TemporaryFile() as log:
        path = {} if source is None else {"PYTHONPATH": str(source)}
        process = subprocess.Popen(command, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"} | path)
        try:
            until = time.monotonic() + START
            while True:
                try:
                    with urllib.request.urlopen(url, timeout=5, context=trust):
                        break
                except OSError:
                    if process.poll() is not None or time.monotonic() > until:
                        log.seek(0)
                        raise RuntimeError(log.read().decode()) from None
                    time.sleep(0.1)
            yield process
        finally:
            process.terminate()
            process.wait()


def ours(model: Path, state: Path, port: int, *options: str) -> list[str]:
    """The command of our server."""
    program = "from indubio.cli import main; main()"
    arguments = ["serve", "--open", "--model", f"m={model}", "--state", str(state), "--port", str(port), *options]
    return [sys.executable, "-c", program, *arguments]


def plain(model: Path, port: int) -> list[str]:
    """The command of the plain endpoint."""
    return [sys.executable, "-m", "benchmarks.plain_endpoint", str(model), str(port)]


def resident(process: "subprocess.Popen[bytes]") -> int:
    """Memory of a process, in bytes."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(process: "subprocess.Popen[bytes]") -> float:
    """CPU time that a process has used."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def compare(folder: Path, seconds: float, rounds: int, options: Sequence[str]) -> Iterator[str]:
    """Both servers in turns; lines of a table."""
    loads_before = os.getloadavg()[0]
    model = fitted_model(folder / "model")
    kinds = {"infer": "/v2/models/m/infer", "assess": "/assess"}
    ports = [free_port(), free_port()]
    with (
        server(ours(model, folder / "state", ports[0], *options), ports[0], "/v2/health/ready") as our,
        server(plain(model, ports[1]), ports[1], "/ready") as other,
    ):
        works = {f"ours, {kind}": (our, ports[0], requests_of(path, kind)) for kind, path in kinds.items()}
        works["plain FastAPI"] = (other, ports[1], requests_of("/assess", "assess"))
        found: dict[str, list[Load]] = {name: [] for name in works}
        for work in works.values():
            load(*work, 1.0)  # warm up
        for _ in range(rounds):
            for name, work in works.items():
                found[name].append(load(*work, seconds))
    base = median(one.rate for one in found["plain FastAPI"])
    yield (
        f"{os.cpu_count()} cores, load average {loads_before:.1f} before and {os.getloadavg()[0]:.1f} after; "
        f"each number is the median of {rounds} runs of {seconds:g} s"
    )
    yield f"{'':16}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'failures':>10}{'ratio':>8}"
    for name, loads in found.items():
        rate = median(one.rate for one in loads)
        half, last = (median(one.percentile(share) for one in loads) for share in (0.5, 0.99))
        failures = sum(one.failures for one in loads)
        cpu = 1e6 * median(one.cpu_of_request for one in loads)
        yield f"{name:16}{rate:12,.0f}{half:9.1f}{last:9.1f}{cpu:9.0f}{failures:10}{rate / base:7.1f}x"


def against(folder: Path, other: Path, seconds: float, rounds: int, options: Sequence[str]) -> Iterator[str]:
    """Our server and one from another source in turns; lines of a table, with ratios within the rounds."""
    loads_before = os.getloadavg()[0]
    model, ports = fitted_model(folder / "model"), [free_port(), free_port()]
    ready = "/v2/health/ready"
    with (
        server(ours(model, folder / "state", ports[0], *options), ports[0], ready) as present,
        server(ours(model, folder / "other", ports[1], *options), ports[1], ready, other) as before,
    ):
        lines = []
        for kind, path in (("infer", "/v2/models/m/infer"), ("assess", "/assess")):
            requests = requests_of(path, kind)
            works = {"ours": (present, ports[0], requests), "other": (before, ports[1], requests)}
            loads: dict[str, list[Load]] = {name: [] for name in works}
            for work in works.values():
                load(*work, 1.0)  # warm up
            for _ in range(rounds):
                for name, work in works.items():
                    loads[name].append(load(*work, seconds))
            lines += [_against_line(f"{name}, {kind}", some, loads["other"]) for name, some in loads.items()]
    yield (
        f"{os.cpu_count()} cores, load average {loads_before:.1f} before and {os.getloadavg()[0]:.1f} after; "
        f"medians of {rounds} runs of {seconds:g} s in turns; ratios of CPU within a round, and their quartiles"
    )
    yield f"{'':16}{'requests/s':>12}{'p99 ms':>9}{'CPU us':>9}{'failures':>10}{'CPU ratio':>24}"
    yield from lines


def _against_line(name: str, loads: list[Load], base: list[Load]) -> str:
    ratios = [one.cpu_of_request / other.cpu_of_request for one, other in zip(loads, base, strict=True)]
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    rate, last = median(one.rate for one in loads), median(one.percentile(0.99) for one in loads)
    cpu, failures = 1e6 * median(one.cpu_of_request for one in loads), sum(one.failures for one in loads)
    return f"{name:16}{rate:12,.0f}{last:9.1f}{cpu:9.0f}{failures:10}{middle:12.2f} ({low:.2f}-{high:.2f})"


def long_run(folder: Path, minutes: float, options: Sequence[str]) -> Iterator[str]:
    """Our server alone; a line a minute."""
    model, port = fitted_model(folder / "model"), free_port()
    requests = requests_of("/v2/models/m/infer", "infer")
    with server(ours(model, folder / "state", port, *options), port, "/v2/health/ready") as process:
        load(process, port, requests, 60.0 if minutes >= 5 else 5.0)  # caches fill first
        before = resident(process)
        for minute in range(max(1, round(minutes))):
            found = load(process, port, requests, 60.0 * minutes / max(1, round(minutes)))
            grown = 100 * (resident(process) / before - 1)
            yield (
                f"minute {minute + 1}: {found.rate:,.0f} requests/s, p99 {found.percentile(0.99):.1f} ms, "
                f"{found.failures} failures, {resident(process) / 2**20:.0f} MB, {grown:+.1f} %"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, in turns")
    parser.add_argument("--minutes", type=float, help="one long run of our server alone, for its memory")
    parser.add_argument("--against", type=Path, help="folder with another state of the package, to compare with")
    parser.add_argument("--control-share", type=float, help="of the server; its own default where this is left out")
    parser.add_argument("--out", type=Path, help="file for what is printed")
    given = parser.parse_args()
    build = Path(__file__).parents[1] / "build"
    out = given.out or build / ("server_memory.txt" if given.minutes else "server_load.txt")
    options = [] if given.control_share is None else ["--control-share", str(given.control_share)]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        if given.minutes:
            found = long_run(Path(folder), given.minutes, options)
        elif given.against:
            found = against(Path(folder), given.against, given.seconds, given.rounds, options)
        else:
            found = compare(Path(folder), given.seconds, given.rounds, options)
        for line in found:
            print(line, flush=True)
            lines.append(line)
    if given.out or not given.against:
        out.parent.mkdir(exist_ok=True)
        out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
