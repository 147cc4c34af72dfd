"""Posterior: the settings of a method that turns training rows into M draws, and what the methods share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, TypeVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.compiled import engine_for
from indubio.autoencoders.gradient import BlockGradient, can_differentiate
from indubio.autoencoders.layers import Weights
from indubio.autoencoders.network import Masks
from indubio.posteriors.draws import Draws
from indubio.posteriors.rows import TrainingRows
from indubio.posteriors.training import (
    Objective,
    Progress,
    Report,
    Stepper,
    Training,
    chunks,
    member_generators,
    members_at_once,
    schedule_for,
    split_held_out,
    train,
    training_threads,
)
from indubio.settings import NotNegative, Settings

ObjectiveT = TypeVar("ObjectiveT", bound=Objective)

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
        """Train on the rows and give the draws; their device and precision are those of the rows.

        Args:
            autoencoder: what is trained.
            rows: the training rows, in memory or streamed.
            training: how.
            seed: of everything random.
            report: told after every epoch, and every stretch of streamed rows.
            start: draws of the same autoencoder to start from instead of fresh weights. Priors stay what they are, the
                anchors of an ensemble too. A method whose draws do not tell where its training ended starts afresh.
        """


class WeightObjective(Objective):
    """Networks with point weights: NLL + lambda ||theta - anchor||^2, the anchor being 0 where there is none."""

    def __init__(
        self,
        autoencoder: Autoencoder,
        weights: Weights,
        *,
        prior_scale: float,
        generators: Sequence[Generator],
        anchors: Weights | None = None,
        dropout: float = 0.0,
    ) -> None:
        self.autoencoder = autoencoder
        self.dropout = dropout
        self.generators = generators
        self.decay = 2 * prior_scale
        if can_differentiate(autoencoder):
            # One tensor that all weights are views of, a row for each network: anchors and optimiser then are one
            # operation each, and the gradients are written to where it reads them.
            self.moved = [flat_weights(weights)]
            self.weights = weight_views(self.moved[0], weights)
            self._anchors = None if anchors is None else [flat_weights(anchors)]
        else:
            self.weights = {name: weight.requires_grad_() for name, weight in weights.items()}
            self.moved = list(self.weights.values())
            self._anchors = None if anchors is None else [anchors[name] for name in self.weights]
        self.leaves = list(self.weights.values())

    def stepper(self, batch: int, threads: int) -> Stepper:
        """Compiled where that is possible."""
        engine = engine_for(self.autoencoder, self.moved[0])
        if engine is None:
            return super().stepper(batch, threads)
        anchors = None if self._anchors is None else self._anchors[0]
        masks = self.masks_of if self.dropout else None
        return engine.trainer(self.moved[0], anchors, decay=self.decay, batch=batch, threads=threads, masks=masks)

    @cached_property
    def _by_hand(self) -> BlockGradient | None:
        if not can_differentiate(self.autoencoder):
            return None
        (flat,) = self.moved
        flat.grad = torch.zeros_like(flat)
        return BlockGradient(self.autoencoder, self.weights, weight_views(flat.grad, self.weights))

    def masks_of(self, network: int, examples: int) -> list[Float[Tensor, "b units"]]:
        """Fresh dropout masks of one network for the rows of a batch, one for each place."""
        units, generator, like = self.autoencoder.network.dropout_units, self.generators[network], self.leaves[0]
        return [dropout_mask((examples, size), self.dropout, generator, like) for size in units]

    def _masks(self, rows: Float[Tensor, "c b ..."]) -> Masks | None:
        if not self.dropout:
            return None
        each = [self.masks_of(network, rows.shape[1]) for network in range(len(self.generators))]
        return [torch.stack(place) for place in zip(*each, strict=True)]

    def loss(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """Mean NLL of the batch."""
        return self.autoencoder.nll(self.weights, rows, masks=self._masks(rows)).mean(1)

    def differentiate(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """As every objective does, or faster where the backward pass is written out."""
        if self._by_hand is None:
            return super().differentiate(rows)
        with torch.no_grad():
            loss = self._by_hand(rows, self._masks(rows))
        self.add_anchor_gradient()
        return loss

    @torch.no_grad()
    def add_anchor_gradient(self) -> None:
        """-2 lambda anchor, without a pass through autograd."""
        if self._anchors is not None:
            gradients = [tensor.grad for tensor in self.moved if tensor.grad is not None]
            torch._foreach_add_(gradients, self._anchors, alpha=-self.decay)

    def held_out_loss(self, rows: Float[Tensor, "1 b ..."]) -> Float[Tensor, " c"]:
        """Mean NLL without dropout or code noise."""
        return self.autoencoder.nll(self.weights, rows).mean(1)

    @torch.no_grad()
    def begin_at(self, weights: Weights) -> None:
        """Put these weights in place of the fresh ones; anchors stay."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])

    def trained(self) -> Weights:
        """The weights as they are now, cut loose from autograd and from each other."""
        return {name: weight.detach().clone() for name, weight in self.weights.items()}


