"""Numbers of `indubio live` for Prometheus, whether all is well, and the small HTTP server that tells both."""

import socket
import threading
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router

from indubio.errors import ConfigError
from indubio_server.process import LimitedServer, configured
from indubio_server.server_settings import ServerSettings

DELAYS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
LIMITS = ServerSettings(most_connections=64, connections_per_address=32)


class LiveMetrics:
    """All numbers of one `indubio live`, in a registry of its own."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.messages = Counter("indubio_live_messages", "Messages that are durable.", registry=own)
        self.samples = Counter("indubio_live_samples", "Samples: values of a machine at one time.", registry=own)
        self.bad = Counter("indubio_live_bad", "Messages or values that were not taken.", ["kind"], registry=own)
        self.late = Counter("indubio_live_late_values", "Values that came too late.", registry=own)
        self.duplicates = Counter("indubio_live_duplicate_values", "Values that were there already.", registry=own)
        self.redelivered = Counter("indubio_live_redelivered", "Messages that the broker sent again.", registry=own)
        self.machines = Gauge("indubio_live_machines", "Machines that were heard of.", registry=own)
        self.queue = Gauge("indubio_live_queue_messages", "Messages that are received and not durable.", registry=own)
        self.rows = Gauge("indubio_live_waiting_rows", "Rows that wait for a window.", registry=own)
        self.lag = Gauge("indubio_live_lag_seconds", "Age of the newest message that was worked on.", registry=own)
        self.verdicts = Counter("indubio_live_verdicts", "Verdicts in the store.", ["verdict", "reason"], registry=own)
        self.again = Counter("indubio_live_known_windows", "Windows that were in the store already.", registry=own)
        self.unusable = Counter(
            "indubio_live_unusable_windows", "Windows with gaps, for a model that takes none.", registry=own
        )
        self.overflow = Counter("indubio_live_referral_overflow", "Referrals beyond the budget.", registry=own)
        self.alarms = Counter("indubio_live_alarms", "Alarms that began or ended.", ["kind"], registry=own)
        self.delay = Histogram(
            "indubio_live_delay_seconds",
            "From the arrival of what completed a window to its verdict in the store.",
            buckets=DELAYS,
            registry=own,
        )
        self.connected = Gauge("indubio_live_connected", "1 while the broker is connected.", registry=own)
        self.reconnects = Counter("indubio_live_reconnects", "Connections after the first.", registry=own)
        self.database = Gauge("indubio_live_database_up", "1 while the database can be written.", registry=own)
        self.journal = Gauge("indubio_live_journal_messages", "Messages since the last snapshot.", registry=own)
        self.outbox = Gauge("indubio_live_outbox", "Events in the outbox.", ["channel", "state"], registry=own)
        self.outbox_age = Gauge("indubio_live_outbox_age_seconds", "Of the oldest event.", ["channel"], registry=own)
        self.faults = Counter("indubio_live_faults", "Faults in a part, which went on.", ["part"], registry=own)
        self.dropped = Counter("indubio_live_dropped", "Connections that the broker ended.", registry=own)
        self.refused = Counter("indubio_live_refused", "Messages that the broker refused.", registry=own)
        self.troubles = Gauge("indubio_live_trouble", "1 while something needs a person.", ["what"], registry=own)
        self.database.set(1)
        self._signs: dict[str, tuple[float, float]] = {}  # of each part: its last sign of life, and within what
        self._troubled: dict[str, tuple[str, bool]] = {}

    def living(self, part: str, within: float = 30.0) -> None:
        """A part gives a sign of life; the next is to come within so many seconds."""
        self._signs[part] = (time.monotonic(), within)

    def set_trouble(self, what: str, told: str = "", *, stops: bool = False) -> None:
        """Remember that something is not well, or no more where nothing is told.

        Args:
            what: names it, for `indubio_live_trouble`.
            told: in words.
            stops: machines are not judged as long as it lasts.
        """
        self.troubles.labels(what).set(bool(told))
        if told:
            self._troubled[what] = (told, stops)
        else:
            self._troubled.pop(what, None)

    def trouble(self) -> tuple[list[str], list[str]]:
        """In words, what keeps machines from being judged or a part from working; and what else a person should see."""
        now, signs, troubled = time.monotonic(), {**self._signs}, [*self._troubled.values()]
        stopping = [] if self.connected._value.get() else ["the broker is not connected"]
        stopping += [told for told, stops in troubled if stops]
        stopping += [
            f"no sign of life from the part {part!r} for {now - last:.0f} s"
            for part, (last, within) in signs.items()
            if now - last > within
        ]
        return stopping, [told for told, stops in troubled if not stops]


class MetricsServer:
    """Answers /metrics and /health, on the server's own connections: few, with limits and deadlines.

    Args:
        metrics: what to tell.
        host: address to listen at. port: 0 takes a free one.
    """

    def __init__(self, metrics: LiveMetrics, host: str, port: int) -> None:
        async def measured(_: Request) -> PlainTextResponse:
            return PlainTextResponse(generate_latest(metrics.registry))

        async def health(_: Request) -> PlainTextResponse:
            stopping, warnings = metrics.trouble()
            told = "; ".join([*stopping, *warnings]) or "all is well"
            return PlainTextResponse(f"{told}\n", 503 if stopping else 200)

        app = Router([Route("/metrics", measured), Route("/health", health)])
        config = configured(app, host=host, port=port, settings=LIMITS, lifespan="off")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen()  # at once: who asks before the thread runs waits
        except OSError as error:
            self._socket.close()
            raise ConfigError(f"--metrics {host}:{port}: cannot be listened at ({error.strerror}).") from None
        self.port = self._socket.getsockname()[1]
        self._server = LimitedServer(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="indubio-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and free the port."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
