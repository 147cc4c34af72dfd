"""Who may ask: keys and roles, loopback, other sites' pages, rates, and heads that never end."""

import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from indubio_server.http import Actor, RefusalError, is_loopback, require
from indubio_server.http.connections import LARGEST_HEAD, MOST_HEADERS
from indubio_server.http.logs import JsonLines
from indubio_server.http.rate_limits import Buckets
from indubio_server.service import Service
from indubio_server.store import Role, ServerStore, add_key, hashed, keys_in_use, open_session, revoke_key
from tests.served import all_of, row, serving, table_model

BODY = {"rows": [row()]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "press"
    table_model(folder)
    return folder


@pytest.fixture
def asked(sqlite_store: ServerStore, model: Path, tmp_path: Path) -> Iterator[tuple[Service, httpx.Client]]:
    with serving(sqlite_store, {"press": model}, tmp_path) as both:
        yield both


@pytest.fixture
def secrets(sqlite_store: ServerStore) -> dict[str, str]:
    return {
        role: sqlite_store.write(lambda c, role=role: add_key(c, f"the {role}", role, actor="tester")) for role in Role
    }


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_with_keys_everything_but_health_needs_one(
    secrets: dict[str, str], asked: tuple[Service, httpx.Client]
) -> None:
    _, client = asked
    assert client.get("/v2/health/live").status_code == 200
    for path in ("/metrics", "/openapi.json", "/v2/models/press", "/cases/x", "/alarms", "/nothing"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert client.post("/assess", json=BODY).status_code == 401
    assert client.post("/assess", json=BODY, headers=bearer("indubio_wrong")).status_code == 401
    assert client.post("/assess", json=BODY, headers={"authorization": "Basic eDp5"}).status_code == 401


def test_a_role_opens_what_it_is_for(secrets: dict[str, str], asked: tuple[Service, httpx.Client]) -> None:
    _, client = asked
    found = {
        role: (
            client.post("/assess", json=BODY, headers=bearer(secret)).status_code,
            client.post("/models/press/activate", json={"version": 1}, headers={"x-api-key": secret}).status_code,
            client.post("/v2/repository/models/press/load", json={}, headers=bearer(secret)).status_code,
        )
        for role, secret in secrets.items()
    }
    nothing = (403, 403, 403)
    assert found == {"metrics": nothing, "scorer": (200, 403, 403), "reviewer": nothing, "admin": (200, 200, 200)}
    read = {role: client.get("/metrics", headers=bearer(secret)).status_code for role, secret in secrets.items()}
    assert read == {"metrics": 200, "scorer": 403, "reviewer": 403, "admin": 200}
    pages = {role: client.get("/models", headers=bearer(secret)).status_code for role, secret in secrets.items()}
    assert pages == {"metrics": 403, "scorer": 200, "reviewer": 403, "admin": 200}
    others = [client.get(path, headers=bearer(secrets["metrics"])) for path in ("/alarms", "/cases/x", "/openapi.json")]
    assert [one.status_code for one in others] == [403] * 3


def test_a_revoked_key_opens_nothing_and_a_new_one_does(
    sqlite_store: ServerStore, secrets: dict[str, str], asked: tuple[Service, httpx.Client]
) -> None:
    _, client = asked
    sqlite_store.write(lambda c: revoke_key(c, "the scorer", actor="tester"))
    new = sqlite_store.write(lambda c: add_key(c, "line 4", Role.SCORER, actor="tester"))
    while client.post("/assess", json=BODY, headers=bearer(new)).status_code != 200:
        time.sleep(0.1)  # the server reads the keys again every two seconds
    assert client.post("/assess", json=BODY, headers=bearer(secrets["scorer"])).status_code == 401


def test_the_audit_trail_knows_who_asked(
    sqlite_store: ServerStore, secrets: dict[str, str], asked: tuple[Service, httpx.Client]
) -> None:
    from indubio_server.store.audit_trail import entries

    _, client = asked
    assert client.post("/assess", json=BODY, headers=bearer(secrets["scorer"])).status_code == 200
    sqlite_store.write(lambda c: None)  # what was answered before is written by now
    records = [e.content["records"] for e in sqlite_store.read(lambda c: list(entries(c))) if e.kind == "verdicts"]
    assert records[-1][0]["by"] == "the scorer"


def test_a_session_opens_what_its_key_does_but_not_to_pages_of_other_sites(
    sqlite_store: ServerStore, secrets: dict[str, str], asked: tuple[Service, httpx.Client]
) -> None:
    _, client = asked
    key = sqlite_store.read(keys_in_use)[hashed(secrets["admin"])]
    cookie = {"cookie": f"other=1; indubio_session={sqlite_store.write(lambda c: open_session(c, key))}"}
    own = str(client.base_url).rstrip("/")
    assert client.post("/assess", json=BODY, headers=cookie | {"origin": own}).status_code == 200
    assert client.post("/assess", json=BODY, headers=cookie | {"origin": "https://evil.example"}).status_code == 403
    assert client.post("/assess", json=BODY, headers={"cookie": "indubio_session=wrong"}).status_code == 401


def test_without_keys_nobody_may_ask_unless_the_server_is_open(
    sqlite_store: ServerStore, model: Path, tmp_path: Path
) -> None:
    with serving(sqlite_store, {"press": model}, tmp_path, open=False) as (_, client):
        assert client.post("/assess", json=BODY).status_code == 401
        assert client.post("/models/press/activate", json={"version": 1}).status_code == 401
        assert client.get("/review").headers["location"].startswith("/login")
        assert client.get("/v2/health/ready").status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        ("Forwarded", "for=203.0.113.7"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", "localhost"),
        ("X-Real-IP", "127.0.0.1"),
        ("Via", "1.1 cache"),
    ],
)
def test_what_came_through_a_proxy_is_not_this_machine(
    asked: tuple[Service, httpx.Client], header: tuple[str, str]
) -> None:
    """Whatever the proxy says of its client, and though nobody named it as one that is trusted."""
    _, client = asked
    assert client.post("/assess", json=BODY, headers=[header]).status_code == 403
    assert client.post("/assess", json=BODY).status_code == 200


def test_a_proxy_that_adds_no_header_is_known_by_its_old_protocol(asked: tuple[Service, httpx.Client]) -> None:
    _, client = asked
    port = client.base_url.port
    head = f"GET /models HTTP/1.%d\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    for minor, status in ((0, b"403"), (1, b"200")):
        with socket.create_connection(("127.0.0.1", port or 0)) as one:
            one.sendall((head % minor).encode())
            assert all_of(one).split()[1] == status


def test_without_keys_only_this_machine_may_ask_under_its_own_name(asked: tuple[Service, httpx.Client]) -> None:
    _, client = asked
    assert client.post("/assess", json=BODY).status_code == 200
    assert client.post("/assess", json=BODY, headers={"host": "rebound.example"}).status_code == 403
    assert client.post("/assess", json=BODY, headers={"origin": "https://evil.example"}).status_code == 403


def test_what_is_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "10.0.0.1", "example.org", "", "localhost.evil")] == [False] * 5


def test_beyond_the_rate_requests_are_told_when_to_come_back(
    sqlite_store: ServerStore, model: Path, tmp_path: Path
) -> None:
    with serving(sqlite_store, {"press": model}, tmp_path, rate=2.0) as (_, client):
        answers = [client.get("/v2") for _ in range(6)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)


def test_guessing_keys_is_slowed_down(secrets: dict[str, str], asked: tuple[Service, httpx.Client]) -> None:
    _, client = asked
    answers = [client.get("/metrics", headers=bearer(f"guess {n}")).status_code for n in range(40)]
    assert answers[0] == 401
    assert 429 in answers


def test_buckets_forget_names_rather_than_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indubio_server.http.rate_limits.MOST_BUCKETS", 10)
    buckets = Buckets(1.0, 1.0)
    for name in range(100):
        buckets.wait(str(name))
    assert len(buckets._buckets) == 10
    assert 0 < buckets.wait("99") <= 1


def test_a_role_that_is_not_enough_says_which_is() -> None:
    with pytest.raises(RefusalError, match="role admin, and 'bob' has reviewer"):
        require(Actor("bob", Role.REVIEWER), Role.ADMIN)


def raw(client: httpx.Client, *parts: bytes) -> bytes:
    """What the server answers to these bytes."""
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server closed already
        received = b""
        try:
            while more := connection.recv(65536):
                received += more
        except ConnectionResetError:
            pass
    return received


LINE = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n"
ENDLESS = {
    "a large header": [LINE, b"x: " + b"a" * LARGEST_HEAD + b"\r\n\r\n"],
    "a header without an end": [LINE, b"x: ", *([b"a" * 4096] * (LARGEST_HEAD // 4096 + 2))],
    "many headers": [LINE, b"".join(b"x-%d: 1\r\n" % n for n in range(MOST_HEADERS + 1)), b"\r\n"],
    "a long URL": [b"GET /" + b"a" * (LARGEST_HEAD + 1) + b" HTTP/1.1\r\n\r\n"],
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_head_that_is_too_large_is_refused(asked: tuple[Service, httpx.Client], what: str) -> None:
    _, client = asked
    assert raw(client, *ENDLESS[what]).startswith(b"HTTP/1.1 431")
    assert client.get("/v2").status_code == 200


@pytest.mark.parametrize("line", [b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET /v2 HTTP/9.9\r\n\r\n"])
def test_what_is_no_http_is_refused(asked: tuple[Service, httpx.Client], line: bytes) -> None:
    _, client = asked
    assert raw(client, line).startswith(b"HTTP/1.1 400")


def test_logs_are_json_without_what_was_sent(
    asked: tuple[Service, httpx.Client], caplog: pytest.LogCaptureFixture
) -> None:
    _, client = asked
    with caplog.at_level(logging.INFO, logger="indubio_server"):
        client.post("/assess", json={"rows": [row(heat="a secret recipe")]})
        deadline = time.monotonic() + 30  # a request is logged when its answer is out
        while not (found := [one for one in caplog.records if one.getMessage() == "request"]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    (record,) = found
    line = json.loads(JsonLines().format(record))
    assert {"status": 400, "route": "/assess", "by": "local", "method": "POST"}.items() <= line.items()
    assert "secret" not in JsonLines().format(record)