def dropout_mask(shape: tuple[int, ...], dropout: float, generator: Generator, like: TrainingRows) -> Tensor:
    """1 for what stays, 0 for what is switched off, with this probability."""
    return torch.empty(shape).bernoulli_(1 - dropout, generator=generator).to(like.device, like.dtype)


def flat_weights(weights: Weights) -> Float[Tensor, "c p"]:
    """All weights of a network in one row, a row for each network."""
    return torch.cat([weight.flatten(1) for weight in weights.values()], dim=1)


def weight_views(flat: Float[Tensor, "c p"], like: Weights) -> Weights:
    """The weights in rows of `flat`, by name and shape of those of one or more networks in `like`."""
    parts = flat.split([weight[0].numel() for weight in like.values()], dim=1)  # type: ignore[no-untyped-call]
    return {name: part.view(-1, *like[name].shape[1:]) for name, part in zip(like, parts, strict=True)}


def fresh_weights(autoencoder: Autoencoder, generators: Sequence[Generator], like: TrainingRows) -> Weights:
    """Initial weights of one network per generator, stacked, with the precision and device of `like`."""
    each = [autoencoder.initial(generator, like.dtype) for generator in generators]
    return {name: torch.stack([one[name] for one in each]).to(like.device) for name in each[0]}


def fit_networks(
    fresh: Callable[[Sequence[Generator]], ObjectiveT],
    autoencoder: Autoencoder,
    rows: TrainingRows,
    *,
    networks: range,
    training: Training,
    seed: int,
    report: Report,
    start: Weights | None = None,
) -> Iterator[ObjectiveT]:
    """Train these networks, as many side by side as is fastest, and give their objectives one after the other.

    What is not kept of an objective is gone before the next one begins: of large networks, memory holds few at a time.

    Args:
        fresh: makes the untrained objective of one network per generator.
        autoencoder: what is trained.
        rows: the training rows.
        networks: which of those that belong to the seed; each is the same, whichever others are trained.
        training: how.
        seed: of everything random.
        report: told after every epoch.
        start: weights to start from, one set per network; None starts from fresh ones.
    """
    weights, widest = autoencoder.weight_count(), autoencoder.network.widest
    threads = training.threads or torch.get_num_threads()
    with training_threads(training, weights):
        kept, held_out = split_held_out(rows, training, seed)
        generators = member_generators(seed, networks.stop)[networks.start :]
        schedule = schedule_for(training, kept, lambda generator: fresh([generator]), seed)
        batch = training.batch_rows(len(kept))
        side_by_side = threads if engine_for(autoencoder, rows) else 1
        size = members_at_once(training, len(networks), weights, widest, batch, rows.dtype.itemsize, side_by_side)
        runs = list(chunks(len(networks), size))
        for run, members in enumerate(runs):
            objective = fresh(generators[members.start : members.stop])
            if start is not None:
                objective.begin_at({name: weight[members.start : members.stop] for name, weight in start.items()})
            before = run * training.epochs
            train(
                objective,
                kept,
                training=training,
                schedule=schedule,
                generators=generators[members.start : members.stop],
                held_out=held_out,
                tell=lambda done, loss, before=before: report(  # type: ignore[misc]
                    Progress(before + done, len(runs) * training.epochs, loss)
                ),
                threads=threads,
            )
            yield objective
            del objective


def fit_network(
    fresh: Callable[[Weights, Sequence[Generator]], ObjectiveT],
    autoencoder: Autoencoder,
    rows: TrainingRows,
    *,
    training: Training,
    seed: int,
    report: Report,
    start: Draws | None = None,
) -> ObjectiveT:
    """Train one network, for methods whose draws all come from it.

    Args:
        fresh: makes the untrained objective from initial weights and generators of the same networks.
        autoencoder: what is trained.
        rows: the training rows.
        training: how.
        seed: of everything random.
        report: told after every epoch.
        start: draws whose last weights to start from; None starts from fresh ones.
    """
    (objective,) = fit_networks(
        lambda generators: fresh(fresh_weights(autoencoder, generators, rows), generators),
        autoencoder,
        rows,
        networks=range(1),
        training=training,
        seed=seed,
        report=report,
        start=None if start is None else {name: weight[-1:] for name, weight in start.weights.items()},
    )
    return objective
