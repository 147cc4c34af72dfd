"""The network around a user's own `torch.nn` modules.

The C networks run as one program by `torch.func.vmap` over the forward pass. Modules that vmap refuses (recurrent ones,
branches on data) run one network after the other; a warning says so.
"""

import warnings
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from indubio.errors import ConfigError, PerformanceWarning, ShapeError
from indubio.networks.layers import Linear, Random, Shapes, Weights
from indubio.networks.network import Network
from indubio.networks.tensors import Code, Decoded, Masks, TensorWeights
from indubio.numerics import Shape

Factory = Callable[[Shape], nn.Module]

_DROPPABLE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)


class _Masked(nn.Module):
    """A layer followed by the dropout mask of the current draw, if there is one."""

    mask: Tensor | None

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("mask", None)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        if self.mask is None:
            return out
        units_axis = -1 if isinstance(self.layer, nn.Linear) else 1
        shape = [self.mask.shape[0]] + [1] * (out.ndim - 1)
        shape[units_axis] = self.mask.shape[1]
        return out * self.mask.reshape(shape)


class ModuleNetwork(Network):
    """Encoder and decoder that two factories make.

    Args:
        encoder: gives a fresh encoder.
        decoder: gives a fresh decoder.
        input_shape: of one example.
        code_noise: whether the code has a log variance.
        output_noise: whether a second decoder gives log variances.
    """

    def __init__(
        self, encoder: Factory, decoder: Factory, input_shape: Shape, code_noise: bool, output_noise: bool
    ) -> None:
        self.input_shape = input_shape
        self._factories = {"encoder": encoder, "decoder": decoder}
        if output_noise:
            self._factories["noise_decoder"] = decoder
        self._modules = self._make(0)
        for part, module in self._modules.items():
            _refuse_batch_dependence(part, module)
        self.latent_shape = self._probe_shapes()
        size = prod(self.latent_shape)
        self._code_head = Linear("code_log_variance", size, size, True) if code_noise else None
        self._places, self.dropout_units = _dropout_places(self._modules)
        self.widest = max(prod(input_shape), size, *self.dropout_units)
        self._stackable = self._probe_vmap()

    def shapes(self) -> Shapes:
        """Names and shapes of the modules' parameters."""
        shapes = {name: tuple(value.shape) for name, value in _parameters(self._modules).items()}
        return shapes | (self._code_head.shapes() if self._code_head else {})

    def initial(self, random: Random) -> Weights:
        """What fresh modules start from."""
        made = self._make(int.from_bytes(random.uniform((2,), 1.0).tobytes(), "little") % 2**63)
        weights = {name: value.float().numpy().copy() for name, value in _parameters(made).items()}
        return weights | (self._code_head.initial(random) if self._code_head else {})

    def encode(self, weights: TensorWeights, x: Tensor, masks: Masks | None) -> Code:
        """The codes of the rows under each network."""
        latent = self._run("encoder", weights, x, masks)
        if self._code_head is None:
            return Code(latent)
        weight, bias = (weights[name] for name in self._code_head.shapes())
        log_variance = latent.flatten(2) @ weight + bias.unsqueeze(1)
        return Code(latent, log_variance.reshape(*log_variance.shape[:2], *self.latent_shape))

    def decode(self, weights: TensorWeights, code: Code, masks: Masks | None) -> Decoded:
        """The reconstructions of the codes under each network."""
        location = self._run("decoder", weights, code.latent, masks)
        if "noise_decoder" not in self._modules:
            return Decoded(location)
        return Decoded(location, self._run("noise_decoder", weights, code.latent, None))

    def _make(self, seed: int) -> dict[str, nn.Module]:
        # Modules initialise themselves from torch's global generator: lend it a seed, and give its state back.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = {part: factory(self.input_shape) for part, factory in self._factories.items()}
        for part, module in made.items():
            if not isinstance(module, nn.Module):
                raise ConfigError(f"`{part}` must give a torch.nn.Module, got {type(module).__name__}.")
            made[part] = _with_masks(module.eval())
        return made

    def _probe_shapes(self) -> Shape:
        rows = torch.zeros(2, *self.input_shape)
        with torch.no_grad():
            code = self._modules["encoder"](rows)
            back = self._modules["decoder"](code)
        if not isinstance(code, Tensor) or code.ndim < 2 or code.shape[0] != 2:
            raise ShapeError("the encoder must map (examples, ...) to a tensor of codes (examples, ...).")
        if back.shape != rows.shape:
            raise ShapeError(
                f"the decoder gives {tuple(back.shape[1:])} for examples of {tuple(self.input_shape)}: "
                "encoder and decoder together must keep the shape."
            )
        return tuple(code.shape[1:])

    def _probe_vmap(self) -> bool:
        pair = [_parameters(self._make(seed)) for seed in (0, 1)]
        weights = {name: torch.stack([one[name] for one in pair]) for name in pair[0]}
        if self._code_head:
            weights |= {name: torch.zeros(2, *shape) for name, shape in self._code_head.shapes().items()}
        try:
            with torch.no_grad():
                self._stackable = True
                self.decode(weights, self.encode(weights, torch.zeros(1, 2, *self.input_shape), None), None)
        except (RuntimeError, NotImplementedError, TypeError) as reason:
            warnings.warn(
                "these modules cannot be stacked, so the draws run one after the other: "
                + str(reason).strip().splitlines()[0],
                PerformanceWarning,
                stacklevel=2,
            )
            return False
        return True

    def _run(self, part: str, weights: TensorWeights, x: Tensor, masks: Masks | None) -> Tensor:
        prefix = part + "."
        own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
        if masks is not None:
            own |= {
                name.removeprefix(prefix): mask
                for name, mask in zip(self._places, masks, strict=True)
                if name.startswith(prefix)
            }
        module = self._modules[part]

        def forward(state: dict[str, Tensor], rows: Tensor) -> Any:
            return functional_call(module, state, (rows,))

        networks = max([x.shape[0], *(value.shape[0] for value in own.values())])  # a part may have no parameters
        # What is shared by all networks (a leading axis of 1) goes in without that axis.
        shared = {name: value.shape[0] == 1 for name, value in own.items()}
        if not self._stackable or networks == 1:
            state = [{name: value[0 if shared[name] else i] for name, value in own.items()} for i in range(networks)]
            return torch.stack([forward(s, x[i if x.shape[0] > 1 else 0]) for i, s in enumerate(state)])
        axes = {name: None if shared[name] else 0 for name in own}
        state_in = {name: value[0] if shared[name] else value for name, value in own.items()}
        rows_in, rows_axis = (x[0], None) if x.shape[0] == 1 else (x, 0)
        out: Tensor = vmap(forward, in_dims=(axes, rows_axis))(state_in, rows_in)
        return out


