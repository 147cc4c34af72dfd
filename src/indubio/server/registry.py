"""The models that are served: several, each with versions, swapped without dropping a request.

A folder or ONNX file given on the command line is a version as soon as its content is new to the store, and then
becomes the active one. Content that was seen before changes nothing: what people activated stays active.
"""

import hashlib
import shutil
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indubio.assessment import Assessment
from indubio.data import Schema
from indubio.data.intake import Missing
from indubio.errors import ConfigError, NotFoundError
from indubio.export import OnnxModel
from indubio.server.inputs import Examples, ModelInput
from indubio.server.settings import Engine
from indubio.server.store import Store
from indubio.server.store.chain import SYSTEM, digest
from indubio.server.store.versions import Version, activate, active_version, add_version, version_of, versions

if TYPE_CHECKING:
    from indubio.detector import Detector


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A model in memory.

    Args:
        sha256: of its files.
        detector: with torch; None where it was given as an ONNX file.
        onnx: for ONNX Runtime; None where torch scores.
        input: what it takes.
        rule: what decides on verdicts.
    """

    sha256: str
    detector: "Detector | None"
    onnx: OnnxModel | None
    input: ModelInput
    rule: dict[str, Any]

    @cached_property
    def rule_name(self) -> str:
        """The short name of the rule: the beginning of its hash."""
        return digest(self.rule)[:16]

    def assess(self, examples: Examples, machines: Sequence[str]) -> Assessment:
        """Verdict, probability and uncertainties of every example.

        Args:
            examples: what to assess.
            machines: where each comes from: its group, where the model is calibrated by group.
        """
        scorer = self.onnx or self.detector
        assert scorer is not None
        return scorer.assess(self.input.scoring_data(examples), groups=machines)

    def top(self, examples: Examples, k: int) -> list[list[dict[str, Any]]] | None:
        """The k largest contributions of every example; None for an ONNX file, which has no scores per feature."""
        if self.detector is None:
            return None
        from indubio.explain import contributions

        largest = contributions(self.detector, self.input.scoring_data(examples)).top(k)
        return [
            [{"name": str(name), "share": float(share)} for name, share in zip(names, shares, strict=True)]
            for names, shares in zip(largest.names, largest.shares, strict=True)
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded:
    """A version of a model that is ready to score."""

    name: str
    version: int
    model: Model

    @property
    def sha256(self) -> str:
        """Of its files."""
        return self.model.sha256

    @property
    def rule(self) -> str:
        """Short name of its rule."""
        return self.model.rule_name

    def named(self) -> dict[str, Any]:
        """For answers: which model this is."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256, "rule": self.rule}

    @property
    def detector(self) -> "Detector | None":
        """With torch, for explanations and plots."""
        return self.model.detector

    @property
    def schema(self) -> Schema:
        """Its columns or sensors."""
        return self.model.input.schema


def read_model(path: Path, *, engine: Engine = "auto", most_rows: int = 4096) -> Model:
    """A model from its folder or ONNX file.

    Args:
        path: the folder, or a file that ends in .onnx.
        engine: what scores.
        most_rows: rows a request may have.
    """
    detector, onnx = None, None
    if path.suffix.lower() == ".onnx":
        if engine == "torch":
            raise ConfigError(f"{path} is an ONNX file: torch cannot score it.")
        onnx = OnnxModel(path, threads=1)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        from indubio.storage import load, read_manifest

        detector, sha256 = load(path), read_manifest(path).checksum
        # The graph does not know an example's group: a model with verdicts by group is scored by torch.
        if engine == "onnx" or (engine == "auto" and not hasattr(detector, "group_conversions_")):
            from indubio.export.onnx_export import onnx_model

            onnx = OnnxModel(onnx_model(detector).SerializeToString(), threads=1)
    return Model(sha256=sha256, detector=detector, onnx=onnx, **_described(detector, onnx, most_rows))


def _described(detector: "Detector | None", onnx: OnnxModel | None, most_rows: int) -> dict[str, Any]:
    missing: Missing
    if detector is not None:
        schema, shape, missing = detector.schema_, detector.input_shape_, detector.intake_.missing
        referral = detector.settings_in_use().referral
        thresholds = detector.decision_threshold, detector.referral_threshold_
    else:
        assert onnx is not None
        about = onnx.metadata
        schema, shape, missing, referral = about.schema, about.input_shape, about.intake.missing, about.referral
        thresholds = about.anomaly_threshold, about.referral_threshold
    if referral.OVER_BATCH:
        raise ConfigError(
            f"the rule {type(referral).__name__} chooses among all examples of a batch, and a server sees them one by "
            "one. Take Budget, and --referrals-per-hour."
        )
    rule = {
        "anomaly_threshold": thresholds[0],
        "referral": {"kind": type(referral).__name__} | asdict(referral),
        "referral_threshold": str(thresholds[1]),
    }
    return {"input": ModelInput(schema, shape, missing, most_rows), "rule": rule}


