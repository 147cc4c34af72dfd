r"""Which features, sensors and time steps, or pixels, made the score.

    nll(x) - typical = sum_d E_m[nll_m,d(x) - typical_m,d] / D

over D values: features, time steps x sensors, or pixels x channels.

The typical training row is the mean over the training rows, value by value and draw by draw: `typical_m,d` is the mean
NLL that draw m gives value d of a training row, and was kept by `fit`. Each addend is the contribution of one value, in
units of the score: what this value adds to the score beyond what it usually does. They add up to the difference
between the example's score and the typical one exactly; a negative contribution speaks for a normal example.

The spread is the standard deviation over the draws of that addend: a large one says that the draws disagree on it. The
spread of a sum (a sensor over all time, a category over its one-hot columns) is taken over the draws of the sum, not
from the spreads of its parts, which move together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from indubio.assessment import Assessment
from indubio.decision import Verdict
from indubio.detector import Detector
from indubio.errors import ConfigError
from indubio.inputs.schema import Schema
from indubio.pipeline.autoencoder_scorer import AutoencoderScorer
from indubio.pipeline.chain import Chain
from indubio.pipeline.inputs import Inputs
from indubio.uncertainty import mean_nll, var_nll

VALUES_AT_ONCE = 2**22  # draws x examples x values held in memory at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """The score of every example, in parts.

    Args:
        value: mean over the draws, in units of the score; the parts of an example add up to what its score has beyond
            the typical one.
        spread: standard deviation over the draws; 0 for a single draw.
    """

    value: Float[np.ndarray, "examples ..."]
    spread: Float[np.ndarray, "examples ..."]

    @property
    def size(self) -> Float[np.ndarray, "examples ..."]:
        """The sum of all parts' sizes, for each example."""
        inner = tuple(range(1, self.value.ndim))
        return np.asarray(np.abs(self.value).sum(axis=inner, keepdims=True))

    @property
    def share(self) -> Float[np.ndarray, "examples ..."]:
        """Each part relative to the sum of all parts' sizes; negative for what speaks for a normal example.

        The sizes of an example's shares add up to 1; all are 0 where every part is.
        """
        return _relative(self.value, self.size)

    @property
    def doubt(self) -> Float[np.ndarray, "examples ..."]:
        """The spread of each part, relative to the same sum as the share."""
        return _relative(self.spread, self.size)

    def taken(self, places: Int[np.ndarray, " chosen"]) -> Self:
        """The parts of some examples."""
        return replace(self, value=self.value[places], spread=self.spread[places])


