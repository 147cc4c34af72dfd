"""Random streams: one for each network, whatever others there are.

Network m's numbers follow from the seed, a purpose and m alone, so they do not depend on how many networks there are or
where they are trained.
"""

from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from indubio.numerics.compiled_core import GROUP, Core, RandomStream, core

Shape = tuple[int, ...]


class Stream(Protocol):
    """Random numbers; every call goes on where the last one ended.

    Attributes:
        key: what all of them follow from.
    """

    key: int

    def uniform(self, shape: Shape, bound: float) -> Float[np.ndarray, "..."]:
        """Single-precision numbers from [-bound, bound)."""

    def normal(self, shape: Shape) -> Float[np.ndarray, "..."]:
        """Standard normal numbers in single precision."""

    def bernoulli(self, shape: Shape, keep: float) -> Float[np.ndarray, "..."]:
        """1 with probability `keep`, else 0, in single precision."""

    def permutation(self, n: int) -> Int[np.ndarray, " n"]:
        """0..n-1 in a random order."""


class CoreStream:
    """A stream of the compiled core's Philox: the same numbers on every machine.

    Args:
        core: the library.
        key: what all of its numbers follow from.
    """

    def __init__(self, core: Core, key: int) -> None:
        self.key = key
        self._core, self._stream, self._group = core, RandomStream(key=key), 0

    def uniform(self, shape: Shape, bound: float) -> Float[np.ndarray, "..."]:
        """Single-precision numbers from [-bound, bound)."""
        out = np.empty(shape, np.float32)
        self._core.uniforms(self._stream, self._taken(out.size), bound, out)
        return out

    def normal(self, shape: Shape) -> Float[np.ndarray, "..."]:
        """Standard normal numbers in single precision."""
        out = np.empty(shape, np.float32)
        self._core.normals(self._stream, self._taken(out.size), out)
        return out

    def bernoulli(self, shape: Shape, keep: float) -> Float[np.ndarray, "..."]:
        """1 with probability `keep`, else 0, in single precision."""
        out = np.empty(shape, np.float32)
        self._core.masks(self._stream, self._taken(out.size), keep, out)
        return out

    def permutation(self, n: int) -> Int[np.ndarray, " n"]:
        """0..n-1 in a random order."""
        out = np.empty(n, np.int64)
        self._core.order(self._stream, self._taken(n), out)
        return out

    def _taken(self, numbers: int) -> int:
        """The first group of random numbers that nobody has had, for so many of them."""
        first = self._group
        self._group += -(-numbers // GROUP)
        return first


class NumpyStream:
    """A stream of numpy's Philox generator, for machines without the core.

    Args:
        key: of the generator.
    """

    def __init__(self, key: int) -> None:
        self.key = key
        self._generator = np.random.Generator(np.random.Philox(key=key))

    def uniform(self, shape: Shape, bound: float) -> Float[np.ndarray, "..."]:
        """Single-precision numbers from [-bound, bound)."""
        return (2 * self._generator.random(shape, dtype=np.float32) - 1) * np.float32(bound)

    def normal(self, shape: Shape) -> Float[np.ndarray, "..."]:
        """Standard normal numbers in single precision."""
        return self._generator.standard_normal(shape, dtype=np.float32)

    def bernoulli(self, shape: Shape, keep: float) -> Float[np.ndarray, "..."]:
        """1 with probability `keep`, else 0, in single precision."""
        return (self._generator.random(shape) < keep).astype(np.float32)

    def permutation(self, n: int) -> Int[np.ndarray, " n"]:
        """0..n-1 in a random order."""
        return self._generator.permutation(n)


def stream(seed: int, purpose: int, member: int) -> Stream:
    """The stream of a network for a purpose."""
    state = np.random.SeedSequence(seed, spawn_key=(purpose, member)).generate_state(1, np.uint64)
    library = core()
    return NumpyStream(int(state[0])) if library is None else CoreStream(library, int(state[0]))


def streams(seed: int, members: int, purpose: int = 0) -> list[Stream]:
    """One stream per network; network m's does not depend on how many there are."""
    return [stream(seed, purpose, member) for member in range(members)]
