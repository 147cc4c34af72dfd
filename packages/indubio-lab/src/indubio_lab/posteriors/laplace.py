r"""Last-layer Laplace: a trained network, and a Gaussian over the weights of its last layer (Daxberger et al. 2021).

w_g ~ N(trained w_g, (sum of s'^2 phi phi^T / noise_g + alpha)^-1)    for every output g

phi is what the last layer is given, skips included, and s' the slope of the last activation (m (1 - m) for the
sigmoid's m, else 1): the Gauss-Newton curvature. An output has weights of its own, so that the outputs' curvatures are
apart without any approximation. Of a transposed convolution the outputs of one sensor share their weights, and phi is
what each weight is multiplied with. The rest of the network is as it was trained.

The noise of an output and the prior's precision alpha are those of the largest evidence (`training/evidence.py`),
whatever likelihood the network was trained with. phi is read off the network itself: with a single 1 among its last
weights, an output is the value that this weight is multiplied with.
"""

from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from indubio.errors import ConfigError
from indubio.message import Message
from indubio.networks import (
    Architecture,
    Autoencoder,
    BlockArchitecture,
    BlockNetwork,
    FitContext,
    Network,
    PointWeights,
    Progress,
    Weights,
    fit_network,
    stretches,
)
from indubio.numerics import Stream, back, cholesky, gram
from indubio.posteriors import Draws, TrainedPosterior
from indubio.settings import AtLeastOne, Positive
from indubio.texts import english
from indubio_lab.posteriors.evidence import ChosenPrior, evidence_of

MOST_VALUES = 2**22  # of phi: where there are more, as many stand for all
ROUNDING = 1e-13  # of the largest curvature, so that rounding cannot make the equations singular


@dataclass(frozen=True, kw_only=True)
class Laplace(TrainedPosterior):
    """One trained network; each draw is a sample of the weights of its last layer.

    Args:
        draws: number of samples kept, M.
        prior_precision: alpha, one over the prior variance of the last layer's weights; "auto" is that of the largest
            evidence.

    Examples:
        The draws differ in the last layer alone.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = Laplace(draws=6).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> [name for name, weight in draws.weights.items() if (weight != weight[0]).any()]
        ['decoder.2.weight']
        >>> list(draws.facts)
        ['log evidence', 'prior precision', 'weights that the data decide']
    """

    warm_start: ClassVar[bool] = False

    draws: AtLeastOne = 100
    prior_precision: Positive | Literal["auto"] = "auto"

    @property
    def count(self) -> int:
        """As many draws as samples that are kept."""
        return self.draws

    def check_architecture(self, architecture: Architecture) -> None:
        """Refuse a network whose last layer is hidden, or normed."""
        super().check_architecture(architecture)
        if not isinstance(architecture, BlockArchitecture) or architecture.layer_norm:
            raise _refused()

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network, then sample its last layer."""
        autoencoder = context.autoencoder
        _check(autoencoder.network)
        trained, stream = fit_network(PointWeights(prior_scale=self.prior_scale_for(context)), context)
        layer = LastLayer.of(context, trained)
        found = layer.evidence(self.prior_precision)
        weights = np.repeat(trained, self.draws, axis=0)
        by_output = last_weights(autoencoder, autoencoder.named(weights))
        for output, noise in enumerate(found.noise):
            off = layer.drawn(output, found.prior_precision, float(noise), stream, self.draws)
            for part, own in zip(by_output, np.split(off, [layer.inputs]), strict=False):
                part[..., output] += own.T.reshape(part.shape[:-1]).astype(part.dtype)
            context.report(Progress(output + 1, len(found.noise), float("nan"), english("computing")))
        facts: dict[str, float] = {
            english("log evidence"): found.log,
            english("prior precision"): found.prior_precision,
            english("weights that the data decide"): found.decided,
        }
        return Draws(autoencoder, self.draws, autoencoder.named(weights), facts=facts)


@dataclass(frozen=True, kw_only=True, eq=False)
class LastLayer:
    """The last layer as a linear regression for each output.

    Args:
        features: phi; 1 comes last, where there is a bias.
        inputs: how many of them are not that 1.
        slopes: s' of every output.
        misfits: sum of the squared residuals of every output, over all rows.
        squares: sum of the squared weights.
        rows: that each row of `features` stands for.
    """

    features: Float[np.ndarray, "n f"]
    inputs: int
    slopes: Float[np.ndarray, "n g"]
    misfits: Float[np.ndarray, " g"]
    squares: float
    rows: float

    @classmethod
    def of(cls, context: FitContext, trained: Float[np.ndarray, "1 p"]) -> "LastLayer":
        """The last layer of a trained network."""
        autoencoder, named = context.autoencoder, context.autoencoder.named(trained)
        last = last_weights(autoencoder, named)
        size, outputs = prod(last[0].shape[:-1]), last[0].shape[-1]
        rows = next(stretches(context.rows, 0, MOST_VALUES))
        most = max(1, MOST_VALUES * outputs // (size * prod(rows.shape[1:])))
        rows = rows[:: -(-len(rows) // most)]
        features = np.ones((rows.size // outputs, size + len(last) - 1))
        features[:, :size] = _features(autoencoder, trained, rows, outputs)
        given = Draws(autoencoder, 1, named).reconstruction(rows).reshape(-1, outputs).astype(np.float64)
        residuals = rows.reshape(-1, outputs).astype(np.float64) - given
        assert isinstance(autoencoder.network, BlockNetwork)
        sigmoid = autoencoder.network.last_activation == "sigmoid"
        each = len(context.rows) / len(rows)
        return cls(
            features=features,
            inputs=size,
            slopes=given * (1 - given) if sigmoid else np.ones_like(given),
            misfits=each * np.cumsum(residuals * residuals, axis=0)[-1],
            squares=float(sum(np.cumsum(part.astype(np.float64) ** 2)[-1] for part in last)),
            rows=each,
        )

    def evidence(self, prior_precision: float | Literal["auto"]) -> ChosenPrior:
        """The evidence of all outputs together, at its best precision of the prior."""
        outputs = range(self.slopes.shape[1])
        eigenvalues = np.stack([np.linalg.eigvalsh(self.curvature(output)) for output in outputs])
        observed = self.rows * len(self.features)
        return evidence_of(np.maximum(eigenvalues, 0.0), self.misfits, self.squares, observed, prior_precision)

    def curvature(self, output: int) -> Float[np.ndarray, "f f"]:
        """Sum of s'^2 phi phi^T, over all rows."""
        return self.rows * gram(self.slopes[:, output, None] * self.features)

    def drawn(self, output: int, alpha: float, noise: float, own: Stream, draws: int) -> Float[np.ndarray, "f draws"]:
        """How far samples of an output's weights are from the trained ones."""
        matrix = self.curvature(output)
        prior = max(alpha * noise, ROUNDING * float(matrix.diagonal().max()))
        matrix[np.diag_indices_from(matrix)] += prior
        normal = own.normal((len(matrix), draws)).astype(np.float64)
        return np.asarray(sqrt(noise) * back(cholesky(matrix), normal))


