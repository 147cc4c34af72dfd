"""Connections with TLS: they count from the moment they open, as those without it do.

uvicorn has the event loop do the handshake before it tells anybody of a connection: sockets that never finish theirs
would be counted nowhere, and take all the files of the process. Here the server listens for plain connections, lets
them in by the table of all connections, and then puts the loop's own layer for TLS between connection and protocol.
A handshake is a part of waiting for the first request: it gives way and it ends late as any idle connection does.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from indubio_server.http.connections import LimitedProtocol

UNLIMITED = 86400.0  # seconds; the sweep of the table ends handshakes and goodbyes, by the limits of this server


class TlsProtocol(LimitedProtocol):
    """HTTP/1.1 over TLS, with limits."""

    context: ClassVar[ssl.SSLContext]
    _plain: asyncio.Transport  # the connection itself; `transport` is the same until the handshake is done

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let a new connection in, and begin its handshake; called again by the layer of TLS when that is done."""
        if transport.get_extra_info("sslcontext") is not None:
            HttpToolsProtocol.connection_made(self, transport)  # it is in the table already
            return
        self._plain = transport
        super().connection_made(transport)
        if not transport.is_closing():
            done = self.loop.create_future()
            done.add_done_callback(self._handshake_done)
            times = {"ssl_handshake_timeout": UNLIMITED, "ssl_shutdown_timeout": UNLIMITED}
            layer = _layer_of(self.loop)(self.loop, self, self.context, done, server_side=True, **times)
            transport.set_protocol(layer)
            layer.connection_made(transport)

    def give_way(self) -> None:
        """End in favour of another connection."""
        super().give_way()
        self._end_if_sent()

    def end_if_late(self, now: float) -> None:
        """End the connection where the client has taken too long for what it is its turn to do."""
        super().end_if_late(now)
        self._end_if_sent()

    def _handshake_done(self, done: "asyncio.Future[None]") -> None:
        """Leave where the handshake failed or the connection ended before: the layer tells the protocol nothing then.

        Whatever the reason (no TLS, another version, a port scanner), it is no fault of the server.
        """
        if not done.cancelled() and (done.exception() is not None or self.transport is self._plain):
            self.connection_lost(None)

    def _end_if_sent(self) -> None:
        """End a closed connection once all is sent: a client that never says goodbye would hold it, counted nowhere."""
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self._plain.close()

    def _unsent(self) -> int:
        return super()._unsent() + self._plain.get_write_buffer_size()

    def _refuse(self, status: int) -> None:
        if self.transport is self._plain:  # before the handshake nothing can be said
            self._plain.abort()
        else:
            super()._refuse(status)


def with_tls(plain: type[LimitedProtocol], context: ssl.SSLContext) -> type[TlsProtocol]:
    """The protocol of a server with this certificate, whose connections are in the table of another."""
    return type("TlsProtocol", (TlsProtocol,), {"table": plain.table, "context": context})


def _layer_of(loop: asyncio.AbstractEventLoop) -> Any:
    """The layer that the loop itself uses: uvloop has a faster one of its own, made and used in the same way."""
    if type(loop).__module__.partition(".")[0] == "uvloop":
        import uvloop.loop

        return getattr(uvloop.loop, "SSLProtocol", SSLProtocol)
    return SSLProtocol
