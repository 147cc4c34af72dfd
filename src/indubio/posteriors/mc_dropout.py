r"""Monte Carlo dropout: one network trained under dropout, M fixed masks as draws (Gal & Ghahramani 2016).

theta = W * eps,  eps ~ Ber(1 - p),   L = -log p(X | theta) + lambda ||W||^2          paper, appendix

A mask switches whole units (linear layers) or channels (convolutions), after the activation, without the usual
rescaling by 1/(1 - p): the paper's theta is W times eps and no more. In training every row gets its own masks; a draw
has one mask for all rows, drawn at the end of fit, or else one row's score would depend on its neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Generator, Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.network import Masks
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Posterior, WeightObjective, fit_networks, fresh_weights
from indubio.posteriors.rows import TrainingRows
from indubio.posteriors.training import Objective, Report, Stepper, Training, silent
from indubio.settings import AtLeastOne

DROPOUT = 0.01  # paper, appendix


@dataclass(frozen=True, kw_only=True)
class MCDropout(Posterior):
    """One autoencoder with dropout; each draw is a fixed mask.

    Args:
        draws: number of masks, M.
        dropout: probability that a unit is switched off.
    """

    draws: AtLeastOne = 100
    dropout: Annotated[float, Field(ge=0, lt=1)] = DROPOUT

    @property
    def count(self) -> int:
        """Number of masks."""
        return self.draws

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
        """Train one network under dropout, then draw the masks."""
        (objective,) = fit_networks(
            lambda generators: _DropoutObjective(
                autoencoder,
                fresh_weights(autoencoder, generators, rows),
                prior_scale=self.prior_scale,
                generators=generators,
                dropout=self.dropout,
            ),
            autoencoder,
            rows,
            networks=range(1),
            training=training,
            seed=seed,
            report=report,
            start=None if start is None else {name: weight[:1] for name, weight in start.weights.items()},
        )
        (generator,) = objective.generators
        units = autoencoder.network.dropout_units
        masks = tuple(_masks((self.draws, 1, size), self.dropout, generator, rows) for size in units)
        return Draws(autoencoder, self.draws, objective.trained(), masks=masks)


class _DropoutObjective(WeightObjective):
    def __init__(
        self,
        autoencoder: Autoencoder,
        weights: dict[str, Tensor],
        *,
        prior_scale: float,
        generators: Sequence[Generator],
        dropout: float,
    ) -> None:
        super().__init__(autoencoder, weights, prior_scale=prior_scale, generators=generators)
        self._dropout = dropout

    def stepper(self, batch: int, threads: int) -> Stepper:
        """On torch: the kernels have no masks."""
        return Objective.stepper(self, batch, threads)

    def masks(self, rows: Float[Tensor, "c b ..."]) -> Masks:
        """Fresh masks for every row."""
        return [
            torch.stack([_masks((rows.shape[1], size), self._dropout, g, rows) for g in self.generators])
            for size in self.autoencoder.network.dropout_units
        ]


def _masks(shape: tuple[int, ...], dropout: float, generator: Generator, like: TrainingRows) -> Tensor:
    return torch.empty(shape).bernoulli_(1 - dropout, generator=generator).to(like.device, like.dtype)
