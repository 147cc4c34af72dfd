"""Draws that several workers train: folds of a cross-calibration, and ensembles too large for one process.

A member's weights follow from its seed and its number, and a fold's from its seed and rows, so who trains what changes
nothing: with the compiled engine not a bit, on torch the rounding, as the number of networks side by side does.
"""

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.network import BlockNetwork
from indubio.errors import ConfigError, WorkersError
from indubio.posteriors.anchored_ensemble import AnchoredEnsemble
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Posterior
from indubio.posteriors.rows import TrainingRows
from indubio.posteriors.training import Progress, Report, Training, silent
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
        """The rows to train on."""
        if self.trained is None or not isinstance(rows, Tensor) or len(self.trained) == len(rows):
            return rows
        return rows[torch.from_numpy(self.trained).to(rows.device)]


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
    if not isinstance(autoencoder.network, BlockNetwork) or rows.device.type != "cpu":
        raise ConfigError("workers train the built-in networks, on CPUs. Leave `workers` out.")
    key = uuid.uuid4().hex
    sent = rows.numpy() if isinstance(rows, Tensor) else rows
    with workers.executor(_start, (key, autoencoder, sent, training)) as executor:
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
    return Draws(
        first.autoencoder,
        sum(part.count for part in parts),
        {name: torch.cat([_stacked(part, name) for part in parts]) for name in first.weights},
        masks=tuple(torch.cat(place) for place in zip(*masks, strict=True)) if masks else None,
        noise=torch.cat(noise) if noise else None,
    )


def _stacked(draws: Draws, name: str) -> Tensor:
    weight = draws.weights[name]
    return weight if weight.shape[0] == draws.count else weight.expand(draws.count, *weight.shape[1:])


def _tasks(order: Order, slots: int, orders: int) -> list[tuple[Order, range | None]]:
    """An order as it is, or its members in as many groups as there are workers to spare."""
    if not isinstance(order.posterior, AnchoredEnsemble):
        return [(order, None)]
    groups = max(1, min(order.posterior.members, -(-slots // orders)))
    bounds = [place * order.posterior.members // groups for place in range(groups + 1)]
    return [(order, range(start, stop)) for start, stop in pairwise(bounds)]


_given: dict[str, tuple[Autoencoder, Any, Training]] = {}  # of a worker, by fit


def _start(key: str, autoencoder: Autoencoder, rows: Any, training: Training) -> Callable[[], None]:
    _given[key] = autoencoder, torch.from_numpy(rows) if isinstance(rows, np.ndarray) else rows, training
    return partial(_forget, key)


def _forget(key: str) -> None:
    _given.pop(key, None)


def _fit(key: str, order: Order, members: range | None) -> dict[str, Any]:
    """What a worker gives back: arrays, since tensors would share memory with a process that may be gone."""
    autoencoder, rows, training = _given[key]
    own, posterior = order.rows_of(rows), order.posterior
    if members is not None and isinstance(posterior, AnchoredEnsemble):
        draws = posterior.fit_members(members, autoencoder, own, training=training, seed=order.seed)
    else:
        draws = posterior.fit(autoencoder, own, training=training, seed=order.seed, report=silent)
    return {
        "count": draws.count,
        "weights": {name: weight.numpy() for name, weight in draws.weights.items()},
        "masks": None if draws.masks is None else [mask.numpy() for mask in draws.masks],
        "noise": None if draws.noise is None else draws.noise.numpy(),
    }


def _draws(autoencoder: Autoencoder, given: dict[str, Any]) -> Draws:
    return Draws(
        autoencoder,
        given["count"],
        {name: torch.from_numpy(weight.copy()) for name, weight in given["weights"].items()},
        masks=None if given["masks"] is None else tuple(torch.from_numpy(mask.copy()) for mask in given["masks"]),
        noise=None if given["noise"] is None else torch.from_numpy(given["noise"].copy()),
    )
