"""What suits what: the choices that a detector makes where its settings leave them open.

posterior       `Prototypes()`, which measured best on tables (docs/default.md); `NormalWishart()` for features of
                windows (docs/windows.md)
scaling,
likelihood,
spectra         those that the posterior names
architecture    the posterior's own for such examples; layers of spectra are as wide as there are features
calibration     by the number of examples, and whether neighbours are alike: see `usual_calibration`
"""

from collections.abc import Sequence

from indubio.calibration import Calibration, CrossFit, HoldOut, TrainScores
from indubio.decision import Budget
from indubio.judging import DrawScore, Odds
from indubio.networks import Architecture, Dense, LinearViews, Training
from indubio.posteriors import NormalWishart, Posterior, Prototypes
from indubio.prepare import SHORTEST
from indubio.settings import Settings

WIDEST = 256  # units of a layer by default, for spectra: many sensors have hundreds of features, which go together

DEFAULT_POSTERIOR: Posterior = Prototypes()
DEFAULT_FOR_WINDOWS: Posterior = NormalWishart()
DEFAULTS: dict[str, Settings] = {
    "posterior": DEFAULT_POSTERIOR,
    "likelihood": DEFAULT_POSTERIOR.LIKELIHOOD,
    "training": Training(),
    "conversion": Odds(),
    "scaling": DEFAULT_POSTERIOR.SCALING,
    "referral": Budget(),
}  # what None stands for


def default_posterior(spectra: object, input_shape: tuple[int, ...] | None) -> Posterior:
    """The posterior that suits examples of this shape; None is a table.

    Args:
        spectra: False takes windows as they are.
        input_shape: of one example.
    """
    windows = input_shape is not None and len(input_shape) == 2 and input_shape[0] >= SHORTEST
    return DEFAULT_FOR_WINDOWS if windows and spectra is not False else DEFAULT_POSTERIOR


def default_of(name: str, posterior: object) -> Settings | None:
    """What None stands for, of this parameter, beside this posterior; None where it stands for nothing."""
    if isinstance(posterior, Posterior) and name in ("scaling", "likelihood"):
        return posterior.SCALING if name == "scaling" else posterior.LIKELIHOOD
    return DEFAULTS.get(name)


def usual_architecture(
    posterior: Posterior, value_shape: tuple[int, ...], rows: int, *, views: Sequence[int], unit_interval: bool
) -> Architecture:
    """The network that suits a posterior.

    Args:
        posterior: of its weights.
        value_shape: of what it gets of one example.
        rows: that a draw is fitted on.
        views: features of a sensor that belong together, where it gets features of windows; else none.
        unit_interval: whether values are scaled to [0, 1].
    """
    usual = posterior.architecture_for(value_shape, rows)
    if isinstance(usual, LinearViews) and views:
        usual = usual.replaced(views=tuple(views))
    if isinstance(usual, Dense) and views:
        usual = usual.replaced(widths=tuple(min(int(factor * value_shape[0]), WIDEST) for factor in usual.expansions))
    return usual if unit_interval else usual.unbounded


def usual_calibration(
    posterior: Posterior,
    draw_score: type[DrawScore] | None,
    examples: int,
    input_shape: tuple[int, ...],
    *,
    one_fold: bool,
    in_stretches: bool = False,
) -> Calibration:
    """The calibration that suits so many examples of this shape.

    Cross-fitting from the posterior's `FEW` rows on, since every row then trains and calibrates; held-out rows from its
    `MANY` rows on, where a quarter of them can be spared and the stricter promise is free; a single draw always holds
    out. With fewer rows than `FEW` none can be spared, and nothing is promised. See docs/calibration.md for the
    measurements. Windows are held out in stretches: neighbours overlap, or are alike, and must not be on both sides.
    So are rows whose neighbours are alike, by folds however many they are: held-out stretches must be many to tell
    what the next one is like.

    Args:
        posterior: of the draws.
        draw_score: what makes the scores; None where the draws do.
        examples: N.
        input_shape: of one example.
        one_fold: whether all draws must be fitted on the same rows, as those of a stream are.
        in_stretches: whether neighbours are alike.
    """
    if examples < posterior.FEW:
        return TrainScores()
    windows = len(input_shape) == 2
    folds = posterior.count // (1 if draw_score is None else draw_score.FEWEST)  # at most
    if one_fold or (examples >= posterior.MANY and not in_stretches) or folds < 2:
        return HoldOut(rows="stretches") if in_stretches else HoldOut(rows="last") if windows else HoldOut()
    usual = CrossFit(rows="in order") if windows or in_stretches else CrossFit()
    return usual if draw_score is None or folds >= usual.folds else usual.replaced(folds=folds)
