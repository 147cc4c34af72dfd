r"""Loss and gradient of C stacked block networks, with the backward pass written out.

Autograd spends most of a step of a small network on bookkeeping, and much of a step of a large one on gradients that
are zero-filled, copied and given back to the system. Written out, a step is a few products per layer and some
in-place operations on buffers that are used again, and the gradients are written where the optimiser reads them. A
test compares the result with autograd's in float64; what this cannot do (layer norm, other likelihoods, a VAE) takes
autograd.

Convolutions are products too, over the windows of their input. Examples stay (length, channels) all the way: that is
how windows of signals come and what a product gives, so nothing is turned around but at the linear layers.

    convolution              z = windows(x) W          dW = windows(x)^T u       dx = overlapped(u W^T)
    transposed convolution   z = overlapped(x W)       dW = x^T windows(u)       dx = windows(u) W^T
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.layers import Convolution, Layer, Linear, Weights
from indubio.autoencoders.likelihoods import GaussianLikelihood
from indubio.autoencoders.network import BlockNetwork, Masks

_ATEN = torch.ops.aten


def can_differentiate(autoencoder: Autoencoder) -> bool:
    """Whether the backward pass of this autoencoder is written out here."""
    network, likelihood = autoencoder.network, autoencoder.likelihood
    if not isinstance(network, BlockNetwork) or likelihood != GaussianLikelihood():
        return False
    blocks = (*network.encoder, *network.decoder)
    return (
        all(block.norm is None for block in blocks)
        and all(block.activation == "leaky_relu" for block in blocks[:-1])
        and network.code_log_variance is None
    )


class BlockGradient:
    """The loss and gradient of C networks whose weights, and the places for their gradients, are given once.

    Args:
        autoencoder: one that `can_differentiate` agrees to.
        weights: stacked (C, ...), contiguous; they may change between calls, in place.
        gradients: tensors like the weights that every call writes to.
    """

    def __init__(self, autoencoder: Autoencoder, weights: Weights, gradients: Weights) -> None:
        network = autoencoder.network
        assert isinstance(network, BlockNetwork)  # `can_differentiate` was asked
        self._slope, self._depth, self._skips = network.slope, len(network.encoder), network.skips
        self._squash = network.last_activation == "sigmoid"
        layers = [block.layer for block in (*network.encoder, *network.decoder)]
        self._steps = [_step(layer, weights, gradients) for layer in layers]
        self._last = len(layers) - 1
        # Between a convolution and a linear layer an example is flattened channel by channel, as torch does it.
        self._turns = [
            _Turn(before, layer) if isinstance(before, Convolution) != isinstance(layer, Convolution) else None
            for before, layer in zip((layers[0], *layers), layers, strict=False)
        ]
        self._buffers = _Buffers()

    def __call__(self, rows: Float[Tensor, "c b ..."], masks: Masks | None = None) -> Float[Tensor, " c"]:
        """Mean NLL of each network's batch; its gradient is written to the gradients."""
        x = rows if isinstance(self._steps[0], _Convolved) else rows.flatten(2)
        active, output = self._forward(x, masks)
        residual = torch.sub(output, x, out=self._buffers("residual", x.shape, x))
        flat = residual.flatten(1)
        loss: Tensor = torch.linalg.vecdot(flat, flat) / (2 * flat.shape[1])
        if self._squash:
            _ATEN.sigmoid_backward.grad_input(residual, output, grad_input=residual)
        self._backward(active, residual.mul_(1 / flat.shape[1]), masks)
        return loss

    def _forward(self, x: Tensor, masks: Masks | None) -> tuple[list[Tensor], Tensor]:
        """Activation of every block but the last, and the reconstruction."""
        active: list[Tensor] = []
        given: list[Tensor] = []  # what each block hands on
        for place, (step, turn) in enumerate(zip(self._steps, self._turns, strict=True)):
            if turn is not None:
                x = turn.forward(x)
            skip = self._skip(place)
            if skip is not None:
                x = torch.add(x, given[skip], out=self._buffers(("input", place), x.shape, x))
            z = step.forward(x)
            if place == self._last:
                return active, z.sigmoid_() if self._squash else z
            x = _ATEN.leaky_relu_(z, self._slope)
            active.append(x)
            if masks is not None:
                x = torch.mul(x, _on(masks[place], x), out=self._buffers(("masked", place), x.shape, x))
            given.append(x)
        raise AssertionError("a network has a last block")

    def _skip(self, place: int) -> int | None:
        """The block whose output is added here: the mirror image, for every decoder block but the first."""
        return 2 * self._depth - 1 - place if self._skips and place > self._depth else None

    def _backward(self, active: list[Tensor], upstream: Tensor, masks: Masks | None) -> None:
        skipped: dict[int, Tensor] = {}  # gradients that arrive at an encoder block through its skip
        shared = False  # whether `upstream` is among them, and must stay as it is
        for place in range(self._last, -1, -1):
            if place < self._last:
                if place in skipped:
                    upstream.add_(skipped[place])
                own = self._buffers(("own", place), upstream.shape, upstream) if shared else upstream
                if masks is not None:
                    upstream = torch.mul(upstream, _on(masks[place], upstream), out=own)
                _ATEN.leaky_relu_backward.grad_input(upstream, active[place], self._slope, True, grad_input=own)
                upstream = own
            self._steps[place].backward(upstream)
            if place == 0:
                return
            upstream = self._steps[place].upstream(upstream)
            skip, turn = self._skip(place), self._turns[place]
            if skip is not None:
                skipped[skip] = upstream
            if turn is not None:
                upstream = turn.backward(upstream)
            shared = skip is not None and turn is None


