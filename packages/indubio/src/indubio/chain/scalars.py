"""The parameters that every detector has, and the rules they keep."""

from dataclasses import dataclass

from indubio.decision import ANOMALY_THRESHOLD, Referral
from indubio.judging import Conversion
from indubio.prepare import Missing, Unseen
from indubio.settings import AtLeastTwo, Fraction, NotNegative, NotNegativeInt, Positive, Settings, Share


@dataclass(frozen=True, kw_only=True)
class Scalars(Settings):
    """What every detector has beside the settings of its stages; `Detector` says what they mean."""

    missing: Missing = "error"
    unseen: Unseen = "refer"
    false_alarms: Fraction | None = None
    anomaly_threshold: Share = ANOMALY_THRESHOLD
    range_margin: NotNegative | None = None
    novelty_limit: Positive | None = None
    smallest_group: AtLeastTwo | None = None


@dataclass(frozen=True, kw_only=True)
class ChainSettings(Scalars):
    """What every detector is set to, with the defaults put in, and checked."""

    conversion: Conversion
    referral: Referral
    false_alarms: Fraction
    seed: NotNegativeInt = 0
