"""What goes out by MQTT: verdicts, and alarms as the retained state of their machine.

They have a connection of their own. A broker drops a connection over what it will not take, and what comes in is not to
suffer from that. Every connection is a new client with a clean start, so that nothing is sent again by itself: what was
not confirmed is still in the outbox, and the outbox counts how often it was tried.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import msgspec
from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import MQTTErrorCode

from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.settings_of_live import Broker, OutTopics
from indubio_server.live.subscription import MOST_UNSENT, new_client
from indubio_server.live.workers import Worker
from indubio_server.store import OutboxEvent, ServerStore, dead_events, last_alarms

log = logging.getLogger("indubio_server.live")
CONFIRMED_WITHIN = 5.0  # seconds for the broker to take a message
FIRST_PAUSE = 0.5  # seconds between two attempts to connect
DROPS = 3  # a state that so often ended the connection is not published again when we are connected anew
PLAIN = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "%/+#$"})


class DeliveryError(Exception):
    """The receiver did not take an event."""


class UnreachableError(DeliveryError):
    """There is nobody to take an event: that is not the event's fault."""


class MqttPublisher:
    """A connection for what is published.

    Args:
        broker: where it is.
        metrics: to tell.
    """

    def __init__(self, broker: Broker, metrics: LiveMetrics) -> None:
        self._broker, self._metrics = broker, metrics
        self._new_client()  # what is wrong with the settings shows here
        self._client: Client | None = None
        self._up = threading.Event()
        self._unsent: deque[tuple[str, bytes]] = deque(maxlen=MOST_UNSENT)
        self._refused: dict[int, str] = {}
        self._pause = FIRST_PAUSE
        self.connection = 0  # number of the present one, or of the last
        self._worker = Worker("publishing", self._connect, metrics, within=30.0)

    def start(self) -> None:
        """Connect in the background, again and again."""
        self._worker.start()

    def close(self) -> None:
        """Disconnect."""
        self._worker.close()
        self._leave()

    def tell(self, topic: str, body: bytes) -> None:
        """Publish a message at most once; it waits for a connection where there is none."""
        client = self._client
        if client is None or not self._up.is_set():
            self._unsent.append((topic, body))
        else:
            client.publish(topic, body, qos=1)

    def confirmed(self, messages: Sequence[tuple[str, str]]) -> None:
        """Publish messages that are retained, each a topic and its content, and wait until the broker has them.

        Raises:
            UnreachableError: the broker does not answer.
            DeliveryError: it refused one of them, or dropped the connection.
        """
        client, connection = self._client, self.connection
        if client is None or not self._up.is_set():
            raise UnreachableError("the broker is not connected")
        self._refused.clear()
        sent = [client.publish(topic, body.encode(), qos=1, retain=True) for topic, body in messages]
        until = time.monotonic() + CONFIRMED_WITHIN
        while not all(_is_confirmed(info) for info in sent):
            if connection != self.connection or not self._up.is_set():
                raise DeliveryError("the broker dropped the connection")
            if time.monotonic() > until:
                raise UnreachableError("the broker does not confirm it")
            time.sleep(0.002)
        for info in sent:
            if info.mid in self._refused:
                raise DeliveryError(f"the broker refused it: {self._refused[info.mid]}")

    def _new_client(self) -> Client:
        client = new_client(self._broker, f"{self._broker.client_id}-out", reconnect_on_failure=False)
        client.on_connect, client.on_disconnect, client.on_publish = self._connected, self._disconnected, self._taken
        return client

    def _connect(self) -> float:
        """One round: a new client where the last one has lost its connection."""
        if self._client is not None:
            return 1.0
        client = self._client = self._new_client()
        try:
            client.connect(self._broker.host, self._broker.port, keepalive=self._broker.keepalive, clean_start=True)
        except OSError:
            self._leave()
        else:
            client.loop_start()
            if self._up.wait(CONFIRMED_WITHIN):
                self._pause = FIRST_PAUSE
                return 1.0
            self._leave()
        self._pause = min(self._broker.longest_wait, 2 * self._pause)
        return self._pause

    def _leave(self) -> None:
        self._up.clear()
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()

    def _connected(self, client: Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            log.error("the broker refuses the connection for what is published", extra={"reason": str(reason)})
            return
        self.connection += 1
        self._up.set()
        while self._unsent:
            topic, body = self._unsent.popleft()
            client.publish(topic, body, qos=1)

    def _disconnected(self, client: Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._up.clear()
        if self._client is client and not self._worker.ended.is_set():
            self._client = None
            self._metrics.dropped.inc()
            log.warning("the broker dropped the connection for what is published", extra={"reason": str(reason)})
            self._worker.wake()

    def _taken(self, _client: Client, _data: Any, message: int, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._metrics.refused.inc()
            self._refused[message] = str(reason)


class AlarmPublisher:
    """Publishes alarms as the retained state of their machine.

    A broker that was killed may have forgotten states that it confirmed, though it still knows our session. So all of
    them are published again whenever we are connected anew, by the last events that the store has: but for those that
    were given up, and those that again and again end the connection.

    Args:
        topics: where.
        model: name of the model.
        publisher: the connection.
        store: has the last event of every machine's alarm.
    """

    def __init__(self, topics: OutTopics, model: str, publisher: MqttPublisher, store: ServerStore) -> None:
        self._topics, self._model, self._publisher, self._store = topics, model, publisher, store
        self._published_on = 0  # number of the connection
        self._one_by_one = False
        self._drops: Counter[str] = Counter()

    def send(self, one: OutboxEvent) -> None:
        """Publish one event; raises DeliveryError where the broker does not take it."""
        self._publisher.confirmed([self._message(one.machine, one.body)])

    def after(self) -> None:
        """When no event waits: publish all states, if we are connected anew; DeliveryError as in `send`."""
        connection = self._publisher.connection
        if connection == self._published_on:
            return
        states = self._store.read(lambda c: last_alarms(c, self._model))
        given_up = {*self._store.read(lambda c: dead_events(c, "mqtt", self._model))}
        given_up |= {event for event, count in self._drops.items() if count >= DROPS}
        messages = {
            event: self._message(machine, body)
            for machine, body in states.items()
            if (event := msgspec.json.decode(body)["id"]) not in given_up
        }
        groups = [[event] for event in messages] if self._one_by_one else [[*messages]]
        for events in groups:
            try:
                self._publisher.confirmed([messages[event] for event in events])
            except UnreachableError:
                raise
            except DeliveryError:
                self._one_by_one = True  # next time it shows which of them it was
                self._drops.update(events if len(events) == 1 else ())
                raise
        self._published_on, self._one_by_one = connection, False

    def _message(self, machine: str, body: str) -> tuple[str, str]:
        return topic_of(self._topics.alarms, machine, self._model), body


def topic_of(template: str, machine: str, model: str) -> str:
    """A topic with the names put in; percent signs stand for what would add levels or wildcards to it."""
    return template.replace("{machine}", machine.translate(PLAIN)).replace("{model}", model.translate(PLAIN))


def _is_confirmed(info: MQTTMessageInfo) -> bool:
    """Whether the broker answered; what could not be handed to the system yet is not."""
    if info.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_AGAIN, MQTTErrorCode.MQTT_ERR_NO_CONN):
        raise DeliveryError(f"it cannot be published ({info.rc.name})")
    return info.rc != MQTTErrorCode.MQTT_ERR_NO_CONN and info.is_published()
