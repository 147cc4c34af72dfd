"""Stage 4, scores to anomaly probabilities: nll (draws, examples) -> probability (draws, examples).

`CONVERSIONS` names every conversion; the command line, configuration files and contract tests read it.
"""

from indubio.families import Family
from indubio.probability.by_group import GroupConversions
from indubio.probability.conversion import CdfConversion, Conversion, FittedConversion
from indubio.probability.correction import Correction
from indubio.probability.customised_scaling import Level
from indubio.probability.ecdf import Ecdf
from indubio.probability.even_odds import Odds
from indubio.probability.exponential import Exponential
from indubio.probability.gamma import Gamma
from indubio.probability.gaussian import Gaussian
from indubio.probability.lognormal import LogNormal
from indubio.probability.ties import TIE_TOLERANCE, upper_tie
from indubio.probability.uniform import Uniform

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
    "PAPER_CONVERSIONS",
    "TIE_TOLERANCE",
    "CdfConversion",
    "Conversion",
    "Correction",
    "Ecdf",
    "Exponential",
    "FittedConversion",
    "Gamma",
    "Gaussian",
    "GroupConversions",
    "Level",
    "LogNormal",
    "Odds",
    "Uniform",
    "upper_tie",
]
