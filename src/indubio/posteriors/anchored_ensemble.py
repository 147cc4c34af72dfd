r"""Anchored ensembling: M autoencoders, each pulled towards its own anchor (Pearce et al. 2020).

L(theta_m) = -log p(X | theta_m) + lambda ||theta_m - anchor_m||^2          paper, eq. prior loss

Anchors are never shared: with one anchor the spread would vanish as lambda grows. An anchor is a draw from the
initialisation's distribution, independent of the weights the member starts from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Posterior, WeightObjective, fit_networks, fresh_weights
from indubio.posteriors.rows import TrainingRows
from indubio.posteriors.training import Report, Training, silent
from indubio.settings import AtLeastOne


@dataclass(frozen=True, kw_only=True)
class AnchoredEnsemble(Posterior):
    """M autoencoders, each regularised towards its own anchor.

    Args:
        members: size of the ensemble, M.
    """

    COUNT: ClassVar[str | None] = "members"

    members: AtLeastOne = 10

    @property
    def count(self) -> int:
        """Every member is a draw."""
        return self.members

    def fit(
        self,
        autoencoder: Autoencoder,
        rows: TrainingRows,
        *,
        training: Training,
        seed: int,
        report: Report = silent,
        start: Draws | None = None,
    ) -> Draws:
        """Train the members, as many side by side as is fastest."""
        return self.fit_members(
            range(self.members), autoencoder, rows, training=training, seed=seed, report=report, start=start
        )

    def fit_members(
        self,
        members: range,
        autoencoder: Autoencoder,
        rows: TrainingRows,
        *,
        training: Training,
        seed: int,
        report: Report = silent,
        start: Draws | None = None,
    ) -> Draws:
        """Some of the members, as they are in the whole ensemble: each has random streams and a start of its own."""

        def fresh(generators: Sequence[Generator]) -> WeightObjective:
            return WeightObjective(
                autoencoder,
                fresh_weights(autoencoder, generators, rows),
                prior_scale=self.prior_scale,
                generators=generators,
                anchors=fresh_weights(autoencoder, generators, rows),
            )

        trained = fit_networks(
            fresh,
            autoencoder,
            rows,
            networks=members,
            training=training,
            seed=seed,
            report=report,
            start=None if start is None else start.weights,
        )
        parts = list(map(WeightObjective.trained, trained))  # a loop's variable would keep an objective for too long
        weights = {name: torch.cat([part.pop(name) for part in parts]) for name in list(parts[0])}
        return Draws(autoencoder, len(members), weights)
