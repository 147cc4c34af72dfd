r"""Stochastic gradient Hamiltonian Monte Carlo: a chain of weights that wanders over the posterior (Chen et al. 2014).

v <- (1 - a) v - e grad L(theta) + N(0, 2 a e T / N),     theta <- theta + v

with friction a, step size e, N training rows, and L = mean NLL + lambda ||theta||^2, so that the chain settles to
exp(-N L / T). The paper names the method and gives no settings: these are ours.

T is the temperature. At T = 1 the posterior belongs to sigma = 1, ten to a hundred times the residuals of data scaled
to [0, 1], and to one value per example (the paper's 1/D): so wide that the draws reconstruct nothing. The default is
the order of residual variance / D, which is what the data say. The chain starts from a network trained by Adam like
all the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Generator, Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.layers import Weights
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Posterior, WeightObjective, fit_network
from indubio.posteriors.rows import TrainingRows
from indubio.posteriors.training import (
    Progress,
    Report,
    Training,
    diverged,
    endless_batches,
    silent,
    training_threads,
)
from indubio.settings import AtLeastOne, NotNegative, NotNegativeInt, Positive


@dataclass(frozen=True, kw_only=True)
class SGHMC(Posterior):
    """A chain of weights; each draw is where the chain is after some more steps.

    Args:
        draws: number of weights kept, M.
        step_size: e; about the learning rate of gradient descent with momentum, times the friction.
        friction: a, the share of the momentum lost at every step.
        burn_in: steps before the first draw, after training.
        thinning: steps from one draw to the next.
        temperature: T; 0 gives plain gradient descent with momentum.
    """

    draws: AtLeastOne = 100
    step_size: Positive = 0.01
    friction: Annotated[float, Field(gt=0, le=1)] = 0.05
    burn_in: NotNegativeInt = 200
    thinning: AtLeastOne = 10
    temperature: NotNegative = 1e-4

    @property
    def count(self) -> int:
        """Number of weights kept."""
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
        """Train one network, then let the chain run; it starts where the chain of `start` ended."""
        objective = fit_network(
            lambda weights, generators: WeightObjective(
                autoencoder, weights, prior_scale=self.prior_scale, generators=generators
            ),
            autoencoder,
            rows,
            training=training,
            seed=seed,
            report=report,
            start=start,
        )
        with training_threads(training, autoencoder.weight_count()):
            chain = list(self._chain(objective, rows, training, report))
        return Draws(autoencoder, self.draws, {name: torch.cat([w[name] for w in chain]) for name in chain[0]})

    def _chain(
        self, objective: WeightObjective, rows: TrainingRows, training: Training, report: Report
    ) -> Iterator[Weights]:
        (generator,) = objective.generators
        momenta = [torch.zeros_like(tensor) for tensor in objective.moved]
        steps = range(1, self.burn_in + self.draws * self.thinning + 1)
        batches = endless_batches(rows, training.batch_rows(len(rows)), generator)
        for step, batch in zip(steps, batches, strict=False):
            loss = objective.differentiate(batch)
            gradients = tuple(tensor.grad for tensor in objective.moved if tensor.grad is not None)
            with torch.no_grad():
                torch._foreach_add_(gradients, objective.moved, alpha=objective.decay)
            self.move(objective.moved, momenta, gradients, len(rows), generator)
            after = step - self.burn_in
            if after > 0 and after % self.thinning == 0:
                if not bool(loss.isfinite().all()):
                    raise diverged(loss, step, self.step_size)
                report(Progress(after // self.thinning, self.draws, float(loss), stage="sampling"))
                yield {name: weight.detach().clone() for name, weight in objective.weights.items()}

    @torch.no_grad()
    def move(
        self,
        leaves: list[Float[Tensor, "..."]],
        momenta: list[Float[Tensor, "..."]],
        gradients: tuple[Float[Tensor, "..."], ...],
        examples: int,
        generator: Generator,
    ) -> None:
        """One step of the chain, in place; `gradients` are those of L, the loss per training row."""
        spread = sqrt(2 * self.friction * self.step_size * self.temperature / examples)
        for leaf, momentum, gradient in zip(leaves, momenta, gradients, strict=True):
            kick = torch.empty(leaf.shape, dtype=leaf.dtype).normal_(generator=generator).to(leaf.device)
            momentum.mul_(1 - self.friction).sub_(gradient, alpha=self.step_size).add_(kick, alpha=spread)
            leaf.add_(momentum)