def last_weights(autoencoder: Autoencoder, weights: Weights) -> list[Float[np.ndarray, "c ... g"]]:
    """The last layer's weight, and its bias where there is one, as views whose last axis is that of the outputs."""
    assert isinstance(autoencoder.network, BlockNetwork)
    layer = autoencoder.network.decoder[-1].layer
    parts = [np.moveaxis(weights[f"{layer.name}.weight"], 2, -1)]  # (C, inputs, outputs, *kernel)
    return [*parts, weights[f"{layer.name}.bias"]] if layer.bias else parts


def _features(
    autoencoder: Autoencoder, trained: Float[np.ndarray, "1 p"], rows: Float[np.ndarray, "n ..."], outputs: int
) -> Float[np.ndarray, "m f"]:
    """What each of the last layer's weights is multiplied with, as many at a time as there are outputs."""
    assert isinstance(autoencoder.network, BlockNetwork)
    linear = replace(autoencoder, network=replace(autoencoder.network, last_activation="none"))
    parts = []
    size = prod(last_weights(autoencoder, autoencoder.named(trained))[0].shape[:-1])
    for first in range(0, size, outputs):
        probe = autoencoder.named(trained.copy())
        weight, *bias = last_weights(autoencoder, probe)
        weight[...] = np.eye(size, outputs, -first).reshape(weight.shape)
        for part in bias:
            part[...] = 0.0
        parts.append(Draws(linear, 1, probe).reconstruction(rows).reshape(-1, outputs)[:, : size - first])
    return np.concatenate(parts, axis=1)


def _check(network: Network) -> None:
    if not isinstance(network, BlockNetwork) or network.decoder[-1].norm is not None:
        raise _refused()


def _refused() -> ConfigError:
    return ConfigError(
        Message(
            "Laplace needs a network whose last layer is known and has no layer norm: choose Dense() or Conv1d() as "
            "`architecture`, with `layer_norm=False`; or another posterior, for example SWAG()."
        )
    )
