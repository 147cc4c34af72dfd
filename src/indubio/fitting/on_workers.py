"""Draws that several workers train: folds of a cross-calibration, and ensembles too large for one process.

A member's weights follow from its seed and its number, and a fold's from its seed and rows, so who trains what changes
nothing but, on torch, the rounding, as the number of networks side by side does.
"""

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from indubio.errors import ConfigError, WorkersError
from indubio.networks.autoencoder import Autoencoder
from indubio.networks.network import BlockNetwork
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Posterior, SeparateDraws
from indubio.training.loop import Progress, Report, Training
from indubio.training.network_fits import FitContext
from indubio.training.rows import TrainingRows
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
    if not isinstance(autoencoder.network, BlockNetwork) or autoencoder.device != "cpu":
        raise ConfigError("workers train the built-in networks, on CPUs. Leave `workers` out.")
    key = uuid.uuid4().hex
    with workers.executor(_start, (key, autoencoder, rows, training)) as executor:
        tasks = [task for order in orders for task in _tasks(order, workers.slots(executor), len(orders))]
        futures = [executor.submit(_fit, key, *task) for task in tasks]
        try:
            for done, _ in enumerate(as_completed(futures), 1):
                report(Progress(done, len(tasks), np.nan, "training on workers"))
            return joined([_draws(autoencoder, future.result()) for future in futures])
        except BrokenExecutor:
            raise WorkersError("a worker died while it trained. Fewer workers need less memory.") from None


def joined(parts: Sequence[Draws]) -> Draws:
    """Draws of the same autoencoder as one; where a part's draws share their weights, each gets a copy."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    masks = [part.masks for part in parts if part.masks is not None]
    noise = [part.noise for part in parts if part.noise is not None]
    count, flat = sum(part.count for part in parts), [_weights(part) for part in parts]
    weights = np.concatenate(flat, out=np.empty((count, flat[0].shape[1]), flat[0].dtype))
    return Draws(
        first.autoencoder,
        count,
        first.autoencoder.named(weights),
        masks=tuple(np.concatenate(place) for place in zip(*masks, strict=True)) if masks else None,
        noise=np.concatenate(noise) if noise else None,
    )


def _weights(draws: Draws) -> Float[np.ndarray, "draws p"]:
    flat = draws.autoencoder.flat(draws.weights)
    return np.broadcast_to(flat, (draws.count, flat.shape[1]))


def _tasks(order: Order, slots: int, orders: int) -> list[tuple[Order, range | None]]:
    """An order as it is, or its draws in as many groups as there are workers to spare."""
    if not isinstance(order.posterior, SeparateDraws):
        return [(order, None)]
    groups = max(1, min(order.posterior.count, -(-slots // orders)))
    bounds = [place * order.posterior.count // groups for place in range(groups + 1)]
    return [(order, range(start, stop)) for start, stop in pairwise(bounds)]


_given: dict[str, tuple[Autoencoder, TrainingRows, Training]] = {}  # of a worker, by fit


def _start(key: str, autoencoder: Autoencoder, rows: TrainingRows, training: Training) -> Callable[[], None]:
    _given[key] = autoencoder, rows, training
    return partial(_forget, key)


def _forget(key: str) -> None:
    _given.pop(key, None)


def _fit(key: str, order: Order, which: range | None) -> dict[str, Any]:
    """What a worker gives back: the arrays of the draws, since the autoencoder is where they go."""
    autoencoder, rows, training = _given[key]
    posterior = order.posterior
    context = FitContext(autoencoder=autoencoder, rows=order.rows_of(rows), training=training, seed=order.seed)
    if which is not None and isinstance(posterior, SeparateDraws):
        draws = posterior.some_draws(context, which)
    else:
        draws = posterior.draws_of(context)
    weights = autoencoder.flat(draws.weights)
    return {"count": draws.count, "weights": weights, "masks": draws.masks, "noise": draws.noise}


def _draws(autoencoder: Autoencoder, given: dict[str, Any]) -> Draws:
    weights = autoencoder.named(given["weights"])
    return Draws(autoencoder, given["count"], weights, masks=given["masks"], noise=given["noise"])
