"""Connections with TLS: they count from the moment they open, and those that never finish a handshake harm nobody."""

import contextlib
import gc
import http.client
import inspect
import logging
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvloop import loop as uvloop_loop

from indubio.errors import ConfigError
from indubio_server import process
from indubio_server.http import Answer, ConnectionTable
from indubio_server.http.connections import Phase
from indubio_server.process import LimitedServer, configured
from indubio_server.server_settings import ServerSettings
from indubio_server.service import Service
from indubio_server.store import ServerStore
from tests.certificates import client_hello, self_signed
from tests.served import all_of, listening, row, running, table_model, until

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
OTHER = "127.0.0.2"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    certificate, key = self_signed(tmp_path_factory.mktemp("pem"))
    return {"ssl_certfile": certificate, "ssl_keyfile": key}


class Echo:
    """Answers with what it is sent, and when it is told to at /work."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.working = 0
        self.scopes: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        import anyio.to_thread

        if scope["type"] != "http":
            return
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body")
        if scope["path"] == "/work":
            self.working += 1
            await anyio.to_thread.run_sync(self.go_on.wait)
        sizes = {"/large": 30_000_000, "/some": 100_000}
        await Answer(bytes(sizes.get(scope["path"], 0)) or body)(scope, receive, send)


@dataclass
class Secured:
    """A server with TLS, and what is known of it inside."""

    address: tuple[str, int]
    trust: ssl.SSLContext
    app: Echo
    tables: list[ConnectionTable] = field(default_factory=list)

    def plain(self, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        """A connection without a handshake."""
        one = socket.create_connection(self.address, timeout=20, source_address=(source, 0))
        if sent:
            one.sendall(sent)
        return one

    def connected(self, source: str = "127.0.0.1") -> ssl.SSLSocket:
        """A connection after its handshake."""
        return self.trust.wrap_socket(self.plain(source=source), server_hostname="127.0.0.1")

    def status(self, path: str = "/", source: str = "127.0.0.1") -> int:
        """What a request on a new connection is answered."""
        asked = http.client.HTTPSConnection(*self.address, timeout=20, source_address=(source, 0), context=self.trust)
        with contextlib.closing(asked):
            asked.request("GET", path)
            return asked.getresponse().status

    def connections(self) -> int:
        """How many the server has open, with those that are closing."""
        return len(self.tables[0]._open)


Secure = Callable[..., Secured]


@pytest.fixture(params=["uvloop", "asyncio"])
def secured(pem: dict[str, Path], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secure]:
    """A server with TLS and the settings that a test needs, on each of the event loops."""
    tables: list[ConnectionTable] = []

    def kept(**given: Any) -> ConnectionTable:
        tables.append(ConnectionTable(**given))
        return tables[-1]

    monkeypatch.setattr(process, "ConnectionTable", kept)
    with contextlib.ExitStack() as stack:

        def start(options: dict[str, Any] | None = None, **settings: Any) -> Secured:
            app = Echo()
            given = {"settings": ServerSettings(**settings), "loop": request.param, **pem, **(options or {})}
            address = stack.enter_context(running(app, **given))
            return Secured(address, ssl.create_default_context(cafile=str(pem["ssl_certfile"])), app, tables)

        yield start


HELLO = client_hello()
FLOODS = {"nothing": b"", "half a hello": HELLO[:100], "a hello and no more": HELLO}


def ended(connection: socket.socket) -> bool:
    """Whether the server has ended a connection, whatever it said before."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


