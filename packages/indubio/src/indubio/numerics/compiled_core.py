"""The compiled core, called by ctypes: a library with no Python in it, so one build serves every version of Python.

It is built with the package (native/build.py). Where it could not be, `core()` is None and the torch engine serves.

Environment:
    INDUBIO_ISA: the instruction set to use instead of the widest that the processor has; results are the same.
    INDUBIO_CORE: another build of the library, or "none" to do without.
"""

import ctypes
import logging
import os
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_float, c_int, c_int64, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt32

from indubio.errors import ConfigError, EngineError

LIBRARY = {"win32": "indubio_core.dll", "darwin": "libindubio_core.dylib"}.get(sys.platform, "libindubio_core.so")
NATIVE = Path(__file__).parent / "native"
ERROR_BYTES = 512
GROUP = 64  # random numbers that are made together
ACTIVATIONS = {  # as in native/network.h
    name: number
    for number, name in enumerate(
        ("none", "leaky_relu", "relu", "elu", "selu", "gelu", "tanh", "sigmoid", "cosine", "softmax")
    )
}

NO_CORE = "the compiled core was not built: torch computes, slower, and scores agree but for rounding."

_log = logging.getLogger(__name__)


class TrainJob(Structure):
    """What a training call is given; the same fields as in native/jobs.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("values", "moments", "anchors", "rows", "factors", "decays", "spreads")),
        *((name, c_void_p) for name in ("order", "rates", "roots")),
        *((name, c_int64) for name in ("objective", "weights", "rows_count", "ordered", "batch", "steps")),
        *((name, c_double) for name in ("decay", "keep", "kl_weight", "lowest", "highest")),
        ("samples", c_int64),
        *((name, c_double) for name in ("prior_scale", "mixture", "wide", "narrow")),
        *((name, c_double) for name in ("step_size", "friction")),
        ("key", c_uint64),
        ("first_step", c_uint64),
        ("loss", c_double),
        ("last_loss", c_double),
    )


class ScoreJob(Structure):
    """What a scoring call is given; the same fields as in native/jobs.h."""

    _fields_ = (
        *(
            (name, c_void_p)
            for name in ("values", "masks", "noise", "rows", "nll", "apart", "reconstruction", "variance")
        ),
        *((name, c_int64) for name in ("weights", "draws", "shared", "rows_count", "at_once")),
    )


class RandomStream(Structure):
    """Random numbers that follow from a key, their purpose (see native/random.h) and the training step."""

    _fields_ = (("key", c_uint64), ("purpose", c_uint32), ("part", c_uint32))


LAYER_FIELDS = (
    "kind",
    "in_channels",
    "in_length",
    "out_channels",
    "out_length",
    "kernel",
    "stride",
    "padding",
    "bias",
    "norm",
    "activation",
    "skip",
    "in_height",
    "out_height",
    "kernel_height",
    "stride_height",
    "padding_height",
)

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "sizes": (None, [c_void_p]),
    "instruction_sets": (None, [c_char_p, c_int64]),
    "use": (c_int, [c_char_p, c_char_p]),
    "network": (
        c_void_p,
        [c_void_p, *[c_int64] * 5, c_void_p, c_int64, c_int64, c_double, c_double, c_double, c_char_p],
    ),
    "forget": (None, [c_void_p]),
    "network_sizes": (None, [c_void_p, c_void_p]),
    "train": (c_int, [c_void_p, c_int64, POINTER(TrainJob), c_char_p]),
    "score": (c_int, [c_void_p, c_int64, POINTER(ScoreJob), c_char_p]),
    "normals": (None, [POINTER(RandomStream), c_uint64, c_int64, c_void_p]),
    "uniforms": (None, [POINTER(RandomStream), c_uint64, c_int64, c_float, c_void_p]),
    "masks": (None, [POINTER(RandomStream), c_uint64, c_int64, c_double, c_void_p]),
    "order": (None, [POINTER(RandomStream), c_uint64, c_int64, c_void_p]),
    "words": (None, [POINTER(RandomStream), c_uint64, c_void_p]),
    "function": (None, [c_int64, c_int64, c_int64, c_void_p]),
    "product": (c_int, [c_int64, c_void_p, c_int64, c_int64, c_void_p, c_void_p, *[c_int64] * 3, c_char_p]),
    "bets": (None, [c_int64, c_int64, c_int64, *[c_void_p] * 4, c_double, c_void_p, c_void_p]),
}


def precision(dtype: np.dtype[Any]) -> int:
    """The core's number of a precision: 0 for single, 1 for double."""
    if dtype not in (np.float32, np.float64):
        raise ConfigError(f"the core computes in float32 and float64, got {dtype}.")
    return int(dtype == np.float64)


