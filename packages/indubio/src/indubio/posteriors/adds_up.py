"""AddsUp: what a posterior offers whose draws follow from sums over rows.

Sums of several workers can be put together, and rows can be added to them later. A posterior that offers this gets
both; which class it is does not matter.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from indubio.networks import FitContext
from indubio.posteriors.draws import Draws


@runtime_checkable
class AddsUp(Protocol):
    """A posterior whose draws follow from sums over rows; what a sum is, only it needs to know."""

    @property
    def keep_sums(self) -> bool:
        """Whether its draws keep their sums, so that rows can be added later."""

    @property
    def measured_rows(self) -> int:
        """How many of the first rows it needs beside the sums, to measure errors on."""

    def spans(self, rows: int) -> Sequence[range]:
        """Spans of the blocks of so many rows; the sums of a span are made by one process."""

    def sums(self, context: FitContext, which: range, chosen: Sequence[range]) -> Iterator[Sequence[Any]]:
        """The sums of each of these draws over each of these spans, in one pass over the rows."""

    def draws_from(self, context: FitContext, which: range, parts: Iterable[Sequence[Any]]) -> Draws:
        """Some of the draws, from the sums of each of them over all spans, one span after the other."""

    def extended(self, draws: Draws, context: FitContext, first: Float[np.ndarray, "n ..."]) -> Draws:
        """All draws of a fit that kept their sums, with more rows.

        Args:
            draws: with their sums.
            context: the new rows alone, and the seed of that fit.
            first: the first rows of all, `measured_rows` of them.
        """
