"""Threads that go on: each works in rounds, and a round that fails is counted and logged, and followed by the next."""

import logging
import threading
from collections.abc import Callable

from indubio.errors import StoreError
from indubio_server.live.live_metrics import LiveMetrics

log = logging.getLogger("indubio_server.live")
AFTER_FAULT = 1.0  # seconds


class Worker:
    """A thread that does a round again and again.

    Args:
        name: of the thread, and of the part in the metrics and in /health.
        work: one round; gives the seconds until the next. It calls `living` where it may take long.
        metrics: to tell.
        within: seconds in which a sign of life must come; longer, and /health says that the part is silent.
    """

    def __init__(self, name: str, work: Callable[[], float], metrics: LiveMetrics, *, within: float) -> None:
        self._name, self._work, self._metrics, self._within = name, work, metrics, within
        self._some, self.ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"indubio-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self.living()
        self._thread.start()

    def living(self) -> None:
        """Give a sign of life."""
        self._metrics.living(self._name, self._within)

    def wake(self) -> None:
        """Say that there may be something to do."""
        self._some.set()

    def close(self) -> None:
        """Finish the round under way, and end."""
        self.ended.set()
        self._some.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self.ended.is_set():
            self.living()
            try:
                pause = self._work()
            except StoreError as error:
                log.warning("the database failed", extra={"part": self._name, "error": str(error)})
                pause = AFTER_FAULT
            except Exception:
                self._metrics.faults.labels(self._name).inc()
                log.exception("a fault", extra={"part": self._name})
                pause = AFTER_FAULT
            if pause:
                self._some.wait(pause)
                self._some.clear()
