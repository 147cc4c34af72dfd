"""Downloads: made while they are sent, a block at a time, and few at once for each person."""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from indubio.texts import english
from indubio_server.http import RefusalError

MOST, MOST_EACH = 8, 2  # downloads at once: of all, and of one person
AGAIN = 10  # seconds


class Downloads:
    """Counts the downloads that are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: Counter[str] = Counter()

    def begin(self, name: str) -> Callable[[], None]:
        """Count one more of somebody; what ends it. Refused with 429 where there are too many."""
        with self._lock:
            if self._of[name] >= MOST_EACH or self._of.total() >= MOST:
                raise RefusalError(
                    429, english("too many downloads are under way: wait until one ends."), retry_after=str(AGAIN)
                )
            self._of[name] += 1

        def end() -> None:
            with self._lock:
                self._of[name] -= 1

        return end


class Download(StreamingResponse):
    """A file that is made while it is sent.

    Args:
        blocks: its content; each is made in a thread, when the one before is sent.
        name: of the file.
        kind: its content type.
        threads: those that may be used.
        ended: called when it is sent, or nobody is there any more.
    """

    def __init__(
        self, blocks: Iterator[str], name: str, kind: str, threads: CapacityLimiter, ended: Callable[[], None]
    ) -> None:
        self._ended = ended
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        super().__init__(_made(blocks, threads), media_type=kind, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def _made(blocks: Iterator[str], threads: CapacityLimiter) -> AsyncIterator[str]:
    while (block := await anyio.to_thread.run_sync(next, blocks, None, limiter=threads)) is not None:
        yield block
