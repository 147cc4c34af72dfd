r"""Functional prior: SGHMC under a prior of the weights that was fitted to what the data look like (Tran et al. 2021).

    theta_l ~ N(0, s_l^2)                                one scale for the weights and biases of each layer
    s = argmin SW(f(X; theta), X)                        what networks of the prior make of the rows, and the rows
    SW(A, B) = E_u [W_1(u^T A, u^T B)]                   sliced Wasserstein: in one dimension after the other

A prior of independent weights says something of functions that nobody asked for. Here the scales are chosen so that
networks which have seen no row give back, over all rows and networks, values as they occur in the data. Then the chains
sample the posterior under it, lambda_l = T / (2 N s_l^2) for every weight of layer l. Each begins with a network of the
prior that was trained: what the rows say nothing of is then a draw of the prior from the start, and no chain could get
there by itself.

W_1 between two samples of the same size is the mean distance of their sorted values. The search begins at the scales of
fresh weights, multiplies all of them by common factors first, then the one that brings most, on the same random numbers
throughout: few scales need no gradient, and a search that only compares gives the same on every machine. (One scale at
a time would let the first layer do it all, with a prior that allows it no weights.) Gains of norms and learned noise
have no scale and no prior; networks are trained with `prior_scale` before the chain, as those of `SGHMC`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product as pairs
from math import inf, isfinite, prod, sqrt

import numpy as np
from jaxtyping import Float, Int

from indubio.networks import Autoencoder, Beginning, FitContext, engine_for, fresh_weights, stretches
from indubio.numerics import Stream, product, stream, streams
from indubio.posteriors import SGHMC, Draws
from indubio.settings import AtLeastOne, NotNegativeInt
from indubio.texts import english

DIRECTION_NUMBERS, PRIOR_NUMBERS = 14, 15  # purposes of the random streams
MOST_ROWS = 100  # that prior networks reconstruct
FACTORS = (2.0, 1.25)  # of all scales, then of one, tried one after the other
LEAST = 1e-3  # share of the distance that a move must bring: some only shift scale from one layer to the next
MOST = 4.0  # times that a scale may be larger or smaller than that of fresh weights: beyond, chains diverge
SCALED = r"((?:encoder|decoder)\..*)\.(?:weight|bias)"  # names of weights that have a scale, and of their layer


@dataclass(frozen=True, kw_only=True)
class FunctionalPrior(SGHMC):
    """Chains of weights under a prior whose networks give back values like those of the data.

    Args:
        networks: of the prior, whose reconstructions are compared with the rows.
        directions: in which they are compared.
        moves: of the search, at most with each factor.

    Examples:
        The draws tell how far prior networks were from the data, with the scales of fresh weights and with those found.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> prior = FunctionalPrior(draws=6, burn_in=10, thinning=5, networks=8, directions=10)
        >>> facts = prior.fit(autoencoder, rows, training=Training(epochs=2), seed=0).facts
        >>> facts["distance of prior networks to the data"] < facts["the same of fresh networks' scales"]
        True
    """

    networks: AtLeastOne = 32
    directions: AtLeastOne = 100
    moves: NotNegativeInt = 8

    def draws_of(self, context: FitContext) -> Draws:
        """Fit the prior, train networks, then let the chains run."""
        prior = PriorNetworks(context, self.networks, self.directions)
        factors, before, after = lowest(
            lambda factors: prior.distance(prior.start * factors), len(prior.layers), self.moves
        )
        scales = prior.start * factors
        facts: dict[str, float] = {
            english("distance of prior networks to the data"): after,
            english("the same of fresh networks' scales"): before,
        }
        found = {
            english("prior scale of {layer}", layer=name): float(scale)
            for name, scale in zip(prior.layers, scales, strict=True)
        }
        return replace(self.sampled_under(context, prior, scales), facts=facts | found)

    def sampled_under(self, context: FitContext, prior: "PriorNetworks", scales: Float[np.ndarray, " layers"]) -> Draws:
        """The places of chains under the prior of these scales."""
        return self.sampled(
            context,
            variances=prior.spread(scales) ** 2,
            begin=lambda given: Beginning(prior.weights(scales, given)),
        )


class PriorNetworks:
    """Networks whose weights are drawn from the prior, always with the same random numbers.

    Args:
        context: the autoencoder, the rows and the seed.
        networks: how many.
        directions: in which reconstructions are compared with rows.

    Attributes:
        layers: that have a scale, by name.
        start: the scales of a fresh network's weights.
    """

    def __init__(self, context: FitContext, networks: int, directions: int) -> None:
        self._autoencoder = context.autoencoder
        self.layers, self._layer = layers_of(context.autoencoder)
        seen = next(stretches(context.rows, 0, MOST_ROWS))
        self._rows = seen[:: -(-len(seen) // MOST_ROWS)]
        values = self._rows[0].size
        self._directions = unit_vectors(stream(context.seed, DIRECTION_NUMBERS, 0).normal((directions, values)))
        own = streams(context.seed, networks, PRIOR_NUMBERS)
        self.start = self._fresh_scales(own[0])
        self._weights = self.weights(np.ones(len(self.layers)), own)

    def spread(self, scales: Float[np.ndarray, " layers"]) -> Float[np.ndarray, " p"]:
        """The prior's standard deviation of every weight; infinite, which is no prior, for what belongs to no layer."""
        return np.asarray(np.append(scales, np.inf)[self._layer])

    def weights(self, scales: Float[np.ndarray, " layers"], given: Sequence[Stream]) -> Float[np.ndarray, "c p"]:
        """Weights of one network per stream, drawn from the prior; what has none is as in any fresh network."""
        fresh = fresh_weights(self._autoencoder, given, np.dtype(np.float32))
        drawn = np.stack([one.normal((fresh.shape[1],)) for one in given])
        return np.where(self._layer < 0, fresh, drawn * self._factors(scales))

    def _fresh_scales(self, own: Stream) -> Float[np.ndarray, " layers"]:
        fresh = fresh_weights(self._autoencoder, [own], np.dtype(np.float64))[0]
        each = [fresh[self._layer == layer] for layer in range(len(self.layers))]
        return np.array([sqrt(np.cumsum(values**2)[-1] / values.size) or 1.0 for values in each])

    def _factors(self, scales: Float[np.ndarray, " layers"]) -> Float[np.ndarray, " p"]:
        return np.asarray(np.append(scales, 1.0).astype(np.float32)[self._layer])

    def reconstruction(
        self, scales: Float[np.ndarray, " layers"], rows: Float[np.ndarray, "n ..."]
    ) -> Float[np.ndarray, "networks n ..."]:
        """What the prior's networks make of rows."""
        weights = self._weights * self._factors(scales)
        scorer = engine_for(self._autoencoder).scorer(len(weights), weights, None, None)
        return np.asarray(scorer.reconstruction(rows.astype(np.float32, copy=False)))

    def distance(self, scales: Float[np.ndarray, " layers"]) -> float:
        """Of all that these networks reconstruct to the rows; infinite where it is no number."""
        made = self.reconstruction(scales, self._rows)
        found = sliced_wasserstein(
            made.reshape(-1, self._directions.shape[1]), self._rows.reshape(len(self._rows), -1), self._directions
        )
        return found if isfinite(found) else inf


