"""The torch engine: autograd and fused Adam, for any module and device.

It runs a user's own modules, everything that is not on a CPU, and all networks where there is no compiled core.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from indubio.networks.autoencoder import Autoencoder
from indubio.networks.engine.engine import Rows
from indubio.networks.engine.objectives import Corruption, Dynamics, PointWeights, Variational
from indubio.networks.engine.torch_losses import Loss, PointLoss, VariationalLoss
from indubio.networks.engine.torch_networks import StackedAutoencoder, nll_of_rows
from indubio.networks.tensors import TensorWeights
from indubio.numerics import Stream

SMALL_NETWORK = 100_000  # weights; up to it, more threads cost more than they bring, a lot more on a busy machine
VALUES_AT_ONCE = 2**17  # draws x rows x widest layer: stays in a core's cache; tensors of 1 MB and more page-fault
FEWEST_ROWS = 1024  # of a chunk, however wide the network: below, the products lose more than the cache gains
ALIGNED = 64  # bytes; the alignment of torch's own memory


class TorchEngine:
    """Runs an autoencoder on torch.

    Args:
        autoencoder: what is trained and scored, and where.
    """

    name = "torch"
    by_network = False

    def __init__(self, autoencoder: Autoencoder) -> None:
        self._autoencoder = autoencoder
        self._stacked = StackedAutoencoder(autoencoder)

    def trainer(
        self,
        objective: PointWeights | Variational,
        values: Float[np.ndarray, "c v"],
        anchors: Float[np.ndarray, "c p"] | None,
        streams: Sequence[Stream],
        *,
        batch: int,
        threads: int,
        corruption: Corruption | None = None,
    ) -> "_TorchTrainer":
        """What trains these networks; small ones on one thread, since their steps are too short to share."""
        network = self._autoencoder.network
        loss = (
            PointLoss(objective, self._stacked, network, streams, corruption)
            if isinstance(objective, PointWeights)
            else VariationalLoss(objective, self._stacked, network, streams, corruption)
        )
        small = self._autoencoder.weight_count() <= SMALL_NETWORK
        return _TorchTrainer(loss, values, anchors, self._autoencoder.device, batch, 1 if small else threads)

    def sampler(
        self,
        chain: Dynamics,
        values: Float[np.ndarray, "1 p"],
        stream: Stream,
        *,
        batch: int,
        corruption: Corruption | None = None,
    ) -> "_TorchSampler":
        """A chain that begins at these values, without momentum."""
        objective = PointWeights(prior_scale=0.0, kl_weight=chain.kl_weight)  # the prior is a part of the move
        loss = PointLoss(objective, self._stacked, self._autoencoder.network, [stream], corruption)
        return _TorchSampler(chain, loss, values, stream, self._autoencoder.device, batch)

    def gradient(self, values: Float[np.ndarray, "1 p"], rows: Rows) -> Float[np.ndarray, "1 p"]:
        """The gradient of the mean NLL of all rows, at these values."""
        loss = PointLoss(PointWeights(prior_scale=0.0), self._stacked, self._autoencoder.network, [])
        given = tensor_of(values, self._autoencoder.device).clone().requires_grad_()
        with _threads(1 if values.shape[1] <= SMALL_NETWORK else None):
            differentiated(loss, given, tensor_of(rows, given.device).to(given.dtype).unsqueeze(0))
        assert given.grad is not None  # made above
        return array_of(given.grad)

    def scorer(
        self,
        count: int,
        values: Float[np.ndarray, "w p"],
        masks: tuple[Float[np.ndarray, "m _"], ...] | None,
        noise: Float[np.ndarray, "m ..."] | None,
    ) -> "_TorchScorer":
        """What scores rows under draws with these weights; arguments as in `Engine.scorer`."""
        return _TorchScorer(self._autoencoder, self._stacked, count, values, masks, noise)


class _Batches:
    """Rows of arrays as batches of tensors; the array of the last call is kept where it was sent to."""

    def __init__(self, size: int, like: Tensor) -> None:
        self._size, self._like = size, like
        self._kept: tuple[Rows, Tensor] | None = None

    def __call__(self, rows: Rows, order: Int[np.ndarray, "c ordered"]) -> Iterator[Float[Tensor, "c b ..."]]:
        if self._kept is None or self._kept[0] is not rows:
            self._kept = rows, tensor_of(rows, self._like.device).to(self._like.dtype)
        sent = self._kept[1]
        for index in torch.split(tensor_of(order, self._like.device), self._size, dim=1):
            yield sent[index]


class _TorchTrainer:
    def __init__(
        self,
        loss: Loss,
        values: Float[np.ndarray, "c v"],
        anchors: Float[np.ndarray, "c p"] | None,
        device: str,
        batch: int,
        threads: int,
    ) -> None:
        self._loss, self._threads = loss, threads
        self._values = tensor_of(values, device).clone().requires_grad_()
        self._anchors = None if anchors is None else tensor_of(anchors, device)
        self._batches = _Batches(batch, self._values)
        # On a CPU fused Adam ignores the strides of gradients. The accumulated gradient of a contiguous leaf is
        # contiguous, and the anchors' is added in place, so it is safe here; a test compares it with plain Adam. Weight
        # decay is the part of the prior's gradient that is proportional to the weights, for free: Adam reads the
        # weights anyway.
        self._adam = torch.optim.Adam([self._values], fused=True, weight_decay=loss.decay)

    def steps(self, rows: Rows, order: Int[np.ndarray, "c ordered"], rates: Sequence[float]) -> Float[np.ndarray, " c"]:
        """One step for each rate; sums of the steps' losses."""
        total = torch.zeros(len(order), dtype=self._values.dtype, device=self._values.device)
        with _threads(self._threads):
            for rate, batch in zip(rates, self._batches(rows, order), strict=False):
                self._adam.param_groups[0]["lr"] = rate
                total += self._differentiate(batch)
                self._adam.step()
        return array_of(total)

    def _differentiate(self, batch: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        loss = differentiated(self._loss, self._values, batch)
        if self._anchors is not None:
            assert self._values.grad is not None  # made above
            self._values.grad.add_(self._anchors, alpha=-self._loss.decay)
        return loss

    def held_out_loss(self, rows: Rows) -> Float[np.ndarray, " c"]:
        """Mean NLL without dropout or noise."""
        with torch.no_grad(), _threads(self._threads):
            sent = tensor_of(rows, self._values.device).to(self._values.dtype)
            return array_of(self._loss.held_out(self._values, sent))

    def values(self) -> Float[np.ndarray, "c v"]:
        """What is trained, as it is now."""
        return array_of(self._values)

    def put(self, values: Float[np.ndarray, "c v"]) -> None:
        """Go on training from these values; Adam keeps its memory."""
        with torch.no_grad():
            self._values.copy_(tensor_of(values, self._values.device))

    def restart(self) -> None:
        """Let Adam forget the steps it has taken."""
        self._adam.state.clear()


class _TorchSampler:
    def __init__(
        self, chain: Dynamics, loss: Loss, values: Float[np.ndarray, "1 p"], stream: Stream, device: str, batch: int
    ) -> None:
        self.chain, self._loss, self._stream = chain, loss, stream
        self._values = tensor_of(values, device).clone().requires_grad_()
        self._momentum = torch.zeros_like(self._values)
        self._batches = _Batches(batch, self._values)

    def steps(self, rows: Rows, order: Int[np.ndarray, "1 ordered"]) -> float:
        """One move for each batch; the last batch's mean NLL."""
        last, told = float("nan"), (2 * self.chain.prior_scale, self.chain.spread)
        values = self._values
        decay, spread = (torch.as_tensor(each, dtype=values.dtype, device=values.device) for each in told)
        with _threads(1 if self._values.shape[1] <= SMALL_NETWORK else None):
            for batch in self._batches(rows, order):
                last = float(differentiated(self._loss, self._values, batch))
                self._move(decay, spread)
        return last

    @torch.no_grad()
    def _move(self, decay: Tensor, spread: Tensor) -> None:
        chain, values = self.chain, self._values
        assert values.grad is not None
        gradient = values.grad.addcmul_(values, decay)
        self._momentum.mul_(1 - chain.friction).sub_(gradient, alpha=chain.step_size)
        kick = torch.from_numpy(self._stream.normal(tuple(values.shape))).to(values)
        values.add_(self._momentum.addcmul_(kick, spread))

    def values(self) -> Float[np.ndarray, "1 p"]:
        """The weights that the chain has reached, as the live array."""
        return array_of(self._values)


class _TorchScorer:
    def __init__(
        self,
        autoencoder: Autoencoder,
        stacked: StackedAutoencoder,
        count: int,
        values: Float[np.ndarray, "w p"],
        masks: tuple[Float[np.ndarray, "m _"], ...] | None,
        noise: Float[np.ndarray, "m ..."] | None,
    ) -> None:
        device = autoencoder.device
        self._stacked, self._count, self._widest = stacked, count, autoencoder.network.widest
        self._values = aligned(tensor_of(values, device))
        self._masks = None if masks is None else [tensor_of(mask, device).unsqueeze(1) for mask in masks]
        self._noise = None if noise is None else tensor_of(noise, device).unsqueeze(1)

    def nll(self, rows: Rows) -> Float[np.ndarray, "m n"]:
        """Negative log-likelihood of every row under every draw."""
        return array_of(self._over_chunks(self._stacked.nll, rows, ()))

    def nll_apart(self, rows: Rows) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n ..."]]:
        """The scores of `nll`, and the score of every value."""
        apart = self._over_chunks(self._stacked.nll_per_feature, rows, rows.shape[1:])
        return array_of(nll_of_rows(apart)), array_of(apart)

    def reconstruction(self, rows: Rows) -> Float[np.ndarray, "m n ..."]:
        """What every draw takes every row for."""

        def location(weights: TensorWeights, given: Tensor, **noise: object) -> Tensor:
            return self._stacked.reconstruct(weights, given, **noise).location  # type: ignore[arg-type]

        return array_of(self._over_chunks(location, rows, rows.shape[1:]))

    def variance(self, rows: Rows) -> Float[np.ndarray, "m n ..."]:
        """The squared scale that every draw's decoder gives for every value."""
        return array_of(self._over_chunks(self._stacked.variance, rows, rows.shape[1:]))

    def _over_chunks(self, function: Callable[..., Tensor], rows: Rows, tail: tuple[int, ...]) -> Tensor:
        # Many rows: few draws at a time, whose layers stay in the cache. Few rows: all draws in one go, since then the
        # number of calls is what costs.
        given = tensor_of(rows, self._values.device).to(self._values.dtype)
        out = torch.empty((self._count, len(given), *tail), dtype=given.dtype, device=given.device)
        size = max(FEWEST_ROWS, VALUES_AT_ONCE // self._widest)
        with torch.inference_mode():
            for start in range(0, len(given), size):
                part = given[start : start + size]
                draws = max(1, VALUES_AT_ONCE // (len(part) * self._widest))
                for first in range(0, self._count, draws):
                    take = slice(first, first + draws)
                    out[take, start : start + len(part)] = self._of_draws(function, take, part.unsqueeze(0))
        return out

    def _of_draws(self, function: Callable[..., Tensor], take: slice, rows: Tensor) -> Tensor:
        weights = self._stacked.named(self._values if len(self._values) == 1 else self._values[take])
        masks = None if self._masks is None else [mask[take] for mask in self._masks]
        return function(weights, rows, masks=masks, noise=None if self._noise is None else self._noise[take])


def differentiated(loss: Loss, values: Float[Tensor, "c v"], batch: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
    """The loss of each network; its gradient is where the optimiser finds it.

    The networks' losses are summed and differentiated once, since none depends on another's values.
    """
    values.grad = None
    each = loss(values, batch)
    torch.autograd.backward(each.sum())
    return each.detach()


def tensor_of(array: np.ndarray, device: str | torch.device) -> Tensor:
    """An array where it is asked for; on a CPU it shares its memory, if torch can."""
    whole = np.ascontiguousarray(array)
    return torch.from_numpy(whole if whole.flags.writeable else whole.copy()).to(device)


def array_of(tensor: Tensor) -> np.ndarray:
    """A tensor as an array; on a CPU it shares its memory."""
    found: np.ndarray = tensor.detach().cpu().numpy()
    return found


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, or a copy: its alignment can decide on the order of additions, and so on the last bit."""
    return tensor.clone() if tensor.data_ptr() % ALIGNED else tensor


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many threads for torch, for as long as the block runs; None leaves them."""
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
