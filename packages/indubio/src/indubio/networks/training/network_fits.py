"""Networks from their first weights to their last: as many side by side as is fastest."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from indubio.networks.autoencoder import Autoencoder
from indubio.networks.engine.engine import Trainer, engine_for
from indubio.networks.engine.objectives import PointWeights, Variational
from indubio.networks.training.loop import (
    Progress,
    Report,
    Training,
    chunks,
    members_at_once,
    schedule_for,
    silent,
    split_held_out,
    thread_count,
    train,
)
from indubio.networks.training.rows import TrainingRows
from indubio.numerics import Stream, streams


@dataclass(frozen=True, kw_only=True, eq=False)
class FitContext:
    """What a posterior is fitted on, and how.

    Args:
        autoencoder: what is trained.
        rows: the training rows, in memory or streamed.
        training: epochs, batches, rates.
        seed: of everything random.
        report: told after every epoch, and every stretch of streamed rows.
        start: weights of draws to start from, a row each, instead of fresh ones.
    """

    autoencoder: Autoencoder
    rows: TrainingRows
    training: Training
    seed: int
    report: Report = silent
    start: Float[np.ndarray, "m p"] | None = None


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
    objective: PointWeights | Variational, begin: Begin, context: FitContext, streams: Sequence[Stream]
) -> Iterator[Float[np.ndarray, "run v"]]:
    """Train a network per stream, as many side by side as is fastest, and give what was trained, run after run.

    Of large networks, memory holds the optimiser's state of few at a time.

    Args:
        objective: what is minimised.
        begin: fresh values of one network per stream.
        context: what is trained, on which rows, and how; its seed is that of what the networks share: the rows held
            out, the range test.
        streams: the random numbers of each network; each network is the same, whichever others are trained.
    """
    autoencoder, rows, training, start = context.autoencoder, context.rows, context.training, context.start
    weights, widest = autoencoder.weight_count(), autoencoder.network.widest
    engine, threads = engine_for(autoencoder), thread_count(training)
    kept, held_out = split_held_out(rows, training, context.seed)
    batch = training.batch_rows(len(kept))
    corruption = None if training.denoising is None else training.denoising.corruption(kept, batch)

    def trainer(own: Sequence[Stream], given: Float[np.ndarray, "c p"] | None = None) -> Trainer:
        made = begin(own)
        values = made.values if given is None else given
        return engine.trainer(
            objective,
            values.astype(rows.dtype),
            made.anchors,
            own,
            batch=batch,
            threads=threads,
            corruption=corruption,
        )

    schedule = schedule_for(training, kept, lambda stream: trainer([stream]), context.seed)
    side_by_side = threads if engine.by_network else 1
    size = members_at_once(training, len(streams), weights, widest, batch, rows.dtype.itemsize, side_by_side)
    runs = list(chunks(len(streams), size))
    for run, members in enumerate(runs):
        own = streams[members.start : members.stop]
        running = trainer(own, None if start is None else start[members.start : members.stop])
        before = run * training.most_epochs
        train(
            running,
            kept,
            training=training,
            schedule=schedule,
            streams=own,
            held_out=held_out,
            tell=lambda done, loss, before=before: context.report(  # type: ignore[misc]
                Progress(before + done, len(runs) * training.most_epochs, loss)
            ),
        )
        yield running.values().copy()
        del running  # before the next one begins


def fit_network(
    objective: PointWeights | Variational, context: FitContext, begin: Begin | None = None
) -> tuple[Float[np.ndarray, "1 v"], Stream]:
    """Train one network, for methods whose draws all come from it; gives what was trained, and its stream.

    Args:
        objective: what is minimised.
        context: what is trained, on which rows, and how; it starts from the last of the weights to start from.
        begin: fresh values; None is fresh weights.
    """
    own = streams(context.seed, 1)
    last = None if context.start is None else context.start[-1:]
    fresh = begin or (lambda given: Beginning(fresh_weights(context.autoencoder, given, context.rows.dtype)))
    (trained,) = fit_networks(objective, fresh, replace(context, start=last), own)
    return trained, own[0]
