"""The one training loop: C networks side by side, each with its own weights, shuffles and noise.

An engine's `Trainer` takes the steps; the loop says on which rows, in which order and at which rates.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from indubio.errors import ConfigError, TrainingError
from indubio.networks.engine.engine import Trainer
from indubio.networks.training import learning_rate as rates
from indubio.networks.training.denoising import Denoising
from indubio.networks.training.rows import TrainingRows, stretches
from indubio.numerics import Stream, stream
from indubio.settings import AtLeastOne, Fraction, NotNegativeInt, Positive, Settings
from indubio.texts import english
from indubio.workers import cores

MOST_EPOCHS = 1000  # where they are not given: reconstructions go on improving for long, by less and less
SMALLEST_BATCH = 3  # smaller left-over batches are skipped, as in the authors' scripts
LARGE_NETWORK = 1_000_000  # weights; above it, one network after the other is fastest
STACK_BYTES = 32 * 2**20  # larger tensors are given back to the system at every step, and page-fault
RANGE_TEST, HELD_OUT = 1, 2  # mark random streams; 0 is the training's own


@dataclass(frozen=True, kw_only=True)
class EarlyStopping(Settings):
    """Stop each network when its held-out loss no longer falls, and keep its best weights.

    Args:
        held_out: share of the training rows kept out of training.
        patience: epochs without a new best before a network stops.
    """

    held_out: Fraction = 0.2
    patience: AtLeastOne = 10


@dataclass(frozen=True, kw_only=True)
class Training(Settings):
    """How the networks are trained: Adam on shuffled batches.

    Args:
        epochs: passes over the training rows; "auto" stops each network when its held-out loss no longer falls, by
            `early_stopping` or its defaults, after 1000 at most.
        batch_size: rows per step.
        batches: take N // batches rows per step instead (the authors: 3 for ODDS, 5 for ZeMA and STRATH).
        learning_rate: a number, or a range test that finds one.
        drop_last: leave out the last batch of an epoch if it is short; else only if it has fewer than 3 rows.
        early_stopping: stop on held-out loss; None does so for "auto" alone.
        denoising: noise on what the networks are given; None is none.
        members_at_once: networks trained as one program; None picks by size.
        threads: while training; None takes the number in OMP_NUM_THREADS, or that of the CPUs this process may use. The
            compiled engine trains whole networks side by side on them, and the result does not depend on their number.
            On torch small networks, whose steps are too short to share, take one, and results agree but for rounding.
    """

    epochs: NotNegativeInt | Literal["auto"] = 100
    batch_size: AtLeastOne = 128
    batches: Annotated[int, Field(ge=1)] | None = None
    learning_rate: Positive | rates.RangeTest = 0.005
    drop_last: bool = False
    early_stopping: EarlyStopping | None = None
    denoising: Denoising | None = None
    members_at_once: AtLeastOne | None = None
    threads: AtLeastOne | None = None

    @property
    def most_epochs(self) -> int:
        """How many epochs there can be, as an upper bound where the loss decides."""
        return MOST_EPOCHS if self.epochs == "auto" else self.epochs

    @property
    def stopping(self) -> EarlyStopping | None:
        """When networks stop before; None if they do not."""
        return self.early_stopping or (EarlyStopping() if self.epochs == "auto" else None)

    def batch_rows(self, examples: int) -> int:
        """Rows per step for so many training rows."""
        if self.batches is not None:
            return max(1, examples // self.batches)
        return min(self.batch_size, examples)


@dataclass(frozen=True)
class Progress:
    """How far a fit is: `done` of `total` epochs over all networks, draws or files, and the current mean loss."""

    done: float
    total: int
    loss: float
    stage: str = english("training")


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """A report that tells nobody of the progress."""


def members_at_once(
    training: Training, members: int, weights: int, widest: int, batch: int, itemsize: int = 4, side_by_side: int = 1
) -> int:
    """How many networks to stack: all small ones, as many large ones as run side by side, none the caches dislike."""
    if training.members_at_once is not None:
        return min(members, training.members_at_once)
    if weights > LARGE_NETWORK:
        return min(members, side_by_side)
    bytes_per_member = itemsize * max(weights, batch * widest)
    return int(np.clip(STACK_BYTES // bytes_per_member, 1, members))


def thread_count(training: Training) -> int:
    """Threads to train on: as many as asked for, as OMP_NUM_THREADS says, or as this process may use."""
    if training.threads is not None:
        return training.threads
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # a list has one number for each nested level
    return int(said) if said.isdecimal() and int(said) else cores()


def chunks(members: int, size: int) -> Iterator[range]:
    """0..members-1 in runs of at most `size`."""
    for start in range(0, members, size):
        yield range(start, min(start + size, members))


def train(
    trainer: Trainer,
    rows: TrainingRows,
    *,
    training: Training,
    schedule: rates.Schedule,
    streams: Sequence[Stream],
    held_out: Float[np.ndarray, "n2 ..."] | None = None,
    tell: Callable[[float, float], None] | None = None,
) -> None:
    """Move what is trained to lower loss, in place; `tell` is told the epochs that are done, and the loss."""
    batch = training.batch_rows(len(rows))
    best = None if training.stopping is None else _Best(trainer, training.stopping)
    steps = step_count(len(rows), batch, training.drop_last)
    for epoch in range(training.most_epochs):
        done = 0
        for stretch, order in epoch_orders(rows, batch, streams, epoch, training.drop_last):
            due = -(-order.shape[1] // batch)
            rates = [schedule(epoch * steps + step) for step in range(done, done + due)]
            mean = trainer.steps(stretch, order, rates).astype(np.float64) / due
            if not np.isfinite(mean).all():
                raise diverged(mean, epoch, rates[-1])
            done += due
            if tell is not None:
                tell(epoch + 1 if done == steps else epoch + done / steps, float(mean.mean()))
        if best is not None and held_out is not None and best.reached(held_out):
            break
    if best is not None and training.most_epochs:
        best.restore()


def step_count(rows: int, batch: int, drop_last: bool = False) -> int:
    """Batches of an epoch, the last one only if it is not too small, or whole."""
    whole, rest = divmod(rows, batch)
    return whole + (not whole or (rest >= SMALLEST_BATCH and not drop_last))


def epoch_orders(
    rows: TrainingRows, batch: int, streams: Sequence[Stream], epoch: int = 0, drop_last: bool = False
) -> Iterator[tuple[Float[np.ndarray, "n ..."], Int[np.ndarray, "c m"]]]:
    """The stretches of an epoch, each with an order of its rows for every network; too small a rest is left out."""
    left = step_count(len(rows), batch, drop_last)
    for stretch in stretches(rows, epoch, batch):
        due = min(-(-len(stretch) // batch), left)
        if due:
            yield stretch, np.stack([stream.permutation(len(stretch)) for stream in streams])[:, : due * batch]
            left -= due


def endless_orders(
    rows: TrainingRows, batch: int, stream: Stream, drop_last: bool = False
) -> Iterator[tuple[Float[np.ndarray, "n ..."], Int[np.ndarray, "1 m"]]]:
    """Batches for one network, epoch after epoch without an end."""
    for epoch in count():
        yield from epoch_orders(rows, batch, [stream], epoch, drop_last)


def diverged(loss: Float[np.ndarray, " c"], epoch: int, rate: float) -> TrainingError:
    """The error for a loss that is no longer a number."""
    worst = int(np.flatnonzero(~np.isfinite(loss))[0])
    return TrainingError(
        f"training diverged in epoch {epoch + 1}: the loss of network {worst} is {float(loss[worst])}. Lower the "
        f"learning rate (now {rate:.3g}), turn layer norm on, or look for extreme values in the training data."
    )


def schedule_for(
    training: Training, rows: TrainingRows, fresh_trainer: Callable[[Stream], Trainer], seed: int
) -> rates.Schedule:
    """The rate of every step, after a range test if one is asked for."""
    if not isinstance(training.learning_rate, rates.RangeTest):
        return rates.fixed(training.learning_rate)
    test = training.learning_rate
    own = stream(seed, RANGE_TEST, 0)
    found = test.found(*_range_test_losses(test, rows, training, fresh_trainer(own), own))
    return test.schedule(found, max(1, len(rows) // training.batch_rows(len(rows))))


def _range_test_losses(
    test: rates.RangeTest, rows: TrainingRows, training: Training, trainer: Trainer, own: Stream
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, " steps"]]:
    losses: list[float] = []
    batch = training.batch_rows(len(rows))
    tried = test.rates(step_count(len(rows), batch, training.drop_last))
    batches = (
        (stretch, order[:, start : start + batch])
        for stretch, order in endless_orders(rows, batch, own, training.drop_last)
        for start in range(0, order.shape[1], batch)
    )
    for rate, (stretch, order) in zip(tried, batches, strict=False):
        if test.restart:
            trainer.restart()
        losses.append(float(trainer.steps(stretch, order, [float(rate)])[0]))
        if not np.isfinite(losses[-1]) or test.hopeless(np.array(losses)):
            losses.pop()
            break
    return tried[: len(losses)], np.array(losses)


def split_held_out(
    rows: TrainingRows, training: Training, seed: int
) -> tuple[TrainingRows, Float[np.ndarray, "n2 ..."] | None]:
    """Training rows and held-out rows, when early stopping needs some."""
    if training.stopping is None:
        return rows, None
    share = training.stopping.held_out
    held = round(share * len(rows))
    if held < 1 or held >= len(rows):
        raise ConfigError(
            "early stopping needs rows on both sides: `held_out` {share} of {count} rows are {held}. "
            "Give more rows, or turn early stopping off and say how many `epochs`.",
            share=share,
            count=len(rows),
            held=held,
        )
    if not isinstance(rows, np.ndarray):
        return rows.held_out(share)
    order = stream(seed, HELD_OUT, 0).permutation(len(rows))
    return rows[order[held:]], rows[order[:held]]


class _Best:
    """The best values of each network so far, by held-out loss; a network that ran out of patience stays as it was."""

    def __init__(self, trainer: Trainer, stopping: EarlyStopping) -> None:
        self._trainer, self._patience = trainer, stopping.patience
        self._values = trainer.values().copy()
        self._loss = np.full(len(self._values), np.inf)
        self._waited = np.zeros(len(self._values), np.int64)

    def reached(self, held_out: Float[np.ndarray, "n2 ..."]) -> bool:
        """Look at the held-out loss; True when every network has run out of patience."""
        loss = self._trainer.held_out_loss(held_out)
        better = (loss < self._loss) & (self._waited < self._patience)
        self._loss[better] = loss[better]
        self._waited = np.where(better, 0, self._waited + 1)
        self._values[better] = self._trainer.values()[better]
        return bool((self._waited >= self._patience).all())

    def restore(self) -> None:
        """Put the best values back, at the end of training."""
        self._trainer.put(self._values)
