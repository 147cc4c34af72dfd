"""The connection to the MQTT broker, on paho itself.

A message is acknowledged by `acknowledge`, once it is durable, and not when it is handed over. The broker keeps our
session (clean start is false, QoS 1): what comes while we are gone waits there, and what was not acknowledged is sent
again.

Back-pressure is the protocol's own: the broker is to send no more than `in_flight` messages that are not acknowledged,
so whoever is slow only has to acknowledge late. Not every broker keeps to it (Mosquitto 2.0.11 sends a whole window for
every acknowledgement of its oldest message): beyond so many nothing is read from the connection until some are taken.
"""

import logging
import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from indubio.errors import ConfigError
from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.settings_of_live import Broker

log = logging.getLogger("indubio_server.live")
NO_RETAINED = 2  # a value that was retained is old: it is not asked for
LOOK_FOR_ROOM = 0.005  # seconds
MOST_UNSENT = 100_000  # published messages that wait for the broker; beyond them verdicts are not published


@dataclass(frozen=True, slots=True)
class Received:
    """A message as the broker sent it.

    Args:
        arrived: nanoseconds since 1970, each later than the one before.
        packet: its number on the connection. connection: number of the connection.
        again: the broker says it may have sent it before.
        topic: of the message. payload: of the message.
    """

    arrived: int
    packet: int
    connection: int
    again: bool
    topic: str
    payload: bytes


class Subscription:
    """Receives the messages of some topics.

    Args:
        broker: where it is.
        filters: the topics.
        largest: bytes of a message; a larger one is counted and dropped.
        metrics: to tell.
    """

    def __init__(self, broker: Broker, filters: Sequence[str], *, largest: int, metrics: LiveMetrics) -> None:
        self._broker, self._filters, self._largest, self._metrics = broker, list(filters), largest, metrics
        self._messages: deque[Received] = deque()
        self._some, self._stopped = threading.Event(), threading.Event()
        self._connection, self._last = 0, 0
        client = self._client = new_client(broker, broker.client_id, manual_ack=True)
        client.reconnect_delay_set(1, broker.longest_wait)
        client.on_connect, client.on_disconnect = self._connected, self._disconnected
        client.on_message = self._received

    def start(self, after: int = 0) -> None:
        """Connect in the background, again and again until it works.

        Args:
            after: arrival of the last message of an earlier run; the clock may have been set back since.
        """
        self._last = after
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = min(int(self._broker.session_days * 86400), 2**32 - 2)
        properties.ReceiveMaximum = self._broker.in_flight
        self._client.connect_async(
            self._broker.host,
            self._broker.port,
            keepalive=self._broker.keepalive,
            clean_start=False,
            properties=properties,
        )
        self._client.loop_start()

    def stop(self) -> None:
        """Disconnect; the broker keeps the session."""
        self._stopped.set()
        self._client.disconnect()
        self._client.loop_stop()

    @property
    def connection(self) -> int:
        """The number of the present connection, or of the last one; 0 before the first."""
        return self._connection

    @property
    def waiting(self) -> int:
        """Messages that were received and not taken."""
        return len(self._messages)

    def take(self, timeout: float) -> list[Received]:
        """The messages that have come; waits for the first so many seconds."""
        if not self._messages:
            self._some.clear()
            if not self._messages:
                self._some.wait(timeout)
        return [self._messages.popleft() for _ in range(len(self._messages))]

    def acknowledge(self, messages: Sequence[Received]) -> None:
        """Tell the broker that messages are durable; those of an earlier connection it will send again anyway."""
        client, present = self._client, self._connection
        for one in messages:
            if one.packet and one.connection == present:
                client.ack(one.packet, 1)

    def _connected(self, client: Client, _data: Any, flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            log.error("the broker refuses the connection", extra={"reason": str(reason)})
            return
        self._connection += 1
        if self._connection > 1:
            self._metrics.reconnects.inc()
        self._metrics.connected.set(1)
        options = SubscribeOptions(qos=1, retainHandling=NO_RETAINED)
        client.subscribe([(one, options) for one in self._filters])
        log.info("connected to the broker", extra={"topics": self._filters, "session": bool(flags.session_present)})

    def _disconnected(self, _client: Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._metrics.connected.set(0)
        log.warning("the broker is gone", extra={"reason": str(reason)})

    def _received(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        arrived = self._last = max(time.time_ns(), self._last + 1)
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        payload = bytes(message.payload)
        one = Received(arrived, message.mid, self._connection, message.dup, topic, payload)
        if not topic or len(payload) > self._largest:
            self._metrics.bad.labels("too_long" if topic else "unknown_topic").inc()
            self.acknowledge([one])
            return
        while len(self._messages) >= self._broker.in_flight and not self._stopped.wait(LOOK_FOR_ROOM):
            pass
        self._messages.append(one)
        self._some.set()


def new_client(broker: Broker, client_id: str, **options: Any) -> Client:
    """A client that can log in at the broker; options of paho."""
    client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=MQTTv5, **options)
    if broker.user is not None:
        client.username_pw_set(broker.user, broker.password())
    _encrypt(client, broker)
    client.max_queued_messages_set(MOST_UNSENT)
    client.max_inflight_messages_set(1000)
    return client


def _encrypt(client: Client, broker: Broker) -> None:
    if not broker.tls and broker.ca is None:
        return
    try:
        context = ssl.create_default_context(cafile=broker.ca)
        if broker.certificate is not None:
            context.load_cert_chain(broker.certificate, broker.private_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificates of [broker] cannot be used: {error}.") from None
    client.tls_set_context(context)
