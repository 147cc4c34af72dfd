"""The gate that every request passes: it checks the key, the rate and the origin, and adds headers to every answer.

Everything but the health checks needs a key, as `Authorization: Bearer KEY`, `X-API-Key: KEY`, or a session's cookie.
A server that is open answers this machine without one, as the admin "local", while there is no key: only under a
loopback name, for a page on the web could otherwise reach it through the browser of whoever sits at the machine; and
nothing that came through a proxy, for its clients are anybody.
"""

import ipaddress
import logging
import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import anyio.to_thread
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indubio.texts import english
from indubio_server.http.answers import Answer
from indubio_server.http.connections import HEALTH_PATHS
from indubio_server.http.error_answers import BusyError, RefusalError, error_answer, refusal_of
from indubio_server.http.metrics import Metrics
from indubio_server.http.rate_limits import Buckets
from indubio_server.http.request_bodies import RequestHeaders
from indubio_server.server_settings import ServerSettings
from indubio_server.store import ApiKey, Role, ServerStore, SessionOwner, hashed, keys_in_use, session_owner
from indubio_server.trusted_proxies import PROXIED, TrustedProxies, came_through_proxy, neighbourhood, peer

log = logging.getLogger("indubio_server")
COOKIE = "indubio_session"
PROVIDER, CALLBACK = "/login/oidc", "/login/callback"  # to the provider that people log in with, and back
METRICS_PATH = "/metrics"
OPEN_PATHS = {"/v2", *HEALTH_PATHS, "/login", PROVIDER, CALLBACK, "/"}
OPEN_FOLDERS = "/static/", "/review"  # the pages send whoever has not logged in to /login
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
FAILURES = 1.0, 20.0  # wrong keys per second and address, and how many at once
ALL_FAILURES = 20.0, 200.0  # the same of all addresses together
WENT_AWAY = 499  # counted for a client that did not wait for its answer
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; "  # the pixels of a case that is an image are within its figure
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
]
NO_STORE = (b"cache-control", b"no-store")
COMMON_HEADERS = [*SECURITY_HEADERS, NO_STORE]


@dataclass(frozen=True)
class Actor:
    """Who sent a request.

    Args:
        name: of the key or the person, as the audit trail has it.
        role: what they may do.
        sites: whose machines it is for; None for all.
    """

    name: str
    role: Role
    sites: frozenset[str] | None = None

    @property
    def everywhere(self) -> bool:
        """Whether all sites are open, and with them what is for all: models, metrics, machines of no site."""
        return self.sites is None


LOCAL = Actor("local", Role.ADMIN)


def require(actor: Actor | None, role: Role, *, everywhere: bool = False) -> Actor:
    """Refuse an actor whose role is not enough; returns the others.

    Args:
        actor: who asks.
        role: what is needed.
        everywhere: refuse those who are for some sites only, too.
    """
    if actor is None:
        raise RefusalError(401, "this needs a key: Authorization: Bearer KEY.", www_authenticate="Bearer")
    if not actor.role.may(role):
        raise RefusalError(403, f"this needs a key with the role {role}, and {actor.name!r} has {actor.role}.")
    if everywhere:
        require_everywhere(actor)
    return actor


def require_everywhere(actor: Actor) -> None:
    """Refuse an actor who is for some sites only: this concerns all of them."""
    if actor.sites is not None:
        sites = ", ".join(sorted(actor.sites))
        raise RefusalError(
            403, english("this is for all sites, and {name!r} is for {sites} only.", name=actor.name, sites=sites)
        )


class WrongKeys:
    """Slows down whoever sends wrong keys; a right one is looked up first, and never comes here."""

    def __init__(self) -> None:
        self._of_address, self._of_all = Buckets(*FAILURES), Buckets(*ALL_FAILURES)

    def refuse(self, address: str) -> None:
        """Count a wrong key; refuse it with 429 where this address, or all together, sent too many."""
        if wait := self._of_address.wait(neighbourhood(address)) or self._of_all.wait(""):
            raise RefusalError(429, english("too many wrong keys."), retry_after=str(math.ceil(wait)))


