"""What an engine is, and which one runs an autoencoder.

Arrays go in and out; C is the number of networks, P the number of weights of one, in the order of
`Autoencoder.shapes`. The precision is that of the values an engine is given; rows may have another, and any order in
memory.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from indubio.errors import ConfigError, MissingExtraError
from indubio.networks.autoencoder import Autoencoder
from indubio.networks.coalition import CoalitionNetwork
from indubio.networks.engine.compiled import compiled_engine
from indubio.networks.engine.objectives import Corruption, Dynamics, PointWeights, Variational
from indubio.networks.linear_views import LinearViewsNetwork
from indubio.numerics import Stream

Rows = Float[np.ndarray, "n ..."]


class Trainer(Protocol):
    """C networks in training by Adam."""

    def steps(self, rows: Rows, order: Int[np.ndarray, "c ordered"], rates: Sequence[float]) -> Float[np.ndarray, " c"]:
        """One step for each rate, on batches of the rows in each network's order; sums of the steps' losses.

        The loss is without the part of the prior that has a closed form. Rows beyond the last rate are left out.
        """

    def held_out_loss(self, rows: Rows) -> Float[np.ndarray, " c"]:
        """Mean NLL without dropout or noise; of a variational objective, at the means."""

    def values(self) -> Float[np.ndarray, "c v"]:
        """What is trained, as it is now; maybe the live array, so copy what is kept."""

    def put(self, values: Float[np.ndarray, "c v"]) -> None:
        """Go on training from these values, for instance the best so far."""

    def restart(self) -> None:
        """Let Adam forget the steps it has taken; values and random numbers go on from where they are."""


class Sampler(Protocol):
    """A chain of one network's weights.

    Attributes:
        chain: settings of the next moves, which may be changed on the way; all but the code's KL.
    """

    chain: Dynamics

    def steps(self, rows: Rows, order: Int[np.ndarray, "1 ordered"]) -> float:
        """One move for each batch of the rows in this order; the last batch's mean NLL."""

    def values(self) -> Float[np.ndarray, "1 p"]:
        """Where the chain is; maybe the live array, so copy what is kept."""


class DrawScorer(Protocol):
    """M draws as functions of rows."""

    def nll(self, rows: Rows) -> Float[np.ndarray, "m n"]:
        """Negative log-likelihood of every row under every draw."""

    def nll_apart(self, rows: Rows) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n ..."]]:
        """The scores of `nll`, and the score of every value, from one pass."""

    def reconstruction(self, rows: Rows) -> Float[np.ndarray, "m n ..."]:
        """What every draw takes every row for."""

    def variance(self, rows: Rows) -> Float[np.ndarray, "m n ..."]:
        """The squared scale that every draw's decoder gives for every value; only where the likelihood asks for it."""


class Engine(Protocol):
    """Trains and scores the networks of one autoencoder.

    Attributes:
        name: for people to read.
        by_network: whether large networks are trained side by side, a thread each; else one after the other is
            fastest.
    """

    name: str
    by_network: bool

    def trainer(
        self,
        objective: PointWeights | Variational,
        values: Float[np.ndarray, "c v"],
        anchors: Float[np.ndarray, "c p"] | None,
        streams: Sequence[Stream],
        *,
        batch: int,
        threads: int,
        corruption: Corruption | None = None,
    ) -> Trainer:
        """What trains these networks.

        Args:
            objective: what to minimise.
            values: to start from: weights (C, P), or means and rhos (C, 2P); they are copied.
            anchors: of `PointWeights`; None is 0.
            streams: the random numbers of each network.
            batch: rows per step.
            threads: at most so many.
            corruption: of what they are given; held-out losses are without.
        """

    def sampler(
        self,
        chain: Dynamics,
        values: Float[np.ndarray, "1 p"],
        stream: Stream,
        *,
        batch: int,
        corruption: Corruption | None = None,
    ) -> Sampler:
        """A chain that begins at these values, without momentum."""

    def gradient(self, values: Float[np.ndarray, "1 p"], rows: Rows) -> Float[np.ndarray, "1 p"]:
        """The gradient of the mean NLL of all rows, at these values."""

    def scorer(
        self,
        count: int,
        values: Float[np.ndarray, "w p"],
        masks: tuple[Float[np.ndarray, "m _"], ...] | None,
        noise: Float[np.ndarray, "m ..."] | None,
    ) -> DrawScorer:
        """Draws of these weights.

        Args:
            count: M.
            values: weights of each draw, or of all (W is M or 1).
            masks: dropout masks of each draw, one per place; None where there are none.
            noise: standard normal noise of each draw's code; None where there is none.
        """


def engine_for(autoencoder: Autoencoder) -> Engine:
    """The engine that runs this autoencoder."""
    if isinstance(autoencoder.network, CoalitionNetwork):
        from indubio.networks.engine.coalition_engine import CoalitionEngine

        return CoalitionEngine(autoencoder, engine_for)
    if isinstance(autoencoder.network, LinearViewsNetwork):
        from indubio.networks.engine.views_engine import ViewsEngine

        return ViewsEngine(autoencoder)
    compiled = compiled_engine(autoencoder)
    if compiled is not None:
        return compiled
    try:
        from indubio.networks.engine.torch_engine import TorchEngine
    except ImportError:
        raise MissingExtraError('this network needs torch to run here: pip install "indubio[torch]".') from None
    return TorchEngine(autoencoder)


def require_device(device: str) -> None:
    """Refuse a device that is not there; the CPU always is."""
    if device == "cpu":
        return
    try:
        import torch

        torch.empty(0, device=device)
    except ImportError:
        raise MissingExtraError(
            '`device` {device!r} needs torch: pip install "indubio[torch]".', device=device
        ) from None
    except (RuntimeError, AssertionError) as error:  # torch asserts where it was built without CUDA
        reason = str(error).splitlines()[0]
        raise ConfigError(
            '`device` {device!r} cannot be used here: {reason}. Use "cpu".', device=device, reason=reason
        ) from None
