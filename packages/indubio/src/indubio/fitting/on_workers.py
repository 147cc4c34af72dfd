"""Draws that several workers train: folds of a cross-calibration, and ensembles too large for one process.

A member's weights follow from its seed and its number, and a fold's from its seed and rows, so who trains what changes
nothing but, on torch, the rounding, as the number of networks side by side does.

Where there are more workers than draws, or rows are streamed, they share the rows of a posterior that `AddsUp`: each
adds up spans of them, and the sums are put together here in the order of the rows, as one process does it.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from indubio.errors import ConfigError, WorkersError
from indubio.message import Message
from indubio.networks import (
    Autoencoder,
    BlockNetwork,
    CoalitionNetwork,
    FitContext,
    LinearViewsNetwork,
    Mixing,
    Progress,
    Report,
    Training,
    TrainingRows,
)
from indubio.posteriors import AddsUp, Draws, Posterior, SeparateDraws
from indubio.workers import Workers


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """One fit of a posterior.

    Args:
        posterior: gives the draws.
        trained: places of the rows to train on; None is all.
        seed: of everything random.
    """

    posterior: Posterior
    trained: Int[np.ndarray, " trained"] | None
    seed: int

    def rows_of(self, rows: TrainingRows) -> TrainingRows:
        """Those of all rows that this fit trains on."""
        if self.trained is None or not isinstance(rows, np.ndarray) or len(self.trained) == len(rows):
            return rows
        own: np.ndarray = rows[self.trained]
        return own


def fit_spread(
    orders: Sequence[Order],
    autoencoder: Autoencoder,
    rows: TrainingRows,
    *,
    training: Training,
    workers: Workers,
    report: Report,
) -> Draws:
    """The draws of all orders, trained by workers; what every worker needs is sent to it once.

    Args:
        orders: what to fit; their draws are joined in this order.
        autoencoder: what is trained.
        rows: all rows, or a stream that every worker can read.
        training: how.
        workers: where.
        report: told when a task is done.
    """
    if (
        not isinstance(autoencoder.network, BlockNetwork | CoalitionNetwork | LinearViewsNetwork)
        or autoencoder.device != "cpu"
    ):
        raise ConfigError(Message("workers train the built-in networks, on CPUs. Leave `workers` out."))
    key = uuid.uuid4().hex
    with workers.executor(_start, (key, autoencoder, rows, training)) as executor:
        slots = -(-workers.slots(executor) // len(orders))
        tasks = [task for order in orders for task in _tasks(order, order.rows_of(rows), slots)]
        futures = [executor.submit(_done, key, task) for task in tasks]
        try:
            for done, _ in enumerate(as_completed(futures), 1):
                report(Progress(done, len(tasks), np.nan, "training on workers"))
            return joined(list(_put_together(tasks, futures, autoencoder, rows, training)))
        except BrokenExecutor:
            raise WorkersError("a worker died while it trained. Fewer workers need less memory.") from None


def joined(parts: Sequence[Draws]) -> Draws:
    """Draws of the same autoencoder as one; where a part's draws share their weights, each gets a copy."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    masks = [part.masks for part in parts if part.masks is not None]
    noise = [part.noise for part in parts if part.noise is not None]
    sums: list[Any] = [part.sums for part in parts if part.sums is not None]
    mixing = [part.mixing for part in parts if part.mixing is not None]
    facts = [part.facts for part in parts if part.facts is not None]
    count, flat = sum(part.count for part in parts), [_weights(part) for part in parts]
    weights = np.concatenate(flat, out=np.empty((count, flat[0].shape[1]), flat[0].dtype))
    return Draws(
        first.autoencoder,
        count,
        first.autoencoder.named(weights),
        masks=tuple(np.concatenate(place) for place in zip(*masks, strict=True)) if masks else None,
        noise=np.concatenate(noise) if noise else None,
        sums=type(sums[0]).joined(sums) if sums else None,
        mixing=Mixing.joined(mixing) if mixing else None,
        facts={name: sum(one[name] for one in facts) / len(facts) for name in facts[0]} if facts else None,
    )