def layers_of(autoencoder: Autoencoder) -> tuple[list[str], Int[np.ndarray, " p"]]:
    """Names of the layers, and which of them every weight belongs to; -1 for those of none."""
    shapes = autoencoder.shapes()
    found = [re.fullmatch(SCALED, name) for name in shapes]
    names = list(dict.fromkeys(one[1] for one in found if one))
    places = [names.index(one[1]) if one else -1 for one in found]
    return names, np.repeat(places, [prod(shape) for shape in shapes.values()])


def unit_vectors(values: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k d"]:
    """Each row over its length."""
    double = values.astype(np.float64)
    return double / np.sqrt(np.cumsum(double**2, axis=1)[:, -1:])


def sliced_wasserstein(
    many: Float[np.ndarray, "m d"], few: Float[np.ndarray, "n d"], directions: Float[np.ndarray, "k d"]
) -> float:
    """Mean over the directions of W_1 between two samples; the larger has a multiple of the smaller's size."""
    high, low = (np.sort(_along(values, directions), axis=1) for values in (many, few))
    apart = np.abs(high - np.repeat(low, len(many) // len(few), axis=1))
    return float(np.cumsum(apart)[-1] / apart.size)


def _along(values: Float[np.ndarray, "n d"], directions: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k n"]:
    return product(directions, np.ascontiguousarray(values.T, np.float64))


def lowest(
    distance: Callable[[Float[np.ndarray, " layers"]], float], layers: int, moves: int
) -> tuple[Float[np.ndarray, " layers"], float, float]:
    """The factors of the lowest distance that is found from 1 on, the distance at 1, and that of the factors."""
    factors = np.ones(layers)
    best = before = distance(factors)
    together, each = np.ones((1, layers), bool), np.eye(layers, dtype=bool)
    for moved, factor in pairs((together, each), FACTORS):
        for _ in range(moves):
            tried = [np.where(which, factors * way, factors) for which in moved for way in (factor, 1 / factor)]
            tried = [one for one in tried if (one >= 1 / MOST).all() and (one <= MOST).all()]
            found = [distance(one) for one in tried]
            if not min(found, default=inf) < (1 - LEAST) * best:
                break
            best = min(found)
            factors = tried[found.index(best)]
    return factors, before, best
