"""Several detectors on the same examples: one accuracy-rejection curve each, and one table."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from indubio.errors import ConfigError, quoted
from indubio.evaluation.argument_checks import Binary, Values
from indubio.evaluation.rejection import RejectionCurve
from indubio.evaluation.summary import Evaluation, evaluate


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """How several detectors do on the same examples, in the order they were given.

    Args:
        evaluations: by the detector's name.
    """

    evaluations: Mapping[str, Evaluation]

    def curves(self, metric: str = "gss") -> dict[str, RejectionCurve]:
        """The accuracy-rejection curves, the highest W first; those that are undefined last.

        Args:
            metric: gss, or auroc where scores were given.
        """
        if metric not in ("gss", "auroc"):
            raise ConfigError(f"`metric` must be gss or auroc, got {metric!r}.")
        found = {name: getattr(evaluation, metric) for name, evaluation in self.evaluations.items()}
        without = [name for name, curve in found.items() if curve is None]
        if without:
            raise ConfigError(f'metric="auroc" needs the `scores` of {quoted(without)}.')
        return dict(sorted(found.items(), key=lambda item: -np.nan_to_num(item[1].weighted_average, nan=-np.inf)))

    def table(self) -> list[dict[str, str | int | float]]:
        """One row of plain numbers per detector, the highest W of GSS first; `detector` is its name."""
        return [{"detector": name, **self.evaluations[name].to_dict()} for name in self.curves()]


def compare(
    labels: Binary,
    predictions: Mapping[str, Binary],
    uncertainties: Mapping[str, Values],
    *,
    scores: Mapping[str, Values] | None = None,
    min_anomalies: int = 3,
    min_inliers: int = 1,
) -> Comparison:
    """Evaluate several detectors on the same examples.

    Args:
        labels: 1 for an anomaly.
        predictions: by the detector's name; 1 for what it calls an anomaly.
        uncertainties: by the same names; high means unsure, and only the order matters.
        scores: by the same names; high means anomalous; adds AUROC.
        min_anomalies: fewest retained anomalies of a defined point of a curve.
        min_inliers: fewest retained inliers of a defined point of a curve.

    Examples:
        Both detectors are wrong on the same two examples, but only one is unsure of them.

        >>> labels      = [0, 0, 0, 0, 1, 1, 1, 1]
        >>> predictions = [0, 0, 0, 1, 1, 1, 1, 0]
        >>> knowing = [0.1, 0.2, 0.1, 0.9, 0.3, 0.1, 0.2, 0.8]
        >>> compared = compare(
        ...     labels,
        ...     {"constant": predictions, "knowing": predictions},
        ...     {"constant": [0.5] * 8, "knowing": knowing},
        ... )
        >>> [(row["detector"], round(row["gss_gain"], 2)) for row in compared.table()]
        [('knowing', 0.11), ('constant', 0.0)]
    """
    if not predictions:
        raise ConfigError("`predictions` must be of at least one detector, got none.")
    for name, given in (("uncertainties", uncertainties), ("scores", scores)):
        if given is not None and given.keys() != predictions.keys():
            raise ConfigError(
                f"`{name}` must be of the detectors {quoted(predictions)}, as `predictions` are, got {quoted(given)}."
            )
    return Comparison(
        evaluations={
            name: evaluate(
                labels,
                predictions[name],
                uncertainties[name],
                scores=None if scores is None else scores[name],
                min_anomalies=min_anomalies,
                min_inliers=min_inliers,
            )
            for name in predictions
        }
    )
