"""The engines there are, and a way to make everything run on one of them."""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
import pytest

from indubio.networks import Autoencoder, BlockNetwork, Engine
from indubio.networks.engine.compiled import CompiledEngine
from indubio.networks.engine.torch_engine import TorchEngine
from indubio.networks.training import chain_moves, network_fits
from indubio.numerics import core, streams
from indubio.numerics.compiled_core import RandomStream
from indubio.posteriors import draws
from indubio_lab.posteriors import functional_prior, iterates, parallel_tempering

ENGINES: dict[str, Callable[[Autoencoder], Engine]] = {"torch": TorchEngine}
CORE = core()  # None on a machine without a compiler, where torch is the only engine
if CORE is not None:
    ENGINES["core"] = partial(CompiledEngine, CORE)


def instruction_sets() -> list[str]:
    """What the core can be made to use here, the widest first; none where there is no core."""
    return [] if CORE is None else CORE.instruction_sets


class StreamNoise:
    """What the torch engine draws for one network in training, drawn again: it asks the stream, step by step."""

    def __init__(self, member: int, seed: int) -> None:
        self._stream = streams(seed, member + 1)[member]

    def inputs(self, rows: int, network: BlockNetwork) -> tuple[np.ndarray, np.ndarray]:
        """The noise of the next step's inputs, and for each row the uniform number that its scale comes from."""
        uniform = self._stream.uniform((rows,), 1.0)
        return self._stream.normal((rows, *network.input_shape)), uniform

    def pass_over(self) -> None:
        """Nothing else is drawn in this step."""

    def code(self, rows: int, shape: tuple[int, ...]) -> np.ndarray:
        """The code noise of a step's rows."""
        return self._stream.normal((rows, *shape))

    def masks(self, rows: int, units: tuple[int, ...], keep: float) -> list[np.ndarray]:
        """The dropout masks of a step's rows, one for each place."""
        return [self._stream.bernoulli((rows, size), keep) for size in units]

    def weights(self, samples: int, size: int) -> np.ndarray:
        """The weights' noise of a step."""
        return self._stream.normal((samples, size))


class CoreNoise:
    """What the core draws, drawn again: it follows from the key, a purpose (native/random.h) and the step."""

    MASKS, CODE, WEIGHTS, INPUTS, SCALES = 1, 2, 3, 5, 6

    def __init__(self, member: int, seed: int) -> None:
        self._key, self._step = streams(seed, member + 1)[member].key, -1

    def inputs(self, rows: int, network: BlockNetwork) -> tuple[np.ndarray, np.ndarray]:
        """Values of the rows one after the other, those of a channel side by side; scales of all there is room for."""
        *sides, channels = network.input_shape
        shape = (channels, *sides) if network.channels_last else network.input_shape
        noise, uniform = np.empty((prod(shape), _room(rows)), np.float32), np.empty(_room(rows), np.float32)
        CORE.normals(self._stream(self.INPUTS, ahead=1), 0, noise)
        CORE.uniforms(self._stream(self.SCALES, ahead=1), 0, 1.0, uniform)
        noise = noise[:, :rows].T.reshape(rows, *shape)
        return (np.moveaxis(noise, 1, -1) if network.channels_last else noise), uniform[:rows]

    def pass_over(self) -> None:
        """Nothing else is drawn in this step."""
        self._step += 1

    def code(self, rows: int, shape: tuple[int, ...]) -> np.ndarray:
        """Values of the code one after the other, each of all rows that there is room for."""
        self._step += 1
        out = np.empty((prod(shape), _room(rows)), np.float32)
        CORE.normals(self._stream(self.CODE), 0, out)
        return out[:, :rows].T.reshape(rows, *shape)

    def masks(self, rows: int, units: tuple[int, ...], keep: float) -> list[np.ndarray]:
        """Likewise, of all places' units."""
        self._step += 1
        out = np.empty((sum(units), _room(rows)), np.float32)
        CORE.masks(self._stream(self.MASKS), 0, keep, out)
        return np.split(out[:, :rows].T, np.cumsum(units)[:-1], axis=1)

    def weights(self, samples: int, size: int) -> np.ndarray:
        """A purpose of its own for each sample."""
        self._step += 1
        out = np.empty((samples, size), np.float32)
        for sample, one in enumerate(out):
            CORE.normals(self._stream(self.WEIGHTS + 16 * sample), 0, one)
        return out

    def _stream(self, purpose: int, ahead: int = 0) -> RandomStream:
        return RandomStream(key=self._key, purpose=purpose, part=self._step + ahead)


def _room(rows: int) -> int:
    """Rows that the core makes room for: whole cache lines, no multiple of 8 of them; a few take just as much."""
    whole = -(-rows // 16)
    return rows if rows < 8 else 16 * (whole + (whole % 8 == 0))


NOISES = {"torch": StreamNoise, "core": CoreNoise}


def run_on(engine: str, patch: pytest.MonkeyPatch) -> None:
    """Train and score on this engine, whichever would be chosen."""
    for module in (chain_moves, draws, functional_prior, iterates, network_fits, parallel_tempering):
        patch.setattr(module, "engine_for", ENGINES[engine])
