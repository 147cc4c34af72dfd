"""Posterior: the settings of a method that turns training rows into M draws, and what the methods share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.engine import PointWeights, Stream, Trainer, Variational, engine_for, streams
from indubio.posteriors.draws import Draws
from indubio.posteriors.rows import TrainingRows
from indubio.posteriors.training import (
    Progress,
    Report,
    Training,
    chunks,
    members_at_once,
    schedule_for,
    split_held_out,
    thread_count,
    train,
)
from indubio.settings import NotNegative, Settings

PRIOR_SCALE = 1e-10  # lambda, paper, model hyperparameters


@dataclass(frozen=True, kw_only=True)
class Posterior(Settings, ABC):
    """A way to get M draws of the autoencoder's weights.

    Args:
        prior_scale: lambda, the weight of the prior term beside the mean NLL of a batch.
    """

    warm_start: ClassVar[bool] = True  # whether draws tell where their training ended
    code_noise: ClassVar[bool] = False  # whether the encoder must give a log variance of the code
    COUNT: ClassVar[str | None] = "draws"  # the setting that says how many draws; None where there can be only one

    prior_scale: NotNegative = PRIOR_SCALE

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of draws, M."""

    def with_count(self, draws: int) -> Self:
        """The same posterior with another number of draws."""
        return self if draws == self.count or self.COUNT is None else self.replaced(**{self.COUNT: draws})

    @abstractmethod
    def fit(
        self,
        autoencoder: Autoencoder,
        rows: TrainingRows,
        *,
        training: Training,
        seed: int,
        report: Report,
        start: Draws | None = None,
    ) -> Draws:
        """Train on the rows and give the draws; their precision is that of the rows.

        Args:
            autoencoder: what is trained.
            rows: the training rows, in memory or streamed.
            training: how.
            seed: of everything random.
            report: told after every epoch, and every stretch of streamed rows.
            start: draws of the same autoencoder to start from instead of fresh weights. Priors stay what they are, the
                anchors of an ensemble too. A method whose draws do not tell where its training ended starts afresh.
        """


@dataclass(frozen=True, eq=False)
class Beginning:
    """What training starts from.

    Args:
        values: what is trained, a row for each network.
        anchors: what their weights are pulled towards; None is 0.
    """

    values: Float[np.ndarray, "c v"]
    anchors: Float[np.ndarray, "c p"] | None = None


Begin = Callable[[Sequence[Stream]], Beginning]  # of one network per stream


def fresh_weights(autoencoder: Autoencoder, streams: Sequence[Stream], dtype: np.dtype) -> Float[np.ndarray, "c p"]:
    """Initial weights of one network per stream, a row each."""
    each = [autoencoder.initial(stream) for stream in streams]
    return autoencoder.flat({name: np.stack([one[name] for one in each]) for name in each[0]}).astype(dtype)


def fit_networks(
    objective: PointWeights | Variational,
    begin: Begin,
    autoencoder: Autoencoder,
    rows: TrainingRows,
    *,
    streams: Sequence[Stream],
    training: Training,
    seed: int,
    report: Report,
    start: Float[np.ndarray, "c p"] | None = None,
) -> Iterator[Float[np.ndarray, "run v"]]:
    """Train a network per stream, as many side by side as is fastest, and give what was trained, run after run.

    Of large networks, memory holds the optimiser's state of few at a time.

    Args:
        objective: what is minimised.
        begin: fresh values of one network per stream.
        autoencoder: what is trained.
        rows: the training rows.
        streams: the random numbers of each network; each network is the same, whichever others are trained.
        training: how.
        seed: of what the networks share: the rows held out, the range test.
        report: told after every epoch.
        start: weights to start from, a row per network; None starts from fresh ones.
    """
    weights, widest = autoencoder.weight_count(), autoencoder.network.widest
    engine, threads = engine_for(autoencoder), thread_count(training)
    kept, held_out = split_held_out(rows, training, seed)
    batch = training.batch_rows(len(kept))

    def trainer(own: Sequence[Stream], given: Float[np.ndarray, "c p"] | None = None) -> Trainer:
        made = begin(own)
        values = made.values if given is None else given
        return engine.trainer(objective, values.astype(rows.dtype), made.anchors, own, batch=batch, threads=threads)

    schedule = schedule_for(training, kept, lambda stream: trainer([stream]), seed)
    side_by_side = threads if engine.by_network else 1
    size = members_at_once(training, len(streams), weights, widest, batch, rows.dtype.itemsize, side_by_side)
    runs = list(chunks(len(streams), size))
    for run, members in enumerate(runs):
        own = streams[members.start : members.stop]
        running = trainer(own, None if start is None else start[members.start : members.stop])
        before = run * training.epochs
        train(
            running,
            kept,
            training=training,
            schedule=schedule,
            streams=own,
            held_out=held_out,
            tell=lambda done, loss, before=before: report(  # type: ignore[misc]
                Progress(before + done, len(runs) * training.epochs, loss)
            ),
        )
        yield running.values().copy()
        del running  # before the next one begins


def fit_network(
    objective: PointWeights | Variational,
    autoencoder: Autoencoder,
    rows: TrainingRows,
    *,
    training: Training,
    seed: int,
    report: Report,
    begin: Begin | None = None,
    start: Draws | None = None,
) -> tuple[Float[np.ndarray, "1 v"], Stream]:
    """Train one network, for methods whose draws all come from it; gives what was trained, and its stream.

    Args:
        objective: what is minimised.
        autoencoder: what is trained.
        rows: the training rows.
        training: how.
        seed: of everything random.
        report: told after every epoch.
        begin: fresh values; None is fresh weights.
        start: draws whose last weights to start from; None starts from fresh ones.
    """
    own = streams(seed, 1)
    (trained,) = fit_networks(
        objective,
        begin or (lambda given: Beginning(fresh_weights(autoencoder, given, rows.dtype))),
        autoencoder,
        rows,
        streams=own,
        training=training,
        seed=seed,
        report=report,
        start=None if start is None else autoencoder.flat(start.weights)[-1:],
    )
    return trained, own[0]