def _weights(draws: Draws) -> Float[np.ndarray, "draws p"]:
    flat = draws.autoencoder.flat(draws.weights)
    return np.broadcast_to(flat, (draws.count, flat.shape[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Task:
    """What one worker does at a time.

    Args:
        order: the fit that it is of.
        which: of the order's draws; None is all, where they cannot be fitted apart.
        spans: of the rows that it adds up for these draws; None fits them.
    """

    order: Order
    which: range | None = None
    spans: tuple[range, ...] | None = None


def _tasks(order: Order, rows: TrainingRows, slots: int) -> list[_Task]:
    """An order as it is, or shared by so many workers: draw by draw, and rows where there are more workers."""
    posterior = order.posterior
    if not isinstance(posterior, SeparateDraws):
        return [_Task(order=order)]
    parts: list[tuple[range, ...] | None] = [None]
    groups = max(1, min(posterior.count, slots))
    if isinstance(posterior, AddsUp):
        whole = posterior.spans(len(rows))
        if not isinstance(rows, np.ndarray):  # every task reads it: better few rows for all draws than the reverse
            groups = max(1, min(posterior.count, -(-slots // len(whole))))
        shares = min(len(whole), -(-slots // groups))
        if shares > 1:
            parts = [tuple(whole[part.start : part.stop]) for part in _shared(len(whole), shares)]
    return [_Task(order=order, which=which, spans=part) for which in _shared(posterior.count, groups) for part in parts]


def _shared(count: int, groups: int) -> list[range]:
    bounds = [place * count // groups for place in range(groups + 1)]
    return [range(start, stop) for start, stop in pairwise(bounds)]


def _put_together(
    tasks: Sequence[_Task],
    futures: Sequence[Future[Any]],
    autoencoder: Autoencoder,
    rows: TrainingRows,
    training: Training,
) -> Iterator[Draws]:
    """The draws that workers fitted, and those that follow from the sums of several workers."""
    done = zip(tasks, futures, strict=True)
    for (order, which), own in groupby(done, key=lambda pair: (pair[0].order, pair[0].which)):
        results = [(task, future.result()) for task, future in own]
        posterior = order.posterior
        if results[0][0].spans is None or which is None or not isinstance(posterior, AddsUp):
            given = results[0][1]
            yield Draws(autoencoder, **(given | {"weights": autoencoder.named(given["weights"])}))
            continue
        context = FitContext(autoencoder=autoencoder, rows=order.rows_of(rows), training=training, seed=order.seed)
        yield posterior.draws_from(context, which, (part for _, sums in results for part in sums))


_given: dict[str, tuple[Autoencoder, TrainingRows, Training]] = {}  # of a worker, by fit


def _start(key: str, autoencoder: Autoencoder, rows: TrainingRows, training: Training) -> Callable[[], None]:
    _given[key] = autoencoder, rows, training
    return partial(_forget, key)


def _forget(key: str) -> None:
    _given.pop(key, None)


def _done(key: str, task: _Task) -> dict[str, Any] | list[Sequence[Any]]:
    """What a worker gives back: sums, or the arrays of the draws, since the autoencoder is where they go."""
    autoencoder, rows, training = _given[key]
    order = task.order
    context = FitContext(autoencoder=autoencoder, rows=order.rows_of(rows), training=training, seed=order.seed)
    posterior = order.posterior
    if task.spans is not None and task.which is not None and isinstance(posterior, AddsUp):
        return list(posterior.sums(context, task.which, task.spans))
    if task.which is not None and isinstance(posterior, SeparateDraws):
        draws = posterior.some_draws(context, task.which)
    else:
        draws = posterior.draws_of(context)
    weights = autoencoder.flat(draws.weights)
    others = {name: getattr(draws, name) for name in ("masks", "noise", "sums", "mixing", "facts")}
    return {"count": draws.count, "weights": weights} | others
