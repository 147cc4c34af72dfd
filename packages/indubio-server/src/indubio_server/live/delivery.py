"""Empties the outbox: events go to the webhook or the broker, again and again until they are taken.

A webhook gets a POST with JSON, and

    Indubio-Event: id of the event, the same at every attempt
    Indubio-Time: seconds since 1970
    Indubio-Signature: v1=HMAC-SHA256(secret, time + "." + body), in hex

An answer of 2xx takes the event. Anything else is tried again, later and later; after so many attempts it is dead.
"""

import contextlib
import hashlib
import hmac
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from paho.mqtt.client import MQTTMessageInfo

from indubio.errors import MissingExtraError, StoreError
from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.live_settings import OutTopics, Webhook
from indubio_server.live.subscription import Subscription
from indubio_server.store import ServerStore
from indubio_server.store.clock import now
from indubio_server.store.live_machines import last_alarms
from indubio_server.store.outbox import Channel, OutboxEvent, count_outbox, delivered, due_events, failed

log = logging.getLogger("indubio_server.live")
LOOK_EVERY = 1.0  # seconds, where nobody says that there is something new
CONFIRMED_WITHIN = 5.0  # seconds for the broker to take a message
FIRST_WAIT = 1.0  # seconds


class DeliveryError(Exception):
    """The receiver did not take an event."""


