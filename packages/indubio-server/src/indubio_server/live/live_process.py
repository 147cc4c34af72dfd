"""`indubio live` as a process: all parts put together, and ended by a signal."""

import contextlib
import logging
import signal
from collections.abc import Mapping
from pathlib import Path

from indubio import __version__
from indubio_server.live.delivery import AlarmPublisher, Delivery, WebhookPoster
from indubio_server.live.live_engine import EndedError, LiveEngine
from indubio_server.live.live_metrics import LiveMetrics, MetricsServer
from indubio_server.live.live_settings import LiveSettings
from indubio_server.live.subscription import Subscription
from indubio_server.models.registry import Registry
from indubio_server.store import ServerStore
from indubio_server.store.audit_trail import append

log = logging.getLogger("indubio_server.live")


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
    engine = LiveEngine(store, registry, settings, state / "live" / name, metrics)
    with contextlib.ExitStack() as stack:
        stack.callback(engine.close)
        for one in (signal.SIGTERM, signal.SIGINT):
            stack.callback(signal.signal, one, signal.signal(one, lambda *_: engine.ended.set()))
        if address is not None:
            server = MetricsServer(metrics, *address)
            stack.callback(server.close)
            log.info("metrics", extra={"url": f"http://{address[0]}:{server.port}/metrics"})
        store.write(lambda c: append(c, "live started", {"indubio": __version__, "model": name}))
        with contextlib.suppress(EndedError):
            last = engine.recover()
            _run(engine, stack, settings, store, metrics, last)
    log.info("ended")


def _run(
    engine: LiveEngine,
    stack: contextlib.ExitStack,
    settings: LiveSettings,
    store: ServerStore,
    metrics: LiveMetrics,
    last: int,
) -> None:
    """Connect, and work until the end."""
    filters, model = [one.filter for one in settings.topics], engine.loaded.name
    source = Subscription(
        settings.broker, filters, largest=settings.ordering.largest_message, metrics=metrics, last=last
    )
    source.start()
    stack.callback(source.stop)
    if settings.publish.alarms:
        publisher = AlarmPublisher(settings.publish, model, source, store)
        engine.outgoing.append(
            Delivery(
                "mqtt",
                model,
                publisher.send,
                store,
                metrics,
                attempts=None,
                longest_wait=1.0,
                after=publisher.after,
            )
        )
    if settings.webhook is not None:
        poster = WebhookPoster(settings.webhook)
        stack.callback(poster.close)
        engine.outgoing.append(
            Delivery(
                "webhook",
                model,
                poster.send,
                store,
                metrics,
                attempts=settings.webhook.attempts,
                longest_wait=settings.webhook.longest_wait,
            )
        )
    for one in engine.outgoing:
        stack.callback(one.close)
    engine.run(source)
