"""What scores mean: nll (draws, examples) -> anomaly probability, uncertainties, p-value.

conversion          nll -> probability: `CONVERSIONS` names every conversion, for commands, files and contract tests
reference_scores    scores of good examples; `conformal` has p-values of them, `selection` keeps a false-discovery rate
uncertainty         epistemic, aleatoric, total, exceed, var_nll
scores              scores other than the nll
correction          what people's labels teach a conversion
"""

from indubio.families import Family
from indubio.judging.conformal import Conformal
from indubio.judging.conversions.agreement import EVEN, FACTOR, TOLERANCE, agreeing
from indubio.judging.conversions.by_group import GroupConversions
from indubio.judging.conversions.conversion import CdfConversion, Conversion, FittedConversion
from indubio.judging.conversions.correction import FARTHEST, SUREST, Correction
from indubio.judging.conversions.customised_scaling import FULL_LEVEL, Level
from indubio.judging.conversions.ecdf import Ecdf
from indubio.judging.conversions.even_odds import FALSE_ALARMS, HALF, LARGEST_VARIANCE, SUREST_ODDS, Odds
from indubio.judging.conversions.exponential import Exponential
from indubio.judging.conversions.gamma import Gamma
from indubio.judging.conversions.gaussian import Gaussian
from indubio.judging.conversions.judgement import Rarity, judged
from indubio.judging.conversions.location_scale import LocationScale
from indubio.judging.conversions.lognormal import LogNormal
from indubio.judging.conversions.shaped import Shaped
from indubio.judging.conversions.ties import TIE_TOLERANCE, upper_tie
from indubio.judging.conversions.uniform import Uniform
from indubio.judging.reference_scores import Reference
from indubio.judging.scores import SCORES, ScoreName, name_of, scored_by
from indubio.judging.scores.aleatoric import PredictedNoise
from indubio.judging.scores.draw_score import DrawScore
from indubio.judging.scores.epistemic import ReconstructionVariance
from indubio.judging.scores.waic import Waic
from indubio.judging.selection import alarms, fewest_selected, select_anomalies
from indubio.judging.uncertainty import (
    DISPLAY_FACTOR,
    LARGEST_TOTAL,
    ON_DEMAND,
    UNCERTAINTIES,
    Uncertainty,
    UncertaintyName,
    disagreement,
    exceed,
    mean_nll,
    quantify,
    var_nll,
)

PAPER_CONVERSIONS: dict[str, type[CdfConversion]] = {  # each with and without the customised scaling
    "gaussian": Gaussian,
    "exponential": Exponential,
    "uniform": Uniform,
    "ecdf": Ecdf,
}
CDF_CONVERSIONS: dict[str, type[CdfConversion]] = {**PAPER_CONVERSIONS, "gamma": Gamma, "lognormal": LogNormal}
CONVERSIONS = Family[Conversion]("indubio.conversions", Conversion, {**CDF_CONVERSIONS, "even_odds": Odds})
__all__ = [
    "CDF_CONVERSIONS",
    "CONVERSIONS",
    "DISPLAY_FACTOR",
    "EVEN",
    "FACTOR",
    "FALSE_ALARMS",
    "FARTHEST",
    "FULL_LEVEL",
    "HALF",
    "LARGEST_TOTAL",
    "LARGEST_VARIANCE",
    "ON_DEMAND",
    "PAPER_CONVERSIONS",
    "SCORES",
    "SUREST",
    "SUREST_ODDS",
    "TIE_TOLERANCE",
    "TOLERANCE",
    "UNCERTAINTIES",
    "CdfConversion",
    "Conformal",
    "Conversion",
    "Correction",
    "DrawScore",
    "Ecdf",
    "Exponential",
    "FittedConversion",
    "Gamma",
    "Gaussian",
    "GroupConversions",
    "Level",
    "LocationScale",
    "LogNormal",
    "Odds",
    "PredictedNoise",
    "Rarity",
    "ReconstructionVariance",
    "Reference",
    "ScoreName",
    "Shaped",
    "Uncertainty",
    "UncertaintyName",
    "Uniform",
    "Waic",
    "agreeing",
    "alarms",
    "disagreement",
    "exceed",
    "fewest_selected",
    "judged",
    "mean_nll",
    "name_of",
    "quantify",
    "scored_by",
    "select_anomalies",
    "upper_tie",
    "var_nll",
]
