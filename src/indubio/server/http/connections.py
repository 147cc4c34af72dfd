"""Connections: uvicorn's own, with limits on what one may send before it is a request."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from indubio.server.api.routes import WHOLE

LARGEST_HEAD = 32 * 2**10  # bytes of the request line and the headers
MOST_HEADERS = 100
HEAD_SECONDS = 15.0
LARGE = 64 * 2**10  # bytes that are written at once, so that a slow client is noticed


class Joining:
    """A connection that writes once in a turn of the event loop: uvicorn writes head and body of an answer apart.

    Each write is a system call, and wakes the client with half an answer.

    Args:
        transport: the connection itself, which does all else.
        loop: whose turns.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write at the end of this turn."""
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        if len(data) >= LARGE:
            self._flush()

    def write_whole(self, data: bytes) -> None:
        """Write an answer that is whole already."""
        if self._held:
            self._flush()
        self._transport.write(data)

    def close(self) -> None:
        """Write what is held, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits: uvicorn's own accepts headers of any size, at any pace."""

    _head = 0
    _count = 0
    _reading = False
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(transport)
        self.transport = Joining(transport, self.loop)  # type: ignore[assignment]

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head, self._count, self._reading = 0, 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._count += 1
        self._grow(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The headers are there."""
        self.head_is_there()
        super().on_headers_complete()

    def head_is_there(self) -> None:
        """What was waited for came."""
        self._reading = False
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def on_message_complete(self) -> None:
        """The body is there."""
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes came; a head that is not complete may not go on for ever."""
        super().data_received(data)
        if self._reading and not self.transport.is_closing():
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse(431)
            elif self._late is None:
                self._late = self.loop.call_later(HEAD_SECONDS, self._refuse, 408)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended."""
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused; what was refused already is not refused twice."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _grow(self, size: int) -> None:
        self._head += size
        if self._head > LARGEST_HEAD or self._count > MOST_HEADERS:
            self._refuse(431)
            raise ValueError("the head is too large")  # httptools stops parsing

    def _refuse(self, status: int) -> None:
        text = b"Request Header Fields Too Large" if status == 431 else b"Request Timeout"
        head = b"HTTP/1.1 %d %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % (status, text)
        if not self.transport.is_closing():
            self.transport.write(head)
            self.transport.close()
