"""The gate that every request passes: who is asking, how often, from where; and what every answer carries.

Without a key in the store only this machine may ask, as the admin "local", and only under a loopback name: a page on
the web could otherwise reach the server through the browser of whoever sits at the machine. With keys, everything but
the health checks needs one, as `Authorization: Bearer KEY`, `X-API-Key: KEY`, or a session's cookie.
"""

import asyncio
import ipaddress
import logging
import math
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import anyio.to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indubio.server.http.answers import Answer
from indubio.server.http.error_answers import RefusalError, answer_to, problem
from indubio.server.http.metrics import Metrics
from indubio.server.store import Store
from indubio.server.store.keys import Key, Role, hashed, keys_in_use, session_key

log = logging.getLogger("indubio.server")
COOKIE = "indubio_session"
OPEN_PATHS = {"/v2", "/v2/health/live", "/v2/health/ready", "/login", "/"}
OPEN_FOLDERS = "/static/", "/review"  # the pages send whoever has not logged in to /login
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
FAILURES = 1.0, 20.0  # wrong keys per second and address, and how many at once
MOST_BUCKETS = 10_000
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
]
NO_STORE = (b"cache-control", b"no-store")
COMMON_HEADERS = [*SECURITY_HEADERS, NO_STORE]


@dataclass(frozen=True)
class Actor:
    """Who is asking."""

    name: str
    role: Role


LOCAL = Actor("local", Role.ADMIN)


@dataclass(frozen=True)
class Way:
    """Where a request on the straight way goes.

    Args:
        path: of the route, as metrics and logs name it.
        begin: gives what waits for the model, and what makes an answer of it.
    """

    path: str
    begin: Callable[[Actor, dict[bytes, bytes], bytes], "tuple[asyncio.Future[Any], Callable[[Any], Answer]]"]


def require(actor: Actor | None, role: Role) -> Actor:
    """The actor, if the role is enough."""
    if actor is None:
        raise RefusalError(401, "this needs a key: Authorization: Bearer KEY.", www_authenticate="Bearer")
    if not actor.role.may(role):
        raise RefusalError(403, f"this needs a key with the role {role}, and {actor.name!r} has {actor.role}.")
    return actor


