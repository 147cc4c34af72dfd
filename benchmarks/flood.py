"""The server under a flood: what others wait for while one address holds thousands of connections.

    python -m benchmarks.flood             # floods with and without TLS, and an overload; about four minutes
    python -m benchmarks.flood --quick     # shorter

What was measured is printed, and written to build/server_flood.txt (`--out` for elsewhere).

One process floods from 127.0.0.1 and opens anew, a second later, whatever the server ends; another asks from 127.0.0.2,
for verdicts on a connection that it keeps and for health on a new one each time, one after the other. Goals: 99 % of
the answers within 50 ms and none lost, and after an overload 200 again within a second.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import signal
import ssl
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.serving import cpu_seconds, fitted_model, free_port, ours, requests_of, server
from tests.certificates import client_hello, self_signed

ATTACKER, OTHER = "127.0.0.1", "127.0.0.2"
IDLE, HALF = 2000, 1000
GOAL = 50.0  # milliseconds
AGAIN = 1.0  # seconds until the flood opens a connection anew that was ended
HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
FORM = (
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: indubio_visitor=x\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nkey="
)
FLOODS: dict[str, list[tuple[int, bytes]]] = {
    "no flood": [],
    "2,000 idle": [(IDLE, b"")],
    "and 1,000 half heads": [(IDLE, b""), (HALF, HEALTH[:-4])],
    "and 1,000 half forms": [(IDLE, b""), (HALF, FORM)],
}
HELLO = client_hello()
TLS_FLOODS: dict[str, list[tuple[int, bytes]]] = {
    "TLS: no flood": [],
    "TLS: 2,000 idle": [(IDLE, b"")],
    "and 1,000 half hellos": [(IDLE, b""), (HALF, HELLO[:100])],
    "and 1,000 hellos": [(IDLE, b""), (HALF, HELLO)],
}


@dataclass
class Asked:
    """What whoever asks during a flood met."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    def percentile(self, share: float) -> float:
        """Milliseconds within which this share was answered."""
        return float(1000 * np.quantile(self.seconds, share)) if self.seconds else float("nan")

    @property
    def failures(self) -> int:
        """Requests that were not answered with 200."""
        return self.lost + sum(count for status, count in self.statuses.items() if status != "200")


