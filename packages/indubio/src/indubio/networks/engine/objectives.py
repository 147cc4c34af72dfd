r"""What an engine can do with the weights of networks: minimise a loss, or wander over a posterior.

Everywhere lambda is `prior_scale`, and the NLL is the mean over a batch's rows and a row's values.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, eq=False)
class Corruption:
    """Normal noise that is added to what a network is given in training; what it must give back stays clean.

    Args:
        lowest: smallest standard deviation, in units of the rows.
        highest: largest; between the two it is drawn log-uniformly for every row and step.
        factors: of the noise of every value of a row; None is 1.
    """

    lowest: float
    highest: float
    factors: Float[np.ndarray, "..."] | None = None


@dataclass(frozen=True, kw_only=True)
class PointWeights:
    r"""Mean NLL + lambda ||theta - anchor||^2, the anchor being 0 where there is none.

    Args:
        prior_scale: lambda.
        dropout: probability that a unit is switched off; every row of a batch has masks of its own, and what stays is
            not rescaled.
        kl_weight: weight of the mean over the batch of KL[q(code) || N(0, 1)], summed over the code; the code then has
            fresh noise for every row. As the NLL is a mean over a row's D values, it is what 1/D of the textbook's KL
            weighs. None for networks without code noise.
    """

    prior_scale: float
    dropout: float = 0.0
    kl_weight: float | None = None


@dataclass(frozen=True, kw_only=True)
class Variational:
    r"""Bayes by Backprop: E_q[mean NLL] + lambda KL[q || p], with a Gaussian q over every weight.

    What is trained is (C, 2P): the means, then the rhos, sigma = softplus(rho). The prior p is the mixture
    pi N(0, wide^2) + (1 - pi) N(0, narrow^2); E_q[log q] is taken in closed form, E_q[log p] from the samples.

    Args:
        prior_scale: lambda.
        samples: weight samples of each network per step.
        mixture: pi.
        wide: standard deviation of the one part of the prior.
        narrow: standard deviation of the other.
    """

    prior_scale: float
    samples: int
    mixture: float
    wide: float
    narrow: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Dynamics:
    r"""Stochastic gradient Hamiltonian Monte Carlo on L = mean NLL + lambda ||theta||^2.

    v <- (1 - friction) v - step_size grad L(theta) + spread N(0, 1),     theta <- theta + v

    Args:
        prior_scale: lambda, of all weights or of each.
        step_size: of a move.
        friction: share of the momentum lost at every move.
        spread: standard deviation of the kick, of all weights or of each; where it is 0 the move is gradient descent
            with momentum.
        kl_weight: of the code's KL in L, as in `PointWeights`; None for networks without code noise.
    """

    prior_scale: float | Float[np.ndarray, " p"]
    step_size: float
    friction: float
    spread: float | Float[np.ndarray, " p"]
    kl_weight: float | None = None