class Gate:
    """The ASGI application that every request passes first.

    Args:
        app: the routes behind it.
        store: knows keys and sessions.
        metrics: counts requests.
        settings: rates, proxies, and whether every request is logged.
        provider: the rules for people who log in without a key; None where nobody does.
    """

    def __init__(
        self,
        app: ASGIApp,
        store: ServerStore,
        metrics: Metrics,
        settings: ServerSettings,
        *,
        provider: str | None = None,
    ) -> None:
        self._app, self._store, self._metrics, self._settings = app, store, metrics, settings
        self._provider = provider
        self._keys: Mapping[str, ApiKey] = store.look_up(keys_in_use)
        self._rates = None if settings.rate is None else Buckets(settings.rate, settings.rate)
        self._wrong_keys = WrongKeys()
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._under_way: Counter[str] = Counter()  # requests through proxies, by the address of their client

    def refresh(self) -> None:
        """Read the keys again: new ones open and revoked ones close within moments."""
        self._keys = self._store.look_up(keys_in_use)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass or refuse it; count it, and log it where that is asked for."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        scope["app"] = self  # Starlette's routes raise their 404 and 405 then, and `_refusal` answers them
        status = 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status, headers = message["status"], message["headers"]
                added = SECURITY_HEADERS if b"cache-control" in dict(headers) else COMMON_HEADERS
                message["headers"] = [*headers, *added]
            await send(message)

        self._proxies.unwrap(scope)
        proxied = neighbourhood(peer(scope)) if PROXIED in scope and scope["path"] not in HEALTH_PATHS else None
        try:
            if proxied is not None:
                self._under_way[proxied] += 1
                if self._under_way[proxied] > self._settings.connections_per_address:
                    raise BusyError("too many requests of this address are under way.")
            headers = dict(scope["headers"])
            session = await self._session(headers) if b"cookie" in headers else None
            self._admit(scope, headers, session)
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:  # nobody's fault, and nobody is there to be told
            status = WENT_AWAY
        except Exception as error:  # noqa: BLE001 - whatever it is, no trace of it gets out
            await _refusal(error, scope["path"])(scope, receive, send_with_headers)
        finally:
            if proxied is not None:
                self._under_way[proxied] -= 1
                if not self._under_way[proxied]:
                    del self._under_way[proxied]
        self._count(scope, status, began)

    def _admit(self, scope: Scope, headers: RequestHeaders, session: SessionOwner | None) -> None:
        """Find out who asks, and refuse those who may not or ask too often. What was read is kept in the scope."""
        path, address = scope["path"], peer(scope)
        if "\0" in path or b"%00" in scope["query_string"]:  # databases stumble over it
            raise RefusalError(400, "an address must not have the character NUL in it.")
        scope["state"] |= {"headers": headers, "refuse_wrong_key": partial(self._wrong_keys.refuse, address)}
        actor = scope["state"]["actor"] = self._actor(scope, headers, session)
        if actor is None and path not in OPEN_PATHS and not path.startswith(OPEN_FOLDERS):
            require(actor, Role.SCORER)
        if actor is not None and actor.role is Role.METRICS and path != METRICS_PATH and path not in OPEN_PATHS:
            raise RefusalError(403, f"{actor.name!r} may read {METRICS_PATH} only.")
        if self._rates is not None:
            name = neighbourhood(address) if actor is None or actor is LOCAL else actor.name
            if wait := self._rates.wait(name):
                raise RefusalError(429, "too many requests.", retry_after=str(math.ceil(wait)))

    async def _session(self, headers: RequestHeaders) -> SessionOwner | None:
        """The owner of a browser's session, where no key was sent."""
        cookie = cookie_value(headers, COOKIE) if _secret(headers) is None else None
        if cookie is None:
            return None
        provider = self._provider
        return await anyio.to_thread.run_sync(
            self._store.look_up, lambda c: session_owner(c, cookie, provider=provider)
        )

    def _actor(self, scope: Scope, headers: RequestHeaders, session: SessionOwner | None) -> Actor | None:
        secret = _secret(headers)
        if secret is not None:
            return self._key_actor(scope, secret)
        if session is None:
            if self._keys or self._provider is not None or not self._settings.open:
                return None
            local = is_loopback(peer(scope)) and not came_through_proxy(scope, headers)
            if not local or not is_local_name(headers.get(b"host", b"")):
                raise RefusalError(403, "without keys only this machine may ask: indubio keys add NAME --role ROLE.")
        # A browser says which page a request comes from: another site's page must not act for whoever is logged in.
        origin = headers.get(b"origin")
        if origin is not None and scope["method"] in UNSAFE and origin.partition(b"://")[2] != headers.get(b"host"):
            raise RefusalError(403, "a page of another site may not ask for this.")
        return LOCAL if session is None else Actor(session.name, session.role, session.sites)

    def _key_actor(self, scope: Scope, secret: str) -> Actor:
        key = self._keys.get(hashed(secret))
        if key is None:
            self._wrong_keys.refuse(peer(scope))
            raise RefusalError(401, "there is no such key.", www_authenticate="Bearer")
        return Actor(key.name, key.role, key.sites)

    def _count(self, scope: Scope, status: int, began: float) -> None:
        route = scope["route"].path if "route" in scope else "none"
        self._metrics.answered(route, status, began)
        if self._settings.access_log or status >= 400:
            actor = scope["state"].get("actor")
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
    refusal = refusal_of(error)
    if refusal is None:
        log.error("a fault of the server", exc_info=error, extra={"path": path})
        refusal = RefusalError(500, "a fault of the server; it is in its log.")
    return error_answer(refusal)


def _secret(headers: RequestHeaders) -> str | None:
    bearer = headers.get(b"authorization")
    if bearer is not None:
        scheme, _, secret = bearer.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            raise RefusalError(401, "keys are sent as Authorization: Bearer KEY.", www_authenticate="Bearer")
        return secret.strip()
    key = headers.get(b"x-api-key")
    return None if key is None else key.decode("latin-1")


def cookie_value(headers: RequestHeaders, wanted: str) -> str | None:
    """The value of a cookie; the standard library's reader takes time that grows with the square of the length."""
    for pair in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted and value:
            return value
    return None


@lru_cache(maxsize=1024)
def is_local_name(host: bytes) -> bool:
    """Whether a Host header is a name or an address of this machine."""
    name = host.decode("latin-1")
    return is_loopback(name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0])


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
