"""Fits: from good examples to a chain, one way for all of them.

fitted_chain    the whole story: plan, data, scores, chain
fit_settings    what a fit is set to, as one object; `defaults` has what None stands for
training_data   examples in memory, surveyed; `streams` has those that are larger than memory
posterior_fit   draws of a posterior as what scores; `folds` and `on_workers` train them in parts
trimming        training rows that look like anomalies are left out
updates         a detector that also learns from confirmed examples
"""

from indubio.fitting.defaults import DEFAULT_POSTERIOR, DEFAULTS, default_of, default_posterior
from indubio.fitting.fit_settings import DetectorSettings, FitSettings
from indubio.fitting.fitted_chain import fit_chain, suspicion
from indubio.fitting.posterior_fit import PosteriorFit
from indubio.fitting.streams import TrainingData
from indubio.fitting.training_data import RowsInMemory, TrainingScores
from indubio.fitting.trimming import Trimming
from indubio.fitting.updates import autoencoder_scorer, updated_chain

__all__ = [
    "DEFAULTS",
    "DEFAULT_POSTERIOR",
    "DetectorSettings",
    "FitSettings",
    "PosteriorFit",
    "RowsInMemory",
    "TrainingData",
    "TrainingScores",
    "Trimming",
    "autoencoder_scorer",
    "default_of",
    "default_posterior",
    "fit_chain",
    "suspicion",
    "updated_chain",
]
