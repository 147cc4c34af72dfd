"""The engine of a coalition: every sensor's network on an engine of its own, none knowing of the others.

All see the rows in the same order. A sensor's random numbers follow from those of the whole and its place alone, so its
network is the one that would be trained without the others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from indubio.networks.autoencoder import Autoencoder
from indubio.networks.coalition import CoalitionNetwork
from indubio.networks.engine.engine import DrawScorer, Engine, Rows, Sampler, Trainer
from indubio.networks.engine.objectives import Corruption, Dynamics, PointWeights, Variational
from indubio.numerics import Stream
from indubio.numerics import stream as stream_of

TRAINING, SAMPLING = 0, 1  # purposes of the sensors' random streams


class CoalitionEngine:
    """Runs the networks of a coalition one after the other.

    Args:
        autoencoder: of a coalition.
        engine_for: what gives the engine of one sensor's autoencoder.
    """

    def __init__(self, autoencoder: Autoencoder, engine_for: Callable[[Autoencoder], Engine]) -> None:
        network = autoencoder.network
        assert isinstance(network, CoalitionNetwork)
        self._network, self._sensors = network, range(network.sensors)
        alone = replace(autoencoder, network=network.inner, architecture=None)
        self._engine = engine_for(alone)
        self.name, self.by_network = self._engine.name, self._engine.by_network
        numbers = autoencoder.named(np.arange(autoencoder.weight_count(), dtype=np.float64)[None])
        self._columns = [alone.flat(network.weights_of(k, numbers))[0].astype(np.int64) for k in self._sensors]

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
    ) -> "CoalitionTrainer":
        """What trains these networks; every sensor's has the loss it would have alone."""
        columns = self._columns
        if isinstance(objective, Variational):  # means, then rhos
            columns = [np.concatenate([own, own + values.shape[1] // 2]) for own in columns]
        trainers = [
            self._engine.trainer(
                objective,
                values[:, columns[k]],
                None if anchors is None else anchors[:, self._columns[k]],
                [stream_of(stream.key, TRAINING, k) for stream in streams],
                batch=batch,
                threads=threads,
                corruption=self._corruption_of(k, corruption),
            )
            for k in self._sensors
        ]
        return CoalitionTrainer(self._network, trainers, columns)

    def sampler(
        self,
        chain: Dynamics,
        values: Float[np.ndarray, "1 p"],
        stream: Stream,
        *,
        batch: int,
        corruption: Corruption | None = None,
    ) -> "CoalitionSampler":
        """A chain of every sensor's weights."""
        samplers = [
            self._engine.sampler(
                _chain_of(chain, self._columns[k]),
                values[:, self._columns[k]],
                stream_of(stream.key, SAMPLING, k),
                batch=batch,
                corruption=self._corruption_of(k, corruption),
            )
            for k in self._sensors
        ]
        return CoalitionSampler(self._network, chain, samplers, self._columns)

    def gradient(self, values: Float[np.ndarray, "1 p"], rows: Rows) -> Float[np.ndarray, "1 p"]:
        """Of the mean NLL of all rows: every sensor's network has its share of the mean."""
        own = zip(self._columns, self._network.each_sensor(rows), strict=True)
        each = [self._engine.gradient(np.ascontiguousarray(values[:, columns]), one) for columns, one in own]
        return np.asarray(_joined(each, self._columns) / np.asarray(len(each), values.dtype))

    def scorer(
        self,
        count: int,
        values: Float[np.ndarray, "w p"],
        masks: tuple[Float[np.ndarray, "m _"], ...] | None,
        noise: Float[np.ndarray, "m ..."] | None,
    ) -> "CoalitionScorer":
        """What scores rows under draws with these weights; arguments as in `Engine.scorer`."""
        network = self._network
        scorers = [
            self._engine.scorer(
                count,
                values[:, self._columns[k]],
                None if masks is None else network.masks_of(k, masks),
                None if noise is None else network.noise_of(k, noise),
            )
            for k in self._sensors
        ]
        return CoalitionScorer(network, scorers)

    def _corruption_of(self, sensor: int, corruption: Corruption | None) -> Corruption | None:
        if corruption is None or corruption.factors is None:
            return corruption
        return replace(corruption, factors=self._network.values_of(sensor, corruption.factors))


class CoalitionTrainer:
    """The sensors' networks in training."""

    def __init__(
        self, network: CoalitionNetwork, trainers: Sequence[Trainer], columns: Sequence[Int[np.ndarray, " _"]]
    ) -> None:
        self._network, self._trainers, self._columns = network, trainers, columns

    def steps(self, rows: Rows, order: Int[np.ndarray, "c ordered"], rates: Sequence[float]) -> Float[np.ndarray, " c"]:
        """One step of every sensor's network for each rate; the mean over the sensors of the sums of losses."""
        return _mean([trainer.steps(own, order, rates) for trainer, own in self._with_rows(rows)])

    def held_out_loss(self, rows: Rows) -> Float[np.ndarray, " c"]:
        """Mean NLL without dropout or noise."""
        return _mean([trainer.held_out_loss(own) for trainer, own in self._with_rows(rows)])

    def values(self) -> Float[np.ndarray, "c v"]:
        """What is trained, as it is now, as a copy."""
        return _joined([trainer.values() for trainer in self._trainers], self._columns)

    def put(self, values: Float[np.ndarray, "c v"]) -> None:
        """Go on training from these values."""
        for trainer, own in zip(self._trainers, self._columns, strict=True):
            trainer.put(values[:, own])

    def restart(self) -> None:
        """Let Adam forget the steps it has taken."""
        for trainer in self._trainers:
            trainer.restart()

    def _with_rows(self, rows: Rows) -> Iterator[tuple[Trainer, Rows]]:
        return zip(self._trainers, self._network.each_sensor(rows), strict=True)


class CoalitionSampler:
    """A chain of every sensor's weights."""

    def __init__(
        self,
        network: CoalitionNetwork,
        chain: Dynamics,
        samplers: Sequence[Sampler],
        columns: Sequence[Int[np.ndarray, " _"]],
    ) -> None:
        self._network, self._chain, self._samplers, self._columns = network, chain, samplers, columns

    @property
    def chain(self) -> Dynamics:
        """Settings of the next moves, the same for all sensors."""
        return self._chain

    @chain.setter
    def chain(self, chain: Dynamics) -> None:
        self._chain = chain
        for sampler, own in zip(self._samplers, self._columns, strict=True):
            sampler.chain = _chain_of(chain, own)

    def steps(self, rows: Rows, order: Int[np.ndarray, "1 ordered"]) -> float:
        """One move of every sensor's chain for each batch; the last batch's mean NLL."""
        own = zip(self._samplers, self._network.each_sensor(rows), strict=True)
        return float(_mean([np.array([sampler.steps(one, order)]) for sampler, one in own])[0])

    def values(self) -> Float[np.ndarray, "1 p"]:
        """Where the chains are, as a copy."""
        return _joined([sampler.values() for sampler in self._samplers], self._columns)


class CoalitionScorer:
    """Draws of every sensor's network."""

    def __init__(self, network: CoalitionNetwork, scorers: Sequence[DrawScorer]) -> None:
        self._network, self._scorers = network, scorers

    def nll(self, rows: Rows) -> Float[np.ndarray, "m n"]:
        """Negative log-likelihood of every row under every draw: the mean over the sensors."""
        return _mean([scorer.nll(own) for scorer, own in self._with_rows(rows)])

    def nll_apart(self, rows: Rows) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n ..."]]:
        """The scores of `nll`, to the bit, and the score of every value."""
        whole, apart = zip(*(scorer.nll_apart(own) for scorer, own in self._with_rows(rows)), strict=True)
        return _mean(whole), np.concatenate(apart, axis=-1)

    def reconstruction(self, rows: Rows) -> Float[np.ndarray, "m n ..."]:
        """What every draw takes every row for."""
        return np.concatenate([scorer.reconstruction(own) for scorer, own in self._with_rows(rows)], axis=-1)

    def variance(self, rows: Rows) -> Float[np.ndarray, "m n ..."]:
        """The squared scale that every draw's decoder gives for every value."""
        return np.concatenate([scorer.variance(own) for scorer, own in self._with_rows(rows)], axis=-1)

    def _with_rows(self, rows: Rows) -> Iterator[tuple[DrawScorer, Rows]]:
        return zip(self._scorers, self._network.each_sensor(rows), strict=True)


def _chain_of(chain: Dynamics, columns: Int[np.ndarray, " _"]) -> Dynamics:
    """What is told of every weight, of one sensor's."""
    told = {"prior_scale": chain.prior_scale, "spread": chain.spread}
    own = {name: value[columns] for name, value in told.items() if isinstance(value, np.ndarray)}
    return replace(chain, **own)


def _mean(each: Sequence[Float[np.ndarray, "..."]]) -> Float[np.ndarray, "..."]:
    """Over the sensors, added up in their order."""
    return np.asarray(np.cumsum(np.stack(each), axis=0)[-1] / np.asarray(len(each), each[0].dtype))


def _joined(
    each: Sequence[Float[np.ndarray, "c _"]], columns: Sequence[Int[np.ndarray, " _"]]
) -> Float[np.ndarray, "c v"]:
    """The sensors' values side by side, each in its columns."""
    joined = np.empty((len(each[0]), sum(map(len, columns))), each[0].dtype)
    for values, own in zip(each, columns, strict=True):
        joined[:, own] = values
    return joined
