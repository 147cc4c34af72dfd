"""From p-values to alarms at a level, and to the anomalies of a batch at a false-discovery rate."""

import numpy as np
from jaxtyping import Bool, Float

from indubio.errors import ConfigError, DataError


def alarms(
    p_value: Float[np.ndarray, " examples"], level: float, smallest_p: Float[np.ndarray, " examples"] | float = 0.0
) -> Bool[np.ndarray, " examples"]:
    """P <= level: a false alarm for at most this share of good examples.

    Args:
        p_value: of every example.
        level: largest false-alarm rate.
        smallest_p: 1 / (n + 1); a level below it is refused, since it could raise no alarm at all.

    Examples:
        >>> import numpy as np
        >>> alarms(np.array([0.01, 0.05, 0.4]), level=0.05, smallest_p=0.01)
        array([ True,  True, False])
    """
    if not 0 < level < 1:
        raise ConfigError(f"`level` must be between 0 and 1, got {level}.")
    _require_p_values(p_value)
    smallest = float(np.max(smallest_p, initial=0.0))
    if level < smallest:
        raise ConfigError(
            f"a false-alarm rate of {level:g} needs at least {int(np.ceil(1 / level)) - 1} calibration examples: with "
            f"{round(1 / smallest) - 1} the smallest p-value is {smallest:.3g}. Calibrate on more, or raise the level."
        )
    return np.asarray(p_value <= level)


def select_anomalies(
    p_value: Float[np.ndarray, " examples"],
    fdr: float = 0.1,
    *,
    smallest_p: Float[np.ndarray, " examples"] | float = 0.0,
) -> Bool[np.ndarray, " examples"]:
    """The anomalies of a batch, of which at most this share are false, on average (Benjamini & Hochberg 1995).

    Conformal p-values of one batch share their calibration examples and so depend on each other, in the way that the
    procedure allows (Bates et al. 2023). That is proven for rows kept out (`HoldOut`), not for `CrossFit`.

    Args:
        p_value: of every example of the batch; select once, over all of it, not part by part.
        fdr: largest expected share of good examples among those selected.
        smallest_p: 1 / (n + 1); an `fdr` below it is refused, since nothing could be selected.

    Examples:
        >>> import numpy as np
        >>> select_anomalies(np.array([0.001, 0.02, 0.04, 0.5, 0.9]), fdr=0.1)
        array([ True,  True,  True, False, False])
    """
    if not 0 < fdr < 1:
        raise ConfigError("`fdr` must be between 0 and 1, got {fdr}.", fdr=fdr)
    _require_p_values(p_value)
    smallest = float(np.max(smallest_p, initial=0.0))
    if fdr < smallest:
        raise ConfigError(
            f"a false-discovery rate of {fdr:g} cannot be reached: with {round(1 / smallest) - 1} calibration examples "
            f"the smallest p-value is {smallest:.3g}, so nothing would ever be selected. Calibrate on more examples."
        )
    if len(p_value) == 0:
        return np.zeros(0, dtype=bool)
    from scipy.stats import false_discovery_control  # takes half a second to import, and few need it

    return np.asarray(false_discovery_control(p_value, method="bh") <= fdr)


def fewest_selected(examples: int, fdr: float, smallest_p: float) -> int:
    """How many of a batch must have the smallest p-value before any can be selected: smallest_p N / fdr, rounded up."""
    return int(np.ceil(examples * smallest_p / fdr * (1 - 1e-12)))


def _require_p_values(p_value: Float[np.ndarray, " examples"]) -> None:
    missing = int(np.count_nonzero(np.isnan(p_value)))
    if missing:
        raise DataError(
            "{missing} of {count} examples have no p-value. A detector gives p-values when it is calibrated on "
            "examples it was not trained on: `calibration=HoldOut()` or `calibration=CrossFit()`; and, by group, "
            "for groups that it was calibrated on.",
            missing=missing,
            count=len(p_value),
        )
