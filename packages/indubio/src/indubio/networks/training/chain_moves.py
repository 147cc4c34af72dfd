"""A chain on its way over the weights, leg after leg: what every method shares that moves weights by `Chain`."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from indubio.networks.engine.engine import engine_for
from indubio.networks.engine.objectives import Dynamics
from indubio.networks.training.loop import diverged, endless_orders
from indubio.networks.training.network_fits import FitContext
from indubio.numerics import Stream


class Leg(NamedTuple):
    """Some moves of one kind.

    Args:
        moves: how many.
        chain: their settings.
        kept: whether the place that they lead to is wanted.
    """

    moves: int
    chain: Dynamics
    kept: bool = True


class KeptPlace(NamedTuple):
    """Where a chain is.

    Args:
        weights: the live array, so copy what is kept.
        loss: mean NLL of the last batch.
    """

    weights: Float[np.ndarray, "1 p"]
    loss: float


def walk(
    context: FitContext, values: Float[np.ndarray, "1 p"], stream: Stream, legs: Sequence[Leg]
) -> Iterator[KeptPlace]:
    """The places that are kept, one after the other; the momentum goes on from leg to leg.

    Args:
        context: rows, batches and noise on them; epoch after epoch.
        values: where the chain begins.
        stream: its random numbers.
        legs: of the way.
    """
    rows, batch = context.rows, context.training.batch_rows(len(context.rows))
    denoising = context.training.denoising
    sampler = engine_for(context.autoencoder).sampler(
        legs[0].chain,
        values,
        stream,
        batch=batch,
        corruption=None if denoising is None else denoising.corruption(rows, batch),
    )
    orders, moved, loss = endless_orders(rows, batch, stream, context.training.drop_last), 0, float("nan")
    stretch, order = np.empty(0), np.empty((1, 0), np.int64)
    for leg in legs:
        sampler.chain, due = leg.chain, leg.moves
        while due:
            if not order.shape[1]:
                stretch, order = next(orders)
            now, order = order[:, : due * batch], order[:, due * batch :]
            loss = sampler.steps(stretch, now)
            due -= -(-now.shape[1] // batch)
        moved += leg.moves
        if not np.isfinite(loss):
            raise diverged(np.array([loss]), moved, leg.chain.step_size)
        if leg.kept:
            yield KeptPlace(sampler.values(), loss)
