"""Examples -> rows of numbers: matched by name, checked, filled in, scaled; features of windows; what is odd of them.

preparation         all of it as one step of the chain, fitted on good examples
scaling, missing    how columns are scaled, and gaps filled in
spectra             features of windows: `series`, `window_shapes` and `window_statistics` compute them
quality, notes      what is bad or unusual of an example, and what is said of it
finding_rules       what is odd of the training data; `oddities` has what columns are looked at for, and
                    `dependence_findings` what is said where examples know each other
"""

from indubio.prepare.dependence_findings import DependenceFacts
from indubio.prepare.finding_rules import DataFinding, data_findings
from indubio.prepare.missing import medians
from indubio.prepare.notes import joined_notes
from indubio.prepare.oddities import BAD, words_of
from indubio.prepare.preparation import Missing, Preparation, PreparationSettings, Unseen
from indubio.prepare.prepared import Beside, Inspected, Prepared
from indubio.prepare.quality import QualityLimits, fit_quality
from indubio.prepare.scaling import ColumnSummary, FittedScaling, MinMax, Robust, Scaling, ZScore
from indubio.prepare.series import log_of
from indubio.prepare.spectra import FARTHEST, SHORTEST, FittedSpectra, Spectra, chosen_spectra
from indubio.prepare.training_examples import TrainingExamples
from indubio.prepare.window_shapes import PLACES, SCALE
from indubio.prepare.window_statistics import STATISTICS, slope_weights

SCALINGS: dict[str, type[Scaling]] = {"min_max": MinMax, "z_score": ZScore, "robust": Robust}
__all__ = [
    "BAD",
    "FARTHEST",
    "PLACES",
    "SCALE",
    "SCALINGS",
    "SHORTEST",
    "STATISTICS",
    "Beside",
    "ColumnSummary",
    "DataFinding",
    "DependenceFacts",
    "FittedScaling",
    "FittedSpectra",
    "Inspected",
    "MinMax",
    "Missing",
    "Preparation",
    "PreparationSettings",
    "Prepared",
    "QualityLimits",
    "Robust",
    "Scaling",
    "Spectra",
    "TrainingExamples",
    "Unseen",
    "ZScore",
    "chosen_spectra",
    "data_findings",
    "fit_quality",
    "joined_notes",
    "log_of",
    "medians",
    "slope_weights",
    "words_of",
]
