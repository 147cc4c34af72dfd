"""Stage 2, the network: architectures (settings), the networks they build, and the likelihoods on top."""

from indubio.families import Family
from indubio.networks.architecture import Architecture, BlockArchitecture
from indubio.networks.autoencoder import Autoencoder
from indubio.networks.coalition import Coalition
from indubio.networks.conv1d import Conv1d
from indubio.networks.conv2d import Conv2d
from indubio.networks.dense import Dense
from indubio.networks.hidden_layer import Attention, ClosedForm, Cosines
from indubio.networks.likelihoods import (
    BernoulliLikelihood,
    BetaLikelihood,
    ContinuousBernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
)
from indubio.networks.linear_views import LinearViews
from indubio.networks.own import OwnNetwork

ARCHITECTURES: dict[str, type[Architecture]] = {
    "dense": Dense,
    "conv1d": Conv1d,
    "conv2d": Conv2d,
    "cosines": Cosines,
    "attention": Attention,
    "coalition": Coalition,
    "linear_views": LinearViews,
    "own": OwnNetwork,
}
LIKELIHOODS = Family[Likelihood](
    "indubio.likelihoods",
    Likelihood,
    {
        "gaussian": GaussianLikelihood,
        "laplace": LaplaceLikelihood,
        "bernoulli": BernoulliLikelihood,
        "student": StudentLikelihood,
        "continuous_bernoulli": ContinuousBernoulliLikelihood,
        "truncated_gaussian": TruncatedGaussianLikelihood,
        "beta": BetaLikelihood,
    },
)

__all__ = [
    "ARCHITECTURES",
    "LIKELIHOODS",
    "Architecture",
    "Attention",
    "Autoencoder",
    "BernoulliLikelihood",
    "BetaLikelihood",
    "BlockArchitecture",
    "ClosedForm",
    "Coalition",
    "ContinuousBernoulliLikelihood",
    "Conv1d",
    "Conv2d",
    "Cosines",
    "Dense",
    "GaussianLikelihood",
    "LaplaceLikelihood",
    "Likelihood",
    "LinearViews",
    "OwnNetwork",
    "StudentLikelihood",
    "TruncatedGaussianLikelihood",
]