def _on(mask: Tensor, x: Tensor) -> Tensor:
    """The mask (A, B, units) over (A, B, units) or (A, B, length, units)."""
    return mask if x.ndim == 3 else mask.unsqueeze(2)


class _Buffers:
    """Tensors that are used again in every step: asking the system for them anew costs more than filling them."""

    def __init__(self) -> None:
        self._kept: dict[object, Tensor] = {}

    def __call__(self, name: object, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """The tensor of this name and shape; it starts as zeros."""
        key = (name, shape)
        if key not in self._kept:
            self._kept[key] = torch.zeros(shape, dtype=like.dtype, device=like.device)
        return self._kept[key]


class _Turn:
    """(C, B, length, channels) <-> (C, B, channels * length), where convolutions and linear layers meet."""

    def __init__(self, before: Layer, after: Layer) -> None:
        self._flattens = isinstance(before, Convolution)
        self._channels, self._length = before.out_shape if self._flattens else after.in_shape
        self._buffers = _Buffers()

    def forward(self, x: Tensor) -> Tensor:
        return self._flat(x) if self._flattens else self._long(x)

    def backward(self, upstream: Tensor) -> Tensor:
        return self._long(upstream) if self._flattens else self._flat(upstream)

    def _flat(self, x: Tensor) -> Tensor:
        out = self._buffers("flat", (*x.shape[:2], self._channels, self._length), x)
        return out.copy_(x.transpose(2, 3)).flatten(2)

    def _long(self, x: Tensor) -> Tensor:
        out = self._buffers("long", (*x.shape[:2], self._length, self._channels), x)
        return out.copy_(x.view(*x.shape[:2], self._channels, self._length).transpose(2, 3))


class _Step(ABC):
    """One layer of C networks: its output, the gradient of its weights, and the gradient of its input."""

    def __init__(self, layer: Layer, weights: Weights, gradients: Weights) -> None:
        weight, gradient = weights[f"{layer.name}.weight"], gradients[f"{layer.name}.weight"]
        # (C, in, out) of a linear layer, (C, out, in * kernel) of a convolution, (C, in, out * kernel) of a transposed.
        self.weight, self.gradient = weight.flatten(2), gradient.flatten(2)
        self.turned = self.weight.transpose(1, 2)
        bias = weights.get(f"{layer.name}.bias")
        self.bias = None if bias is None else bias.unsqueeze(1)
        self.bias_gradient = gradients.get(f"{layer.name}.bias")
        self.buffers = _Buffers()

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """The layer's output; what the gradient needs of the input is kept."""

    @abstractmethod
    def backward(self, upstream: Tensor) -> None:
        """Write the gradient of the weights."""

    @abstractmethod
    def upstream(self, upstream: Tensor) -> Tensor:
        """The gradient of the input; after `backward`."""

    def product(self, name: str, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """(C, rows, a) (C, a, b) + (C, 1, b) -> (C, rows, b), in a buffer of this name."""
        out = self.buffers(name, (*x.shape[:2], weight.shape[2]), x)
        return torch.bmm(x, weight, out=out) if bias is None else torch.baddbmm(bias, x, weight, out=out)


class _Linear(_Step):
    def forward(self, x: Tensor) -> Tensor:
        self._x = x
        return self.product("z", x, self.weight, self.bias)

    def backward(self, upstream: Tensor) -> None:
        torch.bmm(self._x.transpose(1, 2), upstream, out=self.gradient)
        if self.bias_gradient is not None:
            torch.sum(upstream, 1, out=self.bias_gradient)

    def upstream(self, upstream: Tensor) -> Tensor:
        return self.product("dx", upstream, self.turned)


class _Convolved(_Step):
    """What both convolutions do: see the long side of the layer as windows, one per sample of the short side."""

    def __init__(self, layer: Convolution, weights: Weights, gradients: Weights) -> None:
        super().__init__(layer, weights, gradients)
        short, long = (layer.in_shape, layer.out_shape) if layer.transposed else (layer.out_shape, layer.in_shape)
        self.short, (self._channels, self._long) = short[1], long
        self._kernel, self._stride, self._padding = layer.kernel, layer.stride, layer.padding

    def windows(self, x: Tensor) -> Tensor:
        """(C, B, long, channels) -> (C, B * short, channels * kernel)."""
        networks, rows = x.shape[:2]
        if self._padding:
            padded = self.buffers("padded", (networks, rows, self._long + 2 * self._padding, self._channels), x)
            padded.narrow(2, self._padding, self._long).copy_(x)
            x = padded
        out = self.buffers("windows", (networks, rows, self.short, self._channels, self._kernel), x)
        out.copy_(x.unfold(2, self._kernel, self._stride))
        return out.view(networks, rows * self.short, -1)

    def overlapped(self, windows: Tensor, rows: int) -> Tensor:
        """(C, B * short, channels * kernel) -> (C, B, long, channels): the windows added up where they overlap."""
        networks, stride = len(windows), self._stride
        parts = windows.view(networks, rows, self.short, self._channels, self._kernel)
        padded = self.buffers("overlapped", (networks, rows, self._long + 2 * self._padding, self._channels), windows)
        padded[:, :, stride * self.short :].zero_()
        for j in range(self._kernel):
            target = padded[:, :, j : j + stride * (self.short - 1) + 1 : stride]
            # The first ones fill the buffer, the others add to it.
            if j < stride:
                target.copy_(parts[..., j])
            else:
                target.add_(parts[..., j])
        if not self._padding:
            return padded
        out = self.buffers("long", (networks, rows, self._long, self._channels), windows)
        return out.copy_(padded.narrow(2, self._padding, self._long))


class _Down(_Convolved):
    def forward(self, x: Tensor) -> Tensor:
        self._windows, rows = self.windows(x), x.shape[1]
        z = self.product("z", self._windows, self.turned, self.bias)
        return z.view(len(z), rows, self.short, -1)

    def backward(self, upstream: Tensor) -> None:
        torch.bmm(upstream.flatten(1, 2).transpose(1, 2), self._windows, out=self.gradient)
        if self.bias_gradient is not None:
            torch.sum(upstream, (1, 2), out=self.bias_gradient)

    def upstream(self, upstream: Tensor) -> Tensor:
        return self.overlapped(self.product("dwindows", upstream.flatten(1, 2), self.weight), upstream.shape[1])


class _Up(_Convolved):
    def forward(self, x: Tensor) -> Tensor:
        self._x = x.flatten(1, 2)
        z = self.overlapped(self.product("parts", self._x, self.weight), x.shape[1])
        return z if self.bias is None else z.add_(self.bias.unsqueeze(1))

    def backward(self, upstream: Tensor) -> None:
        self._windows = self.windows(upstream)
        torch.bmm(self._x.transpose(1, 2), self._windows, out=self.gradient)
        if self.bias_gradient is not None:
            torch.sum(upstream, (1, 2), out=self.bias_gradient)

    def upstream(self, upstream: Tensor) -> Tensor:
        dx = self.product("dx", self._windows, self.turned)
        return dx.view(len(dx), upstream.shape[1], self.short, -1)


def _step(layer: Layer, weights: Weights, gradients: Weights) -> _Step:
    if isinstance(layer, Linear):
        return _Linear(layer, weights, gradients)
    return (_Up if layer.transposed else _Down)(layer, weights, gradients)