def _parameters(modules: dict[str, nn.Module]) -> TensorWeights:
    return {
        f"{part}.{name}": value.detach()
        for part, module in modules.items()
        for name, value in module.named_parameters()
    }


def _with_masks(module: nn.Module) -> nn.Module:
    if isinstance(module, _DROPPABLE):
        return _Masked(module)
    for name, child in module.named_children():
        setattr(module, name, _with_masks(child))
    return module


def _dropout_places(modules: dict[str, nn.Module]) -> tuple[list[str], tuple[int, ...]]:
    """Name of the mask and number of units after every maskable layer but the decoder's last."""
    places = [
        (f"{part}.{name}.mask".replace("..", "."), module.layer)
        for part in ("encoder", "decoder")
        for name, module in modules[part].named_modules()
        if isinstance(module, _Masked)
    ]
    if places and places[-1][0].startswith("decoder."):
        places.pop()
    return [name for name, _ in places], tuple(_units(layer) for _, layer in places)


def _units(layer: nn.Module) -> int:
    return layer.out_features if isinstance(layer, nn.Linear) else int(layer.out_channels)  # type: ignore[arg-type]


def _refuse_batch_dependence(part: str, module: nn.Module) -> None:
    for child in module.modules():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            raise ConfigError(
                f"`{part}` has a {type(child).__name__}: a draw must be a fixed function of one example, and batch "
                "normalisation looks at the whole batch. Use LayerNorm."
            )