@dataclass(frozen=True, kw_only=True, eq=False)
class Top:
    """The largest contributions of every example, the largest first.

    Args:
        names: of the features or sensors.
        values: in units of the score.
        shares: as `Parts.share`.
        doubts: as `Parts.doubt`: how far the draws disagree on each, in the same units.
    """

    names: Shaped[np.ndarray, "examples k"]
    values: Float[np.ndarray, "examples k"]
    shares: Float[np.ndarray, "examples k"]
    doubts: Float[np.ndarray, "examples k"]

    def texts(self) -> list[str]:
        """One line per example: "pressure 62 % (±4), flow 20 % (±11)"; what does not raise the score is left out."""
        rows = zip(self.names, self.shares, self.doubts, strict=True)
        return [
            ", ".join(
                f"{name} {100 * share:.0f} % (±{100 * doubt:.0f})"
                for name, share, doubt in zip(*row, strict=True)
                if share > 0
            )
            for row in rows
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Contributions:
    """What made the score of every example.

    Args:
        names: of the columns of a table, the sensors of windows or the channels of images.
        value_names: of the last axis of `values`: categories as "colour=red", otherwise the same.
        typical: score of the typical training row, which the contributions are added to. 0 for models saved before it
            was kept: their contributions add up to the score itself.
        values: every single value: (N, D) for tables, (N, L, K) for windows, (N, H, W, C) for images.
        features: (N, columns), each category over its one-hot columns; for windows (N, K), each sensor over all time;
            for images (N, C), each channel over all pixels.
        steps: (N, L), each time step over all sensors, for windows that are scored as they are; else None.
        sensor_names: of the sensors, where the features are those of spectra.
        sensors: (N, K), each sensor over all its features, for spectra only.
        pixels: (N, H, W), each pixel over all channels: the heat map of an image; None for all else.
    """

    names: tuple[str, ...]
    value_names: tuple[str, ...]
    typical: float
    values: Parts
    features: Parts
    steps: Parts | None
    sensor_names: tuple[str, ...] = ()
    sensors: Parts | None = None
    pixels: Parts | None = None

    def __len__(self) -> int:
        return len(self.values.value)

    @property
    def score(self) -> Float[np.ndarray, " examples"]:
        """Score of every example: the typical one and all contributions."""
        return np.asarray(self.typical + self.features.value.sum(axis=1))

    @property
    def by_sensor(self) -> Self:
        """The same with sensors in place of their features; as it is, where there are no such features."""
        if self.sensors is None:
            return self
        return replace(self, names=self.sensor_names, features=self.sensors)

    def top(self, k: int = 3) -> Top:
        """The k features or sensors that contribute most to each example's score.

        Args:
            k: how many; all, where there are fewer.
        """
        if k < 1:
            raise ConfigError(f"`k` must be at least 1, got {k}.")
        order = np.argsort(-self.features.value, axis=1, kind="stable")[:, :k]
        size = self.features.size
        values, spreads = (
            np.take_along_axis(part, order, axis=1) for part in (self.features.value, self.features.spread)
        )
        return Top(
            names=np.array(self.names, dtype=object)[order],
            values=values,
            shares=_relative(values, size),
            doubts=_relative(spreads, size),
        )

    def taken(self, places: Int[np.ndarray, " chosen"]) -> Self:
        """The contributions of some examples."""
        steps = None if self.steps is None else self.steps.taken(places)
        sensors = None if self.sensors is None else self.sensors.taken(places)
        pixels = None if self.pixels is None else self.pixels.taken(places)
        return replace(
            self,
            values=self.values.taken(places),
            features=self.features.taken(places),
            steps=steps,
            sensors=sensors,
            pixels=pixels,
        )

    def to_plain(self, example: int = 0, k: int | None = None) -> dict[str, Any]:
        """One example as plain data for JSON: score, typical score, and contributions, the largest first.

        Args:
            example: which.
            k: so many features or sensors; None gives all. Time steps and pixels are always all there, in order.
        """
        one = self.taken(np.array([example]))
        order = np.argsort(-one.features.value[0], kind="stable")[:k]
        parts = (one.features.value[0], one.features.spread[0], one.features.share[0])
        names = ("contribution", "spread", "share")
        plain: dict[str, Any] = {
            "score": float(one.score[0]),
            "typical": self.typical,
            "features": [
                {"name": self.names[place]}
                | {name: float(part[place]) for name, part in zip(names, parts, strict=True)}
                for place in order
            ],
        }
        if one.sensors is not None:
            shares = one.sensors.share[0].tolist()
            told = zip(
                self.sensor_names, one.sensors.value[0].tolist(), one.sensors.spread[0].tolist(), shares, strict=True
            )
            each = [dict(zip(("name", *names), sensor, strict=True)) for sensor in told]
            plain["sensors"] = sorted(each, key=lambda sensor: -sensor["contribution"])
        if one.steps is not None:
            plain["steps"] = {"contribution": one.steps.value[0].tolist(), "spread": one.steps.spread[0].tolist()}
        if one.pixels is not None:
            plain["pixels"] = {"contribution": one.pixels.value[0].tolist(), "spread": one.pixels.spread[0].tolist()}
        return plain


@dataclass(frozen=True, kw_only=True, eq=False)
class Explained:
    """An assessment, and the reasons for what needs a look.

    Args:
        found: the assessment of all examples.
        places: which of them are not accepted as inliers, ascending.
        why: the contributions of these, in the same order; None where there are none.
    """

    found: Assessment
    places: Int[np.ndarray, " chosen"]
    why: Contributions | None


def contributions(detector: Detector, X: Any) -> Contributions:
    """What every feature, or sensor and time step, or pixel, contributes to the score of every example.

    Args:
        detector: a fitted detector.
        X: what `Detector.assess` takes.
    """
    typical = _typical(detector.fitted_chain)
    inputs = detector.fitted_chain.inputs
    blocks = [_block(block, typical, inputs) for block in _nll_blocks(detector, X)]
    return _joined(blocks)


def explained(detector: Detector, X: Any, *, groups: Any = None) -> Explained:
    """Assess, and explain anomalies and referrals.

    In one pass through the network: the values' parts of the scores are looked at while they are there.

    Args:
        detector: a fitted detector.
        X: what `Detector.assess` takes.
        groups: likewise.
    """
    watched, chain = detector.watched(X, groups=groups), detector.chain_
    typical = _typical(chain)
    blocks: list[Contributions] = []
    kept: list[Int[np.ndarray, " chosen"]] = []
    seen = 0
    for nll, looked_at in watched.blocks():
        chosen = np.flatnonzero(looked_at)
        if len(chosen):
            blocks.append(_block(nll[:, chosen], typical, chain.inputs))
            kept.append(chosen + seen)
        seen += len(looked_at)
    found = watched.assessment()
    places = np.flatnonzero(found.verdict != Verdict.INLIER)
    if not len(places):
        return Explained(found=found, places=places, why=None)
    why, seen_at = _joined(blocks), np.concatenate(kept)
    if len(places) < len(seen_at):  # a rule that sees all examples at once may spare some
        why = why.taken(np.searchsorted(seen_at, places))
    return Explained(found=found, places=places, why=why)


def explained_table(
    detector: Detector, X: Any, *, top: int, contributions: bool, groups: Any = None
) -> tuple[Assessment, pa.Table]:
    """The assessment, and its table with columns that say what made the scores of what needs a look.

    Args:
        detector: a fitted detector.
        X: what `Detector.assess` takes.
        top: a column of so many top features of each; "" for inliers.
        contributions: also columns of what every feature adds to the score, and its spread; empty for inliers.
        groups: as for `Detector.assess`.
    """
    done = explained(detector, X, groups=groups)
    table, examples = done.found.to_arrow(), len(done.found.verdict)
    if top:
        texts = np.full(examples, "", dtype=object)
        if done.why is not None:
            texts[done.places] = done.why.top(top).texts()
        table = table.append_column("top_features", pa.array(texts, pa.string()))
    names = explained_names(detector.chain_.inputs.value_schema) if contributions else ()
    for word, kind in (("contribution", "value"), ("spread", "spread")) if contributions else ():
        values = np.full((examples, len(names)), np.nan)
        if done.why is not None:
            values[done.places] = getattr(done.why.features, kind)
        for name, column in zip(names, values.T, strict=True):
            table = table.append_column(f"{word}: {name}", pa.array(column, from_pandas=True))  # NaN: an empty cell
    return done.found, table


def explained_names(schema: Schema) -> tuple[str, ...]:
    """Names of what contributions are given for: sensors, or columns, a category as one; an empty one has none."""
    return tuple(column.name for column in schema.columns if column.encoded)


def _typical(chain: Chain) -> Float[np.ndarray, "draws ..."]:
    scorer = chain.scorer
    if not isinstance(scorer, AutoencoderScorer):
        raise ConfigError(
            f"{chain.inputs.detector} has no contributions: only an autoencoder's score is a sum over the values."
        )
    if scorer.typical is None:
        return np.zeros((scorer.count, *chain.inputs.value_shape))
    return scorer.typical.astype(np.float64)


def _nll_blocks(detector: Detector, X: Any) -> Iterator[Float[np.ndarray, "draws examples ..."]]:
    size = max(1, VALUES_AT_ONCE // (detector.draws_.count * prod(detector.fitted_chain.inputs.value_shape)))
    examples = detector.fitted_chain.inputs.examples(X)
    if len(examples) <= size:
        yield detector.nll_per_feature(examples)  # no examples at all: the detector says so
        return
    for start in range(0, len(examples), size):
        places = np.arange(start, min(start + size, len(examples)))
        yield detector.nll_per_feature(examples.select(places))


def _block(
    nll: Float[np.ndarray, "draws examples ..."], typical: Float[np.ndarray, "draws ..."], inputs: Inputs
) -> Contributions:
    """Single values, then the sums over one-hot columns, over time and sensors, over pixels, or a sensor's features."""
    schema, spectra = inputs.value_schema, inputs.intake.spectra
    columns, count = [column for column in schema.columns if column.encoded], prod(typical.shape[1:])
    each = (nll.astype(np.float64) - typical[:, None]) / count
    values, steps, sensors, pixels = _parts(each), None, None, None
    if each.ndim == 5:
        features, pixels = _parts(each.sum(axis=(2, 3))), _parts(each.sum(axis=4))
    elif each.ndim == 4:
        features, steps = _parts(each.sum(axis=2)), _parts(each.sum(axis=3))
    else:
        widths = [len(column.encoded) for column in columns]
        starts = np.cumsum([0, *widths[:-1]])
        features = values if len(widths) == each.shape[2] else _parts(np.add.reduceat(each, starts, axis=2))
    if spectra is not None:
        sensors = _parts(each.reshape(*each.shape[:2], spectra.sensors, spectra.per_sensor).sum(axis=3))
    return Contributions(
        names=tuple(column.name for column in columns),
        value_names=schema.encoded_names,
        typical=float(typical.mean()),
        values=values,
        features=features,
        steps=steps,
        sensor_names=() if spectra is None else inputs.schema.names,
        sensors=sensors,
        pixels=pixels,
    )


def _parts(each: Float[np.ndarray, "draws examples ..."]) -> Parts:
    return Parts(value=mean_nll(each), spread=np.sqrt(var_nll(each)))


def _joined(blocks: Sequence[Contributions]) -> Contributions:
    if len(blocks) == 1:
        return blocks[0]
    values = _joined_parts([block.values for block in blocks])
    first = blocks[0]
    same = first.features is first.values
    features = values if same else _joined_parts([block.features for block in blocks])
    steps = [block.steps for block in blocks if block.steps is not None]
    sensors = [block.sensors for block in blocks if block.sensors is not None]
    pixels = [block.pixels for block in blocks if block.pixels is not None]
    return replace(
        first,
        values=values,
        features=features,
        steps=_joined_parts(steps) if steps else None,
        sensors=_joined_parts(sensors) if sensors else None,
        pixels=_joined_parts(pixels) if pixels else None,
    )


def _joined_parts(blocks: Sequence[Parts]) -> Parts:
    return Parts(
        value=np.concatenate([block.value for block in blocks]),
        spread=np.concatenate([block.spread for block in blocks]),
    )


def _relative(
    part: Float[np.ndarray, "examples ..."], whole: Float[np.ndarray, "examples ..."]
) -> Float[np.ndarray, "examples ..."]:
    return np.asarray(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0))
