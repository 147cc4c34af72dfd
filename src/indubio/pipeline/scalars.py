"""The parameters of a detector that are plain values, and the rules they keep."""

from dataclasses import dataclass

from indubio.decision import ANOMALY_THRESHOLD
from indubio.inputs import Missing, Unseen
from indubio.settings import AtLeastTwo, Fraction, NotNegative, Positive, Settings, Share


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
