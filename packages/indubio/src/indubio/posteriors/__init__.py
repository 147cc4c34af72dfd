"""Stage 3, the posteriors: training rows -> M draws. One file per method, one training loop for all."""

from indubio.families import Family
from indubio.posteriors.adds_up import AddsUp
from indubio.posteriors.anchored_ensemble import AnchoredEnsemble
from indubio.posteriors.bayes_by_backprop import BayesByBackprop
from indubio.posteriors.deterministic import Deterministic
from indubio.posteriors.draws import Draws
from indubio.posteriors.mc_dropout import MCDropout
from indubio.posteriors.normal_wishart import NormalWishart
from indubio.posteriors.posterior import PRIOR_SCALE, Posterior, SeparateDraws, TrainedPosterior
from indubio.posteriors.prototypes import Prototypes
from indubio.posteriors.random_features import RandomFeatures
from indubio.posteriors.sghmc import SGHMC, mixing_of
from indubio.posteriors.vae import VAE

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
    "PRIOR_SCALE",
    "SGHMC",
    "VAE",
    "AddsUp",
    "AnchoredEnsemble",
    "BayesByBackprop",
    "Deterministic",
    "Draws",
    "MCDropout",
    "NormalWishart",
    "Posterior",
    "Prototypes",
    "RandomFeatures",
    "SeparateDraws",
    "TrainedPosterior",
    "mixing_of",
]
