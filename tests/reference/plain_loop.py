"""Anchored ensembling the plain way: torch.nn modules, one network after the other, default Adam, prior by autograd.

This is the reference that every engine must agree with, and the opponent in the benchmark. It shares nothing with the
engines but the layout of the weights it starts from, and the random order of the rows.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from indubio.numerics import Stream

SLOPE = 0.01


class PlainBlock(nn.Module):
    """Layer, norm, activation, as torch.nn has them."""

    def __init__(self, layer: nn.Module, norm: nn.Module | None, active: bool) -> None:
        super().__init__()
        self.layer = layer
        self.norm = norm or nn.Identity()
        self.activation = nn.LeakyReLU(SLOPE) if active else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.norm(self.layer(x)))


class PlainDense(nn.Module):
    """The paper's dense autoencoder for D features, written out."""

    def __init__(self, features: int, *, layer_norm: bool, bias: bool, skips: bool) -> None:
        super().__init__()
        sizes = [features, 4 * features, 4 * features, max(1, features // 2)]
        self.skips = skips

        def block(a: int, b: int, active: bool) -> PlainBlock:
            return PlainBlock(nn.Linear(a, b, bias=bias), nn.LayerNorm(b) if layer_norm else None, active)

        self.encoder = nn.ModuleList([block(a, b, True) for a, b in pairwise(sizes)])
        back = sizes[::-1]
        self.decoder = nn.ModuleList([block(a, b, i < 2) for i, (a, b) in enumerate(pairwise(back))])

    def forward(self, x: Tensor) -> Tensor:
        first = self.encoder[0](x)
        second = self.encoder[1](first)
        out = self.decoder[0](self.encoder[2](second))
        out = self.decoder[1](out + second if self.skips else out)
        out = self.decoder[2](out + first if self.skips else out)
        return torch.sigmoid(out)


class PlainConv(nn.Module):
    """The paper's convolutional autoencoder for windows (L, K), written out for one length."""

    def __init__(self, length: int, sensors: int, *, linear: int, layer_norm: bool, bias: bool, skips: bool) -> None:
        super().__init__()
        self.skips = skips
        pad_first = length % 2
        after_first = (length + 2 * pad_first - 8) // 2 + 1
        pad_second = after_first % 2
        after_second = (after_first + 2 * pad_second - 2) // 2 + 1
        self.shape = (20, after_second)
        flat = 20 * after_second
        latent = length * sensors // 2

        def norm(*shape: int) -> nn.Module | None:
            return nn.LayerNorm(shape) if layer_norm else None

        conv = nn.Conv1d(sensors, 10, 8, 2, pad_first, bias=bias)
        conv2 = nn.Conv1d(10, 20, 2, 2, pad_second, bias=bias)
        up = nn.ConvTranspose1d(20, 10, 2, 2, pad_second, output_padding=after_first % 2, bias=bias)
        up2 = nn.ConvTranspose1d(10, sensors, 8, 2, pad_first, output_padding=length % 2, bias=bias)
        self.encoder = nn.ModuleList(
            [
                PlainBlock(conv, norm(10, after_first), True),
                PlainBlock(conv2, norm(20, after_second), True),
                PlainBlock(nn.Linear(flat, linear, bias=bias), norm(linear), True),
                PlainBlock(nn.Linear(linear, latent, bias=bias), norm(latent), True),
            ]
        )
        self.decoder = nn.ModuleList(
            [
                PlainBlock(nn.Linear(latent, linear, bias=bias), norm(linear), True),
                PlainBlock(nn.Linear(linear, flat, bias=bias), norm(flat), True),
                PlainBlock(up, norm(10, after_first), True),
                PlainBlock(up2, norm(sensors, length), False),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        first = self.encoder[0](x.transpose(1, 2))
        second = self.encoder[1](first)
        third = self.encoder[2](second.flatten(1))
        out = self.decoder[0](self.encoder[3](third))
        out = self.decoder[1](out + third if self.skips else out).unflatten(1, self.shape)
        out = self.decoder[2](out + second if self.skips else out)
        out = self.decoder[3](out + first if self.skips else out)
        return torch.sigmoid(out).transpose(1, 2)


def load(module: nn.Module, weights: dict[str, np.ndarray]) -> nn.Module:
    """Put one network's weights, named as the engine names them, into the plain module."""
    state = {}
    for name, value in weights.items():
        part, place, *rest = name.split(".")
        kind = {"gain": "weight", "shift": "bias"}.get(rest[-1], rest[-1])
        home = "norm" if rest[0] == "norm" else "layer"
        linear = home == "layer" and kind == "weight" and value.ndim == 2
        state[f"{part}.{place}.{home}.{kind}"] = torch.from_numpy(value.T if linear else value).clone()
    module.load_state_dict(state)
    return module


def train_plain(
    module: nn.Module,
    anchor: nn.Module | None,
    rows: Tensor,
    *,
    epochs: int,
    batch: int,
    rate: float,
    prior_scale: float,
    stream: Stream,
) -> None:
    """Minimise mean squared error / 2 + lambda ||theta - anchor||^2, all of it through autograd."""
    adam = torch.optim.Adam(module.parameters(), lr=rate)
    for _ in range(epochs):
        for part in _batches(rows, batch, stream):
            nll = ((part - module(part)) ** 2).mean() / 2
            prior = sum(((p - (0 if a is None else a.detach())) ** 2).sum() for p, a in _pairs(module, anchor))
            adam.zero_grad()
            (nll + prior_scale * prior).backward()
            adam.step()


def _pairs(module: nn.Module, anchor: nn.Module | None) -> Iterator[tuple[Tensor, Tensor | None]]:
    if anchor is None:
        yield from ((p, None) for p in module.parameters())
    else:
        yield from zip(module.parameters(), anchor.parameters(), strict=True)


def _batches(rows: Tensor, size: int, stream: Stream) -> Iterator[Tensor]:
    order = torch.from_numpy(stream.permutation(len(rows)))
    for start in range(0, len(rows), size):
        index = order[start : start + size]
        if start and len(index) < 3:
            return
        yield rows[index]
