"""Stage 2, the network: architectures (settings), the networks they build, and the likelihoods on top."""

from indubio.networks.architecture import Architecture, BlockArchitecture
from indubio.networks.autoencoder import Autoencoder
from indubio.networks.conv1d import Conv1d
from indubio.networks.dense import Dense
from indubio.networks.likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
)
from indubio.networks.own import OwnNetwork

ARCHITECTURES: dict[str, type[Architecture]] = {"dense": Dense, "conv1d": Conv1d, "own": OwnNetwork}
LIKELIHOODS: dict[str, type[Likelihood]] = {
    "gaussian": GaussianLikelihood,
    "laplace": LaplaceLikelihood,
    "bernoulli": BernoulliLikelihood,
}

__all__ = [
    "ARCHITECTURES",
    "LIKELIHOODS",
    "Architecture",
    "Autoencoder",
    "BernoulliLikelihood",
    "BlockArchitecture",
    "Conv1d",
    "Dense",
    "GaussianLikelihood",
    "LaplaceLikelihood",
    "Likelihood",
    "OwnNetwork",
]
