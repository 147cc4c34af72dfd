"""The sizes that are measured, our engine and the plain loop on them, and the operations a step cannot do without."""

from dataclasses import dataclass
from math import prod
from unittest import mock

import numpy as np
import torch
from torch import nn

from benchmarks.measuring import Stopwatch, Work
from indubio.networks import (
    Autoencoder,
    BlockNetwork,
    Conv1d,
    Convolution,
    Dense,
    GaussianLikelihood,
    PointWeights,
    Training,
    Variational,
    engine_for,
    fresh_weights,
)
from indubio.networks.engine import engine
from indubio.networks.training.learning_rate import fixed
from indubio.networks.training.loop import LARGE_NETWORK, chunks, members_at_once, train
from indubio.numerics import streams
from indubio.posteriors import AnchoredEnsemble, BayesByBackprop, Posterior
from tests.reference.plain_loop import PlainConv, PlainDense, load, train_plain

RATE, PRIOR_SCALE = 0.005, 1e-10
SMALL_RATE = 1e-4  # under which no method diverges
OPTIONS = {"layer_norm": False, "bias": False, "skips": True}
# Weights, two moments and anchors read, all but the anchors written. Gradients need not leave the cache; that the
# forward pass must read the weights once more is left out, since products can go on meanwhile.
ADAM_STREAMS = 7


