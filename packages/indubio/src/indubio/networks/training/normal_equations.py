r"""A denoising autoencoder in closed form: random cosines of noisy rows, and the least squares back to the clean ones.

    phi(x) = [cos(W x + b), 1],   W ~ N(0, 1/D),  b ~ U(0, 2 pi)               never trained
    A = sum phi(x~) phi(x~)^T,    R = sum phi(x~) x^T                          over rows x and noisy copies x~ of them
    decoder: mean (A + lambda n I)^-1 R,  covariance s_f^2 (A + lambda n I)^-1 per feature f, times the copies

A and R are sums over rows: rows that come later are added, sums of several workers too, and what is solved then is what
one fit of all rows would give. Rows are taken in blocks; the noise of a block follows from its number alone, so that it
does not matter who adds it. Blocks are added up in `SPANS` spans, and then the spans, whoever did which: a sum has the
same bits with any number of workers. With the decoder's Gaussian prior the evidence has a closed form, which chooses
lambda.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from math import log, sqrt

import numpy as np
from jaxtyping import Float, Float64, Int

from indubio.networks.training.rows import TrainingRows, whole_blocks
from indubio.numerics import Stream, back, cholesky, cosine, exponential, gram, product, solved, stream

ROWS = 1024  # of a block
SPANS = 8  # of blocks: what workers can share, and no more, since each gives back sums as large as the whole ones
TURN = 2 * np.pi
ENCODER_NUMBERS, NOISE_NUMBERS = 3, 4  # purposes of random streams; 0 to 2 are those of the training
BLOCKS = 2**32  # more than any data has: streams of blocks are numbered draw * BLOCKS + block
RIDGES = tuple(10.0**power for power in range(-6, 0))
JITTER = 1e-10  # of a row, so that rounding cannot make the equations singular


@dataclass(frozen=True, eq=False)
class Cosine:
    """The encoder of one draw.

    Args:
        weight: W, (values, units).
        bias: b.
    """

    weight: Float[np.ndarray, "values units"]
    bias: Float[np.ndarray, " units"]

    @classmethod
    def drawn(cls, own: Stream, values: int, units: int) -> "Cosine":
        """An encoder with weights drawn from a stream of random numbers."""
        weight = own.normal((values, units)).astype(np.float64) / sqrt(values)
        bias = (own.uniform((units,), 1.0).astype(np.float64) + 1) * np.pi
        return cls(weight.astype(np.float32).astype(np.float64), bias.astype(np.float32).astype(np.float64))

    def features(self, rows: Float[np.ndarray, "n values"]) -> Float[np.ndarray, "n units1"]:
        """Phi of every row, the constant last."""
        out = np.ones((len(rows), len(self.bias) + 1))
        out[:, :-1] = cosine(product(rows, self.weight) + self.bias)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalEquations:
    """The sums that a decoder follows from.

    Args:
        encoder: of the draw.
        pairs: A.
        targets: R.
        squares: sum of every value's square.
        rows: how many noisy rows were added, copies counted.
        copies: of every row.
        blocks: how many were added.
    """

    encoder: Cosine
    pairs: Float[np.ndarray, "units1 units1"]
    targets: Float[np.ndarray, "units1 values"]
    squares: Float[np.ndarray, " values"]
    rows: int
    copies: int
    blocks: int = 0

    @classmethod
    def none(cls, encoder: Cosine, copies: int) -> "NormalEquations":
        """The sums before the first row: all are 0."""
        values, units = encoder.weight.shape
        return cls(
            encoder=encoder,
            pairs=np.zeros((units + 1, units + 1)),
            targets=np.zeros((units + 1, values)),
            squares=np.zeros(values),
            rows=0,
            copies=copies,
        )

    def with_rows(
        self,
        blocks: Iterable[tuple[int, Float[np.ndarray, "n values"]]],
        noise: tuple[float, float],
        seed: int,
        draw: int,
    ) -> "NormalEquations":
        """These sums with some blocks of rows added.

        Args:
            blocks: number and rows of each.
            noise: smallest and largest standard deviation of the noise; it is log-uniform for every copy.
            seed: of the noise.
            draw: which draw this is, for the noise.
        """
        pairs, targets, squares, rows = self.pairs.copy(), self.targets.copy(), self.squares.copy(), self.rows
        added = 0
        for number, block in blocks:
            clean = block.astype(np.float64)
            own = stream(seed, NOISE_NUMBERS, draw * BLOCKS + number)
            for _ in range(self.copies):
                features = self.encoder.features(noisy(clean, noise, own))
                pairs += gram(features)
                targets += product(features.T, clean)
            squares += self.copies * np.cumsum(clean * clean, axis=0)[-1]
            rows += self.copies * len(clean)
            added += 1
        return replace(self, pairs=pairs, targets=targets, squares=squares, rows=rows, blocks=self.blocks + added)

    def joined(self, others: Sequence["NormalEquations"]) -> "NormalEquations":
        """The sums of several, added in this order."""
        whole = self
        for other in others:
            whole = replace(
                whole,
                pairs=whole.pairs + other.pairs,
                targets=whole.targets + other.targets,
                squares=whole.squares + other.squares,
                rows=whole.rows + other.rows,
                blocks=whole.blocks + other.blocks,
            )
        return whole

    def solution(self, ridge: float | None) -> "Solution":
        """The decoder's posterior.

        Args:
            ridge: lambda, per row; None is the one of `RIDGES` with the largest evidence.
        """
        if ridge is not None:
            return Solution.of(self, ridge)
        return max((Solution.of(self, one) for one in RIDGES), key=lambda found: found.evidence)


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptSums:
    """The sums of all draws, kept so that rows can be added later; their encoders are among the draws' weights.

    Args:
        pairs: A of every draw.
        targets: R of every draw.
        squares: sum of every value's square.
        rows: how many noisy rows were added.
        copies: of every row.
        blocks: how many were added; the next has this number.
    """

    pairs: Float64[np.ndarray, "draws units1 units1"]
    targets: Float64[np.ndarray, "draws units1 values"]
    squares: Float64[np.ndarray, "draws values"]
    rows: Int[np.ndarray, " draws"]
    copies: Int[np.ndarray, " draws"]
    blocks: Int[np.ndarray, " draws"]

    @classmethod
    def of(cls, sums: Sequence[NormalEquations]) -> "KeptSums":
        """The sums of several draws, to keep with the model."""
        return cls(**{name: np.stack([getattr(one, name) for one in sums]) for name in KEPT})

    @classmethod
    def joined(cls, parts: Sequence["KeptSums"]) -> "KeptSums":
        """The sums of several groups of draws as one."""
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in KEPT})

    def some(self, which: slice) -> "KeptSums":
        """The sums of some of the draws."""
        return KeptSums(**{name: getattr(self, name)[which] for name in KEPT})

    def of_draw(self, draw: int, encoder: Cosine) -> NormalEquations:
        """The sums of one draw, to add rows to."""
        return NormalEquations(
            encoder=encoder,
            pairs=self.pairs[draw],
            targets=self.targets[draw],
            squares=self.squares[draw],
            rows=int(self.rows[draw]),
            copies=int(self.copies[draw]),
            blocks=int(self.blocks[draw]),
        )


KEPT = tuple(field.name for field in fields(KeptSums))


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """The Gaussian posterior of a decoder.

    Args:
        sums: what it follows from.
        ridge: lambda.
        factor: of A + lambda n I.
        mean: of the decoder's weights, the constant last.
    """

    sums: NormalEquations
    ridge: float
    factor: Float[np.ndarray, "units1 units1"]
    mean: Float[np.ndarray, "units1 values"]

    @classmethod
    def of(cls, sums: NormalEquations, ridge: float) -> "Solution":
        """The posterior with this prior; the constant has none."""
        penalty = np.full(len(sums.pairs), ridge * sums.rows)
        penalty[-1] = 0.0
        matrix = sums.pairs.copy()
        matrix[np.diag_indices_from(matrix)] += penalty + JITTER * sums.rows
        factor = cholesky(matrix)
        return cls(sums=sums, ridge=ridge, factor=factor, mean=solved(factor, sums.targets))

    @cached_property
    def noise_variance(self) -> Float[np.ndarray, " values"]:
        """s_f^2: what of every value is left, the prior's part included, per noisy row."""
        explained = np.cumsum(self.sums.targets * self.mean, axis=0)[-1]
        return np.asarray(np.maximum(self.sums.squares - explained, JITTER * self.sums.rows) / self.sums.rows)

    @property
    def evidence(self) -> float:
        """Log marginal likelihood per noisy row, up to a constant, at the best noise of every value."""
        units, values = len(self.mean) - 1, self.mean.shape[1]
        spread = 2 * float(np.cumsum(np.log(np.diag(self.factor)))[-1]) - units * log(self.ridge * self.sums.rows)
        misfit = float(np.cumsum(np.log(self.noise_variance))[-1])
        return float(-0.5 * (misfit + values * spread / self.sums.rows))

    def drawn(self, own: Stream) -> Float[np.ndarray, "units1 values"]:
        """A draw of the decoder. Copies of a row are one observation: they do not make the posterior narrower."""
        normal = own.normal(self.mean.shape).astype(np.float64)
        spread = sqrt(self.sums.copies) * np.sqrt(self.noise_variance)
        return np.asarray(self.mean + spread * back(self.factor, normal))

    def residuals(
        self, rows: Float[np.ndarray, "n values"], decoder: Float[np.ndarray, "units1 values"] | None = None
    ) -> Float[np.ndarray, "n values"]:
        """What clean rows are off by; under the mean, or a draw, of the decoder."""
        decoded = product(self.sums.encoder.features(rows), self.mean if decoder is None else decoder)
        return np.asarray(rows - decoded)


def noisy(
    rows: Float[np.ndarray, "n values"], noise: tuple[float, float], own: Stream
) -> Float[np.ndarray, "n values"]:
    """The rows with noise, whose standard deviation is log-uniform for every row."""
    if noise[1] == 0:
        return rows
    low, high = log(noise[0]), log(noise[1])
    scale = exponential(low + (high - low) * (own.uniform((len(rows), 1), 1.0).astype(np.float64) + 1) / 2)
    return np.asarray(rows + scale * own.normal(rows.shape))


def in_blocks(rows: Float[np.ndarray, "n values"], first: int = 0) -> list[tuple[int, Float[np.ndarray, "_ values"]]]:
    """The rows in numbered blocks."""
    return [(first + place, rows[start : start + ROWS]) for place, start in enumerate(range(0, len(rows), ROWS))]


def first_rows(rows: TrainingRows, count: int) -> Float[np.ndarray, "n values"]:
    """So many of the first rows, flattened, as a pass in whole blocks comes by them."""
    pieces: list[np.ndarray] = []
    for piece in whole_blocks(rows, ROWS):
        pieces.append(piece[: count - sum(map(len, pieces))])
        if sum(map(len, pieces)) == count:
            break
    return np.concatenate(pieces)


def spans(rows: int) -> list[range]:
    """The blocks of so many rows in `SPANS` spans; fewer where there are fewer blocks."""
    blocks = -(-rows // ROWS)
    bounds = [place * blocks // SPANS for place in range(SPANS + 1)]
    return [range(start, stop) for start, stop in pairwise(bounds) if stop > start]


def root_mean_square(residuals: Float[np.ndarray, "n values"]) -> Float[np.ndarray, " values"]:
    """The root mean square of every value, added up in order."""
    return np.asarray(np.sqrt(np.cumsum(residuals * residuals, axis=0)[-1] / len(residuals)))
