r"""Log-cosh: a value's score is quadratic near its reconstruction and linear far from it.

-log p(x | m) = log cosh(x - m)

A likelihood is two things: the settings, which everything but the engines reads, and its formula, which torch runs and
differentiates. One that is registered here runs on torch only, whatever the network, and cannot be exported to ONNX.
The compiled core knows its own likelihoods by number; how to add one to it is in docs/core.md.
"""

from dataclasses import dataclass
from math import log

import torch.nn.functional as F
from torch import Tensor

from indubio.networks import Likelihood
from indubio.networks.engine.torch_likelihoods import nll_of_values
from indubio.networks.tensors import Decoded, TensorWeights


@dataclass(frozen=True, kw_only=True)
class LogCoshLikelihood(Likelihood):
    """Noise that is about Gaussian in the middle, with the tails of a Laplace distribution.

    With `output_noise` the decoder would give a log variance of each value; `shapes` and `initial` would declare
    parameters of the likelihood itself; `unit_interval` would ask for data within [0, 1].
    """


@nll_of_values.register
def log_cosh(likelihood: LogCoshLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor:
    """Of every value, up to a constant: log cosh d = d + log(1 + exp(-2 d)) - log 2, which does not overflow."""
    distance = (x - decoded.location).abs()
    return distance + F.softplus(-2 * distance) - log(2)