class Registry:
    """The served models.

    Args:
        store: knows the versions.
        sources: folder or ONNX file of each model, by name.
        archive: folder where every version's files are kept, so that an older one can be activated again.
        engine: what scores.
        most_rows: rows a request may have.
    """

    def __init__(
        self, store: Store, sources: Mapping[str, Path], archive: Path, *, engine: Engine, most_rows: int
    ) -> None:
        if not sources:
            raise ConfigError("there is no model to serve: give --model FOLDER or --model NAME=FOLDER.")
        self._store, self.sources, self.archive = store, dict(sources), archive
        self._engine: Engine = engine
        self._most_rows = most_rows
        self._loaded: dict[tuple[str, int], Loaded] = {}
        self._active: dict[str, int] = {}
        self._lock = threading.Lock()
        for name in sources:
            self.reload(name)

    @property
    def names(self) -> list[str]:
        """The models' names."""
        return list(self._active)

    def model(self, name: str | None = None) -> Loaded:
        """The active version of a model; the name may be left out where there is only one."""
        if name is None:
            if len(self._active) > 1:
                raise NotFoundError(f"say which model: one of {', '.join(self._active)}.")
            name = next(iter(self._active))
        if name not in self._active:
            raise NotFoundError(f"there is no model {name!r}; there are {', '.join(self._active)}.")
        return self._loaded[name, self._active[name]]

    def version(self, name: str, version: int) -> Loaded:
        """A version of a model, read from its files where it is not in memory yet."""
        self.model(name)
        with self._lock:
            if (name, version) not in self._loaded:
                known = self._store.read(lambda c: version_of(c, name, version))
                self._loaded[name, version] = self._read(known)
            return self._loaded[name, version]

    def known(self, name: str) -> list[Version]:
        """Every version of a model."""
        self.model(name)
        return self._store.read(lambda c: versions(c, name))

    def reload(self, name: str, *, by: str = SYSTEM) -> Loaded:
        """Read a model's folder again; what is new in it becomes the active version."""
        if name not in self.sources:
            raise NotFoundError(f"there is no model {name!r}; there are {', '.join(self.sources)}.")
        path = self.sources[name]
        model = read_model(path, engine=self._engine, most_rows=self._most_rows)
        before = {known.version for known in self._store.read(lambda c: versions(c, name))}
        known = self._store.write(
            lambda c: add_version(
                c,
                name,
                sha256=model.sha256,
                rule=model.rule_name,
                rule_content=model.rule,
                path=str(self._archived(path, model.sha256)),
                by=by,
            )
        )
        self._loaded[name, known.version] = Loaded(name=name, version=known.version, model=model)
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
            if (name, version) not in self._loaded:
                known = self._store.read(lambda c: version_of(c, name, version))
                self._loaded[name, version] = self._read(known)
            self._store.write(lambda c: activate(c, name, version, by=by, note=note))
            self._active[name] = version
            return self._loaded[name, version]

    def _archived(self, path: Path, sha256: str) -> Path:
        """A copy of a version's files that nobody overwrites."""
        kept = (self.archive / f"{sha256[:32]}{path.suffix if path.is_file() else ''}").resolve()
        if not kept.exists():
            self.archive.mkdir(parents=True, exist_ok=True)
            partial = kept.with_name(f"{kept.name}.{uuid.uuid4().hex}.partial")
            if path.is_file():
                shutil.copyfile(path, partial)
            else:
                shutil.copytree(path, partial, ignore=shutil.ignore_patterns(".*"))
            partial.rename(kept)
        return kept

    def _read(self, known: Version) -> Loaded:
        model = read_model(Path(known.path), engine=self._engine, most_rows=self._most_rows)
        if (model.sha256, model.rule_name) != (known.sha256, known.rule):
            raise NotFoundError(
                f"version {known.version} of {known.name!r} is no longer at {known.path}: other files are there now."
            )
        return Loaded(name=known.name, version=known.version, model=model)