@dataclass(frozen=True)
class Size:
    """One training work: so many networks of one size, on batches of one size."""

    name: str
    shape: tuple[int, ...]
    rows: int
    batch: int
    epochs: int = 1
    members: int = 10

    @property
    def steps(self) -> int:
        """Optimiser steps of one run."""
        return self.epochs * -(-self.rows // self.batch)

    def data(self) -> np.ndarray:
        """Random rows: speed does not depend on what they say."""
        return np.random.default_rng(0).random((self.rows, *self.shape), dtype=np.float32)

    def autoencoder(self, posterior: Posterior | None = None) -> Autoencoder:
        """Our network of this size."""
        noise = posterior is not None and posterior.code_noise
        return Autoencoder(self.architecture.build(self.shape, code_noise=noise), GaussianLikelihood())

    @property
    def architecture(self) -> Dense | Conv1d:
        """Of its network."""
        return Dense() if len(self.shape) == 1 else Conv1d()

    def plain(self) -> nn.Module:
        """The same network as a torch module."""
        if len(self.shape) == 1:
            return PlainDense(*self.shape, **OPTIONS)
        return PlainConv(*self.shape, linear=1000, **OPTIONS)

    def training(self, epochs: int | None = None) -> Training:
        """How it is trained."""
        return Training(epochs=self.epochs if epochs is None else epochs, batch_size=self.batch, learning_rate=RATE)


CARDIO = Size("cardio", (21,), 1324, 100, epochs=2)
# Enough epochs that the first touch of Adam's memory, which a fit pays once, is a small part.
SIZES = [
    Size("thyroid", (6,), 2943, 100, epochs=2),
    CARDIO,
    Size("optdigits", (64,), 1000, 100, epochs=2),
    Size("ZeMA conv", (60, 1), 300, 100, epochs=4),
    Size("STRATH conv", (562, 3), 32, 16, epochs=6),
]
OTHERS = [
    Size("cardio, M = 100", (21,), 1324, 100, members=100),
    Size("cardio, batch 10", (21,), 400, 10),
    Size("cardio, batch 1000", (21,), 4000, 1000),
    Size("thyroid, M = 100", (6,), 1000, 100, members=100),
]


def on_torch(work: Work) -> Work:
    """The same work where there is no compiled engine."""

    def changed(watch: Stopwatch) -> None:
        with mock.patch.object(engine, "compiled_engine", return_value=None):
            work(watch)

    return changed


def engine_steps(size: Size) -> Work:
    """The steps of our engine, without making the first weights."""
    rows, autoencoder, training = size.data(), size.autoencoder(), size.training()
    at_once = members_at_once(
        training, size.members, autoencoder.weight_count(), autoencoder.network.widest, size.batch
    )

    def work(watch: Stopwatch) -> None:
        each, objective = streams(0, size.members), PointWeights(prior_scale=PRIOR_SCALE)
        for members in chunks(size.members, at_once):
            own = each[members.start : members.stop]
            weights, anchors = (fresh_weights(autoencoder, own, rows.dtype) for _ in range(2))
            trainer = engine_for(autoencoder).trainer(
                objective, weights, anchors, own, batch=training.batch_rows(len(rows)), threads=1
            )
            with watch:
                train(trainer, rows, training=training, schedule=fixed(RATE), streams=own)

    return work


def objective_steps(size: Size, objective: PointWeights | Variational, *, code_noise: bool, epochs: int) -> Work:
    """Steps of one network that minimises this, nothing else."""
    rows = size.data()
    autoencoder = Autoencoder(size.architecture.build(size.shape, code_noise=code_noise), GaussianLikelihood())
    own = streams(0, 1)
    values = fresh_weights(autoencoder, own, rows.dtype)
    if isinstance(objective, Variational):
        values = np.concatenate([values, np.full_like(values, BayesByBackprop().initial_rho)], axis=1)
    order, rates = own[0].permutation(size.rows)[None], [SMALL_RATE] * -(-size.rows // size.batch)

    def work(watch: Stopwatch) -> None:
        trainer = engine_for(autoencoder).trainer(objective, values, None, own, batch=size.batch, threads=1)
        with watch:
            for _ in range(epochs):
                trainer.steps(rows, order, rates)

    return work


def plain_steps(size: Size) -> Work:
    """The same steps as a loop over torch modules, as peers write it."""
    rows, autoencoder = torch.from_numpy(size.data()), size.autoencoder()

    def work(watch: Stopwatch) -> None:
        for own in streams(0, size.members):
            module, anchor = (load(size.plain(), autoencoder.initial(own)) for _ in range(2))
            with watch:
                train_plain(
                    module,
                    anchor,
                    rows,
                    epochs=size.epochs,
                    batch=size.batch,
                    rate=RATE,
                    prior_scale=PRIOR_SCALE,
                    stream=own,
                )

    return work


def plain_fit(size: Size) -> Work:
    """All of the plain loop, the first weights included."""
    steps = plain_steps(size)

    def work(watch: Stopwatch) -> None:
        with watch:
            steps(Stopwatch())

    return work


def whole_fit(size: Size, posterior: Posterior | None = None, threads: int = 1) -> Work:
    """All of a posterior's fit, the first weights included."""
    posterior = posterior or AnchoredEnsemble(members=size.members)
    rows, autoencoder = size.data(), size.autoencoder(posterior)

    def work(watch: Stopwatch) -> None:
        with watch:
            posterior.fit(autoencoder, rows, training=size.training().replaced(threads=threads), seed=0)

    return work


def operations_per_row(autoencoder: Autoencoder) -> int:
    """Floating-point operations of one network's forward pass on one row."""
    return sum(_layer_operations(autoencoder))


def step_operations(size: Size) -> int:
    """Of one training step of all members: forward, gradient of weights, gradient of inputs but the first."""
    first, *others = _layer_operations(size.autoencoder())
    return size.members * size.batch * (2 * first + 3 * sum(others))


def _layer_operations(autoencoder: Autoencoder) -> list[int]:
    network = autoencoder.network
    assert isinstance(network, BlockNetwork)
    layers = [block.layer for block in (*network.encoder, *network.decoder)]
    return [
        2 * prod(layer.in_shape) * prod(layer.out_shape)
        if not isinstance(layer, Convolution)
        else 2
        * layer.in_shape[0]
        * layer.out_shape[0]
        * prod(layer.kernel)
        * min(prod(layer.in_shape[1:]), prod(layer.out_shape[1:]))
        for layer in layers
    ]


def adam_bytes(size: Size) -> int:
    """What Adam must move at every step, for networks too large for the caches; 0 for the others."""
    weights = size.autoencoder().weight_count()
    return ADAM_STREAMS * 4 * weights * size.members if weights > LARGE_NETWORK else 0
