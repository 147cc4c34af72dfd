"""Connections: the manners of HTTP on real sockets, and what the server relies on in uvicorn."""

import asyncio
import inspect
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from indubio_server.http import Answer, LimitedProtocol
from indubio_server.http.connection_table import Guest
from indubio_server.http.request_bodies import WHOLE
from indubio_server.models import Result
from indubio_server.service import Service
from indubio_server.store import ServerStore
from tests.served import row, running, serving, table_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("connections") / "press"
    table_model(folder)
    return folder


@pytest.fixture
def asked(sqlite_store: ServerStore, model: Path, tmp_path: Path) -> Iterator[tuple[Service, httpx.Client]]:
    with serving(sqlite_store, {"press": model}, tmp_path) as opened:
        yield opened


def connected(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=20)


def asking(path: str, content: object, *lines: str, version: str = "1.1") -> bytes:
    body = json.dumps(content).encode()
    head = [f"POST {path} HTTP/{version}", "Host: localhost", "Content-Type: application/json", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def answers(connection: socket.socket, count: int) -> list[tuple[int, dict[str, str], bytes]]:
    """The next answers on a connection."""
    found, received = [], b""
    while len(found) < count:
        more = connection.recv(65536)
        assert more, received
        received += more
        while b"\r\n\r\n" in received:
            head, _, rest = received.partition(b"\r\n\r\n")
            status, *lines = head.decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            size = int(headers["content-length"])
            if len(rest) < size:
                break
            found.append((int(status.split()[1]), headers, rest[:size]))
            received = rest[size:]
    return found


TENSOR = {"name": "rows", "shape": [1, 4], "datatype": "FP64", "data": [0.1, 0.1, 0.1, 0.1]}
BODIES = {
    "rows": ("/assess", {"rows": [row(), row(heat=0.2)]}),
    "rows of a model": ("/models/press/assess", {"rows": [row()]}),
    "tensors": ("/v2/models/press/infer", {"inputs": [TENSOR], "id": "7"}),
    "text for a number": ("/assess", {"rows": [row(heat="warm")]}),
    "a column too many": ("/assess", {"rows": [row(extra=1.0)]}),
    "a number too large": ("/v2/models/press/infer", {"inputs": [TENSOR | {"data": [1e39, 0, 0, 0]}]}),
    "no rows": ("/assess", {"rows": []}),
}


@pytest.mark.parametrize("what", BODIES)
def test_a_body_in_chunks_is_answered_like_one_that_says_its_length(
    asked: tuple[Service, httpx.Client], what: str
) -> None:
    _, client = asked
    path, content = BODIES[what]
    body = json.dumps(content).encode()
    kind = {"content-type": "application/json"}
    whole = client.post(path, content=body, headers=kind)
    chunked = client.post(path, content=iter([body]), headers=kind)
    assert (whole.status_code, whole.content) == (chunked.status_code, chunked.content)
    varying = {"date", "content-length"}
    assert {n: v for n, v in whole.headers.items() if n not in varying} == {
        n: v for n, v in chunked.headers.items() if n not in varying
    }


def test_the_wrong_kind_and_too_large_are_refused(sqlite_store: ServerStore, model: Path, tmp_path: Path) -> None:
    with serving(sqlite_store, {"press": model}, tmp_path, largest_body=200) as (_, client):
        assert client.post("/assess", content=b"{}", headers={"content-type": "text/csv"}).status_code == 415
        assert client.post("/assess", json={"rows": [row()] * 9}).status_code == 413
        assert client.post("/assess", json={"rows": [row()]}).status_code == 200
        gzipped = client.post("/assess", json={"rows": [row()]}, headers={"content-encoding": "gzip"})
        assert gzipped.status_code == 415


def test_requests_that_follow_each_other_at_once_are_answered_in_order(asked: tuple[Service, httpx.Client]) -> None:
    _, client = asked
    names = [f"part {n}" for n in range(6)]
    with connected(client) as connection:
        connection.sendall(b"".join(asking("/assess", {"rows": [row()], "ids": [name]}) for name in names))
        found = answers(connection, len(names))
    assert [status for status, _, _ in found] == [200] * 6
    assert [json.loads(body)["results"][0]["id"] for _, _, body in found] == names


@pytest.mark.parametrize(("rows", "piece"), [(1, 20), (900, 9000), (4000, 30_000)])
def test_a_body_in_pieces_is_read_whole(asked: tuple[Service, httpx.Client], rows: int, piece: int) -> None:
    _, client = asked
    request = asking("/assess", {"rows": [row()] * rows})
    with connected(client) as connection:
        for place in range(0, len(request), piece):
            connection.sendall(request[place : place + piece])
            time.sleep(0.002)
        ((status, _, body),) = answers(connection, 1)
    assert (status, len(json.loads(body)["results"])) == (200, rows)


def test_a_body_that_does_not_come_is_given_up(
    asked: tuple[Service, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indubio_server.http.request_bodies.BODY_SECONDS", 0.2)
    service, client = asked
    with connected(client) as connection:
        connection.sendall(asking("/assess", {"rows": [row()]})[:-5])
        ((status, headers, _),) = answers(connection, 1)
        assert (status, headers["connection"]) == (408, "close")
        assert connection.recv(1) == b""
    assert b'indubio_requests_total{route="/assess",status="408"} 1.0' in service.measured()


@pytest.mark.parametrize(("lines", "version"), [(["Connection: close"], "1.1"), ([], "1.0")])
def test_a_connection_ends_where_the_client_wants_it_to(
    asked: tuple[Service, httpx.Client], lines: list[str], version: str
) -> None:
    _, client = asked
    with connected(client) as connection:
        connection.sendall(asking("/assess", {"rows": [row()]}, *lines, version=version))
        ((status, headers, _),) = answers(connection, 1)
        assert headers["connection"] == "close"
        assert status == {"1.1": 200, "1.0": 403}[version], "an open server takes the old protocol for a proxy's"
        assert connection.recv(1) == b""


def test_a_client_that_expects_to_be_asked_for_the_body_is_asked(asked: tuple[Service, httpx.Client]) -> None:
    _, client = asked
    head, _, body = asking("/assess", {"rows": [row()]}, "Expect: 100-continue").partition(b"\r\n\r\n")
    with connected(client) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        ((status, _, _),) = answers(connection, 1)
    assert status == 200


def test_a_client_that_goes_away_harms_nobody(asked: tuple[Service, httpx.Client]) -> None:
    service, client = asked
    for size in (60, None):  # in the middle of its request, and before its answer
        with connected(client) as connection:
            connection.sendall(asking("/assess", {"rows": [row()]})[:size])
    assert client.post("/assess", json={"rows": [row()]}).status_code == 200
    assert b'status="500"' not in service.measured()


def test_a_fault_of_the_server_is_500_without_a_trace(
    asked: tuple[Service, httpx.Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service, client = asked

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret of the server")

    monkeypatch.setattr(service, "assess", broken)
    answer = client.post("/assess", json={"rows": [row()]})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert any(one.exc_info and "secret" in str(one.exc_info[1]) for one in caplog.records)


def test_all_that_waits_is_one_batch(asked: tuple[Service, httpx.Client], monkeypatch: pytest.MonkeyPatch) -> None:
    service, client = asked
    assess = service.assess
    connections = [connected(client) for _ in range(8)]
    for connection in connections:  # accepted before anything is asked
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answers(connection, 1)[0][0] == 200

    def come() -> None:
        while connections:
            held.append(connections.pop())
            held[-1].sendall(asking("/assess", {"rows": [row()], "top": 0}))
        time.sleep(0.2)

    def followed(*arguments: Any) -> "asyncio.Future[Result]":
        result = assess(*arguments)
        if connections:  # the others come after the event loop has read the first, and before its turn is over
            asyncio.get_running_loop().call_soon(come)
        return result

    held: list[socket.socket] = []
    monkeypatch.setattr(service, "assess", followed)
    assert client.post("/assess", json={"rows": [row()], "top": 0}).status_code == 200
    assert len(held) == 8
    for connection in held:
        assert answers(connection, 1)[0][0] == 200
        connection.close()
    told = service.measured().decode()
    assert 'indubio_batch_rows_count{model="press"} 1.0' in told
    assert 'indubio_batch_rows_sum{model="press"} 9.0' in told


class Noted:
    """An ASGI application that notes what it is given, before and after it has read the body."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.whole: list[tuple[bool, bool]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        before = WHOLE in scope
        while (await receive()).get("more_body"):
            pass
        self.scopes.append(scope)
        self.whole.append((before, WHOLE in scope))
        await Answer(b"{}")(scope, receive, send)


@pytest.fixture
def noted() -> Iterator[tuple[Noted, tuple[str, int]]]:
    app = Noted()
    with running(app) as address:
        yield app, address


def test_uvicorn_has_what_is_overridden_with_the_same_parameters() -> None:
    own = {name: method for name, method in vars(LimitedProtocol).items() if inspect.isfunction(method)}
    of_the_table = {name for name in vars(Guest) if not name.startswith("_")}
    assert not any(hasattr(HttpToolsProtocol, name) for name in of_the_table)
    overridden = {name for name in own if not name.startswith("_")} - of_the_table
    assert overridden == {
        "connection_lost",
        "connection_made",
        "data_received",
        "on_body",
        "on_header",
        "on_headers_complete",
        "on_message_begin",
        "on_message_complete",
        "on_response_complete",
        "on_url",
        "send_400_response",
    }
    for name in overridden:
        theirs = inspect.signature(getattr(HttpToolsProtocol, name)).parameters
        assert list(inspect.signature(own[name]).parameters) == list(theirs), name
    private = [name for name in vars(LimitedProtocol) if name.startswith("_") and not name.startswith("__")]
    assert not any(hasattr(HttpToolsProtocol, name) for name in private)  # neither hides the other's


def test_a_body_that_came_with_its_head_is_known_to_be_whole(noted: tuple[Noted, tuple[str, int]]) -> None:
    app, address = noted
    request = asking("/", {"rows": []})
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(request)
        assert answers(connection, 1)[0][0] == 200
        connection.sendall(request[:-5])
        time.sleep(0.2)
        connection.sendall(request[-5:])
        assert answers(connection, 1)[0][0] == 200
    assert app.whole == [(True, True), (False, True)]


def test_every_request_has_a_state_of_its_own_and_headers_in_lower_case(noted: tuple[Noted, tuple[str, int]]) -> None:
    app, address = noted
    with socket.create_connection(address, timeout=20) as connection:
        for _ in range(2):
            connection.sendall(asking("/?model=a", {}, "X-API-Key: secret"))
            assert answers(connection, 1)[0][0] == 200
    first, second = app.scopes
    first["state"]["actor"] = "ada"
    assert "actor" not in second["state"]
    assert dict(first["headers"])[b"x-api-key"] == b"secret"
    assert (first["path"], first["query_string"], first["client"][0]) == ("/", b"model=a", "127.0.0.1")


def test_a_head_that_does_not_come_is_given_up_and_a_quiet_connection_is_not(
    noted: tuple[Noted, tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indubio_server.http.connections.HEAD_SECONDS", 0.2)
    _, address = noted
    with socket.create_connection(address, timeout=20) as connection:
        request = asking("/", {})
        connection.sendall(request[:20])
        time.sleep(0.05)
        connection.sendall(request[20:])
        assert answers(connection, 1)[0][0] == 200
        time.sleep(0.4)
        connection.sendall(request)
        assert answers(connection, 1)[0][0] == 200
        connection.sendall(request[:20])
        assert answers(connection, 1)[0][0] == 408
        assert connection.recv(1) == b""


def test_an_answer_that_says_so_ends_the_connection() -> None:
    class Closing(Noted):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await Answer(b"{}", headers=[(b"connection", b"close")])(scope, receive, send)

    with running(Closing()) as address, socket.create_connection(address, timeout=20) as connection:
        connection.sendall(asking("/", {}))
        assert answers(connection, 1)[0][0] == 200
        assert connection.recv(1) == b""
