"""One small method of each kind, to copy and change. The contract tests run them beside the built-in ones."""

from indubio.decision import Referral
from indubio.judging import Conversion
from indubio.networks import Likelihood
from indubio.posteriors import Posterior
from tests.skeletons.conversion import Logistic
from tests.skeletons.likelihood import LogCoshLikelihood
from tests.skeletons.posterior import NoisyWeights
from tests.skeletons.referral import Margin

POSTERIORS: dict[str, type[Posterior]] = {"noisy_weights": NoisyWeights}
CONVERSIONS: dict[str, type[Conversion]] = {"logistic": Logistic}
REFERRALS: dict[str, type[Referral]] = {"margin": Margin}
LIKELIHOODS: dict[str, type[Likelihood]] = {"log_cosh": LogCoshLikelihood}
