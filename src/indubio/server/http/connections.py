"""Connections: uvicorn's own, with limits on what one may send before it is a request.

This is the one file that relies on how uvicorn works inside: `tests/unit/server/test_connections.py` holds what it
relies on, and pyproject.toml bounds the version.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from indubio.server.http.request_bodies import WHOLE

LARGEST_HEAD = 32 * 2**10  # bytes of the request line and the headers
MOST_HEADERS = 100
HEAD_SECONDS = 15.0


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits: uvicorn's own accepts headers of any size, at any pace."""

    _head = 0  # bytes of the present request's head
    _headers = 0
    _in_head = False
    _timer: asyncio.TimerHandle | None = None

    def on_message_begin(self) -> None:
        """The first byte of a request came."""
        self._head, self._headers, self._in_head = 0, 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Some more of the URL came."""
        self._head += len(url)
        if self._head > LARGEST_HEAD:
            self._refuse_head()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One more header is complete."""
        self._headers += 1
        self._head += len(name) + len(value)
        if self._head > LARGEST_HEAD or self._headers > MOST_HEADERS:
            self._refuse_head()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: its timer ends, and uvicorn starts the application."""
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is complete; the application has not run yet where head and body came together."""
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes came; a head that is not complete may neither grow nor take time without end."""
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse(431)
            elif self._timer is None:
                self._timer = self.loop.call_later(HEAD_SECONDS, self._refuse, 408)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended, and its timer with it."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, unless it was refused already."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _refuse_head(self) -> None:
        self._refuse(431)
        raise ValueError("the head is too large")  # httptools stops parsing

    def _refuse(self, status: int) -> None:
        text = b"Request Header Fields Too Large" if status == 431 else b"Request Timeout"
        head = b"HTTP/1.1 %d %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % (status, text)
        if not self.transport.is_closing():
            self.transport.write(head)
            self.transport.close()
