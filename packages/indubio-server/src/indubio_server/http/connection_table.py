"""`ConnectionTable`: who is connected, how many may be, and who gives way when it gets full.

A connection on which the server waits for the client (nothing asked, a head or body that is not there yet, an answer
that is not read) gives way to a new one, the one that asked least recently first. The latest few are spared, for their
request may be on its way; and an address can have others give way a few times a second only, for letting somebody in
costs more than refusing. Where nobody gives way, a few more are let in that get health checks answered and 503 for all
else: so a server under load still says that it lives, and whoever floods it from one address takes the places of that
address only.
"""

import asyncio
from collections.abc import Iterable
from enum import Enum
from itertools import islice
from typing import Protocol

from indubio_server.http.rate_limits import Buckets
from indubio_server.trusted_proxies import TrustedProxies, neighbourhood

RESERVED = 64  # connections beyond a limit, for health checks; and of those that wait, how many are spared at most
GIVE_WAY = 50.0, 200.0  # connections per second that give way to one address, and how many at once
SWEEP = 0.5  # seconds between looks at connections that wait too long


class Guest(Protocol):
    """A connection, as the table knows it."""

    def waits_for_client(self) -> bool:
        """Whether it is the client's turn: nothing is lost for the server if it ends."""

    def give_way(self) -> None:
        """End it, in favour of another."""

    def end_if_late(self, now: float) -> None:
        """End it where the client has taken too long."""


class Admission(Enum):
    """What a new connection may do."""

    ALL = "all"
    HEALTH = "health"
    NOTHING = "nothing"


class ConnectionTable:
    """The connections of one server.

    Args:
        most: connections there may be.
        per_address: of one address (of IPv6, one /64); trusted proxies may have any number.
        proxies: those that are trusted.
    """

    def __init__(self, *, most: int, per_address: int, proxies: TrustedProxies) -> None:
        self.most, self._per_address, self._proxies = most, per_address, proxies
        self._guests: dict[str, dict[Guest, None]] = {}  # by address; who asked least recently is first
        self._count = 0
        self._open: dict[Guest, str] = {}  # with those that are still closing
        self._sweeping = False
        self._giving_way = Buckets(*GIVE_WAY)

    def enter(self, guest: Guest, peer: str, loop: asyncio.AbstractEventLoop) -> Admission:
        """Count a new connection; others give way to it where a limit is reached."""
        address = neighbourhood(peer)
        own = self._guests.get(address, {})
        limit = self.most if self._proxies.trusts(peer) else self._per_address
        if max(len(own) - limit, self._count - self.most) >= 0 and not self._giving_way.wait(address):
            if len(own) >= limit:
                self._make_room([own], len(own), limit)
            else:
                self._make_room(self._heaviest_first(), self._count, self.most)
        beyond = max(len(own) - limit, self._count - self.most)
        self._open[guest] = address
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(SWEEP, self._sweep, loop)
        if beyond >= RESERVED:
            return Admission.NOTHING
        self._guests.setdefault(address, own)[guest] = None  # it may be new, or room was made by removing it
        self._count += 1
        return Admission.ALL if beyond < 0 else Admission.HEALTH

    def asked(self, guest: Guest) -> None:
        """A connection began a request: it is the last of its address to give way now."""
        own = self._guests.get(self._open.get(guest, ""), {})
        if guest in own:
            del own[guest]
            own[guest] = None

    def leave(self, guest: Guest) -> None:
        """Forget a connection that has ended."""
        self._uncount(guest)
        self._open.pop(guest, None)

    def _uncount(self, guest: Guest) -> None:
        address = self._open.get(guest, "")
        own = self._guests.get(address, {})
        if guest in own:
            del own[guest]
            self._count -= 1
            if not own:
                del self._guests[address]

    def _heaviest_first(self) -> list[dict[Guest, None]]:
        """The connections of each address: those of trusted proxies last, and of whoever has most first."""
        known = sorted(self._guests.items(), key=lambda one: (self._proxies.trusts(one[0]), -len(one[1])))
        return [own for _, own in known]

    def _make_room(self, places: Iterable[dict[Guest, None]], count: int, limit: int) -> None:
        """End connections that wait for their client until one more fits; the latest of them are spared if possible."""
        spared = 0 if count >= limit + RESERVED else min(RESERVED, limit // 2)
        too_many = count - limit + 1
        waiting = (guest for own in places for guest in own if guest.waits_for_client())
        first = list(islice(waiting, spared + too_many))
        for guest in first[: max(0, len(first) - spared)]:
            self._uncount(guest)
            guest.give_way()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for guest in list(self._open):
            guest.end_if_late(now)
        self._sweeping = bool(self._open)
        if self._sweeping:
            loop.call_later(SWEEP, self._sweep, loop)
