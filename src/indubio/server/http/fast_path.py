"""The straight way: a small request for verdicts is answered by its connection, without an ASGI application's detours.

A task, an event, a router's search and two messages for every request take longer than all else that a request of one
row needs. What admits, reads, scores and answers is the same on both ways. A request that is unusual in any way
(chunked or large, with a cookie, behind an unfinished one, of HTTP/1.0) takes the long one.
"""

from typing import Any

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from indubio.server.api import routes as api
from indubio.server.http.answers import Answer
from indubio.server.http.connections import LimitedProtocol
from indubio.server.http.error_answers import RefusalError
from indubio.server.http.gate import COMMON_HEADERS, Guard, Way

LARGEST = HIGH_WATER_LIMIT  # bytes of a body; beyond them uvicorn stops reading until an application asks for more
CLOSE = b"connection: close\r\n"
_common: tuple[Any, bytes] = ([], b"")  # the headers of every answer, and uvicorn's (the date) that they were made with


class _Nothing:
    """What nobody waits for."""

    def set(self) -> None:
        """Nothing."""


class Exchange:
    """A request on the straight way, with what uvicorn's protocol knows of a request under way.

    Args:
        protocol: its connection.
        way: where it goes.
        sent: its headers.
    """

    message_event = _Nothing()
    disconnected = False

    def __init__(self, protocol: "StraightProtocol", way: Way, sent: dict[bytes, bytes]) -> None:
        self._protocol, self._way, self._sent = protocol, way, sent
        self.body = bytearray()
        self.more_body, self.response_complete = True, False
        self.keep_alive = protocol.parser.should_keep_alive()

    def begin(self) -> None:
        """The request is whole."""
        protocol = self._protocol
        protocol.guard.straight(protocol.scope, self._way, self._sent, bytes(self.body), self.answer)

    def give_up(self) -> None:
        """The body does not come."""
        self.keep_alive = False
        late = RefusalError(408, f"the body did not come within {api.BODY_SECONDS:g} seconds.")
        self._protocol.guard.refuse(self._protocol.scope, self._way, late, self.answer)

    def answer(self, answer: Answer) -> None:
        """The end."""
        protocol = self._protocol
        if self.response_complete or self.disconnected or protocol.transport.is_closing():
            return
        self.response_complete = True
        parts = [STATUS_LINE[answer.status], _headers(protocol.server_state.default_headers)]
        for name, value in answer.headers:
            parts += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            parts.append(CLOSE)
        parts += (b"content-length: %d\r\n\r\n" % len(answer.content), answer.content)
        protocol.transport.write_whole(b"".join(parts))  # type: ignore[attr-defined]
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


class StraightProtocol(LimitedProtocol):
    """HTTP/1.1 with the straight way for those who can take it."""

    cycle: Any
    scope: Any

    @property
    def guard(self) -> Guard:
        """The application."""
        assert isinstance(self.app, Guard)
        return self.app

    def on_headers_complete(self) -> None:
        """The headers are there: which way?"""
        way = self.app.ways.get(self.url) if isinstance(self.app, Guard) else None
        if way is None or (sent := self._straight()) is None:
            super().on_headers_complete()
            return
        self.head_is_there()
        self.scope["method"], self.scope["path"] = "POST", way.path
        self.cycle = Exchange(self, way, sent)

    def _straight(self) -> dict[bytes, bytes] | None:
        """The headers of a request that can go straight."""
        parser = self.parser
        usual = parser.get_method() == b"POST" and parser.get_http_version() == "1.1" and not parser.should_upgrade()
        busy = self.cycle is not None and not self.cycle.response_complete
        if not usual or busy or self.expect_100_continue or self.flow.write_paused:
            return None
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            return None
        sent = dict(self.headers)
        said = sent.get(b"content-length", b"")
        small = said.isdigit() and len(said) < 10 and int(said) <= LARGEST
        return sent if small and b"transfer-encoding" not in sent and b"cookie" not in sent else None

    def on_message_complete(self) -> None:
        """The body is there."""
        if type(self.cycle) is not Exchange:
            super().on_message_complete()
        elif self.cycle.more_body and not self.cycle.response_complete:
            self.cycle.more_body = False
            self.head_is_there()  # no timer runs any more
            self.cycle.begin()

    def data_received(self, data: bytes) -> None:
        """Bytes came; a body that is not complete may not go on for ever."""
        super().data_received(data)
        waits = type(self.cycle) is Exchange and self.cycle.more_body and not self.cycle.response_complete
        if waits and self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(api.BODY_SECONDS, self.cycle.give_up)


def _headers(default: list[tuple[bytes, bytes]]) -> bytes:
    global _common
    if _common[0] is not default:
        lines = [name + b": " + value + b"\r\n" for name, value in [*default, *COMMON_HEADERS]]
        _common = default, b"".join(lines)
    return _common[1]
