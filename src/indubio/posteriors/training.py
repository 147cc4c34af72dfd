"""The one training loop: C networks side by side, each with its own weights, shuffles and noise.

An `Objective` holds the stacked parameters and gives each network's loss; the loss summed over networks is
differentiated once, since no network's loss depends on another's weights. The prior's gradient is added in closed
form.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Generator, Tensor

from indubio.errors import ConfigError, TrainingError
from indubio.posteriors import learning_rate as rates
from indubio.posteriors.rows import TrainingRows, stretches
from indubio.settings import AtLeastOne, Fraction, NotNegativeInt, Positive, Settings

SMALLEST_BATCH = 3  # smaller left-over batches are skipped, as in the authors' scripts
LARGE_NETWORK = 1_000_000  # weights; above it, one network after the other is fastest
SMALL_NETWORK = 100_000  # weights; up to it, more threads cost more than they bring, a lot more on a busy machine
STACK_BYTES = 32 * 2**20  # larger tensors are given back to the system at every step, and page-fault


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
        epochs: passes over the training rows.
        batch_size: rows per step.
        batches: take N // batches rows per step instead (the authors: 3 for ODDS, 5 for ZeMA and STRATH).
        learning_rate: a number, or a range test that finds one.
        early_stopping: stop on held-out loss.
        members_at_once: networks trained as one program; None picks by size.
        threads: while training; None takes torch's own number. The compiled engine trains whole networks side by side
            on them, and the result does not depend on their number. On torch, None takes one for small networks, whose
            steps are too short to share, and results agree but for rounding.
    """

    epochs: NotNegativeInt = 100
    batch_size: AtLeastOne = 128
    batches: Annotated[int, Field(ge=1)] | None = None
    learning_rate: Positive | rates.RangeTest = 0.005
    early_stopping: EarlyStopping | None = None
    members_at_once: AtLeastOne | None = None
    threads: AtLeastOne | None = None

    def batch_rows(self, examples: int) -> int:
        """Rows per step for so many training rows."""
        if self.batches is not None:
            return max(1, examples // self.batches)
        return min(self.batch_size, examples)


@dataclass(frozen=True)
class Progress:
    """How far a fit is: `done` of `total` epochs over all networks, and the current mean loss."""

    done: float
    total: int
    loss: float
    stage: str = "training"


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Report to nobody."""


class Objective(ABC):
    """C networks in training.

    Attributes:
        leaves: the stacked tensors that are trained, each (C, ...).
        moved: the tensors that the optimiser moves: the leaves, or what they are views of.
        decay: factor of the weights themselves in the prior's gradient. The optimiser adds that part, in the pass over
            the weights that it makes anyway.
    """

    leaves: list[Tensor]
    moved: list[Tensor]
    decay: float = 0.0

    @abstractmethod
    def loss(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """The loss of each network on its own batch, without a prior whose gradient has a closed form."""

    @abstractmethod
    def add_anchor_gradient(self) -> None:
        """Add what the prior's gradient has besides `decay` times the weights."""

    @abstractmethod
    def held_out_loss(self, rows: Float[Tensor, "1 b ..."]) -> Float[Tensor, " c"]:
        """The loss of each network on rows it does not train on, without noise."""

    def stepper(self, batch: int, threads: int) -> "Stepper":
        """What takes the optimiser's steps on batches of so many rows."""
        del threads
        return _TorchStepper(self, batch)

    def begin_at(self, weights: dict[str, Tensor]) -> None:
        """Start from these weights, stacked (C, ...), where the method can."""
        raise NotImplementedError(f"{type(self).__name__} cannot start from given weights.")

    def differentiate(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """Put the gradient, all but the decay, where the optimiser finds it, and give the loss."""
        for tensor in self.moved:
            tensor.grad = None
        loss = self.loss(rows)
        torch.autograd.backward(loss.sum())
        self.add_anchor_gradient()
        return loss.detach()


class Stepper(Protocol):
    """Adam on batches."""

    def steps(
        self, rows: Float[Tensor, "n ..."], order: Int[Tensor, "c n"], rates: Sequence[float]
    ) -> Float[Tensor, " c"]:
        """One step for each rate, on the rows in this order; the sum of the steps' losses of each network."""


class _TorchStepper:
    def __init__(self, objective: Objective, batch: int) -> None:
        self._objective, self._batch, self._adam = objective, batch, _fused_adam(objective)

    def steps(
        self, rows: Float[Tensor, "n ..."], order: Int[Tensor, "c n"], rates: Sequence[float]
    ) -> Float[Tensor, " c"]:
        total = torch.zeros(len(order), dtype=rows.dtype, device=rows.device)
        # Too small a rest has no rate.
        for rate, index in zip(rates, torch.split(order, self._batch, dim=1), strict=False):
            total += _adam_step(self._adam, self._objective, rows[index], rate)
        return total


def member_generators(seed: int, members: int, purpose: int = 0) -> list[Generator]:
    """One random stream per network; network m's stream does not depend on how many there are."""
    states = [np.random.SeedSequence(seed, spawn_key=(purpose, member)) for member in range(members)]
    return [torch.Generator().manual_seed(int(s.generate_state(1, np.uint64)[0] >> 1)) for s in states]


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


@contextmanager
def training_threads(training: Training, weights: int) -> Iterator[None]:
    """Torch's number of threads for training networks of so many weights, for as long as the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(training.threads or (1 if weights <= SMALL_NETWORK else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def chunks(members: int, size: int) -> Iterator[range]:
    """0..members-1 in runs of at most `size`."""
    for start in range(0, members, size):
        yield range(start, min(start + size, members))


def train(
    objective: Objective,
    rows: TrainingRows,
    *,
    training: Training,
    schedule: rates.Schedule,
    generators: Sequence[Generator],
    held_out: Float[Tensor, "n2 ..."] | None = None,
    tell: Callable[[float, float], None] | None = None,
    threads: int = 1,
) -> None:
    """Move the objective's leaves to lower loss, in place; `tell` is told the epochs that are done, and the loss."""
    batch = training.batch_rows(len(rows))
    stepper = objective.stepper(batch, threads)
    best = _Best(objective, training.early_stopping) if training.early_stopping else None
    steps = step_count(len(rows), batch)
    for epoch in range(training.epochs):
        done = 0
        for stretch in stretches(rows, epoch, batch):
            due = min(-(-len(stretch) // batch), steps - done)
            if not due:  # too small a rest
                continue
            rates = [schedule(epoch * steps + step) for step in range(done, done + due)]
            mean = stepper.steps(stretch, epoch_order(stretch, generators), rates) / due
            if not bool(mean.isfinite().all()):
                raise diverged(mean, epoch, rates[-1])
            done += due
            if tell is not None:
                tell(epoch + 1 if done == steps else epoch + done / steps, float(mean.mean()))
        if best is not None and held_out is not None and best.reached(held_out):
            break
    if best is not None and training.epochs:
        best.restore()


def _fused_adam(objective: Objective) -> torch.optim.Adam:
    # On a CPU fused Adam ignores the strides of gradients. Accumulated gradients of contiguous leaves are contiguous,
    # and the anchors' are added in place, so it is safe here; a test compares it with plain Adam. Weight decay is the
    # part of the prior's gradient that is proportional to the weights, for free: Adam reads the weights anyway.
    return torch.optim.Adam(objective.moved, fused=True, weight_decay=objective.decay)


def _adam_step(adam: torch.optim.Adam, objective: Objective, batch: Tensor, rate: float) -> Float[Tensor, " c"]:
    adam.param_groups[0]["lr"] = rate
    loss = objective.differentiate(batch)
    adam.step()
    return loss


def epoch_order(rows: Float[Tensor, "n ..."], generators: Sequence[Generator]) -> Int[Tensor, "c n"]:
    """An order of the rows for each network."""
    return torch.stack([torch.randperm(len(rows), generator=generator) for generator in generators]).to(rows.device)


def step_count(rows: int, batch: int) -> int:
    """Batches of an epoch, the last one only if it is not too small."""
    whole, rest = divmod(rows, batch)
    return whole + (rest >= SMALLEST_BATCH or not whole)


def epoch_batches(
    rows: TrainingRows, size: int, generators: Sequence[Generator], epoch: int = 0
) -> Iterator[Float[Tensor, "c b ..."]]:
    """The rows in batches, in an order of its own for each network."""
    left = step_count(len(rows), size)
    for stretch in stretches(rows, epoch, size):
        for index in torch.split(epoch_order(stretch, generators), size, dim=1)[:left]:
            left -= 1
            yield stretch[index]


def endless_batches(rows: TrainingRows, size: int, generator: Generator) -> Iterator[Float[Tensor, "1 b ..."]]:
    """Batches for one network, epoch after epoch."""
    for epoch in count():
        yield from epoch_batches(rows, size, [generator], epoch)


def diverged(loss: Float[Tensor, " c"], epoch: int, rate: float) -> TrainingError:
    """The error for a loss that is no longer a number."""
    worst = int((~loss.isfinite()).nonzero()[0])
    return TrainingError(
        f"training diverged in epoch {epoch + 1}: the loss of network {worst} is {float(loss[worst])}. Lower the "
        f"learning rate (now {rate:.3g}), turn layer norm on, or look for extreme values in the training data."
    )


def schedule_for(
    training: Training, rows: TrainingRows, fresh_objective: Callable[[Generator], Objective], seed: int
) -> rates.Schedule:
    """The rate of every step, after a range test if one is asked for."""
    if not isinstance(training.learning_rate, rates.RangeTest):
        return rates.fixed(training.learning_rate)
    test = training.learning_rate
    (generator,) = member_generators(seed, 1, purpose=1)
    found = rates.found_rates(*_range_test_losses(test, rows, training, fresh_objective(generator), generator))
    high = found.high / test.margin
    if test.use == "fixed":
        return rates.fixed(high)
    steps = max(1, len(rows) // training.batch_rows(len(rows)))
    return rates.triangular(min(found.low, high), high, max(2, steps))


def _range_test_losses(
    test: rates.RangeTest, rows: TrainingRows, training: Training, objective: Objective, generator: Generator
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, " steps"]]:
    adam = _fused_adam(objective)
    losses: list[float] = []
    tried = test.rates()
    batches = endless_batches(rows, training.batch_rows(len(rows)), generator)
    for rate, batch in zip(tried, batches, strict=False):
        losses.append(float(_adam_step(adam, objective, batch, float(rate))))
        smoothed = rates.smoothed_losses(np.array(losses))
        if not np.isfinite(losses[-1]) or smoothed[-1] > rates.HOPELESS * abs(smoothed.min()):
            losses.pop()
            break
    return tried[: len(losses)], np.array(losses)


def split_held_out(
    rows: TrainingRows, training: Training, seed: int
) -> tuple[TrainingRows, Float[Tensor, "n2 ..."] | None]:
    """Training rows and held-out rows, when early stopping needs some."""
    if training.early_stopping is None:
        return rows, None
    share = training.early_stopping.held_out
    held = round(share * len(rows))
    if held < 1 or held >= len(rows):
        raise ConfigError(
            f"early stopping needs rows on both sides: `held_out` {share} of {len(rows)} rows are {held}. "
            "Give more rows or turn early stopping off."
        )
    if not isinstance(rows, Tensor):
        return rows.held_out(share)
    (generator,) = member_generators(seed, 1, purpose=2)
    order = torch.randperm(len(rows), generator=generator).to(rows.device)
    return rows[order[held:]], rows[order[:held]]


class _Best:
    """The best weights of each network so far, by held-out loss; a network that ran out of patience stays as it was."""

    def __init__(self, objective: Objective, stopping: EarlyStopping) -> None:
        self._objective, self._patience = objective, stopping.patience
        self._leaves = [leaf.detach().clone() for leaf in objective.leaves]
        members = objective.leaves[0].shape[0]
        self._loss = torch.full((members,), torch.inf, dtype=objective.leaves[0].dtype)
        self._waited = torch.zeros(members, dtype=torch.long)

    def reached(self, held_out: Tensor) -> bool:
        """Look at the held-out loss; True when every network has run out of patience."""
        with torch.no_grad():
            loss = self._objective.held_out_loss(held_out.unsqueeze(0)).cpu()
        better = (loss < self._loss) & (self._waited < self._patience)
        self._loss[better] = loss[better]
        self._waited = torch.where(better, 0, self._waited + 1)
        for kept, leaf in zip(self._leaves, self._objective.leaves, strict=True):
            kept[better] = leaf.detach()[better]
        return bool((self._waited >= self._patience).all())

    def restore(self) -> None:
        """Put the best weights back."""
        with torch.no_grad():
            for kept, leaf in zip(self._leaves, self._objective.leaves, strict=True):
                leaf.copy_(kept)
