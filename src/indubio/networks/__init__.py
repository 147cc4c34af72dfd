"""Stage 2, the network: architectures (settings), the networks they build, and the likelihoods on top."""

from indubio.networks.architecture import Architecture, BlockArchitecture
from indubio.networks.autoencoder import Autoencoder
from indubio.networks.coalition import Coalition
from indubio.networks.conv1d import Conv1d
from indubio.networks.dense import Dense
from indubio.networks.hidden_layer import Attention, ClosedForm, Cosines
from indubio.networks.likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    StudentLikelihood,
)
from indubio.networks.own import OwnNetwork

ARCHITECTURES: dict[str, type[Architecture]] = {
    "dense": Dense,
    "conv1d": Conv1d,
    "cosines": Cosines,
    "attention": Attention,
    "coalition": Coalition,
    "own": OwnNetwork,
}
LIKELIHOODS: dict[str, type[Likelihood]] = {
    "gaussian": GaussianLikelihood,
    "laplace": LaplaceLikelihood,
    "bernoulli": BernoulliLikelihood,
    "student": StudentLikelihood,
}

__all__ = [
    "ARCHITECTURES",
    "LIKELIHOODS",
    "Architecture",
    "Attention",
    "Autoencoder",
    "BernoulliLikelihood",
    "BlockArchitecture",
    "ClosedForm",
    "Coalition",
    "Conv1d",
    "Cosines",
    "Dense",
    "GaussianLikelihood",
    "LaplaceLikelihood",
    "Likelihood",
    "OwnNetwork",
    "StudentLikelihood",
]