def address(array: np.ndarray | None) -> int | None:
    """Where an array without gaps begins; None stays."""
    if array is None:
        return None
    assert array.flags.c_contiguous
    return array.ctypes.data


class Core:
    """The library of one path, with an instruction set chosen.

    Args:
        path: of the library.
        instructions: the set to use; None is the widest that the processor has.
    """

    def __init__(self, path: Path, instructions: str | None = None) -> None:
        self._library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, f"indubio_{name}")
            function.restype, function.argtypes = result, arguments
        sizes = np.zeros(3, np.int64)
        self._library.indubio_sizes(address(sizes))
        expected = [ctypes.sizeof(TrainJob), ctypes.sizeof(ScoreJob), 8 * len(LAYER_FIELDS)]
        if sizes.tolist() != expected:
            raise EngineError(f"{path} was built from other sources than this package. Build it again.")
        self.path = path
        self.use(instructions or self.instruction_sets[0])

    @property
    def instruction_sets(self) -> list[str]:
        """What this processor has, the widest first."""
        names = ctypes.create_string_buffer(100)
        self._library.indubio_instruction_sets(names, len(names))
        return names.value.decode().split()

    def use(self, instructions: str) -> None:
        """Take this instruction set from now on; the numbers stay the same."""
        error = ctypes.create_string_buffer(ERROR_BYTES)
        if self._library.indubio_use(instructions.encode(), error):
            raise ConfigError(f"{error.value.decode()}: it has {', '.join(self.instruction_sets)}. See INDUBIO_ISA.")
        self.instructions = instructions

    def network(
        self,
        layers: Int[np.ndarray, "layers fields"],
        place: Int[np.ndarray, " features"],
        *,
        depth: int,
        code_head: int,
        output_head: bool,
        likelihood: int,
        noise: int,
        slope: float,
        smallest_variance: float,
        number: float,
    ) -> int:
        """The handle of a network, which `forget` takes back; see native/core.cpp."""
        error = ctypes.create_string_buffer(ERROR_BYTES)
        count = len(layers) - (code_head > 0) - output_head
        handle = self._library.indubio_network(
            address(layers),
            count,
            depth,
            code_head,
            output_head,
            len(place),
            address(place),
            likelihood,
            noise,
            slope,
            smallest_variance,
            number,
            error,
        )
        if not handle:
            raise EngineError(f"the core cannot build this network: {error.value.decode()}.")
        return int(handle)

    def forget(self, handle: int) -> None:
        """Free the memory of a network; its handle is of no use afterwards."""
        self._library.indubio_forget(handle)

    def network_sizes(self, handle: int) -> tuple[int, int, int, int]:
        """Weights, units that dropout may switch, values of the code, and of the room to score an example in."""
        sizes = np.zeros(4, np.int64)
        self._library.indubio_network_sizes(handle, address(sizes))
        weights, units, latent, room = sizes.tolist()
        return weights, units, latent, room

    def train(self, handle: int, precision: int, job: TrainJob) -> None:
        """The steps of one network; it lets go of Python's lock."""
        error = ctypes.create_string_buffer(ERROR_BYTES)
        if self._library.indubio_train(handle, precision, byref(job), error):
            raise EngineError(f"the core cannot train: {error.value.decode()}.")

    def score(self, handle: int, precision: int, job: ScoreJob) -> None:
        """The scores of some rows; it lets go of Python's lock."""
        error = ctypes.create_string_buffer(ERROR_BYTES)
        if self._library.indubio_score(handle, precision, byref(job), error):
            raise EngineError(f"the core cannot score: {error.value.decode()}.")

    def normals(self, stream: RandomStream, group: int, out: Float[np.ndarray, "..."]) -> None:
        """Standard normal numbers of a stream, from this group on."""
        self._library.indubio_normals(byref(stream), group, out.size, address(out))

    def uniforms(self, stream: RandomStream, group: int, bound: float, out: Float[np.ndarray, "..."]) -> None:
        """Numbers between -bound and bound."""
        self._library.indubio_uniforms(byref(stream), group, out.size, bound, address(out))

    def masks(self, stream: RandomStream, group: int, keep: float, out: Float[np.ndarray, "..."]) -> None:
        """1 with this probability, else 0."""
        self._library.indubio_masks(byref(stream), group, out.size, keep, address(out))

    def order(self, stream: RandomStream, group: int, out: Int[np.ndarray, " n"]) -> None:
        """0 to n - 1 in a random order."""
        self._library.indubio_order(byref(stream), group, out.size, address(out))

    def words(self, stream: RandomStream, counter: int) -> UInt32[np.ndarray, " 4"]:
        """The four random words of one counter, for the tests."""
        out = np.zeros(4, np.uint32)
        self._library.indubio_words(byref(stream), counter, address(out))
        return out

    def function(self, which: int, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Of every value, for the tests: activations by their number, then exp, log, softplus, log gamma, digamma."""
        out = np.ascontiguousarray(values).copy()
        self._library.indubio_function(precision(out.dtype), which, out.size, address(out))
        return out

    def product(self, a: Float[np.ndarray, "r p"], b: Float[np.ndarray, "p v"]) -> Float[np.ndarray, "r v"]:
        """A B in the core's order of sums; A may be transposed."""
        b = np.ascontiguousarray(b)
        out = np.empty((a.shape[0], b.shape[1]), b.dtype)
        error = ctypes.create_string_buffer(ERROR_BYTES)
        steps = [stride // a.itemsize for stride in a.strides]
        if self._library.indubio_product(
            precision(b.dtype), a.ctypes.data, *steps, address(b), address(out), *out.shape, a.shape[1], error
        ):
            raise EngineError(f"the core cannot multiply: {error.value.decode()}.")
        return out

    def bets(
        self,
        off: Float[np.ndarray, "examples series"],
        stakes: Float[np.ndarray, "stakes series"],
        unit: Float[np.ndarray, "stakes series"],
        weights: Float[np.ndarray, " examples"],
        most: float,
        wealth: Float[np.ndarray, "stakes series"],
        mixed: Float[np.ndarray, "examples series"],
    ) -> None:
        """Drift's bets; `wealth` and `mixed` are written to."""
        given = (off, stakes, unit, weights)
        assert all(array.dtype == np.float64 for array in (*given, wealth, mixed))
        self._library.indubio_bets(
            len(off), len(stakes), off.shape[1], *map(address, given), most, address(wealth), address(mixed)
        )


@cache
def core() -> Core | None:
    """The core of this process; None where it was not built."""
    chosen = os.environ.get("INDUBIO_CORE")
    if chosen == "none":
        return None
    path = Path(chosen) if chosen else NATIVE / LIBRARY
    if not path.is_file():
        if chosen:
            raise ConfigError(f"INDUBIO_CORE names no file: {path}.")
        _log.warning(NO_CORE)
        return None
    return Core(path, os.environ.get("INDUBIO_ISA"))
