"""The examples that a search trains and judges on: a random sample, so that a trial is quick and memory bounded."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from indubio.data import ExampleStream, Schema, drawn, named_errors
from indubio.errors import DataError

HELD_OUT = 0.25
FEWEST = 20  # examples; fewer judge nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Examples as numbers.

    Args:
        trained: to train on.
        held_out: to judge by.
        columns: per column or sensor of the data, its places in the last axis: a category has several.
    """

    trained: Float[np.ndarray, "examples ..."]
    held_out: Float[np.ndarray, "held ..."]
    columns: tuple[Int[np.ndarray, " places"], ...]


def sampled(stream: ExampleStream, rows: int, seed: int) -> Sample:
    """About so many examples of a stream, at random, parted into those that train and those that judge."""
    outline = stream.outline
    share, key = rows / outline.examples, int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    found = []
    for block in stream.blocks():
        with named_errors(block):
            values = block.data.rows(outline.schema).values
        found.append(values[drawn(block.places, key) < share])
    values = np.concatenate(found)
    if len(values) < FEWEST:
        raise DataError(f"{len(values)} examples are too few to tell one network from another: give at least {FEWEST}.")
    order = np.random.default_rng(seed).permutation(len(values))
    held = round(HELD_OUT * len(values))
    return Sample(
        trained=values[order[held:]],
        held_out=values[order[:held]],
        columns=_columns(outline.schema),
    )


def _columns(schema: Schema) -> tuple[Int[np.ndarray, " places"], ...]:
    widths = [len(column.encoded) for column in schema.columns]
    return tuple(np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1]))
