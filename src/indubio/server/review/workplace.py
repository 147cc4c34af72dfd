"""What the pages work with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from indubio.server.models.drift_monitors import DriftMonitors
from indubio.server.models.registry import Registry
from indubio.server.retraining.jobs import Jobs
from indubio.server.review.plots import Drawings
from indubio.server.settings import ServerSettings
from indubio.server.store import Store


class Server(Protocol):
    """What the pages need of the server."""

    @property
    def store(self) -> Store:
        """Cases, reviews, versions, jobs."""

    @property
    def registry(self) -> Registry:
        """The served models."""

    @property
    def settings(self) -> ServerSettings:
        """Budget, alarm rule, share kept for control."""

    @property
    def drift(self) -> DriftMonitors:
        """Whether the data still is like the training data."""

    @property
    def training(self) -> Mapping[str, Path]:
        """The training data of models, by name, where the operator named it."""

    @property
    def closing(self) -> list[Callable[[], None]]:
        """What is called when the server ends."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Desk:
    """What the pages share.

    Args:
        store: cases, reviews, versions, jobs.
        registry: the served models.
        settings: of the server.
        drift: whether the data still is like the training data.
        drawings: makes the plots.
        jobs: retraining and recalibration in the background.
    """

    store: Store
    registry: Registry
    settings: ServerSettings
    drift: DriftMonitors
    drawings: Drawings
    jobs: Jobs

    @classmethod
    def of(cls, server: Server) -> "Desk":
        """The desk of a server."""
        return cls(
            store=server.store,
            registry=server.registry,
            settings=server.settings,
            drift=server.drift,
            drawings=Drawings(server.registry),
            jobs=Jobs(server.store, server.registry, server.training, server.settings.control_share),
        )

    def close(self) -> None:
        """End what runs in the background."""
        self.jobs.close()
        self.drawings.close()
