"""Numbers with the same bits on every machine: the compiled core, sums and products, random streams.

compiled_core       the library of `native`, called without Python in it
linear_algebra      products, sums and least squares, each in a fixed order
random              random numbers that follow from a seed and a purpose
"""

from indubio.numerics.compiled_core import (
    ACTIVATIONS,
    GROUP,
    LAYER_FIELDS,
    Core,
    ScoreJob,
    TrainJob,
    address,
    core,
    precision,
)
from indubio.numerics.linear_algebra import (
    back,
    cholesky,
    cosine,
    exponential,
    forward,
    gram,
    product,
    solved,
    sum_in_order,
)
from indubio.numerics.random import Shape, Stream, stream, streams

__all__ = [
    "ACTIVATIONS",
    "GROUP",
    "LAYER_FIELDS",
    "Core",
    "ScoreJob",
    "Shape",
    "Stream",
    "TrainJob",
    "address",
    "back",
    "cholesky",
    "core",
    "cosine",
    "exponential",
    "forward",
    "gram",
    "precision",
    "product",
    "solved",
    "stream",
    "streams",
    "sum_in_order",
]
