"""Kill a server at a random moment under load, and look for what it had acknowledged."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from indubio_server.store import ServerStore, case_by_reference, history, review, verify
from indubio_server.store.verification import Verification
from tests.review_server import token

BAD = {"weight": None, "colour": "red"}  # always referred by `mixed_model`
GOOD = {"weight": 0.0, "colour": "blue"}


@dataclass
class Acknowledged:
    """What clients were told is kept."""

    cases: list[str] = field(default_factory=list)
    reviews: list[tuple[int, str]] = field(default_factory=list)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(model: Path, state: Path, port: int, *options: str) -> "subprocess.Popen[bytes]":
    """`indubio serve` in a process of its own, from when it answers on."""
    program = "from indubio.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--model", f"parts={model}", "--state", str(state)]
    with (state.parent / "log.txt").open("ab") as log:
        process = subprocess.Popen([*command, "--port", str(port), "--open", *options], stderr=log)
    while True:
        assert process.poll() is None, (state.parent / "log.txt").read_text()
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5),
        ):
            return process
        time.sleep(0.1)


def ask(port: int, rows: list[object]) -> list[str]:
    """References of what was kept."""
    body = json.dumps({"rows": rows, "top": 0}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/assess", body, {"content-type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [result["case"] for result in json.load(answer)["results"] if result["case"]]


def label_from_the_page(url: str, told: Acknowledged, ended: threading.Event) -> None:
    """Label one case after the other as the page does, until the server is gone."""
    with httpx.Client(base_url=url, timeout=30) as client:
        form, place = token(client), "/review/next"
        while not ended.is_set():
            label = "IA"[len(told.reviews) % 2]
            if (case := re.match(r"/review/cases/(\d+)", place)) is None:
                place = client.get("/review/next").headers["location"]
                continue
            answer = client.post(case[0], data={"token": form, "label": label, "comment": f"seen {label}"})
            assert answer.status_code == 303, answer.text
            told.reviews.append((int(case[1]), label))
            place = answer.headers["location"]


def killed_under_load(model: Path, state: Path, seed: int, *, clients: int = 4) -> tuple[Acknowledged, Verification]:
    """Ask, and label on the page, until the server is killed with SIGKILL; what it acknowledged, and what is stored.

    That every acknowledged case and review is there is asserted here.
    """
    port, told, ended = free_port(), Acknowledged(), threading.Event()
    process = started(model, state, port)

    def asking() -> None:
        while not ended.is_set():
            try:
                told.cases += ask(port, [BAD, GOOD])
            except (OSError, http.client.HTTPException, ValueError):  # an answer cut short acknowledges nothing
                return

    def reviewing() -> None:
        with contextlib.suppress(httpx.TransportError):  # an answer cut short acknowledges nothing
            label_from_the_page(f"http://127.0.0.1:{port}", told, ended)

    threads = [threading.Thread(target=work) for work in [asking] * clients + [reviewing]]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 30
    while not told.reviews and time.monotonic() < until:  # the first page takes the longest
        time.sleep(0.01)
    time.sleep(random.Random(seed).uniform(0.05, 1.0))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    ended.set()
    for thread in threads:
        thread.join()
    with ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store:
        for reference in told.cases:
            store.read(lambda c, reference=reference: case_by_reference(c, reference))
        for case_id, label in told.reviews:
            said = store.read(lambda c, case_id=case_id: history(c, case_id))
            assert (label, f"seen {label}") in [(one.label, one.comment) for one in said]
        if told.cases:  # a person goes on with what is there
            case = store.read(lambda c: case_by_reference(c, told.cases[-1]))
            done = store.write(lambda c: review(c, case.id, "ada", "A"))
            assert done in store.read(lambda c: history(c, case.id))
        return told, store.read(verify)
