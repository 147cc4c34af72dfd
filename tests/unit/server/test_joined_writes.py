"""Joined writes, over real sockets: what leaves together, and what the transport beneath still decides."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from indubio.server.http.joined_writes import MOST_JOINED, JoinedWrites

uvloop = pytest.importorskip("uvloop", reason="uvloop is not there on Windows")


class Counted:
    """A transport that notes what it is given to write."""

    def __init__(self, transport: Any) -> None:
        self.transport, self.written = transport, []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


class Flow(asyncio.Protocol):
    """Notes whether it was told to stop writing."""

    paused = False

    def pause_writing(self) -> None:
        self.paused = True


Work = Callable[[JoinedWrites, Counted, Flow], Awaitable[None]]


def received(work: Work) -> bytes:
    """What the other end gets, to the end of the connection; a fault in a callback of the loop fails the test."""

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        faults: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        near, far = socket.socketpair()
        far.setblocking(False)
        transport, flow = await loop.create_connection(Flow, sock=near)
        counted = Counted(transport)
        joined = JoinedWrites(counted, loop)  # type: ignore[arg-type]
        await work(joined, counted, flow)
        joined.close()
        content = b""
        while more := await loop.sock_recv(far, 2**20):
            content += more
        far.close()
        assert not faults
        return content

    plain, quick = asyncio.run(main()), uvloop.run(main())  # transports of two kinds
    assert plain[:MOST_JOINED] == quick[:MOST_JOINED]
    return plain


def test_what_is_written_in_one_turn_leaves_together() -> None:
    async def work(joined: JoinedWrites, counted: Counted, _: Flow) -> None:
        joined.write(b"head ")
        joined.write(b"body ")
        assert not counted.written
        await asyncio.sleep(0)
        assert counted.written == [b"head body "]
        joined.write(b"next")
        await asyncio.sleep(0)
        assert counted.written[1:] == [b"next"]

    assert received(work) == b"head body next"


def test_what_waits_is_sent_before_the_connection_closes() -> None:
    async def work(joined: JoinedWrites, counted: Counted, _: Flow) -> None:
        joined.write(b"the last answer")

    assert received(work) == b"the last answer"


def test_whoever_writes_too_much_is_stopped_in_the_same_turn() -> None:
    async def work(joined: JoinedWrites, counted: Counted, flow: Flow) -> None:
        for _ in range(100):
            joined.write(b"x" * (MOST_JOINED // 4))
            if flow.paused:
                break
        assert flow.paused

    assert set(received(work)) == {ord("x")}


@pytest.mark.parametrize("turns", [0, 3])
def test_nothing_is_sent_after_the_connection_was_given_up(turns: int) -> None:
    async def work(joined: JoinedWrites, counted: Counted, _: Flow) -> None:
        joined.write(b"for nobody")
        joined.abort()
        for _turn in range(turns):
            await asyncio.sleep(0)
        assert joined.is_closing()
        assert not counted.written

    assert received(work) == b""
