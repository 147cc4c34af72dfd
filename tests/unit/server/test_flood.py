"""A server that is attacked: connections that hold places, wrong keys, bodies that take long, clients that go away."""

import contextlib
import json
import logging
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from indubio.errors import ConfigError, DataError
from indubio_server.api import tensors
from indubio_server.http import RESERVED, Answer, Gate, Metrics
from indubio_server.http.connections import HEALTH_PATHS
from indubio_server.models import refuse_doubles
from indubio_server.process import connections_that_fit
from indubio_server.server_settings import ServerSettings
from indubio_server.service import Service
from indubio_server.store import Role, ServerStore, add_key
from indubio_server.trusted_proxies import PROXIED, TrustedProxies, neighbourhood
from tests.review_server import token
from tests.served import all_of, mixed_model, row, running, serving, table_model, until

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
LIVE = GET % b"/v2/health/live"
FORM = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nCookie: indubio_visitor=x\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nkey="
)
BODY = {"rows": [row()]}
FLOODS = {
    "nothing": b"",
    "half a head": LIVE[:-4],
    "an empty line": b"\r\n",
    "half a form": FORM,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flooded") / "press"
    table_model(folder)
    return folder


@pytest.fixture
def scorer(sqlite_store: ServerStore) -> dict[str, str]:
    secret = sqlite_store.write(lambda c: add_key(c, "line 3", Role.SCORER, actor="tester"))
    return {"x-api-key": secret}


Asked = Callable[..., tuple[Service, httpx.Client]]


@pytest.fixture
def asked(sqlite_store: ServerStore, model: Path, tmp_path: Path) -> Iterator[Asked]:
    """A server with the settings that a test needs."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(serving(sqlite_store, {"press": model}, tmp_path, **settings))


def connected(client: httpx.Client, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    address = (client.base_url.host, client.base_url.port)
    connection = socket.create_connection(address, timeout=20, source_address=(source, 0))
    if sent:
        connection.sendall(sent)
    return connection


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_a_flood_from_one_address_takes_no_place_of_others(asked: Asked, scorer: dict[str, str], source: str) -> None:
    _, client = asked(most_connections=40, connections_per_address=10)
    for sent in FLOODS.values():
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(connected(client, sent, source))
            assert httpx.get(client.base_url.join("/v2/health/live")).status_code == 200
            assert httpx.post(client.base_url.join("/assess"), json=BODY, headers=scorer).status_code == 200


def test_a_flood_from_many_addresses_gives_way_to_whoever_asks(asked: Asked, scorer: dict[str, str]) -> None:
    _, client = asked(most_connections=40, connections_per_address=10)
    with contextlib.ExitStack() as stack:
        for number in range(120):
            stack.enter_context(connected(client, FORM, f"127.0.1.{number % 12 + 1}"))
        assert client.get("/v2/health/live").status_code == 200
        assert client.post("/assess", json=BODY, headers=scorer).status_code == 200


def test_who_asked_least_recently_gives_way_and_half_a_request_is_told_to_come_again(asked: Asked) -> None:
    _, client = asked(connections_per_address=2)
    with connected(client, LIVE[:-4], "127.0.0.2") as first, connected(client, LIVE, "127.0.0.2") as second:
        assert second.recv(65536).startswith(b"HTTP/1.1 200")
        with connected(client, LIVE, "127.0.0.2") as third:
            assert third.recv(12) == b"HTTP/1.1 200"
            told = all_of(first)
            assert told.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1" in told
            second.sendall(LIVE)
            assert second.recv(65536).endswith(b'{"live":true}')


class Slow:
    """An application that answers when it is told to, and health checks at once."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.working = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        import anyio.to_thread

        if scope["type"] == "http":
            if scope["path"] == "/work":
                self.working += 1
                await anyio.to_thread.run_sync(self.go_on.wait)
            await Answer(b"{}")(scope, receive, send)


@pytest.mark.parametrize("limit", ["most_connections", "connections_per_address"])
def test_when_all_are_being_answered_health_is_too_and_the_rest_is_told_to_come_again(limit: str) -> None:
    app = Slow()
    with running(app, settings=ServerSettings(**{limit: 4})) as (host, port), contextlib.ExitStack() as stack:
        url = f"http://{host}:{port}"
        busy = [stack.enter_context(socket.create_connection((host, port), timeout=20)) for _ in range(4)]
        for one in busy:
            one.sendall(GET % b"/work")
        until(lambda: app.working == 4)
        refused = httpx.get(f"{url}/other")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        idle = [stack.enter_context(socket.create_connection((host, port))) for _ in range(2 * RESERVED)]
        for path in HEALTH_PATHS:
            assert httpx.get(f"{url}{path}").status_code == 200
        app.go_on.set()
        assert [one.recv(12) for one in busy] == [b"HTTP/1.1 200"] * 4  # nobody who was being answered was dropped
        assert httpx.get(f"{url}/other").status_code == 200  # the idle ones give way
        assert idle


@pytest.mark.parametrize("what", ["nothing", "half a head", "an empty line"])
def test_a_connection_that_asks_nothing_ends(asked: Asked, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr("indubio_server.http.connections.HEAD_SECONDS", 0.2)
    _, client = asked()
    with connected(client, FLOODS[what]) as connection:
        told = all_of(connection)
    assert told[:12] == (b"HTTP/1.1 408" if what == "half a head" else b"")


def test_an_empty_line_after_an_answer_does_not_hold_the_connection(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indubio_server.http.connections.HEAD_SECONDS", 0.2)
    _, client = asked()
    with connected(client, LIVE + b"\r\n") as connection:
        assert all_of(connection).startswith(b"HTTP/1.1 200")


def test_a_form_that_does_not_come_is_given_up_like_any_body(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indubio_server.http.request_bodies.BODY_SECONDS", 0.2)
    _, client = asked()
    with connected(client, FORM) as connection:
        assert all_of(connection).startswith(b"HTTP/1.1 408")


def test_the_form_of_somebody_who_may_not_is_not_read(asked: Asked, scorer: dict[str, str]) -> None:
    _, client = asked()
    nobody = FORM.replace(b"Cookie: indubio_visitor=x\r\n", b"")  # without the cookie no token can be right
    key = b"X-API-Key: %s\r\n" % scorer["x-api-key"].encode()
    wrong_role = nobody.replace(b"/login", b"/review/exchange/labels").replace(b"Content-Type", key + b"Content-Type")
    for sent in (nobody, wrong_role):
        with connected(client, sent) as connection:
            assert connection.recv(12) == b"HTTP/1.1 403"
    with connected(client, nobody.replace(b"/login", b"/review/undo")) as connection:
        assert connection.recv(12) == b"HTTP/1.1 303"  # to the login


def test_what_is_left_of_a_body_after_its_answer_does_not_hold_the_connection(
    asked: Asked, scorer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indubio_server.http.connections.REST_SECONDS", 0.2)
    _, client = asked()
    with connected(client, FORM.replace(b"/login", b"/assess")) as connection:
        assert connection.recv(12) == b"HTTP/1.1 401"
        connection.sendall(b"more")
        all_of(connection)  # it ends


def test_an_answer_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indubio_server.http.connections.UNREAD_SECONDS", 0.2)

    class Large(Slow):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await Answer(bytes(30_000_000))(scope, receive, send)

    with running(Large()) as address, socket.create_connection(address, timeout=20) as connection:
        connection.sendall(GET % b"/" * 2)
        time.sleep(2.5)
        assert len(all_of(connection)) < 30_000_000


def test_too_many_requests_that_wait_on_one_connection_end_it(asked: Asked) -> None:
    _, client = asked()
    with connected(client) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(LIVE * 2000)
        assert all_of(connection).count(b"HTTP/1.1 200") < 100
    assert client.get("/v2/health/live").status_code == 200


POST = b"POST /assess HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def test_extensions_of_chunks_do_not_grow_without_end(asked: Asked) -> None:
    _, client = asked()
    with connected(client, CHUNKED) as connection:
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.sendall(b"1;" + b"x" * 4000 + b"\r\n{\r\n")
        assert all_of(connection)[:12] in (b"HTTP/1.1 400", b"")


def test_a_body_in_chunks_of_one_byte_is_read(asked: Asked) -> None:
    _, client = asked()
    body = json.dumps({"rows": [row()] * 400}).encode()
    with connected(client, CHUNKED) as connection:
        connection.sendall(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_a_body_in_chunks_may_follow_another_body_at_once(asked: Asked) -> None:
    _, client = asked()
    body = json.dumps(BODY).encode()
    chunks = b"%x\r\n%s\r\n" % (40, body[:40]), b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - 40, body[40:])
    with connected(client, b"POST /no HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60001\r\n\r\n ") as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 404")
        connection.sendall(bytes(60_000) + CHUNKED + chunks[0])
        time.sleep(0.1)
        connection.sendall(chunks[1])
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_headers_after_a_body_are_not_believed(asked: Asked) -> None:
    _, client = asked()
    with connected(client, CHUNKED + b"2\r\n{}\r\n0\r\nX-API-Key: wrong\r\n\r\n") as connection:
        assert connection.recv(12) == b"HTTP/1.1 400"  # of the body: the key would be 401


SMUGGLED = {
    "a length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "two hosts": b"Host: evil.example\r\nContent-Length: 2\r\n\r\n{}",
    "an unknown encoding": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
}


def test_a_request_that_a_proxy_may_read_otherwise_is_refused(asked: Asked) -> None:
    _, client = asked()
    for what, sent in SMUGGLED.items():
        with connected(client, POST + sent) as connection:
            assert all_of(connection).startswith(b"HTTP/1.1 400"), what


def test_wrong_keys_do_not_lock_out_right_ones(asked: Asked, scorer: dict[str, str]) -> None:
    _, client = asked()
    wrong = [client.get("/metrics", headers={"x-api-key": f"guess {n}"}) for n in range(40)]
    assert wrong[-1].status_code == 429
    assert int(wrong[-1].headers["retry-after"]) >= 1
    assert client.post("/assess", json=BODY, headers=scorer).status_code == 200


def test_wrong_keys_at_the_login_are_slowed_down_and_a_right_one_gets_in(
    asked: Asked, sqlite_store: ServerStore
) -> None:
    secret = sqlite_store.write(lambda c: add_key(c, "ada", Role.REVIEWER, actor="tester"))
    _, client = asked()
    sent = {"token": token(client, "/login")}
    wrong = [client.post("/login", data={"key": f"guess {n}"} | sent).status_code for n in range(40)]
    assert wrong[0] == 401
    assert wrong[-1] == 429
    assert client.post("/login", data={"key": secret} | sent).status_code == 303


PROXY = {"x-forwarded-for": "127.0.0.1"}


def test_behind_a_trusted_proxy_wrong_keys_slow_down_their_sender_only(asked: Asked, scorer: dict[str, str]) -> None:
    _, client = asked(trusted_proxies=("127.0.0.0/8",))

    def wrong(sender: str) -> int:
        return client.get("/metrics", headers={"x-api-key": "guess", "x-forwarded-for": sender}).status_code

    invented = [wrong(f"10.9.{n}.1, 203.0.113.7, 127.0.0.9") for n in range(40)]
    assert invented[-1] == 429
    assert wrong("203.0.113.8") == 401


def test_without_a_trusted_proxy_nobody_is_asked_who_the_client_is(asked: Asked, scorer: dict[str, str]) -> None:
    _, client = asked()
    answers = [
        client.get("/metrics", headers={"x-api-key": "guess", "x-forwarded-for": f"203.0.113.{n}"}).status_code
        for n in range(40)
    ]
    assert answers[-1] == 429


def test_what_comes_through_a_trusted_proxy_is_not_local(asked: Asked) -> None:
    _, client = asked(trusted_proxies=("127.0.0.1",))
    for headers in ({}, PROXY, {"x-forwarded-for": "127.0.0.5"}, {"x-forwarded-for": "nonsense"}):
        assert client.post("/assess", json=BODY, headers=headers).status_code == 403


def test_a_trusted_proxy_may_have_many_connections_and_each_of_its_clients_a_few_requests(
    sqlite_store: ServerStore, scorer: dict[str, str]
) -> None:
    app = Slow()
    settings = ServerSettings(connections_per_address=2, trusted_proxies=("127.0.0.1",))
    with (
        running(Gate(app, sqlite_store, Metrics(), settings), settings=settings) as (host, port),
        httpx.Client(base_url=f"http://{host}:{port}") as client,
        ThreadPoolExecutor(8) as pool,
    ):

        def status(sender: str, path: str = "/work") -> int:
            return client.get(path, headers=scorer | {"x-forwarded-for": sender}, timeout=20).status_code

        waiting = [pool.submit(status, sender) for sender in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2")]
        until(lambda: app.working == 4)
        assert status("10.0.0.1", "/other") == 503
        assert status("10.0.0.3", "/other") == 200
        assert status("10.0.0.1", "/v2/health/live") == 200
        app.go_on.set()
        assert [one.result() for one in waiting] == [200] * 4
        assert status("10.0.0.1", "/other") == 200


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        (["203.0.113.7"], "203.0.113.7"),
        (["1.1.1.1, 203.0.113.7"], "203.0.113.7"),
        (["1.1.1.1", "203.0.113.7, 10.0.0.2"], "203.0.113.7"),
        (["203.0.113.7:4711"], "203.0.113.7"),
        (["[2001:db8::7]:4711"], "2001:db8::7"),
        (["2001:db8::7"], "2001:db8::7"),
        (["1.1.1.1, unknown"], "10.0.0.1"),
        (["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ([], "10.0.0.1"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(forwarded: list[str], client: str) -> None:
    scope: dict[str, Any] = {"type": "http", "client": ("10.0.0.1", 1), "scheme": "http"}
    scope["headers"] = [(b"x-forwarded-for", one.encode()) for one in forwarded] + [(b"x-forwarded-proto", b"https")]
    other = dict(scope, client=("10.0.1.1", 1))
    proxies = TrustedProxies(["10.0.0.0/24"])
    proxies.unwrap(scope)
    assert (scope["client"][0], PROXIED in scope) == (client, True)
    assert scope["scheme"] == ("http" if "unknown" in str(forwarded) else "https")
    proxies.unwrap(other)
    assert (other["client"][0], other["scheme"], PROXIED in other) == ("10.0.1.1", "http", False)


def test_an_address_of_ipv6_is_one_with_its_neighbours() -> None:
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff:1") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("::ffff:10.0.0.1") == "10.0.0.1"


def test_a_trusted_proxy_must_be_an_address() -> None:
    with pytest.raises(ConfigError, match=r"such as 10\.0\.0\.0/24, got 'proxy\.example'"):
        ServerSettings(trusted_proxies=("proxy.example",))


def test_the_limit_of_open_files_is_raised_or_said_to_be_too_low(caplog: pytest.LogCaptureFixture) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(600, before[1]), before[1]))
    try:
        assert connections_that_fit(500) == 500
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 700
        assert not caplog.records
        fitting = connections_that_fit(before[1])
        assert 0 < fitting < before[1]
        assert f"there will be {fitting} at most" in caplog.text
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_client_that_goes_away_is_no_fault_of_the_server(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    service, client = asked()
    for sent in (FORM, FORM.replace(b"/login", b"/assess").replace(b"x-www-form-urlencoded", b"json")):
        with connected(client, sent) as connection:
            time.sleep(0.1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
    until(lambda: service.measured().count(b'status="499"} 1.0') == 2)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


PAGES = [
    "/review/cases/" + "9" * 5000,
    "/review/cases/1" + "0" * 26,
    "/review?from=" + "9" * 26,
    "/review?said=I" + "9" * 5000,
    "/review/exchange?taken=" + "9" * 5000,
    "/review/insights?version=" + "9" * 5000,
    "/review?machine=%00",
    "/cases/%00",
]


def test_numbers_of_any_size_and_no_text_are_no_fault_of_the_server(asked: Asked) -> None:
    _, client = asked()
    for path in PAGES:
        assert client.get(path).status_code in (200, 400, 404), path


def test_forms_with_numbers_of_any_size_and_no_text_are_refused(asked: Asked) -> None:
    _, client = asked()
    known = token(client, "/login")
    for number in ("9" * 5000, "1" + "0" * 26, "²"):
        fields = {"token": known, "rule": "threshold", "share": "5", "version": number}
        assert client.post("/review/models/press/recalibrate", data=fields).status_code == 400
        assert client.post("/review/models/press/activate", data=fields).status_code == 400
        assert client.post(f"/review/cases/{number}", data={"token": known, "label": "I"}).status_code == 404
        if number.isascii():
            sent = f'{{"version": {number}}}'.encode()
            kind = {"content-type": "application/json"}
            assert client.post("/models/press/activate", content=sent, headers=kind).status_code == 400
    field = '--x\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    for text, charset in (("\\ud800", "unicode_escape"), ("a\0", "utf-8"), ("+2AA-", "utf-7")):
        body = field.format("token", known) + field.format("comment", text) + "--x--\r\n"
        headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
        answer = client.post("/review/cases/1/comment", content=body.encode(), headers=headers)
        assert answer.status_code in (400, 415)


def never(*arguments: Any, **options: Any) -> Any:
    raise AssertionError("this is not to be called")


def test_a_cookie_of_any_shape_is_not_given_to_a_reader_that_is_quadratic(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("http.cookies._unquote", never)  # 0.6 seconds for this one, on an idle machine
    _, client = asked()
    assert client.get("/login", headers={"cookie": 'a="' + '\\"' * 15_000 + '"'}).status_code == 200


def test_tensors_that_do_not_fit_are_refused_before_their_data_is_read(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_from_bytes", never)  # a million empty texts took 19 seconds
    _, client = asked()
    count = 1_000_000
    for shape, datatype in (([1, count], "BYTES"), ([1, 4], "BYTES"), ([1, count], "INT32")):
        tensor = {"name": "rows", "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": 4 * count}}
        text = json.dumps({"inputs": [tensor]}).encode()
        headers = {"inference-header-content-length": str(len(text))}
        answer = client.post("/v2/models/press/infer", content=text + bytes(4 * count), headers=headers)
        assert answer.status_code == 400


def test_a_category_is_given_as_text_of_one_column(sqlite_store: ServerStore, tmp_path: Path) -> None:
    mixed_model(tmp_path / "parts")
    weight = {"name": "weight", "shape": [1, 1], "datatype": "FP64", "data": [0.1]}
    colour = {"name": "colour", "shape": [1, 1], "datatype": "BYTES", "data": ["red"]}
    with serving(sqlite_store, {"parts": tmp_path / "parts"}, tmp_path / "state") as (_, client):

        def status(*inputs: dict[str, Any]) -> int:
            return client.post("/v2/models/parts/infer", json={"inputs": list(inputs)}).status_code

        assert status(weight, colour) == 200
        assert status(weight, colour | {"shape": [1]}) == 200
        assert status(weight, colour | {"shape": [1, 2]}) == 400
        assert status(weight, colour | {"datatype": "FP64", "data": [1.0]}) == 400
        assert status(weight | {"datatype": "BYTES", "data": ["a"]}, colour) == 400


def test_a_large_body_is_taken_apart_while_others_are_answered(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    _, client = asked()
    go_on, began = threading.Event(), threading.Event()
    decode = tensors.decode

    def slow(*given: Any) -> Any:
        began.set()
        go_on.wait(20)
        return decode(*given)

    monkeypatch.setattr(tensors, "decode", slow)
    tensor = {"name": "rows", "shape": [1, 4], "datatype": "FP64", "data": [0, 0, 0, 0]}
    many = json.dumps({"inputs": [tensor], "parameters": {f"p{n}": n for n in range(10_000)}}).encode()
    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(client.post, "/v2/models/press/infer", content=many)
        assert began.wait(20)
        assert client.get("/v2/health/live").status_code == 200
        go_on.set()
        assert refused.result().status_code == 400
    assert "length" in refused.result().json()["error"]


def test_a_name_that_is_there_twice_among_many_is_found_at_once() -> None:
    names = b", ".join(b'"n%d": 1' % n for n in range(30_000))
    began = time.thread_time()
    with pytest.raises(DataError, match="'n29999' is there twice"):
        refuse_doubles(b'{%s, "n29999": 2}' % names)
    assert time.thread_time() - began < 5  # its square took minutes
