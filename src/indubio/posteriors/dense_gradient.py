r"""Loss and gradient of stacked dense networks, with the backward pass written out.

Autograd spends most of a step of a small network on bookkeeping: about a hundred small operations, each with a node
of its own. Written out there are seventeen batched products and some in-place operations on buffers that are used
again, which halves the time of a step on a network of the size of thyroid's. The result is that of autograd (a test
compares them in float64); networks that this cannot do (convolutions, layer norm, other likelihoods) take autograd.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from indubio.autoencoders import Autoencoder, GaussianLikelihood
from indubio.autoencoders.layers import Block, Linear, Weights
from indubio.autoencoders.network import BlockNetwork, Masks

_ATEN = torch.ops.aten


def can_do(autoencoder: Autoencoder) -> bool:
    """Whether the backward pass of this autoencoder is written out here."""
    network, likelihood = autoencoder.network, autoencoder.likelihood
    if not isinstance(network, BlockNetwork) or likelihood != GaussianLikelihood():
        return False
    blocks = (*network.encoder, *network.decoder)
    return (
        all(isinstance(block.layer, Linear) and block.norm is None for block in blocks)
        and all(block.activation == "leaky_relu" for block in blocks[:-1])
        and network.code_log_variance is None
    )


class DenseGradient:
    """The loss and gradient of C dense networks."""

    def __init__(self, autoencoder: Autoencoder) -> None:
        network = autoencoder.network
        assert isinstance(network, BlockNetwork)  # `can_do` was asked
        self._network, self._slope = network, network.slope
        self._blocks = (*network.encoder, *network.decoder)
        self._depth = len(network.encoder)
        self._buffers: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def __call__(
        self, weights: Weights, gradients: Weights, rows: Float[Tensor, "c b ..."], masks: Masks | None = None
    ) -> Float[Tensor, " c"]:
        """Mean NLL of each network's batch; its gradient is written to `gradients`."""
        x = rows.flatten(2)
        inputs, active, output = self._forward(weights, x, masks)
        residual = torch.sub(output, x, out=self._buffer("residual", x))
        loss = residual.square().mean((1, 2)) / 2
        residual.mul_(1 / residual[0].numel())
        if self._network.last_activation == "sigmoid":
            residual = _ATEN.sigmoid_backward.grad_input(residual, output, grad_input=residual)
        self._backward(weights, gradients, inputs, active, residual, masks)
        return loss

    def _forward(self, weights: Weights, x: Tensor, masks: Masks | None) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Input of every layer, activation of every block but the last, and the reconstruction."""
        inputs: list[Tensor] = []
        active: list[Tensor] = []
        given: list[Tensor] = []  # what each block hands on
        passed = x
        for place, block in enumerate(self._blocks):
            skip = self._skip(place)
            if skip is not None:
                passed = torch.add(passed, given[skip], out=self._buffer(f"input{place}", passed))
            inputs.append(passed)
            z = self._product(weights, block, passed, place)
            if place == len(self._blocks) - 1:
                return inputs, active, z.sigmoid_() if self._network.last_activation == "sigmoid" else z
            active.append(_ATEN.leaky_relu_(z, self._slope))
            passed = active[-1]
            if masks is not None:
                passed = torch.mul(passed, masks[place], out=self._buffer(f"masked{place}", passed))
            given.append(passed)
        raise AssertionError("a network has a last block")

    def _skip(self, place: int) -> int | None:
        """The block whose output is added here: the mirror image, for every decoder block but the first."""
        mirrored = 2 * self._depth - 1 - place
        return mirrored if self._network.skips and place > self._depth else None

    def _product(self, weights: Weights, block: Block, x: Tensor, place: int) -> Tensor:
        weight, bias = weights[f"{block.layer.name}.weight"], weights.get(f"{block.layer.name}.bias")
        out = self._buffer(f"product{place}", x, block.width)
        if bias is None:
            return torch.bmm(x, weight, out=out)
        return torch.baddbmm(bias.unsqueeze(1), x, weight, out=out)

    def _backward(
        self,
        weights: Weights,
        gradients: Weights,
        inputs: Sequence[Tensor],
        active: Sequence[Tensor],
        upstream: Tensor,
        masks: Masks | None,
    ) -> None:
        skipped: dict[int, Tensor] = {}  # gradients that arrive at an encoder block through its skip
        for place in reversed(range(len(self._blocks))):
            if place < len(active):
                if place in skipped:
                    upstream.add_(skipped[place])
                if masks is not None:
                    upstream.mul_(masks[place])
                _ATEN.leaky_relu_backward.grad_input(upstream, active[place], self._slope, True, grad_input=upstream)
            name = self._blocks[place].layer.name
            torch.bmm(inputs[place].transpose(1, 2), upstream, out=gradients[f"{name}.weight"])
            if f"{name}.bias" in gradients:
                torch.sum(upstream, 1, out=gradients[f"{name}.bias"])
            if place == 0:
                return
            weight = weights[f"{name}.weight"].transpose(1, 2)
            upstream = torch.bmm(upstream, weight, out=self._buffer(f"upstream{place}", inputs[place]))
            skip = self._skip(place)
            if skip is not None:
                skipped[skip] = upstream.clone()

    def _buffer(self, name: str, like: Tensor, width: int | None = None) -> Tensor:
        shape = (*like.shape[:2], like.shape[2] if width is None else width)
        key = (name, shape)
        if key not in self._buffers:
            self._buffers[key] = torch.empty(shape, dtype=like.dtype, device=like.device)
        return self._buffers[key]
