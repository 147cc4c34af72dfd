"""`PageContext`: what all review pages share."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio import CapacityLimiter

from indubio_server.models import DriftMonitors, Registry
from indubio_server.plant import Plant, PlantFile
from indubio_server.retraining import Jobs
from indubio_server.review.downloads import Downloads
from indubio_server.review.plots import CasePlots
from indubio_server.server_settings import ServerSettings
from indubio_server.service import Service
from indubio_server.store import ServerStore

if TYPE_CHECKING:
    from indubio_server.oidc_login import OidcLogin

THREADS = 12  # fewer than there are connections to read with


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
        plant_file: which machines stand in which line of which site.
        login: lets people log in without a key; None where they need one.
        downloads: those that are under way.
        threads: so many pages are made at once; requests for verdicts and keys have others.
    """

    store: ServerStore
    registry: Registry
    settings: ServerSettings
    drift: DriftMonitors
    plots: CasePlots
    jobs: Jobs
    plant_file: PlantFile
    login: "OidcLogin | None"
    downloads: Downloads = field(default_factory=Downloads)
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(THREADS))

    @classmethod
    def of(cls, service: Service) -> "PageContext":
        """The context of a service's pages; it is closed with the service."""
        context = cls(
            store=service.store,
            registry=service.registry,
            settings=service.settings,
            drift=service.drift,
            plots=CasePlots(service.registry),
            jobs=Jobs(service.store, service.registry, service.training, service.settings),
            plant_file=service.plant_file,
            login=service.login,
        )
        service.closing.append(context.close)
        service.looking_after.append(context.jobs.look_after)
        return context

    @property
    def plant(self) -> Plant:
        """Which machines stand where, as the file has it now."""
        return self.plant_file.plant

    @property
    def secure(self) -> bool:
        """Whether browsers come by https although requests do not: a proxy is in between, and the settings say so."""
        return self.login is not None and self.login.public_url.startswith("https:")

    def close(self) -> None:
        """End the jobs and the drawing that run in the background."""
        self.jobs.close()
        self.plots.close()