async def _hold(port: int, sent: bytes) -> None:
    """Hold one connection, and open it anew whenever the server ends it."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(ATTACKER, port, local_addr=(ATTACKER, 0))
            try:
                writer.write(sent)
                await reader.read()
            finally:
                writer.close()
        await asyncio.sleep(AGAIN)


def _flood(port: int, parts: list[tuple[int, bytes]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)  # the attacker is another machine: it must not take the processor of the server

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for count, sent in parts:
                for _ in range(count):
                    group.create_task(_hold(port, sent))
                    await asyncio.sleep(0.0005)

    asyncio.run(all_of_them())


@contextlib.contextmanager
def flooding(port: int, parts: list[tuple[int, bytes]]) -> Iterator[None]:
    """A flood, from when it is complete on."""
    if not parts:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(target=_flood, args=(port, parts), daemon=True)
    process.start()
    try:
        time.sleep(5 + 0.002 * sum(count for count, _ in parts))
        yield
    finally:
        process.terminate()
        process.join()


async def _answer(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    await reader.readexactly(int(headers.get("content-length", 0)))
    return status.split()[1], headers


async def ask(
    port: int,
    requests: list[bytes],
    seconds: float,
    *,
    keep: bool,
    pause: float = 0.005,
    trust: ssl.SSLContext | None = None,
) -> Asked:
    """One request after the other, on one connection or on a new one each time; by TLS with certificates to trust."""
    found, end, number, writer = Asked(), time.perf_counter() + seconds, 0, None
    while time.perf_counter() < end:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(10):
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(OTHER, 0), ssl=trust)
                writer.write(requests[number % len(requests)])
                status, headers = await _answer(reader)
            found.seconds.append(time.perf_counter() - began)
            found.statuses[status] += 1
            keep_open = keep and headers.get("connection") != "close"
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            found.lost += 1
            keep_open = False
        if writer is not None and not keep_open:
            writer.close()
            writer = None
        number += 1
        await asyncio.sleep(pause)
    if writer is not None:
        writer.close()
    return found


async def _both(port: int, verdicts: list[bytes], seconds: float, trust: ssl.SSLContext | None) -> tuple[Asked, Asked]:
    return await asyncio.gather(
        ask(port, verdicts, seconds, keep=True, trust=trust), ask(port, [HEALTH], seconds, keep=False, trust=trust)
    )


def floods(model: Path, folder: Path, seconds: float) -> Iterator[str]:
    """Each flood with its table line."""
    head = f"{'p99 ms':>9}{'failed':>8}"
    yield f"{'':24}{'verdicts':>10}{'p50 ms':>9}{head}{'health':>10}{head}{'CPU':>7}"
    yield from _table(FLOODS, model, folder / "state", seconds)
    certificate, key = self_signed(folder)
    trust = ssl.create_default_context(cafile=str(certificate))
    pem = ("--certificate", str(certificate), "--private-key", str(key))
    yield from _table(TLS_FLOODS, model, folder / "tls", seconds, *pem, trust=trust)


def _table(
    kinds: dict[str, list[tuple[int, bytes]]],
    model: Path,
    state: Path,
    seconds: float,
    *options: str,
    trust: ssl.SSLContext | None = None,
) -> Iterator[str]:
    port, verdicts = free_port(), requests_of("/v2/models/m/infer", "infer")
    with server(
        ours(model, state, port, "--control-share", "0", *options), port, "/v2/health/ready", trust=trust
    ) as process:
        asyncio.run(_both(port, verdicts, 1.0, trust))  # warm up
        for name, parts in kinds.items():
            with flooding(port, parts):
                used = cpu_seconds(process)
                verdict, health = asyncio.run(_both(port, verdicts, seconds, trust))
                busy = (cpu_seconds(process) - used) / seconds
            met = max(verdict.percentile(0.99), health.percentile(0.99)) <= GOAL
            met = met and not verdict.failures and not health.failures
            yield (
                f"{name:24}{len(verdict.seconds):10,}{verdict.percentile(0.5):9.1f}{verdict.percentile(0.99):9.1f}"
                f"{verdict.failures:8}{len(health.seconds):10,}{health.percentile(0.99):9.1f}{health.failures:8}{busy:7.0%}"
                f"  {'goal met' if met else 'GOAL MISSED'}"
            )


def overload(model: Path, folder: Path, seconds: float) -> Iterator[str]:
    """More clients that ask without a pause than may be connected; then none."""
    port, most, clients = free_port(), 128, 180
    verdicts = requests_of("/v2/models/m/infer", "infer")
    command = ours(model, folder / "small", port, "--set", f"most_connections={most}", "--control-share", "0")
    with server(command, port, "/v2/health/ready"):

        async def many() -> list[Asked]:
            every = [ask(port, verdicts, seconds, keep=True, pause=0.0) for _ in range(clients)]
            return await asyncio.gather(*every, ask(port, [HEALTH], seconds, keep=False))

        found: list[Asked] = []
        load = threading.Thread(target=lambda: found.extend(asyncio.run(many())))
        load.start()
        load.join()
        ended = time.perf_counter()
        while asyncio.run(ask(port, verdicts, 0.01, keep=False)).failures:
            time.sleep(0.01)
        recovered = time.perf_counter() - ended
    statuses: Counter[str] = Counter()
    for one in found[:-1]:
        statuses += one.statuses
    health = found[-1]
    yield (
        f"overload: {clients} clients without a pause where {most} may be connected: "
        + ", ".join(f"{count:,} answers {status}" for status, count in sorted(statuses.items()))
        + f", {sum(one.lost for one in found[:-1]):,} connections ended; health p99 {health.percentile(0.99):.1f} ms, "
        f"{health.failures} failed; answers again {1000 * recovered:.0f} ms after it "
        f"({'goal met' if recovered <= 1 and not health.failures else 'GOAL MISSED'})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--out", type=Path, help="file for what is printed")
    given = parser.parse_args()
    seconds = 4.0 if given.quick else 15.0
    lines = [f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before; goal: p99 at most {GOAL:g} ms"]
    print(lines[0], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = fitted_model(Path(folder) / "model")
        for part in (floods, overload):
            for line in part(model, Path(folder), seconds):
                print(line, flush=True)
                lines.append(line)
    out = given.out or Path(__file__).parents[1] / "build" / "server_flood.txt"
    out.parent.mkdir(exist_ok=True)
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
