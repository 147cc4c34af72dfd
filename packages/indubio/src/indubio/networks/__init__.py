"""Stage 2, the network: architectures (settings), the networks they build, and the likelihoods on top.

`engine` runs them, from arrays to arrays: the compiled core, or torch. `training` has epochs, batches, learning rates.
"""

from indubio.families import Family
from indubio.networks.architecture import Architecture, BlockArchitecture
from indubio.networks.autoencoder import Autoencoder
from indubio.networks.coalition import Coalition, CoalitionNetwork
from indubio.networks.conv1d import Conv1d
from indubio.networks.conv2d import Conv2d
from indubio.networks.convolutional import Convolutional
from indubio.networks.dense import Dense
from indubio.networks.engine.engine import DrawScorer, Engine, Sampler, Trainer, engine_for, require_device
from indubio.networks.engine.objectives import Corruption, Dynamics, PointWeights, Variational
from indubio.networks.engine.views_engine import LOG_2_PI, SMALLEST, View
from indubio.networks.hidden_layer import DECODER, ENCODER, Attention, ClosedForm, Cosines
from indubio.networks.layers import Block, Convolution, LayerNorm, Linear, Shapes, Weights
from indubio.networks.likelihoods import (
    LOG_VARIANCE,
    BernoulliLikelihood,
    BetaLikelihood,
    BoundedLikelihood,
    ContinuousBernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    NoisyLikelihood,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
)
from indubio.networks.linear_views import (
    FACTOR,
    MEAN,
    MIDDLE,
    NOISE,
    SPREAD,
    VOLUME,
    LinearViews,
    LinearViewsNetwork,
    name_of,
)
from indubio.networks.network import BlockNetwork, Network
from indubio.networks.own import OwnNetwork
from indubio.networks.training.chain_moves import Leg, walk
from indubio.networks.training.data_prior import prior_scale_at, temperature_of, temperature_without_prior
from indubio.networks.training.denoising import Denoising
from indubio.networks.training.gaussian_sums import GaussianSums, KeptGaussianSums, NormalWishartState
from indubio.networks.training.learning_rate import RangeTest
from indubio.networks.training.loop import EarlyStopping, Progress, Report, Training, silent
from indubio.networks.training.mixing import FEWEST, MOST_ROWS, MOST_WEIGHTS, Mixing, What
from indubio.networks.training.network_fits import (
    Begin,
    Beginning,
    FitContext,
    fit_network,
    fit_networks,
    fresh_weights,
)
from indubio.networks.training.normal_equations import (
    ENCODER_NUMBERS,
    ROWS,
    Cosine,
    KeptSums,
    NormalEquations,
    Solution,
    first_rows,
    in_blocks,
    root_mean_square,
    spans,
)
from indubio.networks.training.rows import StreamedRows, TrainingRows, stretches, whole_blocks

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
    "DECODER",
    "ENCODER",
    "ENCODER_NUMBERS",
    "FACTOR",
    "FEWEST",
    "LIKELIHOODS",
    "LOG_2_PI",
    "LOG_VARIANCE",
    "MEAN",
    "MIDDLE",
    "MOST_ROWS",
    "MOST_WEIGHTS",
    "NOISE",
    "ROWS",
    "SMALLEST",
    "SPREAD",
    "VOLUME",
    "Architecture",
    "Attention",
    "Autoencoder",
    "Begin",
    "Beginning",
    "BernoulliLikelihood",
    "BetaLikelihood",
    "Block",
    "BlockArchitecture",
    "BlockNetwork",
    "BoundedLikelihood",
    "ClosedForm",
    "Coalition",
    "CoalitionNetwork",
    "ContinuousBernoulliLikelihood",
    "Conv1d",
    "Conv2d",
    "Convolution",
    "Convolutional",
    "Corruption",
    "Cosine",
    "Cosines",
    "Denoising",
    "Dense",
    "DrawScorer",
    "Dynamics",
    "EarlyStopping",
    "Engine",
    "FitContext",
    "GaussianLikelihood",
    "GaussianSums",
    "KeptGaussianSums",
    "KeptSums",
    "LaplaceLikelihood",
    "LayerNorm",
    "Leg",
    "Likelihood",
    "Linear",
    "LinearViews",
    "LinearViewsNetwork",
    "Mixing",
    "Network",
    "NoisyLikelihood",
    "NormalEquations",
    "NormalWishartState",
    "OwnNetwork",
    "PointWeights",
    "Progress",
    "RangeTest",
    "Report",
    "Sampler",
    "Shapes",
    "Solution",
    "StreamedRows",
    "StudentLikelihood",
    "Trainer",
    "Training",
    "TrainingRows",
    "TruncatedGaussianLikelihood",
    "Variational",
    "View",
    "Weights",
    "What",
    "engine_for",
    "first_rows",
    "fit_network",
    "fit_networks",
    "fresh_weights",
    "in_blocks",
    "name_of",
    "prior_scale_at",
    "require_device",
    "root_mean_square",
    "silent",
    "spans",
    "stretches",
    "temperature_of",
    "temperature_without_prior",
    "walk",
    "whole_blocks",
]
