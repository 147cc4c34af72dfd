"""Stage 2, the network: architectures (settings), the networks they build, and the likelihoods on top."""

from indubio.autoencoders.architecture import Architecture, BlockArchitecture
from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.conv1d import Conv1d
from indubio.autoencoders.dense import Dense
from indubio.autoencoders.likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
)
from indubio.autoencoders.own import OwnNetwork

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
