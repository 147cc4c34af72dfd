r"""Which features, sensors and time steps made the score.

    nll(x) = sum_d E_m[nll_m,d(x)] / D        D values per example: features, or time steps x sensors

Each addend is the contribution of one value, in units of the score, so contributions add up to the score exactly.
The spread is the standard deviation over the draws of that addend; the spread of a sum (a sensor over all time, a step
over all sensors) is taken over the draws of the sum, not from the spreads of its parts, which move together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from indubio.data.tables import Table
from indubio.data.windows import Windows
from indubio.detector import Detector
from indubio.errors import ConfigError
from indubio.uncertainty import mean_nll, var_nll

VALUES_AT_ONCE = 2**22  # draws x examples x values held in memory at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """The score of every example, in parts.

    Args:
        value: mean over the draws, in units of the score; the parts of an example add up to its score.
        spread: standard deviation over the draws; 0 for a single draw.
    """

    value: Float[np.ndarray, "examples ..."]
    spread: Float[np.ndarray, "examples ..."]

    @property
    def share(self) -> Float[np.ndarray, "examples ..."]:
        """Each part relative to the sum of all parts' sizes.

        Shares add up to 1 where no part is negative, which only a likelihood with learned noise gives. A negative
        share speaks for a normal example. All are 0 where the score is.
        """
        inner = tuple(range(1, self.value.ndim))
        whole = np.abs(self.value).sum(axis=inner, keepdims=True)
        return np.asarray(np.divide(self.value, whole, out=np.zeros_like(self.value), where=whole > 0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Top:
    """The largest contributions of every example, the largest first.

    Args:
        names: of the features or sensors.
        shares: of the score.
    """

    names: Shaped[np.ndarray, "examples k"]
    shares: Float[np.ndarray, "examples k"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Contributions:
    """What made the score of every example.

    Args:
        names: of the features of a table (categories as "colour=red") or the sensors of windows.
        values: every single value: (N, D) for tables, (N, L, K) for windows.
        features: (N, D), the same as `values`; for windows (N, K), each sensor over all time steps.
        steps: (N, L), each time step over all sensors; None for tables.
    """

    names: tuple[str, ...]
    values: Parts
    features: Parts
    steps: Parts | None

    def __len__(self) -> int:
        return len(self.values.value)

    def top(self, k: int = 3) -> Top:
        """Names and shares of the k features or sensors that contribute most to each example's score.

        Args:
            k: how many; all, where there are fewer.
        """
        if k < 1:
            raise ConfigError(f"`k` must be at least 1, got {k}.")
        order = np.argsort(-self.features.value, axis=1, kind="stable")[:, :k]
        return Top(
            names=np.array(self.names, dtype=object)[order],
            shares=np.take_along_axis(self.features.share, order, axis=1),
        )


def contributions(detector: Detector, X: Any) -> Contributions:
    """What every feature, or sensor and time step, contributes to the score of every example.

    Args:
        detector: a fitted detector.
        X: what `Detector.assess` takes.
    """
    if not isinstance(detector, Detector):
        raise ConfigError(
            f"{type(detector).__name__} has no contributions: only an autoencoder's score is a sum over the values."
        )
    blocks = [_parts_of_block(block) for block in _nll_blocks(detector, X)]
    values, *sums = (_joined(parts) for parts in zip(*blocks, strict=True))
    features, steps = sums or (values, None)
    return Contributions(names=detector.schema_.encoded_names, values=values, features=features, steps=steps)


def chosen_examples(X: Any, places: Int[np.ndarray, " chosen"]) -> Any:
    """Some of the examples, in the order of their places, in whatever form they came in."""
    if isinstance(X, Windows):
        return X.select(places)
    if isinstance(X, Table):
        rows = pa.array(places)
        return replace(
            X,
            features=X.features.take(rows),
            passed=None if X.passed is None else X.passed.take(rows),
            labels=None if X.labels is None else X.labels[places],
        )
    if hasattr(X, "iloc"):
        return X.iloc[places]
    return X[places] if hasattr(X, "__arrow_c_stream__") else np.asarray(X)[places]


def _nll_blocks(detector: Detector, X: Any) -> Iterator[Float[np.ndarray, "draws examples ..."]]:
    size = max(1, VALUES_AT_ONCE // (detector.draws_.count * prod(detector.input_shape_)))
    for start in range(0, max(1, len(X)), size):  # no examples at all: the detector says so
        places = np.arange(start, min(start + size, len(X)))
        yield detector.nll_per_feature(chosen_examples(X, places))


def _parts_of_block(nll: Float[np.ndarray, "draws examples ..."]) -> tuple[Parts, ...]:
    """The single values; for windows also the sums over time and over sensors."""
    each = nll.astype(np.float64) / prod(nll.shape[2:])
    sums = (each,) if each.ndim == 3 else (each, each.sum(axis=2), each.sum(axis=3))
    return tuple(Parts(value=mean_nll(part), spread=np.sqrt(var_nll(part))) for part in sums)


def _joined(blocks: Sequence[Parts]) -> Parts:
    return Parts(
        value=np.concatenate([block.value for block in blocks]),
        spread=np.concatenate([block.spread for block in blocks]),
    )
