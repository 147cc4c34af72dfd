"""The models that are served: several, each with versions, swapped without dropping a request.

A folder given on the command line is a version as soon as its content is new to the store, and then
becomes the active one. Content that was seen before changes nothing: what people activated stays active.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from indubio.chain import Assessment
from indubio.data import Rows
from indubio.decision import Referral
from indubio.detector import Detector
from indubio.errors import ConfigError, IndubioError, NotFoundError
from indubio.judge import Judge, check_pinned
from indubio.texts import english
from indubio_server.models.model_inputs import ExampleBatch, ModelInput
from indubio_server.store import (
    SYSTEM,
    Origin,
    ServerStore,
    Version,
    activate,
    active_numbers,
    active_version,
    add_version,
    digest,
    packed,
    unpack,
    version_of,
    versions,
)

log = logging.getLogger("indubio_server")
Contributors = list[dict[str, Any]]  # names and shares, the largest first


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A model in memory, with what the server needs to know of it.

    Args:
        judge: gives verdicts, reasons and plots.
        input: what it takes.
        rule: what decides on verdicts.
    """

    judge: Judge
    input: ModelInput
    rule: dict[str, Any]

    @classmethod
    def load(cls, path: Path, *, most_rows: int = 4096) -> "Model":
        """Load the model from its folder.

        Args:
            path: the folder.
            most_rows: rows a request may have.
        """
        judge = Judge.load(path)
        detector = judge.detector
        # What is made at a detector's first example is there before a request waits for it.
        blank = Rows(values=np.zeros((1, *detector.input_shape_)), names=detector.schema_.encoded_names)
        detector.assess(blank, groups=[""], explain=True)
        return cls(
            judge=judge,
            input=ModelInput(detector.schema_, detector.input_shape_, detector.preparation_.missing, most_rows),
            rule=_rule(judge.rule, detector.decision_threshold, detector.referral_threshold_),
        )

    @cached_property
    def rule_name(self) -> str:
        """The short name of the rule: the beginning of its hash."""
        return digest(self.rule)[:16]

    def assess(
        self, examples: ExampleBatch, machines: Sequence[str], top: Sequence[int]
    ) -> tuple[Assessment, list[Contributors | None]]:
        """Verdicts of all examples, and what contributes most to anomalies and referrals, from one pass.

        Args:
            examples: what to assess.
            machines: where each comes from: its group, where the model is calibrated by group.
            top: how many contributions to give of each.
        """
        grouped = self.judge.detector.reference_.groups is not None
        data, groups = self.input.scoring_data(examples), machines if grouped else None
        largest: list[Contributors | None] = [None] * len(examples)
        found = self.judge.detector.assess(data, groups=groups, explain=any(top))
        if found.why is not None and len(found.why):
            contributions = found.why.top(max(top))
            for place, names, shares in zip(
                found.why.places.tolist(), contributions.names, contributions.shares, strict=True
            ):
                if top[place]:
                    pairs = zip(names[: top[place]], shares.tolist(), strict=False)
                    largest[place] = [{"name": name, "share": share} for name, share in pairs]
        return found, largest


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded:
    """A version of a model that is ready to score."""

    name: str
    version: int
    model: Model

    @property
    def detector(self) -> Detector:
        """The detector, for explanations, plots and drift."""
        return self.model.judge.detector

    @property
    def sha256(self) -> str:
        """The checksum of the version's files."""
        return self.model.judge.digest

    @property
    def rule(self) -> str:
        """The short name of its referral rule."""
        return self.model.rule_name

    @cached_property
    def named(self) -> dict[str, Any]:
        """Which model this is, as answers say it."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256, "rule": self.rule}


def _rule(referral: Referral, anomaly_threshold: float, referral_threshold: float) -> dict[str, Any]:
    if referral.OVER_BATCH:
        raise ConfigError(
            english(
                "the rule {rule} chooses among all examples of a batch, and a server sees them one by one. Take "
                "Budget, and --referrals-per-hour.",
                rule=type(referral).__name__,
            )
        )
    return {
        "anomaly_threshold": anomaly_threshold,
        "referral": {"kind": type(referral).__name__}
        | {name: value for name, value in asdict(referral).items() if value is not None},
        "referral_threshold": str(referral_threshold),
    }


class Registry:
    """The served models, their versions and which of them are active.

    Args:
        store: knows the versions.
        sources: folder of each model, by name.
        archive: folder with the files of versions that are used here; the database has those of all.
        most_rows: rows a request may have.
        pinned: the sha256 that a source must have, by name of the model, whenever it is read.
    """

    def __init__(
        self,
        store: ServerStore,
        sources: Mapping[str, Path],
        archive: Path,
        *,
        most_rows: int,
        pinned: Mapping[str, str] | None = None,
    ) -> None:
        if not sources:
            raise ConfigError("there is no model to serve: give --model FOLDER or --model NAME=FOLDER.")
        self._store, self.sources, self.archive = store, dict(sources), archive
        self._most_rows, self._pinned = most_rows, dict(pinned or {})
        self._loaded: dict[tuple[str, int], Loaded] = {}
        self._active: dict[str, int] = {}
        self._unusable: set[str] = set()  # models of which a version was activated that cannot be read here
        self._lock = threading.Lock()
        for name in sources:
            self.reload(name)

    @property
    def names(self) -> list[str]:
        """The names of all served models."""
        return list(self._active)

    def model(self, name: str | None = None) -> Loaded:
        """The active version of a model; the name may be left out where there is only one."""
        if name is None:
            if len(self._active) > 1:
                raise NotFoundError(english("say which model: one of {known}.", known=", ".join(self._active)))
            name = next(iter(self._active))
        if name not in self._active:
            raise NotFoundError(
                english("there is no model {name!r}; there are {known}.", name=name, known=", ".join(self._active))
            )
        return self._loaded[name, self._active[name]]

    def version(self, name: str, version: int) -> Loaded:
        """A version of a model, read from its files where it is not in memory yet."""
        self.model(name)
        with self._lock:
            return self._at_hand(name, version)

    def known(self, name: str) -> list[Version]:
        """Every version of a model."""
        self.model(name)
        return self._store.read(lambda c: versions(c, name))

    def reload(self, name: str, *, by: str = SYSTEM) -> Loaded:
        """Read a model's folder again; what is new in it becomes the active version."""
        if name not in self.sources:
            raise NotFoundError(
                english("there is no model {name!r}; there are {known}.", name=name, known=", ".join(self.sources))
            )
        path = self.sources[name]
        model = Model.load(path, most_rows=self._most_rows)
        check_pinned(model.judge.digest, self._pinned.get(name), str(path))
        before = {known.version for known in self._store.read(lambda c: versions(c, name))}
        known = self.added(name, model, path, by=by)
        # One that is in memory already stays: batches and the drift monitors have it, and a second one would stay too.
        self._loaded.setdefault((name, known.version), Loaded(name=name, version=known.version, model=model))
        active = self._store.read(lambda c: active_version(c, name))
        if known.version not in before or active is None:
            return self.activate(name, known.version, by=by, note="found on disk")
        with self._lock:
            if (name, active.version) not in self._loaded:
                self._loaded[name, active.version] = self._read(active)
            self._active[name] = active.version
        return self.model(name)

    def activate(self, name: str, version: int, *, by: str, note: str = "") -> Loaded:
        """Make a version the active one. Requests under way keep the version they began with."""
        with self._lock:
            loaded = self._at_hand(name, version)
            self._store.write(lambda c: activate(c, name, version, by=by, note=note))
            self._active[name] = version
            return loaded

    def follow(self) -> None:
        """Score with the versions that others activated meanwhile; one that cannot be read leaves the present one."""
        with self._lock:
            active = self._store.look_up(active_numbers)
            for name in self._active:
                number = active.get(name, self._active[name])
                if number == self._active[name]:
                    self._unusable.discard(name)
                    continue
                try:
                    self._at_hand(name, number)
                    self._active[name] = number
                except (IndubioError, OSError) as error:
                    if name not in self._unusable:
                        told = {"model": name, "version": number, "error": str(error)}
                        log.error("a version that was activated cannot be used: the present one goes on", extra=told)
                    self._unusable.add(name)

    def _at_hand(self, name: str, version: int) -> Loaded:
        """A version in memory; the caller has the lock."""
        if (name, version) not in self._loaded:
            known = self._store.read(lambda c: version_of(c, name, version))
            self._loaded[name, version] = self._read(known)
        return self._loaded[name, version]

    def added(
        self,
        name: str,
        model: Model,
        path: Path,
        *,
        origin: Origin = "given",
        parent: int | None = None,
        evaluation: dict[str, Any] | None = None,
        by: str,
    ) -> Version:
        """Register the model of a folder as a version, as `add_version` does."""
        files = packed(path)
        return self._store.write(
            lambda c: add_version(
                c,
                name,
                sha256=model.judge.digest,
                rule=model.rule_name,
                rule_content=model.rule,
                files=files,
                origin=origin,
                parent=parent,
                evaluation=evaluation,
                by=by,
            )
        )

    def folder_of(self, known: Version) -> Path:
        """The folder with the files of a version; they are fetched where they are not there."""
        return self._store.read(lambda c: unpack(c, self.archive, known.sha256))

    def _read(self, known: Version) -> Loaded:
        folder = self.folder_of(known)
        model = Model.load(folder, most_rows=self._most_rows)
        if (model.judge.digest, model.rule_name) != (known.sha256, known.rule):
            raise NotFoundError(
                english(
                    "{path} holds other files than those of version {version:d} of {name!r}. Remove it: they are "
                    "fetched again.",
                    version=known.version,
                    name=known.name,
                    path=folder,
                )
            )
        return Loaded(name=known.name, version=known.version, model=model)
