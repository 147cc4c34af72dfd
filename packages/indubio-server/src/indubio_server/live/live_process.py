"""`indubio live` as a process: all parts put together, and ended by a signal."""

import contextlib
import logging
import signal
from collections.abc import Mapping
from pathlib import Path

from indubio import __version__
from indubio_server.live.delivery import Delivery, WebhookPoster
from indubio_server.live.live_engine import EndedError, LiveEngine
from indubio_server.live.live_metrics import LiveMetrics, MetricsServer
from indubio_server.live.publishing import AlarmPublisher, MqttPublisher
from indubio_server.live.settings_of_live import LiveSettings
from indubio_server.live.subscription import Subscription
from indubio_server.models import Registry
from indubio_server.store import ServerStore, append

log = logging.getLogger("indubio_server.live")
MQTT_ATTEMPTS = 5  # of an event that the broker refuses, or ends the connection over


def run_live(
    store: ServerStore,
    sources: Mapping[str, Path],
    state: Path,
    settings: LiveSettings,
    address: tuple[str, int] | None,
) -> None:
    """Work until SIGTERM or Ctrl-C.

    Args:
        store: where verdicts go.
        sources: the model's folder, by its name.
        state: folder for copies of the model, the journal and the snapshot.
        settings: what the TOML file says.
        address: host and port for metrics and health; None for none.
    """
    metrics = LiveMetrics()
    registry = Registry(store, sources, state / "models", most_rows=1)
    (name,) = registry.names
    with contextlib.ExitStack() as stack:
        # Everything that can be wrong with settings, secrets, certificates and addresses shows before anybody is told.
        engine = LiveEngine(store, registry, settings, state / "live" / name, metrics)
        stack.callback(engine.close)
        filters, largest = [one.filter for one in settings.topics], settings.ordering.largest_message
        source = Subscription(settings.broker, filters, largest=largest, metrics=metrics)
        publisher = MqttPublisher(settings.broker, metrics)
        poster = None if settings.webhook is None else WebhookPoster(settings.webhook)
        if poster is not None:
            stack.callback(poster.close)
        for one in (signal.SIGTERM, signal.SIGINT):
            stack.callback(signal.signal, one, signal.signal(one, lambda *_: engine.ended.set()))
        if address is not None:
            server = MetricsServer(metrics, *address)
            stack.callback(server.close)
            log.info("metrics", extra={"url": f"http://{address[0]}:{server.port}/metrics"})
        store.write(lambda c: append(c, "live started", {"indubio": __version__, "model": name}))
        with contextlib.suppress(EndedError):
            source.start(after=engine.recover())
            stack.callback(source.stop)
            if settings.publish.verdicts or settings.publish.alarms:
                engine.publisher = publisher
                publisher.start()
                stack.callback(publisher.close)
            engine.outgoing = _deliveries(settings, name, store, metrics, publisher, poster)
            for delivery in engine.outgoing:
                stack.callback(delivery.close)
            engine.run(source)
    log.info("ended")


def _deliveries(
    settings: LiveSettings,
    model: str,
    store: ServerStore,
    metrics: LiveMetrics,
    publisher: MqttPublisher,
    poster: WebhookPoster | None,
) -> list[Delivery]:
    """What empties the outbox, as the settings ask for it."""
    outgoing = []
    if settings.publish.alarms:
        alarms = AlarmPublisher(settings.publish, model, publisher, store)
        outgoing.append(
            Delivery(
                "mqtt",
                model,
                alarms.send,
                store,
                metrics,
                attempts=MQTT_ATTEMPTS,
                longest_wait=1.0,
                in_order=True,
                after=alarms.after,
            )
        )
    if settings.webhook is not None and poster is not None:
        outgoing.append(
            Delivery(
                "webhook",
                model,
                poster.send,
                store,
                metrics,
                attempts=settings.webhook.attempts,
                longest_wait=settings.webhook.longest_wait,
                within=settings.webhook.timeout,
            )
        )
    return outgoing
