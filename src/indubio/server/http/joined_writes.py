"""`JoinedWrites`: the head and the body of an answer leave together.

uvicorn writes them one after the other, and uvloop gives each write to the system at once: a second call of the system
costs as much as making the answer's JSON, and the client wakes up for half an answer.
"""

import asyncio
from typing import Any

MOST_JOINED = 64 * 2**10  # bytes; beyond them the transport has to know, for it stops whoever writes too much


class JoinedWrites:
    """A transport that sends what was written to it once the present turn of the event loop is over.

    Args:
        transport: that sends; for all else it is asked itself.
        loop: that it belongs to.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._waiting: list[bytes] = []
        self._size = 0
        self.is_closing = transport.is_closing  # asked for every request

    def write(self, data: bytes) -> None:
        """Send some bytes with those that follow in this turn."""
        self._waiting.append(data)
        self._size += len(data)
        if self._size > MOST_JOINED:
            self._send()
        elif len(self._waiting) == 1:
            self._loop.call_soon(self._send)

    def close(self) -> None:
        """Send what waits, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