def signature(secret: bytes, seconds: int, body: bytes) -> str:
    """What signs an event: over the time too, so that an old one cannot be sent again by others."""
    return "v1=" + hmac.new(secret, f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()


class WebhookPoster:
    """Posts events to a URL.

    Args:
        webhook: where, and how long to wait for an answer.
    """

    def __init__(self, webhook: Webhook) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtraError('a webhook needs the live extra: pip install "indubio[live]".') from None
        self._url, self._secret, self._errors = webhook.url, webhook.secret(), httpx.HTTPError
        self._client = httpx.Client(timeout=webhook.timeout)

    def send(self, one: OutboxEvent) -> None:
        """Post one event; raises DeliveryError where it is not taken."""
        seconds, body = int(time.time()), one.body.encode()
        headers = {
            "Content-Type": "application/json",
            "Indubio-Event": one.event,
            "Indubio-Time": str(seconds),
            "Indubio-Signature": signature(self._secret, seconds, body),
        }
        try:
            answer = self._client.post(self._url, content=body, headers=headers)
        except self._errors as error:
            raise DeliveryError(f"{type(error).__name__}: {error}") from None
        if not answer.is_success:
            raise DeliveryError(f"answered {answer.status_code}")

    def close(self) -> None:
        """Close the connections to the receiver."""
        self._client.close()


class AlarmPublisher:
    """Publishes alarms as the retained state of their machine.

    A broker that was killed may have forgotten states that it confirmed, though it still knows our session. So all of
    them are published again whenever we are connected anew, by the last events that the store has.

    Args:
        topics: where.
        model: name of the model.
        broker: the connection.
        store: has the last event of every machine's alarm.
    """

    def __init__(self, topics: OutTopics, model: str, broker: Subscription, store: ServerStore) -> None:
        self._topics, self._model, self._broker, self._store = topics, model, broker, store
        self._published_on = 0  # number of the connection

    def send(self, one: OutboxEvent) -> None:
        """Publish one event; raises DeliveryError where the broker does not confirm it."""
        self._confirmed([self._publish(one.machine, one.body)])

    def after(self) -> None:
        """When no event waits: publish all states, if we are connected anew; DeliveryError as in `send`."""
        connection = self._broker.connection
        if connection == self._published_on:
            return
        known = self._store.read(lambda c: last_alarms(c, self._model))
        self._confirmed([self._publish(machine, body) for machine, body in known.items()])
        self._published_on = connection

    def _publish(self, machine: str, body: str) -> MQTTMessageInfo:
        return self._broker.publish(topic_of(self._topics.alarms, machine, self._model), body.encode(), retain=True)

    def _confirmed(self, published: Sequence[MQTTMessageInfo]) -> None:
        until = time.monotonic() + CONFIRMED_WITHIN
        for info in published:
            try:
                info.wait_for_publish(max(0.0, until - time.monotonic()))
            except (RuntimeError, ValueError) as error:
                raise DeliveryError(str(error)) from None
            if not info.is_published():
                raise DeliveryError("the broker does not confirm it")


def topic_of(template: str, machine: str, model: str) -> str:
    """A topic with the names put in; a name cannot add levels or wildcards."""
    plain = str.maketrans("/+#", "___")
    return template.replace("{machine}", machine.translate(plain)).replace("{model}", model.translate(plain))


class Delivery:
    """A thread that empties one channel of the outbox.

    Args:
        channel: which.
        model: whose events.
        send: takes one event; DeliveryError where it is not taken.
        after: called when no event waits; DeliveryError where it is to be called again.
        store: has the outbox.
        metrics: to tell.
        attempts: after so many an event is dead; None never gives up, and keeps to the order.
        longest_wait: seconds between two attempts, at most.
    """

    def __init__(
        self,
        channel: Channel,
        model: str,
        send: Callable[[OutboxEvent], None],
        store: ServerStore,
        metrics: LiveMetrics,
        *,
        attempts: int | None,
        longest_wait: float,
        after: Callable[[], None] | None = None,
    ) -> None:
        self._channel, self._model, self._send, self._after = channel, model, send, after
        self._store, self._metrics = store, metrics
        self._attempts, self._longest_wait = attempts, longest_wait
        self._some, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"indubio-{channel}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Say that there may be new events."""
        self._some.set()

    def close(self) -> None:
        """Finish the event under way; the others stay in the outbox."""
        self._ended.set()
        self._some.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                again = self._deliver_due()
                self._measure()
            except StoreError as error:
                log.warning("the outbox cannot be read", extra={"error": str(error)})
                again = False
            if not again:
                self._some.wait(LOOK_EVERY)
                self._some.clear()

    def _deliver_due(self) -> bool:
        """Try what is due; whether there may be more at once."""
        events = self._store.read(lambda c: due_events(c, self._channel, self._model))
        if not events and self._after is not None:
            with contextlib.suppress(DeliveryError):
                self._after()
        taken: list[OutboxEvent] = []
        try:
            for one in events:
                if self._ended.is_set():
                    break
                try:
                    self._send(one)
                except DeliveryError as error:
                    self._not_taken(one, str(error))
                    if self._attempts is None:
                        return False
                else:
                    taken.append(one)
        finally:
            if taken:
                self._store.write(lambda c: delivered(c, taken))
        return len(taken) == len(events) > 0

    def _not_taken(self, one: OutboxEvent, error: str) -> None:
        wait, dead = 0.0, False
        if self._attempts is not None:
            wait = min(self._longest_wait, FIRST_WAIT * 2**one.attempts) * random.uniform(0.8, 1.2)
            dead = one.attempts + 1 >= self._attempts
        due = now() + timedelta(seconds=wait)
        self._store.write(lambda c: failed(c, one, error, due, dead=dead))
        extra = {"channel": self._channel, "event": one.event, "error": error, "attempts": one.attempts + 1}
        log.log(logging.ERROR if dead else logging.WARNING, "an event was not taken", extra=extra | {"dead": dead})

    def _measure(self) -> None:
        count = self._store.read(lambda c: count_outbox(c, self._model)).get(self._channel)
        for state in ("waiting", "dead"):
            self._metrics.outbox.labels(self._channel, state).set(0 if count is None else getattr(count, state))
        oldest = None if count is None else count.oldest
        age = 0.0 if oldest is None else (now() - oldest).total_seconds()
        self._metrics.outbox_age.labels(self._channel).set(age)
