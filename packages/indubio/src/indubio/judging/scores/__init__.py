"""Scores other than the NLL, by name: what else M draws say of an example.

nll         the negative log-likelihood under every draw; the default, and what `Draws` give themselves
epistemic   how far the draws disagree on the reconstruction
aleatoric   how much noise the decoder expects
waic        mean and variance of the NLL over the draws
"""

from collections.abc import Sequence
from typing import Literal

from indubio.judging.scores.aleatoric import PredictedNoise
from indubio.judging.scores.draw_score import DrawScore
from indubio.judging.scores.epistemic import ReconstructionVariance
from indubio.judging.scores.waic import Waic
from indubio.posteriors import Draws

ScoreName = Literal["nll", "epistemic", "aleatoric", "waic"]
SCORES: dict[ScoreName, type[DrawScore]] = {
    "epistemic": ReconstructionVariance,
    "aleatoric": PredictedNoise,
    "waic": Waic,
}


def scored_by(name: ScoreName | None, draws: Draws, parts: Sequence[int]) -> Draws | DrawScore:
    """What gives this score; the draws themselves for the NLL, which None is.

    Args:
        name: of the score.
        draws: all draws.
        parts: how many of them each fold has, in order.
    """
    return draws if name is None or name == "nll" else SCORES[name](draws=draws, parts=tuple(parts))


def name_of(score: Draws | DrawScore) -> ScoreName | None:
    """The name of a score; None for the NLL."""
    return next((name for name, kind in SCORES.items() if kind is type(score)), None)
