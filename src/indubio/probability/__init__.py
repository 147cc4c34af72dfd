"""Stage 4, scores to anomaly probabilities: nll (draws, examples) -> probability (draws, examples).

`CONVERSIONS` names every conversion; the command line, configuration files and contract tests read it.
"""

from indubio.probability.by_group import GroupConversions
from indubio.probability.conversion import Conversion, FittedConversion
from indubio.probability.correction import Correction
from indubio.probability.customised_scaling import Level
from indubio.probability.ecdf import Ecdf
from indubio.probability.exponential import Exponential
from indubio.probability.gaussian import Gaussian
from indubio.probability.ties import TIE_TOLERANCE, upper_tie
from indubio.probability.uniform import Uniform

CONVERSIONS: dict[str, type[Conversion]] = {
    "gaussian": Gaussian,
    "exponential": Exponential,
    "uniform": Uniform,
    "ecdf": Ecdf,
}

__all__ = [
    "CONVERSIONS",
    "TIE_TOLERANCE",
    "Conversion",
    "Correction",
    "Ecdf",
    "Exponential",
    "FittedConversion",
    "Gaussian",
    "GroupConversions",
    "Level",
    "Uniform",
    "upper_tie",
]
