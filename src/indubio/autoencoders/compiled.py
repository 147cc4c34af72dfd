"""The compiled engine: what the kernels of `kernel` need, and the networks that they can train and score.

It is used where Numba is installed (the `fast` extra), for the networks whose backward pass is written out, on a CPU.
Everything else runs on torch, which is also what there is without Numba.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, cached_property
from importlib.util import find_spec
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.gradient import can_differentiate
from indubio.autoencoders.layers import Convolution, Layer, Weights
from indubio.autoencoders.network import BlockNetwork

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's, torch's defaults
THREAD_PRODUCTS = 10**7  # rows x weights of an epoch, about 1 ms: below it, starting threads costs more than it brings
ROWS_AT_ONCE = 128  # when scoring: larger products leave what the caches and the small kernels of BLAS like

MASKS_AT_ONCE = 2**20  # values of dropout masks that are drawn before the steps they are for

Values = Float[np.ndarray, "..."]
DrawMasks = Callable[[int, int], Sequence[Tensor]]  # network, examples -> a batch's masks (examples, units) by place


class Placed(Protocol):
    """What has a place and a precision, as tensors have."""

    @property
    def device(self) -> torch.device:
        """Where it is."""

    @property
    def dtype(self) -> torch.dtype:
        """Its precision."""


def engine_for(autoencoder: Autoencoder, like: Placed) -> "Engine | None":
    """The compiled engine for this autoencoder on rows of this kind; None where there is none."""
    if find_spec("numba") is None or like.device.type != "cpu" or like.dtype not in (torch.float32, torch.float64):
        return None
    return Engine(autoencoder) if can_differentiate(autoencoder) else None


class Engine:
    """The layers of a network in the form the kernels read.

    Args:
        autoencoder: one that `can_differentiate` agrees to.
    """

    def __init__(self, autoencoder: Autoencoder) -> None:
        network = autoencoder.network
        assert isinstance(network, BlockNetwork)  # `can_differentiate` was asked
        self._network = network
        self._layers = [block.layer for block in (*network.encoder, *network.decoder)]
        self.squash = network.last_activation == "sigmoid"

    def trainer(
        self,
        weights: Float[Tensor, "c p"],
        anchors: Float[Tensor, "c p"] | None,
        *,
        decay: float,
        batch: int,
        threads: int = 1,
        masks: DrawMasks | None = None,
    ) -> "Trainer":
        """What trains these networks, one row of weights each, on batches of so many rows; under dropout with masks."""
        return Trainer(self, weights, anchors, decay=decay, batch=batch, threads=threads, masks=masks)

    def flat(self, weights: Weights) -> Float[Tensor, "m p"]:
        """A row of weights for each network, in the order of the plan; a loaded model has another."""
        names = [f"{layer.name}.{kind}" for layer in self._layers for kind in ("weight", "bias")[: 1 + layer.bias]]
        return torch.cat([weights[name].flatten(1) for name in names], dim=1)

    def nll(self, weights: Float[Tensor, "m p"], rows: Float[Tensor, "n ..."]) -> Float[Tensor, "m n"]:
        """Negative log-likelihood of every row under every network."""
        return self._scored(weights, rows, 0)[0]

    def nll_apart(
        self, weights: Float[Tensor, "m p"], rows: Float[Tensor, "n ..."]
    ) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m n ..."]]:
        """The same, to the bit, and that of every value, from one pass."""
        out, apart = self._scored(weights, rows, len(weights))
        return out, apart.reshape(len(weights), *rows.shape)

    def _scored(
        self, weights: Float[Tensor, "m p"], rows: Float[Tensor, "n ..."], apart_for: int
    ) -> tuple[Float[Tensor, "m n"], Float[Tensor, "a n features"]]:
        from indubio.autoencoders import kernel
        from indubio.autoencoders.products import one_mkl_thread

        flat = np.ascontiguousarray(rows.detach().flatten(1).numpy())
        out, apart = np.empty((len(weights), len(rows)), flat.dtype), np.empty((apart_for, *flat.shape), flat.dtype)
        size = max(1, min(ROWS_AT_ONCE, len(rows)))
        with one_blas_thread(), one_mkl_thread():
            kernel.score(
                self.plan,
                self.place,
                self.numbers(flat.dtype, decay=0.0),
                self.squash,
                weights.numpy(),
                flat,
                size,
                self.space(size, flat.dtype),
                out,
                apart,
            )
        return torch.from_numpy(out), torch.from_numpy(apart)

    @property
    def plan(self) -> Int[np.ndarray, "layers fields"]:
        """The layers, one row each, and where everything of theirs is."""
        return self._layout[0]

    @cached_property
    def _layout(self) -> tuple[Int[np.ndarray, "layers fields"], int]:
        """The plan, and the values in the work space per example."""
        from indubio.autoencoders import kernel

        plan = np.full((len(self._layers), kernel.FIELDS), -1)
        depth, weights = len(self._network.encoder), 0
        taken = max(prod(layer.out_shape) for layer in self._layers)  # in front, room for the gradient of a z
        for place, layer in enumerate(self._layers):
            row = plan[place]
            inputs, outputs = prod(layer.in_shape), prod(layer.out_shape)
            row[[kernel.INPUTS, kernel.OUTPUTS]] = inputs, outputs
            row[kernel.WEIGHT] = weights
            windows = _shape(row, layer)
            weights += row[kernel.ROWS] * row[kernel.COLUMNS]
            if layer.bias:
                row[kernel.BIAS] = weights
                weights += layer.out_shape[0]
            if self._network.skips and place > depth:
                row[kernel.SKIP] = 2 * depth - 1 - place
            fresh = place == 0 or row[kernel.SKIP] >= 0
            row[kernel.GIVEN] = taken if fresh else plan[place - 1, kernel.ACTIVE]
            taken += inputs * fresh
            row[[kernel.ACTIVE, kernel.UPSTREAM, kernel.WINDOWS]] = taken, taken + outputs, taken + outputs + inputs
            taken += outputs + inputs + windows
        return plan, taken

    @cached_property
    def place(self) -> Int[np.ndarray, " features"]:
        """Where the network's features are in a row: convolutions want a channel's samples side by side."""
        order = np.arange(prod(self._network.input_shape))
        if not self._network.channels_last:
            return order
        return np.ascontiguousarray(order.reshape(self._network.input_shape).T).ravel()

    def numbers(self, dtype: np.dtype[Any], *, decay: float) -> Values:
        """The constants of the kernels, in the order of their places there."""
        return np.array([self._network.slope, decay, BETA1, BETA2, 1 - BETA1, 1 - BETA2, EPSILON, 0, 1], dtype)

    def space(self, examples: int, dtype: np.dtype[Any]) -> Values:
        """Room for a batch of so many examples."""
        return room(examples * self._layout[1], dtype)


def _shape(row: Int[np.ndarray, " fields"], layer: Layer) -> int:
    """Write what kind of layer it is; the number of values of its windows."""
    from indubio.autoencoders import kernel

    if not isinstance(layer, Convolution):
        row[[kernel.KIND, kernel.ROWS, kernel.COLUMNS]] = kernel.LINEAR, layer.inputs, layer.outputs
        return 0
    short, long = (layer.in_shape, layer.out_shape) if layer.transposed else (layer.out_shape, layer.in_shape)
    columns = long[0] * layer.kernel
    row[[kernel.KIND, kernel.ROWS, kernel.COLUMNS]] = kernel.UP if layer.transposed else kernel.DOWN, short[0], columns
    row[[kernel.KERNEL, kernel.STRIDE, kernel.PADDING]] = layer.kernel, layer.stride, layer.padding
    row[[kernel.SHORT, kernel.LONG, kernel.CHANNELS]] = short[1], long[1], long[0]
    return columns * short[1]


def room(values: int, dtype: np.dtype[Any]) -> Values:
    """Memory that begins at a multiple of 64 bytes, as torch's does: MKL's rounding depends on where values lie."""
    return torch.empty(values, dtype=torch.float32 if dtype == np.float32 else torch.float64).numpy()


class Trainer:
    """Networks in training, and Adam's memory of them."""

    def __init__(
        self,
        engine: Engine,
        weights: Float[Tensor, "c p"],
        anchors: Float[Tensor, "c p"] | None,
        *,
        decay: float,
        batch: int,
        threads: int,
        masks: DrawMasks | None,
    ) -> None:
        self._engine, self._batch, self._threads, self._masks = engine, batch, threads, masks
        self._weights = weights.numpy()
        self._moments = np.zeros((len(weights), 2, weights.shape[1]), self._weights.dtype)
        none = np.empty(0, self._weights.dtype)
        self._anchors = [none] * len(weights) if anchors is None else anchors.numpy()
        self._numbers = engine.numbers(self._weights.dtype, decay=decay)
        self._local = threading.local()
        self._steps = 0

    def steps(
        self, rows: Float[Tensor, "n ..."], order: Int[Tensor, "c n"], rates: Sequence[float]
    ) -> Float[Tensor, " c"]:
        """One step for each rate, on the rows in this order; the sum of the steps' losses of each network."""
        flat = np.ascontiguousarray(rows.flatten(1).numpy())
        steps = np.arange(self._steps + 1, self._steps + 1 + len(rates))
        self._steps += len(rates)
        over = (np.array(rates) / (1 - BETA1**steps)).astype(flat.dtype)
        roots = np.sqrt(1 - BETA2**steps).astype(flat.dtype)
        members = [(member, flat, one, over, roots) for member, one in enumerate(order.numpy())]
        with one_blas_thread():
            # A network is trained on one thread, and the kernel lets go of Python's lock: the number of threads changes
            # nothing but the time.
            if self._worth_threads(order):
                losses = list(self._pool.map(lambda one: self._steps_of(*one), members))
            else:
                losses = [self._steps_of(*one) for one in members]
        return torch.tensor(losses, dtype=torch.float64).to(rows.dtype)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads)  # its threads end when the trainer is gone

    def _worth_threads(self, order: Int[Tensor, "c n"]) -> bool:
        products = order.numel() * self._weights.shape[1]
        return self._threads > 1 and len(order) > 1 and products > THREAD_PRODUCTS

    def _steps_of(self, member: int, rows: Values, order: Int[np.ndarray, " n"], rates: Values, roots: Values) -> float:
        from indubio.autoencoders.products import one_mkl_thread

        with one_mkl_thread():
            if self._masks is None:
                return self._called(member, rows, order, rates, roots, np.empty(0, rows.dtype))
            total, start, batch = 0.0, 0, self._batch
            while start < len(rates):
                drawn: list[Tensor] = []
                end = start
                while end < len(rates) and sum(mask.numel() for mask in drawn) < MASKS_AT_ONCE:
                    drawn += self._masks(member, len(order[end * batch : (end + 1) * batch]))
                    end += 1
                masks = torch.cat([mask.flatten() for mask in drawn]).numpy()
                part = order[start * batch : end * batch]
                total += self._called(member, rows, part, rates[start:end], roots[start:end], masks)
                start = end
            return total

    def _called(
        self, member: int, rows: Values, order: Int[np.ndarray, " n"], rates: Values, roots: Values, masks: Values
    ) -> float:
        from indubio.autoencoders import kernel

        engine, (space, gradient) = self._engine, self._room()
        found: float = kernel.train(
            engine.plan,
            engine.place,
            self._numbers,
            engine.squash,
            self._weights[member],
            self._moments[member],
            self._anchors[member],
            rows,
            order,
            self._batch,
            rates,
            roots,
            space,
            gradient,
            masks,
        )
        return found

    def _room(self) -> tuple[Values, Values]:
        """Work space of this thread."""
        from indubio.autoencoders import kernel

        if not hasattr(self._local, "room"):
            plan, dtype = self._engine.plan, self._weights.dtype
            outputs = int(plan[:, kernel.OUTPUTS].max())
            largest = max(kernel.BLOCK, int(plan[:, kernel.COLUMNS].max()), outputs)
            # Behind the gradient of a block, the gradient of a layer's output turned around.
            self._local.room = self._engine.space(self._batch, dtype), room(largest + outputs * self._batch, dtype)
        both: tuple[Values, Values] = self._local.room
        return both


_lock = threading.Lock()
_inside = 0
_before: list[tuple[Any, int]] = []


@cache
def _blas_libraries() -> list[Any]:
    import scipy.linalg.cython_blas  # noqa: F401 - Numba's products call the BLAS that SciPy brings
    from threadpoolctl import ThreadpoolController

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on the calling thread only, for as long as any such block runs.

    Members and rows are what is shared among threads here. Products that start threads of their own would compete
    with that, and on a busy machine wait for each other for far longer than they compute.
    """
    global _inside
    libraries = _blas_libraries()
    with _lock:
        _inside += 1
        if _inside == 1:
            # Most often there is one thread already, and then nothing is to be changed, nor back again.
            _before[:] = [(lib, threads) for lib in libraries if (threads := lib.get_num_threads()) != 1]
            for library, _ in _before:
                library.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, threads in _before:
                    library.set_num_threads(threads)
