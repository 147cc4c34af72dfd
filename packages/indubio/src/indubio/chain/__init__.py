"""What every detector is made of: a chain of objects from examples to verdicts.

preparation     Preparation          examples in any form -> rows that are checked, filled in and scaled
scorer          Scorer       -> nll (M, N); `autoencoder_scorer` is one, the members of an ensemble are another
calibrated      Calibrated   -> probabilities and uncertainties
decider         Decider      -> Assessment
explainer       Explainer    what made the scores, where that is asked
chain           Chain        the four, in this order
estimator       ChainEstimator: a scikit-learn estimator that holds a chain and delegates to it
parameters      settings as scikit-learn's parameters; `scalars` has those that every detector has
held_out_rows   what is said of the rows that it was fitted on
kept_rows       rows that a detector keeps beside the sums of its draws
"""

from indubio.chain.assessment import OUTPUT_COLUMNS, Assessment
from indubio.chain.autoencoder_scorer import AutoencoderScorer
from indubio.chain.calibrated import Calibrated, Scored, needed_groups
from indubio.chain.chain import Chain, refuse_ranks, usual_alarms
from indubio.chain.decider import Decider
from indubio.chain.estimator import SPREAD, ChainEstimator
from indubio.chain.explain import COLUMNS, Contributions
from indubio.chain.familiarity import LEVEL, UNFAMILIAR, Familiarity
from indubio.chain.held_out_rows import HeldOutRows
from indubio.chain.kept_rows import KeptRows
from indubio.chain.most_anomalous import RIGHT, counts, filled_columns, rows_of, worst
from indubio.chain.points import PointGatherer
from indubio.chain.runs import RunGatherer, assess_runs, knows_runs
from indubio.chain.scalars import ChainSettings, Scalars
from indubio.chain.scorer import SCORES_AT_ONCE, Scorer, Scores

__all__ = [
    "COLUMNS",
    "LEVEL",
    "OUTPUT_COLUMNS",
    "RIGHT",
    "SCORES_AT_ONCE",
    "SPREAD",
    "UNFAMILIAR",
    "Assessment",
    "AutoencoderScorer",
    "Calibrated",
    "Chain",
    "ChainEstimator",
    "ChainSettings",
    "Contributions",
    "Decider",
    "Familiarity",
    "HeldOutRows",
    "KeptRows",
    "PointGatherer",
    "RunGatherer",
    "Scalars",
    "Scored",
    "Scorer",
    "Scores",
    "assess_runs",
    "counts",
    "filled_columns",
    "knows_runs",
    "needed_groups",
    "refuse_ranks",
    "rows_of",
    "usual_alarms",
    "worst",
]
