"""What a fit costs in trained networks: `python -m experiments.posterior_costs`, the cost column of docs/posteriors.md.

CPU of `Detector(posterior=...).fit` on 2,000 rows of 6 values, against that of `Deterministic()` measured just before
it; the median of three such pairs. All settings are the defaults, cross-fitted, on one thread.
"""

import time
import warnings

import numpy as np

from indubio import Detector
from indubio.errors import MixingWarning, data_warnings_told_otherwise
from indubio.posteriors import POSTERIORS, Deterministic, Posterior

ROWS, FEATURES, PAIRS = 2000, 6, 3


def cpu_of(posterior: Posterior, rows: np.ndarray) -> float:
    """Seconds of one fit."""
    start = time.process_time()
    with data_warnings_told_otherwise(), warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)  # of draws, and not of what they cost
        Detector(posterior=posterior, seed=0).fit(rows)
    return time.process_time() - start


def main() -> None:
    """Print a line for each posterior."""
    rows = np.random.default_rng(0).normal(size=(ROWS, FEATURES))
    cpu_of(Deterministic(), rows)  # what is loaded once is loaded
    for name, posterior in POSTERIORS.items():
        pairs = [(cpu_of(Deterministic(), rows), cpu_of(posterior(), rows)) for _ in range(PAIRS)]
        ratio = np.median([fit / network for network, fit in pairs])
        print(f"{name}: {ratio:.1f} networks ({np.median([fit for _, fit in pairs]):.1f} s of CPU)", flush=True)


if __name__ == "__main__":
    main()
