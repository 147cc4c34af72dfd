"""Connections: uvicorn's own, with limits on what one may send, how fast, and how long the server waits for it.

This is the one file that relies on how uvicorn works inside: `tests/unit/server/test_connections.py` holds what it
relies on, and pyproject.toml bounds the version.
"""

import asyncio
from enum import Enum
from http import HTTPStatus
from typing import Any, ClassVar

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from indubio_server.http.connection_table import Admission, ConnectionTable
from indubio_server.http.error_answers import RETRY_SOON, BusyError, error_answer
from indubio_server.http.request_bodies import BODY_SECONDS, WHOLE

LARGEST_HEAD = 32 * 2**10  # bytes of the request line and the headers; and of what frames a body in chunks
MOST_HEADERS = 100
MOST_PIPELINED = 32  # requests that wait on one connection for those before them
HEAD_SECONDS = 15.0  # from the connection, the last answer or the first byte on, a head must have come by then
REST_SECONDS = 5.0  # for the rest of a body that was answered already, or of an answer on a connection that gave way
UNREAD_SECONDS = 30.0  # in which a client must have read some of its answer
FRAMING = 8  # bytes that may frame each byte of a body in chunks; a chunk of one byte has 5
HEALTH_PATHS = ("/v2/health/live", "/v2/health/ready", "/health")  # the last is that of `indubio live`


class Phase(Enum):
    """Whose turn it is on a connection, and for what: with the seconds that the client has."""

    IDLE = "nothing is asked"
    HEAD = "a head comes"
    BODY = "a body comes"
    WORK = "the server works"
    REST = "what is left of a body comes after its answer"
    UNREAD = "the answer is not read"
    CLOSING = "it is closed, but not all of its answer is read"


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits: uvicorn's own accepts any number, headers of any size, at any pace."""

    table: ClassVar[ConnectionTable]
    _number = 0  # of the present request on this connection
    _head = 0  # bytes of the present request's head
    _headers = 0
    _hosts = 0
    _in_head = False
    _whole = True  # the present request's body is there
    _body = 0  # bytes of it
    _framing = 0  # bytes that came with it and belong to neither head nor body
    _since = 0.0  # when the present phase began, of the loop's clock
    _unread = 0  # bytes of the answer that wait for the client, when last looked at
    _gave_way = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let a new connection in, as far as there is room."""
        super().connection_made(transport)
        self._since = self.loop.time()
        match self.table.enter(self, self.client[0] if self.client else "", self.loop):
            case Admission.NOTHING:
                self._refuse(503)
            case Admission.HEALTH:
                self.app = _only_health(self.app)

    def on_message_begin(self) -> None:
        """The first byte of a request came."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self._stop_parsing(429)
        self._head = self._headers = self._hosts = self._body = self._framing = 0
        self._number += 1
        self._in_head, self._whole = True, False
        self._since = self.loop.time()
        self.table.asked(self)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Some more of the URL came."""
        self._head += len(url)
        if self._head > LARGEST_HEAD:
            self._stop_parsing(431)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One more header is complete; those after a body are counted and not believed."""
        self._headers += 1
        self._head += len(name) + len(value)
        if self._head > LARGEST_HEAD or self._headers > MOST_HEADERS:
            self._stop_parsing(431)
        if self._in_head:
            self._hosts += name.lower() == b"host"
            if self._hosts > 1:  # a proxy before the server may have believed the other one
                self._stop_parsing(400)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: uvicorn starts the application."""
        self._in_head = False
        self._since = self.loop.time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count the bytes of a body as they come."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is complete; the application has not run yet where head and body came together."""
        self._whole = True
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is given; the connection waits for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes came; neither a head nor what frames a body may grow without end."""
        in_body, body, number = not (self._in_head or self._whole), self._body, self._number
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse(431)
        elif in_body and not self._whole and number == self._number:
            self._framing += len(data) - (self._body - body)
            if self._framing > LARGEST_HEAD + FRAMING * self._body:
                self._refuse(400)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take a connection that has ended out of the table."""
        self.table.leave(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, unless it was refused already."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def waits_for_client(self) -> bool:
        """Whether it is the client's turn."""
        return self._phase() is not Phase.WORK

    def give_way(self) -> None:
        """End in favour of another connection; a request that has begun to come is told to come again."""
        phase = self._phase()
        if phase in (Phase.UNREAD, Phase.CLOSING):
            self.transport.abort()
        elif phase in (Phase.HEAD, Phase.BODY):
            self._refuse(503)
        else:
            self.transport.close()
        self._gave_way, self._since = True, self.loop.time()

    def end_if_late(self, now: float) -> None:
        """End the connection where the client has taken too long for what it is its turn to do."""
        phase, waited = self._phase(), now - self._since
        if self._gave_way:  # it counts no more: the rest of an answer must be read soon, or many would hold files
            if waited > REST_SECONDS:
                self.transport.abort()
            return
        if phase in (Phase.UNREAD, Phase.CLOSING):
            unread, self._unread = self._unread, self._unsent()
            if self._unread < unread or unread == 0:  # some of it was read, or this is the first look
                self._since = now
            elif waited > UNREAD_SECONDS:
                self.transport.abort()
            return
        self._unread = 0
        if (phase is Phase.HEAD and waited > HEAD_SECONDS) or (phase is Phase.BODY and waited > 2 * BODY_SECONDS):
            self._refuse(408)
        elif (phase is Phase.IDLE and waited > HEAD_SECONDS) or (phase is Phase.REST and waited > REST_SECONDS):
            self.transport.close()

    def _unsent(self) -> int:
        """Bytes of answers that wait for the client to read."""
        return self.transport.get_write_buffer_size()

    def _phase(self) -> Phase:
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.cycle is not None and not self.cycle.response_complete:
            if self.flow.write_paused:
                return Phase.UNREAD
            # A head that comes now is of the next request: the one before it is whole, and worked on.
            return Phase.WORK if self._whole or self._in_head or self.pipeline else Phase.BODY
        if self._in_head:
            return Phase.HEAD
        if self.cycle is not None and not self._whole:
            return Phase.REST
        return Phase.UNREAD if self.flow.write_paused else Phase.IDLE

    def _stop_parsing(self, status: int) -> None:
        self._refuse(status)
        raise ValueError(HTTPStatus(status).phrase)  # httptools stops

    def _refuse(self, status: int) -> None:
        """Answer what is no whole request, and end; where another answer is under way, only end."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not (cycle.response_started or self._in_head or self.pipeline):
            text = HTTPStatus(status).phrase.encode()
            again = b"retry-after: %d\r\n" % RETRY_SOON if status == 503 else b""
            head = b"HTTP/1.1 %d %s\r\n%scontent-length: 0\r\nconnection: close\r\n\r\n" % (status, text, again)
            self.transport.write(head)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # the application writes nothing after this
            cycle.message_event.set()
        self._since = self.loop.time()
        self.transport.close()


def limited(table: ConnectionTable) -> type[LimitedProtocol]:
    """The protocol of a server whose connections are in this table."""
    return type("LimitedProtocol", (LimitedProtocol,), {"table": table})


def _only_health(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in HEALTH_PATHS:
            refusal: Any = error_answer(BusyError("too many connections are being answered.", connection="close"))
            await refusal(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer
