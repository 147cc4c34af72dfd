"""The uncertainties of the training examples, in a size that does not grow with them.

`Detector.refer_by` needs to know how many training examples are above a value. So of each uncertainty, sorted, some
values are kept with their ranks from above, and all between two of them count as the upper one. A budget is therefore
never exceeded, and its threshold is the same to the bit for every whole percent, for up to 20 examples and for the rule
the model was saved with; otherwise it refers at most 5 % fewer than it may. (Of more than 100,000 training examples
only that many count, evenly spaced: budgets are then in steps of a thousandth of a percent.) Which uncertainties belong
to one example is not kept.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from indubio.decision import Referral
from indubio.errors import ModelFileError
from indubio.uncertainty import Uncertainty

MOST_RANKS = 100_000
ALL_OF = 20  # the highest are all kept
STEP = 1.05  # ranks further down are at most this factor apart


@dataclass(frozen=True, kw_only=True, eq=False)
class UncertaintyRanks:
    """Some of the training examples' uncertainties, from the highest down.

    Args:
        examples: how many the summary stands for.
        rank: how many of these are above each value kept, or tie with it and come before it.
        probability: the values of each name at these ranks.
        epistemic: likewise.
        aleatoric: likewise.
        total: likewise.
        exceed: likewise.
        var_nll: likewise.
    """

    examples: int
    rank: Int[np.ndarray, " kept"]
    probability: Float[np.ndarray, " kept"]
    epistemic: Float[np.ndarray, " kept"]
    aleatoric: Float[np.ndarray, " kept"]
    total: Float[np.ndarray, " kept"]
    exceed: Float[np.ndarray, " kept"]
    var_nll: Float[np.ndarray, " kept"]

    def __post_init__(self) -> None:
        rank = self.rank
        if not (0 < self.examples <= MOST_RANKS and len(rank) and rank[0] == 0 and rank[-1] == self.examples - 1):
            raise ModelFileError(f"a summary's ranks must go from 0 to its examples, at most {MOST_RANKS}.")
        if not (np.diff(rank) > 0).all():
            raise ModelFileError("a summary's ranks must grow.")

    @classmethod
    def of(cls, uncertainty: Uncertainty, rule: Referral, threshold: float) -> "UncertaintyRanks":
        """The summary that keeps the threshold of this rule."""
        total = len(uncertainty.total)
        examples = min(total, MOST_RANKS)
        above = np.count_nonzero(getattr(uncertainty, rule.by) > threshold)
        place = min(-(-above * examples // total), examples - 1)  # rounded up: the first rank that is not above it
        rank = np.union1d(_ranks(examples), [place])
        values = {name: _from_above(getattr(uncertainty, name), rank, examples) for name in NAMES}
        return cls(examples=examples, rank=rank.astype(np.int32), **values)

    def expanded(self) -> Uncertainty:
        """Uncertainties that give a rule the same thresholds; each is sorted by itself."""
        times = np.diff(self.rank, append=self.examples)
        return Uncertainty(**{name: np.repeat(getattr(self, name), times)[::-1].copy() for name in NAMES})


NAMES = tuple(field.name for field in dataclasses.fields(Uncertainty))


def _ranks(examples: int) -> Int[np.ndarray, " kept"]:
    percents = examples * np.arange(101) / 100
    finer = ALL_OF * STEP ** np.arange(200)
    finer = finer[finer < 0.2 * examples]  # further down, whole percents are less than a factor of `STEP` apart
    # Rounded and rounded down: 0.07 * 100 is a little more than 7, and 0.29 * 100 a little less than 29.
    ranks = np.concatenate([np.arange(ALL_OF + 1.0), np.floor(percents), np.round(percents), finer, [examples - 1.0]])
    ranks = np.unique(ranks.astype(np.int64))
    return ranks[ranks < examples]


def _from_above(
    values: Float[np.ndarray, " examples"], rank: Int[np.ndarray, " kept"], examples: int
) -> Float[np.ndarray, " kept"]:
    descending = np.sort(values)[::-1]
    return np.asarray(descending[rank * len(values) // examples])
