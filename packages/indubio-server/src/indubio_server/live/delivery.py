"""Empties the outbox: events go to the webhook or the broker, again and again until they are taken.

A webhook gets a POST with JSON, and

    Indubio-Event: id of the event, the same at every attempt
    Indubio-Time: seconds since 1970
    Indubio-Signature: v1=HMAC-SHA256(secret, time + "." + body), in hex

An answer of 2xx takes the event, whatever follows the status: it is not read. Anything else, and what has not come
within `timeout` from the beginning of the attempt, is tried again, later and later; after so many attempts it is dead.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import random
import time
from collections.abc import Callable
from datetime import timedelta

from indubio.errors import MissingExtraError
from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.publishing import DeliveryError, UnreachableError
from indubio_server.live.settings_of_live import Webhook
from indubio_server.live.workers import Worker
from indubio_server.store import Channel, OutboxEvent, ServerStore, delivered, due_events, failed, now

log = logging.getLogger("indubio_server.live")
LOOK_EVERY = 1.0  # seconds, where nobody says that there is something new
FIRST_WAIT = 1.0  # seconds
MOST_DOUBLED = 30  # times: a wait beyond is longer than any limit


def signature(secret: bytes, seconds: int, body: bytes) -> str:
    """What signs an event: over the time too, so that an old one cannot be sent again by others."""
    return "v1=" + hmac.new(secret, f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()


class WebhookPoster:
    """Posts events to a URL, each within one deadline for all of it; of the answer only the status is read.

    Args:
        webhook: where, and how long to wait for an answer.
    """

    def __init__(self, webhook: Webhook) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtraError('a webhook needs the live extra: pip install "indubio[live]".') from None
        self._url, self._secret, self._errors = webhook.url, webhook.secret(), (httpx.HTTPError, httpx.InvalidURL)
        self._timeout, self._runner = webhook.timeout, asyncio.Runner()
        self._client = httpx.AsyncClient(timeout=None)

    def send(self, one: OutboxEvent) -> None:
        """Post one event; raises DeliveryError where it is not taken."""
        seconds, body = int(time.time()), one.body.encode()
        headers = {
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "Indubio-Event": one.event,
            "Indubio-Time": str(seconds),
            "Indubio-Signature": signature(self._secret, seconds, body),
        }
        try:
            status = self._runner.run(self._status(body, headers))
        except TimeoutError:
            raise DeliveryError(f"no answer within {self._timeout:g} s") from None
        except self._errors as error:
            raise DeliveryError(f"{type(error).__name__}: {error}") from None
        if not 200 <= status < 300:
            raise DeliveryError(f"answered {status}")

    async def _status(self, body: bytes, headers: dict[str, str]) -> int:
        async with (
            asyncio.timeout(self._timeout),
            self._client.stream("POST", self._url, content=body, headers=headers) as answer,
        ):
            return int(answer.status_code)

    def close(self) -> None:
        """Close the connections to the receiver."""
        self._runner.run(self._client.aclose())
        self._runner.close()


class Delivery:
    """A thread that empties one channel of the outbox.

    Args:
        channel: which.
        model: whose events.
        send: takes one event; DeliveryError where it is not taken, UnreachableError where that says nothing of it.
        after: called when no event waits; DeliveryError where it is to be called again.
        store: has the outbox.
        metrics: to tell.
        attempts: after so many an event is dead.
        longest_wait: seconds between two attempts, at most.
        in_order: an event waits until those before it are taken or dead.
        within: seconds that one attempt may take.
    """

    def __init__(
        self,
        channel: Channel,
        model: str,
        send: Callable[[OutboxEvent], None],
        store: ServerStore,
        metrics: LiveMetrics,
        *,
        attempts: int,
        longest_wait: float,
        in_order: bool = False,
        after: Callable[[], None] | None = None,
        within: float = 10.0,
    ) -> None:
        self._channel, self._model, self._send, self._after = channel, model, send, after
        self._store, self._metrics = store, metrics
        self._attempts, self._longest_wait, self._in_order = attempts, longest_wait, in_order
        self._worker = Worker(channel, self._round, metrics, within=within + 30)
        self.wake, self.close = self._worker.wake, self._worker.close
        self._worker.start()

    def _round(self) -> float:
        """Try what is due; the seconds until the next look."""
        events = self._store.read(lambda c: due_events(c, self._channel, self._model))
        if not events and self._after is not None:
            with contextlib.suppress(DeliveryError):
                self._after()
        taken: list[OutboxEvent] = []
        try:
            for one in events:
                if self._worker.ended.is_set():
                    break
                self._worker.living()
                try:
                    self._send(one)
                except UnreachableError:
                    break
                except Exception as error:
                    if not isinstance(error, DeliveryError):  # a fault of ours: this event's attempts end, as any
                        self._metrics.faults.labels(self._channel).inc()
                        log.exception("a fault", extra={"part": self._channel})
                    if not self._not_taken(one, str(error)) and self._in_order:
                        break
                else:
                    taken.append(one)
        finally:
            if taken:
                self._store.write(lambda c: delivered(c, taken))
        return 0.0 if len(taken) == len(events) > 0 else LOOK_EVERY

    def _not_taken(self, one: OutboxEvent, error: str) -> bool:
        """Note a failed attempt; whether the event is dead now."""
        dead = one.attempts + 1 >= self._attempts
        wait = 0.0 if self._in_order else min(self._longest_wait, FIRST_WAIT * 2.0 ** min(one.attempts, MOST_DOUBLED))
        due = now() + timedelta(seconds=wait * random.uniform(0.8, 1.2))
        self._store.write(lambda c: failed(c, one, error, due, dead=dead))
        extra = {"channel": self._channel, "event": one.event, "error": error, "attempts": one.attempts + 1}
        log.log(logging.ERROR if dead else logging.WARNING, "an event was not taken", extra=extra | {"dead": dead})
        return dead
