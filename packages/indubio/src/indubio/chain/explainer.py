"""Explainer: the score of every value -> what each feature, sensor, time step or pixel adds to the score."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from jaxtyping import Float, Int

from indubio.chain.explain import Contributions, Parts
from indubio.chain.scorer import ValueScores
from indubio.judging import mean_nll, var_nll
from indubio.prepare import Preparation


@dataclass(frozen=True, kw_only=True, eq=False)
class Explainer:
    """Makes contributions of scores.

    Args:
        typical: mean score of every value over the training examples, per draw: what contributions are counted from.
        preparation: have the names of what is scored.
    """

    typical: Float[np.ndarray, "draws ..."]
    preparation: Preparation

    def contributions(self, nll: ValueScores, places: Int[np.ndarray, " examples"]) -> Contributions:
        """Of single values, then the sums over one-hot columns, time and sensors, pixels, or a sensor's features.

        Args:
            nll: the score of every value under every draw.
            places: which examples these are, among those that are assessed.
        """
        schema, spectra = self.preparation.value_schema, self.preparation.spectra
        columns, count = [column for column in schema.columns if column.encoded], prod(self.typical.shape[1:])
        each = (nll.astype(np.float64) - self.typical[:, None]) / count
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
            places=places,
            names=tuple(column.name for column in columns),
            value_names=schema.encoded_names,
            typical=float(self.typical.mean()),
            values=values,
            features=features,
            steps=steps,
            sensor_names=() if spectra is None else self.preparation.schema.names,
            sensors=sensors,
            pixels=pixels,
        )

    @cached_property
    def nothing(self) -> Contributions:
        """Contributions of no example, where nothing needs a look."""
        return self.contributions(np.zeros((len(self.typical), 0, *self.typical.shape[1:])), np.arange(0))


def _parts(each: Float[np.ndarray, "draws examples ..."]) -> Parts:
    return Parts(value=mean_nll(each), spread=np.sqrt(var_nll(each)))
