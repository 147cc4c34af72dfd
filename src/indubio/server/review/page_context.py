"""`PageContext`: what all review pages share."""

from dataclasses import dataclass

from indubio.server.models.drift_monitors import DriftMonitors
from indubio.server.models.registry import Registry
from indubio.server.retraining.background_jobs import Jobs
from indubio.server.review.plots import CasePlots
from indubio.server.server_settings import ServerSettings
from indubio.server.service import Service
from indubio.server.store import ServerStore


@dataclass(frozen=True, kw_only=True, eq=False)
class PageContext:
    """What the pages read, draw and start work with.

    Args:
        store: cases, reviews, versions, jobs.
        registry: the served models.
        settings: of the server.
        drift: whether the data still is like the training data.
        plots: draws cases and curves.
        jobs: makes new versions in the background.
    """

    store: ServerStore
    registry: Registry
    settings: ServerSettings
    drift: DriftMonitors
    plots: CasePlots
    jobs: Jobs

    @classmethod
    def of(cls, service: Service) -> "PageContext":
        """The context of a service's pages; it is closed with the service."""
        context = cls(
            store=service.store,
            registry=service.registry,
            settings=service.settings,
            drift=service.drift,
            plots=CasePlots(service.registry),
            jobs=Jobs(service.store, service.registry, service.training, service.settings.control_share),
        )
        service.closing.append(context.close)
        return context

    def close(self) -> None:
        """End the jobs and the drawing that run in the background."""
        self.jobs.close()
        self.plots.close()
