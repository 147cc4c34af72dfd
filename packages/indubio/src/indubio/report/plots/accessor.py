"""`found.plot`: the plots of an assessment, as pandas has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from indubio.chain import Assessment
from indubio.judging import UNCERTAINTIES
from indubio.report.plots import assessment_plots as plots


@dataclass(frozen=True)
class AssessmentPlots:
    """The plots that need an assessment, and labels at the most.

    Args:
        found: what `assess` found.
    """

    found: Assessment

    def probability(self, labels: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
        """The anomaly probabilities of the examples."""
        return plots.probability(self.found, labels, ax=ax)

    def uncertainty(self, labels: ArrayLike | None = None, *, of: str = "total", ax: Axes | None = None) -> Axes:
        """An uncertainty of the examples, the total unless another is named."""
        return plots.uncertainty(self.found, labels, of=of, ax=ax)

    def scores(self, labels: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
        """The scores, sorted, coloured by verdict or by label."""
        return plots.scores(self.found, labels, ax=ax)

    def scatter(self, against: str = "epistemic", labels: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
        """The probability against an uncertainty, coloured by verdict or by label."""
        return plots.scatter(self.found, against, labels, ax=ax)

    def timeline(self, of: str = "probability", at: Sequence[Any] | None = None, *, ax: Axes | None = None) -> Axes:
        """A number in the order of the examples, coloured by verdict."""
        return plots.timeline(self.found, of, at, ax=ax)

    def verdicts(self, *, ax: Axes | None = None) -> Axes:
        """How many examples have which verdict."""
        return plots.verdicts(self.found, ax=ax)

    def rejection(
        self,
        labels: ArrayLike,
        by: Sequence[str] = tuple(UNCERTAINTIES),
        *,
        metric: str = "gss",
        ax: Axes | None = None,
    ) -> Axes:
        """How good the predictions are that are left when the most uncertain examples are rejected."""
        return plots.rejection(self.found, labels, by, metric=metric, ax=ax)

    def confusion(self, labels: ArrayLike, *, ax: Axes | None = None) -> Axes:
        """Verdicts against labels: what is right, wrong and referred."""
        return plots.confusion(self.found, labels, ax=ax)
