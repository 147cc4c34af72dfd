r"""Anchored ensembling: M autoencoders, each pulled towards its own anchor (Pearce et al. 2020).

L(theta_m) = -log p(X | theta_m) + lambda ||theta_m - anchor_m||^2          paper, eq. prior loss

Anchors are never shared: with one anchor the spread would vanish as lambda grows. An anchor is a draw from the
initialisation's distribution, independent of the weights the member starts from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.engine import PointWeights, Stream, streams
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Beginning, Posterior, fit_networks, fresh_weights
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

        def begin(own: Sequence[Stream]) -> Beginning:
            values = fresh_weights(autoencoder, own, rows.dtype)
            return Beginning(values, anchors=fresh_weights(autoencoder, own, rows.dtype))

        trained = fit_networks(
            PointWeights(prior_scale=self.prior_scale),
            begin,
            autoencoder,
            rows,
            streams=streams(seed, members.stop)[members.start :],
            training=training,
            seed=seed,
            report=report,
            start=None if start is None else autoencoder.flat(start.weights),
        )
        weights = np.empty((len(members), autoencoder.weight_count()), rows.dtype)
        done = 0
        for part in trained:
            weights[done : done + len(part)] = part
            done += len(part)
        return Draws(autoencoder, len(members), autoencoder.named(weights))