class Buckets:
    """Token buckets, one per name.

    Args:
        rate: tokens per second.
        burst: tokens that a bucket holds.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, max(1.0, burst)
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, name: str, *, take: bool = True) -> float:
        """Seconds until there is a token; 0 where there is one, which is taken."""
        at = time.monotonic()
        tokens, last = self._buckets.pop(name, (self._burst, at))
        tokens = min(self._burst, tokens + (at - last) * self._rate)
        enough = tokens >= 1
        self._buckets[name] = (tokens - (enough and take), at)
        if len(self._buckets) > MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if enough else (1 - tokens) / self._rate


class Guard:
    """The gate.

    Args:
        app: what comes behind it.
        store: knows keys and sessions.
        metrics: to count in.
        rate: requests per second and key; None for no limit.
        access_log: log every request.
        state: put into every request as `request.app`.
        ways: of requests that go straight, by their URL.
    """

    def __init__(
        self,
        app: ASGIApp,
        store: Store,
        metrics: Metrics,
        *,
        rate: float | None,
        access_log: bool,
        state: Any,
        ways: Mapping[bytes, Way],
    ) -> None:
        self.ways = ways
        self._app, self._store, self._metrics, self._state = app, store, metrics, state
        self._access_log = access_log
        self._keys: dict[str, Key] = store.read(keys_in_use)
        self._rates = None if rate is None else Buckets(rate, rate)
        self._failures = Buckets(*FAILURES)

    def refresh(self) -> None:
        """Read the keys again; new ones open, and revoked ones close, within moments."""
        self._keys = self._store.read(keys_in_use)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        scope["app"] = self._state
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message)
            await send(message)

        try:
            headers = {name: value for name, value in scope["headers"] if name in _READ}
            self._admit(scope, headers, await self._session(headers))
            await self._app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - whatever it is, no trace of it gets out
            await _refusal(error, scope["path"])(scope, receive, sending)
        self._told(scope, status, began)

    def straight(
        self, scope: Scope, way: Way, headers: dict[bytes, bytes], body: bytes, reply: Callable[[Answer], None]
    ) -> None:
        """The same for a request that came whole: `reply` gets the answer, sooner or later."""
        began = time.perf_counter()

        def finish(done: "asyncio.Future[Any]") -> None:
            try:
                answer = render(done.result())
            except Exception as error:  # noqa: BLE001 - as above
                answer = _refusal(error, way.path)
            self._told(scope, answer.status, began)
            reply(answer)

        try:
            scope["route"] = way
            actor = require(self._admit(scope, headers), Role.SCORER)
            waiting, render = way.begin(actor, headers, body)
        except Exception as error:  # noqa: BLE001 - as above
            self.refuse(scope, way, error, reply, began)
        else:
            waiting.add_done_callback(finish)

    def refuse(
        self, scope: Scope, way: Way, error: Exception, reply: Callable[[Answer], None], began: float | None = None
    ) -> None:
        """Answer a request that is not even begun."""
        scope["route"] = way
        answer = _refusal(error, way.path)
        self._told(scope, answer.status, time.perf_counter() if began is None else began)
        reply(answer)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes], session: Key | None = None) -> Actor | None:
        actor = self._actor(scope, headers, session)
        scope.setdefault("state", {})["actor"] = actor
        if actor is None and scope["path"] not in OPEN_PATHS and not scope["path"].startswith(OPEN_FOLDERS):
            require(actor, Role.SCORER)
        if self._rates is not None:
            name = _address(scope) if actor is None or actor is LOCAL else actor.name
            if wait := self._rates.wait(name):
                raise RefusalError(429, "too many requests.", retry_after=str(math.ceil(wait)))
        return actor

    async def _session(self, headers: dict[bytes, bytes]) -> Key | None:
        cookie = _cookie(headers[b"cookie"]) if b"cookie" in headers and _secret(headers) is None else None
        if cookie is None:
            return None
        return await anyio.to_thread.run_sync(self._store.read, lambda c: session_key(c, cookie))

    def _actor(self, scope: Scope, headers: dict[bytes, bytes], session: Key | None) -> Actor | None:
        secret = _secret(headers)
        if secret is not None:
            return self._key_actor(scope, secret)
        if session is not None:
            _require_same_origin(scope, headers)
            return Actor(session.name, session.role)
        if self._keys:
            return None
        if not is_loopback(_address(scope)) or not is_loopback(_host(headers)):
            raise RefusalError(403, "without keys only this machine may ask: indubio keys add NAME --role ROLE.")
        _require_same_origin(scope, headers)
        return LOCAL

    def _key_actor(self, scope: Scope, secret: str) -> Actor:
        address = _address(scope)
        if wait := self._failures.wait(address, take=False):
            raise RefusalError(429, "too many wrong keys.", retry_after=str(math.ceil(wait)))
        key = self._keys.get(hashed(secret))
        if key is None:
            self._failures.wait(address)
            raise RefusalError(401, "there is no such key.", www_authenticate="Bearer")
        return Actor(key.name, key.role)

    def _told(self, scope: Scope, status: int, began: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.answered(route, status, began)
        if self._access_log or status >= 400:
            actor = scope["state"].get("actor") if "state" in scope else None
            log.log(
                logging.WARNING if status >= 500 else logging.INFO,
                "request",
                extra={
                    "method": scope["method"],
                    "route": route,
                    "status": status,
                    "milliseconds": round(1000 * (time.perf_counter() - began), 2),
                    "by": None if actor is None else actor.name,
                },
            )


def _refusal(error: Exception, path: str) -> Answer:
    answer = answer_to(error)
    if answer is None:
        log.error("a fault of the server", exc_info=error, extra={"path": path})
        answer = problem(500, "a fault of the server; it is in its log.")
    return answer


_READ = {b"authorization", b"x-api-key", b"cookie", b"host", b"origin"}


def _add_headers(message: MutableMapping[str, Any]) -> None:
    headers = message["headers"] = list(message["headers"])
    headers.extend(SECURITY_HEADERS)
    if not any(name == b"cache-control" for name, _ in headers):
        headers.append(NO_STORE)


def _secret(headers: dict[bytes, bytes]) -> str | None:
    bearer = headers.get(b"authorization")
    if bearer is not None:
        scheme, _, secret = bearer.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            raise RefusalError(401, "keys are sent as Authorization: Bearer KEY.", www_authenticate="Bearer")
        return secret.strip()
    key = headers.get(b"x-api-key")
    return None if key is None else key.decode("latin-1")


def _cookie(header: bytes) -> str | None:
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            return value
    return None


def _require_same_origin(scope: Scope, headers: dict[bytes, bytes]) -> None:
    """A browser says which page a request comes from: another site's page must not act for whoever is logged in."""
    origin = headers.get(b"origin")
    if scope["method"] in UNSAFE and origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
        raise RefusalError(403, "a page of another site may not ask for this.")


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _host(headers: dict[bytes, bytes]) -> str:
    host = headers.get(b"host", b"").decode("latin-1")
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
