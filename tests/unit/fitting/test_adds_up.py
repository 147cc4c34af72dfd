"""A user's own posterior whose draws follow from sums gets all that the built-in one gets: the protocol is asked."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from indubio import Detector, HoldOut, TrainScores
from indubio.fitting.on_workers import Order, _tasks
from indubio.networks import ROWS, Architecture, FitContext, StudentLikelihood
from indubio.posteriors import AddsUp, Draws, Posterior, Prototypes, RandomFeatures, SeparateDraws
from indubio.workers import Workers

BUILT_IN = RandomFeatures(draws=2, units=20, copies=1, keep_sums=True)
ROWS_OF_TWO_BLOCKS = np.random.default_rng(0).normal(size=(2 * ROWS, 3))


@dataclass(frozen=True, kw_only=True)
class OwnSums(SeparateDraws):
    """Somebody else's class: it has the methods, and none of ours among its bases that has sums."""

    TRAINED: ClassVar[bool] = False
    SCALING = BUILT_IN.SCALING
    LIKELIHOOD = StudentLikelihood(noise="per_feature")
    keep_sums: bool = True
    draws: int = 2

    @property
    def count(self) -> int:
        return self.draws

    @property
    def inner(self) -> RandomFeatures:
        return BUILT_IN.replaced(draws=self.draws, keep_sums=self.keep_sums)

    @property
    def measured_rows(self) -> int:
        return self.inner.measured_rows

    def architecture_for(self, input_shape: tuple[int, ...], rows: int) -> Architecture:
        return self.inner.architecture_for(input_shape, rows)

    def check_architecture(self, architecture: Architecture) -> None:
        self.inner.check_architecture(architecture)

    def some_draws(self, context: FitContext, which: range) -> Draws:
        return self.inner.some_draws(context, which)

    def spans(self, rows: int) -> list[range]:
        return self.inner.spans(rows)

    def sums(self, context: FitContext, which: range, chosen: Sequence[range]) -> Iterator[Sequence[Any]]:
        return self.inner.sums(context, which, chosen)

    def draws_from(self, context: FitContext, which: range, parts: Iterable[Sequence[Any]]) -> Draws:
        return self.inner.draws_from(context, which, parts)

    def extended(self, draws: Draws, context: FitContext, first: np.ndarray) -> Draws:
        return self.inner.extended(draws, context, first)


@pytest.mark.parametrize(
    ("posterior", "expected"), [(BUILT_IN, True), (OwnSums(), True), (Prototypes(), False)], ids=lambda one: str(one)
)
def test_what_adds_up_is_told_by_what_it_offers(posterior, expected):
    assert isinstance(posterior, AddsUp) is expected


def tasks_of(posterior: Posterior) -> list[tuple[Any, Any]]:
    order = Order(posterior=posterior, trained=None, seed=0)
    return [(task.which, task.spans) for task in _tasks(order, ROWS_OF_TWO_BLOCKS, 4)]


def test_workers_share_its_rows():
    shared = tasks_of(OwnSums())
    assert shared == tasks_of(BUILT_IN)
    assert all(spans is not None for _, spans in shared)
    ours, theirs = (
        Detector(posterior=posterior, calibration=TrainScores()).fit(ROWS_OF_TWO_BLOCKS, workers=workers)
        for posterior, workers in ((BUILT_IN, None), (OwnSums(), Workers(processes=3)))
    )
    np.testing.assert_array_equal(ours.nll(ROWS_OF_TWO_BLOCKS[:9]), theirs.nll(ROWS_OF_TWO_BLOCKS[:9]))


def test_examples_are_added_without_the_training_data():
    ours, theirs = (
        Detector(posterior=posterior, calibration=HoldOut())
        .fit(ROWS_OF_TWO_BLOCKS[:300])
        .update(0.5 * ROWS_OF_TWO_BLOCKS[300:400])
        for posterior in (BUILT_IN, OwnSums())
    )
    assert theirs.n_training_ == 400
    np.testing.assert_array_equal(ours.nll(ROWS_OF_TWO_BLOCKS[:9]), theirs.nll(ROWS_OF_TWO_BLOCKS[:9]))