def test_the_server_answers_over_tls(
    sqlite_store: ServerStore, pem: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import httpx

    caplog.set_level(logging.INFO)
    table_model(tmp_path / "press")
    service = Service(sqlite_store, {"press": tmp_path / "press"}, tmp_path / "state", ServerSettings(open=True))
    trust = ssl.create_default_context(cafile=str(pem["ssl_certfile"]))
    try:
        with listening(service, **pem) as url, httpx.Client(base_url=url, verify=trust) as client:
            assert f"running on {url} " in caplog.text
            assert [client.post("/assess", json={"rows": [row()]}).status_code for _ in range(2)] == [200, 200]
            assert "Secure" in client.get("/login").headers["set-cookie"]
    finally:
        service.close()


def test_large_bodies_and_answers_follow_each_other_on_one_connection(secured: Secure) -> None:
    server = secured()
    asked = http.client.HTTPSConnection(*server.address, timeout=20, context=server.trust)
    with contextlib.closing(asked):
        for size in (0, 1, 3_000_000, 70_000):
            body = bytes(number % 251 for number in range(size))
            asked.request("POST", "/", body)
            assert asked.getresponse().read() == body
    assert {(scope["scheme"], scope["client"][0]) for scope in server.app.scopes} == {("https", "127.0.0.1")}
    assert len({scope["client"] for scope in server.app.scopes}) == 1


def test_a_request_may_come_together_with_the_end_of_the_handshake(secured: Secure) -> None:
    server = secured()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = server.trust.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with server.plain() as connection:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        client.write(GET % b"/")
        connection.sendall(outgoing.read())  # the last words of the handshake, and the request
        answer = b""
        while b"\r\n\r\n" not in answer:
            incoming.write(connection.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                answer += client.read()
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("what", FLOODS)
def test_handshakes_that_do_not_end_take_no_place_of_others(secured: Secure, what: str) -> None:
    server = secured(most_connections=40, connections_per_address=10)
    with contextlib.ExitStack() as stack:
        for source in ("127.0.0.1", OTHER):
            flood = [stack.enter_context(server.plain(FLOODS[what], source)) for _ in range(40)]
            until(lambda flood=flood: sum(map(ended, flood)) >= 30)  # type: ignore[misc]
            assert sum(map(ended, flood)) == 30  # the rest is within the limit
            assert server.status("/v2/health/live") == 200
            assert server.status() == 200


def test_handshakes_from_many_addresses_give_way_to_whoever_asks(secured: Secure) -> None:
    server = secured(most_connections=40, connections_per_address=10)
    with contextlib.ExitStack() as stack:
        for number in range(120):
            stack.enter_context(server.plain(FLOODS["half a hello"], f"127.0.1.{number % 12 + 1}"))
        assert server.status() == 200
        assert server.connections() <= 40


@pytest.mark.parametrize("what", FLOODS)
def test_a_handshake_that_does_not_end_is_given_up(secured: Secure, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr("indubio_server.http.connections.HEAD_SECONDS", 0.2)
    server = secured()
    with server.plain(FLOODS[what]) as connection:
        told = all_of(connection)
    assert bool(told) == (what == "a hello and no more")
    until(lambda: not server.connections())


def test_when_all_are_being_answered_health_is_too_and_the_rest_is_told_to_come_again(secured: Secure) -> None:
    server = secured(connections_per_address=4)
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(server.connected()) for _ in range(4)]
        for one in busy:
            one.sendall(GET % b"/work")
        until(lambda: server.app.working == 4)
        assert server.status("/v2/health/live") == 200
        assert server.status() == 503
        server.app.go_on.set()
        assert [one.recv(12) for one in busy] == [b"HTTP/1.1 200"] * 4


def test_where_nobody_can_be_let_in_any_more_a_connection_ends_before_its_handshake(
    secured: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indubio_server.http.connection_table.RESERVED", 0)
    server = secured(connections_per_address=1)
    with server.connected() as busy:
        busy.sendall(GET % b"/work")
        until(lambda: server.app.working == 1)
        with server.plain(HELLO) as other:
            assert all_of(other) == b""
        server.app.go_on.set()
        assert busy.recv(12) == b"HTTP/1.1 200"


def test_a_client_that_does_not_say_goodbye_holds_no_connection(secured: Secure) -> None:
    server = secured(connections_per_address=2)
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(server.connected())  # reads nothing any more, so it sees no goodbye of the server
        until(lambda: server.connections() <= 2)


def test_one_that_gave_way_is_not_held_by_reading_the_rest_of_its_answer_slowly(
    secured: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indubio_server.http.connections.REST_SECONDS", 0.2)
    server = secured(connections_per_address=1)
    with server.connected(OTHER) as slow:
        slow.sendall(GET % b"/")
        slow.recv(12)
        (guest,) = server.tables[0]._open
        asked = 1
        while not guest._unsent():  # type: ignore[attr-defined]
            slow.sendall(GET % b"/some")
            asked += 1
            until(lambda: len(server.app.scopes) == asked and guest._phase() is Phase.IDLE)  # type: ignore[attr-defined] # noqa: B023
        with server.connected(OTHER):
            until(lambda: slow.recv(100) and guest not in server.tables[0]._open)


def test_an_answer_before_the_end_of_the_connection_is_sent_whole(secured: Secure) -> None:
    server = secured()
    with server.connected() as connection:
        connection.sendall((GET % b"/large").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        threading.Event().wait(1.2)  # the sweep comes by twice
        head, _, body = all_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert len(body) == 30_000_000
    until(lambda: not server.connections())


def test_an_answer_that_nobody_reads_is_given_up(secured: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indubio_server.http.connections.UNREAD_SECONDS", 0.2)
    server = secured()
    with server.connected() as connection, server.connected() as closing:
        connection.sendall(GET % b"/large" * 2)
        closing.sendall((GET % b"/large").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        until(lambda: len(server.app.scopes) >= 2)
        until(lambda: not server.connections())


def resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_client_without_tls_or_a_right_certificate_is_no_fault_of_the_server(
    secured: Secure, pem: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    options = {"ssl_ca_certs": pem["ssl_certfile"], "ssl_cert_reqs": ssl.CERT_REQUIRED}
    server = secured(options)
    for sent in (GET % b"/", b"\0" * 500, HELLO[:100], HELLO, HELLO + b"nonsense" * 9, b""):
        with server.plain(sent) as connection:
            connection.shutdown(socket.SHUT_WR)
            all_of(connection)
        resets(server.plain(sent))
        server.plain(sent).close()
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        server.trust.maximum_version = version
        with contextlib.suppress(OSError), server.connected() as nobody:  # with TLS 1.3 it learns after the handshake
            nobody.sendall(GET % b"/")
            assert nobody.recv(1) == b""
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"), server.plain() as connection:
        ssl.create_default_context().wrap_socket(connection, server_hostname="127.0.0.1")
    until(lambda: not server.connections())
    server.trust.load_cert_chain(pem["ssl_certfile"], pem["ssl_keyfile"])
    assert server.status() == 200
    assert len(server.app.scopes) == 1
    gc.collect()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_server_that_stops_answers_what_is_asked_and_waits_for_no_handshake(
    pem: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    app = Echo()
    trust = ssl.create_default_context(cafile=str(pem["ssl_certfile"]))
    for loop in ("uvloop", "asyncio"):
        app.working, app.go_on = 0, threading.Event()
        with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
            with running(app, loop=loop, **pem) as address:
                server = Secured(address, trust, app)
                answered = pool.submit(server.status, "/work")
                until(lambda: app.working == 1)
                held = [stack.enter_context(server.plain(sent)) for sent in FLOODS.values()]
                held.append(stack.enter_context(server.connected()))
                threading.Timer(0.3, app.go_on.set).start()
            assert answered.result() == 200
            assert all(map(ended, held))
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_uvicorn_and_the_event_loops_have_what_is_relied_on() -> None:
    for name in ("startup", "_log_started_message"):
        theirs = inspect.signature(getattr(uvicorn.Server, name)).parameters
        assert list(inspect.signature(getattr(LimitedServer, name)).parameters) == list(theirs)
    assert hasattr(uvloop_loop, "SSLProtocol")  # without it that of asyncio is used, which is slower


def test_files_that_are_no_certificate_and_key_are_refused(pem: dict[str, Path], tmp_path: Path) -> None:
    for wrong in ({"ssl_certfile": tmp_path / "none.pem"}, {"ssl_certfile": pem["ssl_keyfile"]}):
        with pytest.raises(
            ConfigError, match=f"--certificate .*{re.escape(str(wrong['ssl_certfile']))} cannot be used"
        ):
            configured(Echo(), host="127.0.0.1", port=0, **wrong)
    with pytest.raises(ConfigError, match="give --certificate too"):
        configured(Echo(), host="127.0.0.1", port=0, ssl_keyfile=pem["ssl_keyfile"])
