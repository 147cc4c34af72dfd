"""Numbers of `indubio live` for Prometheus, whether all is well, and the small HTTP server that tells both."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from indubio.errors import ConfigError

DELAYS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


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
        self.database.set(1)
        self.alive = time.monotonic()  # when the engine last went round

    def trouble(self) -> list[str]:
        """What is not well, in words; nothing when all is."""
        found = []
        if not self.connected._value.get():
            found.append("the broker is not connected")
        if not self.database._value.get():
            found.append("the database cannot be written")
        if time.monotonic() - self.alive > 30:
            found.append("nothing was worked on for 30 s")
        return found


class MetricsServer:
    """Answers /metrics and /health, in threads of its own.

    Args:
        metrics: what to tell.
        host: address to listen at. port: 0 takes a free one.
    """

    def __init__(self, metrics: LiveMetrics, host: str, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, generate_latest(metrics.registry))
                elif self.path == "/health":
                    trouble = metrics.trouble()
                    self._answer(503 if trouble else 200, ("; ".join(trouble) or "all is well").encode() + b"\n")
                else:
                    self._answer(404, b"there is /metrics and /health\n")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing: a scrape is no news."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise ConfigError(f"--metrics {host}:{port}: cannot be listened at ({error.strerror}).") from None
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="indubio-metrics", daemon=True).start()

    def close(self) -> None:
        """Stop answering, and free the port."""
        self._server.shutdown()
        self._server.server_close()
