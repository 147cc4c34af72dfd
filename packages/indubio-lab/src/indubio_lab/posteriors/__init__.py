"""Posteriors that the paper only names, or that did not pay: they join the others by entry points."""

from indubio_lab.posteriors.bayesian_vae import BayesianVAE
from indubio_lab.posteriors.cyclical_sgmcmc import CyclicalSGMCMC
from indubio_lab.posteriors.functional_prior import FunctionalPrior
from indubio_lab.posteriors.laplace import Laplace
from indubio_lab.posteriors.parallel_tempering import ParallelTempering
from indubio_lab.posteriors.swag import SWAG

__all__ = ["SWAG", "BayesianVAE", "CyclicalSGMCMC", "FunctionalPrior", "Laplace", "ParallelTempering"]
