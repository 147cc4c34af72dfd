"""TrainingExamples: good examples in memory, and what is asked of them before anything is fitted."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int, Shaped

from indubio.data import Examples, Rows, Schema, examples_of
from indubio.prepare.missing import medians
from indubio.prepare.quality import QualityLimits, fit_quality
from indubio.prepare.scaling import ColumnSummary


class Survey(Protocol):
    """What is asked of the examples that a model is fitted on before it is: of one block in memory, or of many."""

    @property
    def sample(self) -> Float[np.ndarray, "sampled ..."]:
        """Values of some of them as they came in, or of all."""

    @property
    def schema(self) -> Schema:
        """Names, kinds, ranges and categories of the columns."""

    @property
    def named(self) -> bool:
        """Whether the columns came with names."""

    @property
    def rate(self) -> float | None:
        """Samples per second of windows, where it is known."""

    @property
    def machines(self) -> Shaped[np.ndarray, " sampled"] | None:
        """The machine of each window of the sample, where several were recorded at the same time; else None."""

    @property
    def examples(self) -> int | None:
        """How many there are where the sample is not all of them; else None."""

    def medians(self) -> Float[np.ndarray, " columns"]:
        """Of each column or sensor."""

    def quality(self) -> QualityLimits | None:
        """What the sensors of windows do; None for tables and images."""

    def summary(
        self, features: Callable[[np.ndarray], np.ndarray] | None
    ) -> tuple[ColumnSummary, Float[np.ndarray, "sampled ..."]]:
        """Ranges, means and deviations of the features of all of them, and the features of the sample.

        Args:
            features: makes them; None takes the values as they came in.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingExamples:
    """Good examples in memory, as numbers; they survey themselves, for the sample is all of them.

    Args:
        given: the examples.
        rows: their values.
        schema: names, kinds, ranges and categories of the columns.
        detector: whose they are, for messages.
        machines: the machine of each window where several were recorded at the same time; else None.
    """

    given: Examples
    rows: Rows
    schema: Schema
    detector: str
    machines: Shaped[np.ndarray, " examples"] | None
    examples: None = None

    @classmethod
    def of(cls, X: Any, detector: str) -> "TrainingExamples":
        """Training data in any form.

        Args:
            X: array, frame, `Table`, `Windows` or `Images`.
            detector: whose, for messages.
        """
        given = examples_of(X, detector)
        schema = given.training_schema()
        return cls(given=given, rows=given.rows(schema), schema=schema, detector=detector, machines=given.machines)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, trained: Int[np.ndarray, " trained"]) -> "TrainingExamples":
        """Those that some draw is trained on: ranges and medians are learned from them, the schema is that of all."""
        machines = None if self.machines is None else self.machines[trained]
        return replace(self, rows=self.rows.select(trained), machines=machines)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.rows.values.shape[1:]

    @property
    def sample(self) -> Float[np.ndarray, "examples ..."]:
        """The values of the examples, all of them."""
        return self.rows.values

    @property
    def named(self) -> bool:
        """Whether the columns came with names."""
        return self.rows.names is not None

    @property
    def rate(self) -> float | None:
        """Samples per second of windows, where it is known."""
        return self.given.rate

    def medians(self) -> Float[np.ndarray, " columns"]:
        """Of each column or sensor."""
        return medians(self.rows.values, self.rows.columns_of or self.rows.names)

    def quality(self) -> QualityLimits | None:
        """What the sensors of windows do; None for tables and images."""
        return fit_quality(self.rows.values) if self.rows.values.ndim == 3 else None

    def summary(
        self, features: Callable[[np.ndarray], np.ndarray] | None
    ) -> tuple[ColumnSummary, Float[np.ndarray, "examples ..."]]:
        """Ranges, means and deviations of the features, and the features."""
        values = self.rows.values if features is None else features(self.rows.values)
        return ColumnSummary.of(values), values
