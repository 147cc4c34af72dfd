"""The outbox and a real webhook: what is refused too often is dead, until a person asks for another try."""

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from indubio.cli.app import app
from indubio_server.live import delivery
from indubio_server.live.delivery import Delivery, WebhookPoster
from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.settings_of_live import Webhook
from indubio_server.store import ServerStore, add_events, all_events, append, outbox, verify
from indubio_server.store.audit_trail import entries


class Hook(http.server.ThreadingHTTPServer):
    """A webhook that is ill or well."""

    well = False

    def __init__(self) -> None:
        self.taken: list[str] = []
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                if hook.well:
                    hook.taken.append(self.headers["Indubio-Event"])
                self.send_response(204 if hook.well else 503)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def hook() -> Iterator[Hook]:
    one = Hook()
    thread = threading.Thread(target=one.serve_forever, daemon=True)
    thread.start()
    yield one
    one.shutdown()
    one.server_close()
    thread.join()


@pytest.fixture
def delivering(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("INDUBIO_WEBHOOK_SECRET", "hush")
    monkeypatch.setattr(delivery, "FIRST_WAIT", 0.02)
    monkeypatch.setattr(delivery, "LOOK_EVERY", 0.02)

    @contextlib.contextmanager
    def of(store: ServerStore, model: str) -> Iterator[None]:
        poster = WebhookPoster(Webhook(url=f"http://127.0.0.1:{hook.server_address[1]}/"))
        one = Delivery("webhook", model, poster.send, store, LiveMetrics(), attempts=2, longest_wait=0.05)
        try:
            yield
        finally:
            one.close()
            poster.close()

    return of


def told(store: ServerStore, model: str, *names: str) -> None:
    def write(connection: Any) -> None:
        events = [(name, {"model": model, "machine": "m0"}) for name in names]
        append(connection, "live started", {}, rows={outbox: add_events(connection, ["webhook"], "alarm", events)})

    store.write(write)


def eventually(condition: Any) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_dead_events_are_listed_and_delivered_once_when_a_person_asks(
    sqlite_store: ServerStore, hook: Hook, delivering: Any, tmp_path: Path
) -> None:
    store = sqlite_store
    command = ["--db", str(store.database.url)]
    told(store, "press", "one", "two")
    with delivering(store, "press"):
        eventually(lambda: len(store.read(lambda c: all_events(c, dead=True))) == 2)
        listed = CliRunner().invoke(app, ["live", "outbox", "list", "--dead", *command]).stdout.splitlines()
        found = [json.loads(line) for line in listed]
        assert [(one["event"], one["attempts"], one["error"]) for one in found] == [
            ("one", 2, "answered 503"),
            ("two", 2, "answered 503"),
        ]
        hook.well = True
        time.sleep(0.1)
        assert hook.taken == []  # what is dead stays so by itself
        assert CliRunner().invoke(app, ["live", "outbox", "retry", "two", *command]).exit_code == 0
        eventually(lambda: hook.taken == ["two"])
        assert CliRunner().invoke(app, ["live", "outbox", "retry", *command]).stdout == "1 events are tried again\n"
        eventually(lambda: hook.taken == ["two", "one"] and not store.read(all_events))
    wrong = CliRunner().invoke(app, ["live", "outbox", "retry", "three", *command])
    assert "there is no dead event 'three'" in str(wrong.exception)
    kinds = [entry.kind for entry in store.read(lambda c: list(entries(c)))]
    assert [kinds.count(kind) for kind in ("event given up", "events tried again", "events delivered")] == [2, 2, 2]
    assert store.read(verify).findings == ()


def test_a_process_delivers_the_events_of_its_own_model(store: ServerStore, hook: Hook, delivering: Any) -> None:
    hook.well = True
    told(store, "lathe", "other")
    told(store, "press", "own")
    with delivering(store, "press"):
        eventually(lambda: hook.taken == ["own"])
        time.sleep(0.1)
    assert hook.taken == ["own"]
    assert [one.event for one in store.read(all_events)] == ["other"]
    assert store.read(verify).findings == ()
