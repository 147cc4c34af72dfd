"""Stage 3, the posteriors: training rows -> M draws. One file per method, one training loop for all."""

from indubio.posteriors.anchored_ensemble import AnchoredEnsemble
from indubio.posteriors.bayes_by_backprop import BayesByBackprop
from indubio.posteriors.deterministic import Deterministic
from indubio.posteriors.draws import Draws
from indubio.posteriors.learning_rate import RangeTest
from indubio.posteriors.mc_dropout import MCDropout
from indubio.posteriors.posterior import Posterior
from indubio.posteriors.sghmc import SGHMC
from indubio.posteriors.training import EarlyStopping, Progress, Training
from indubio.posteriors.vae import VAE

POSTERIORS: dict[str, type[Posterior]] = {
    "deterministic": Deterministic,
    "vae": VAE,
    "mc_dropout": MCDropout,
    "bayes_by_backprop": BayesByBackprop,
    "anchored_ensemble": AnchoredEnsemble,
    "sghmc": SGHMC,
}

__all__ = [
    "POSTERIORS",
    "SGHMC",
    "VAE",
    "AnchoredEnsemble",
    "BayesByBackprop",
    "Deterministic",
    "Draws",
    "EarlyStopping",
    "MCDropout",
    "Posterior",
    "Progress",
    "RangeTest",
    "Training",
]
