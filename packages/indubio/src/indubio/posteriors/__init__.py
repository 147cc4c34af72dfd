"""Stage 3, the posteriors: training rows -> M draws. One file per method, one training loop for all."""

from indubio.families import Family
from indubio.posteriors.adds_up import AddsUp
from indubio.posteriors.anchored_ensemble import AnchoredEnsemble
from indubio.posteriors.bayes_by_backprop import BayesByBackprop
from indubio.posteriors.deterministic import Deterministic
from indubio.posteriors.draws import Draws
from indubio.posteriors.mc_dropout import MCDropout
from indubio.posteriors.normal_wishart import NormalWishart
from indubio.posteriors.posterior import Posterior, TrainedPosterior
from indubio.posteriors.prototypes import Prototypes
from indubio.posteriors.random_features import RandomFeatures
from indubio.posteriors.sghmc import SGHMC
from indubio.posteriors.vae import VAE
from indubio.training.denoising import Denoising
from indubio.training.learning_rate import RangeTest
from indubio.training.loop import EarlyStopping, Progress, Training

POSTERIORS = Family[Posterior](
    "indubio.posteriors",
    Posterior,
    {
        "deterministic": Deterministic,
        "vae": VAE,
        "mc_dropout": MCDropout,
        "bayes_by_backprop": BayesByBackprop,
        "anchored_ensemble": AnchoredEnsemble,
        "sghmc": SGHMC,
        "random_features": RandomFeatures,
        "prototypes": Prototypes,
        "normal_wishart": NormalWishart,
    },
)

__all__ = [
    "POSTERIORS",
    "SGHMC",
    "VAE",
    "AddsUp",
    "AnchoredEnsemble",
    "BayesByBackprop",
    "Denoising",
    "Deterministic",
    "Draws",
    "EarlyStopping",
    "MCDropout",
    "NormalWishart",
    "Posterior",
    "Progress",
    "Prototypes",
    "RandomFeatures",
    "RangeTest",
    "TrainedPosterior",
    "Training",
]
