r"""Is new data still like the training data? Tests whose chance of ever raising a false alarm is bounded.

Every feature (its value, and its distance from its usual value, which grows when it scatters more), every sensor of a
window (its mean, that mean's distance from usual, its deviation within the window) and the score is a series. Each new
value becomes its rank r among the reference values, in [0, 1] and 1/2 on average as long as nothing has changed. A bet
against that, with stake e in (-2, 2), multiplies its wealth by

    (1 + e (r - 1/2)) / (1 + |e| (c + a/2))        c = sqrt(log(4 / level) / 6 n),  n reference values

c is how far the average rank can be from 1/2 by the luck of the reference (given it, ranks of new values average the n
uniform ranks of the reference values, whose mean is sub-Gaussian with variance 1 / 12 n), and a is the share of the
new examples that may be anomalies without that being drift. So while nothing has changed no bet is expected to gain,
and by Ville's inequality the mixed wealth ever reaches 2 / level with probability at most level / 2; the luck of the
reference takes the other half. The levels of all series add up to alpha.

The mixture is over stakes and over the times to start betting, the k-th with weight 1/log2(k+1) - 1/log2(k+2): a change
after long quiet is found as well as an early one, up to a delay that grows with the logarithm of the time before it.

It holds for new examples that are independent of each other and of the reference. The rank of a score is one minus
its conformal p-value, so there is no score series for a model without calibration scores. With p-values from several
parts of the draws the rank is the mean of ranks that are each 1/2 on average; n is then the size of one part. P-values
count ties against the example, so only rising scores are bet on. Windows that overlap, or a process that wanders
slowly, are not independent: they raise more alarms, and rightly so if the training data did not cover the wandering.
Bins: edges come from a random fifth of the reference rows, counts from the others, so that the edges are fixed when the
counts are taken; within a bin the rank is the middle one, which takes nothing from the above. Rows that come in turns,
such as those of several stations, may do so: over a turn their ranks average what those of the reference do.

Ville 1939; Vovk, Gammerman & Shafer 2005 (martingales of ranks); Shafer & Vovk 2019 (testing by betting).
"""

from indubio.drift.finding import Drift, DriftTest, SeriesDrift
from indubio.drift.monitor import DriftMonitor
from indubio.drift.reference import DriftReference, Kind

__all__ = ["Drift", "DriftMonitor", "DriftReference", "DriftTest", "Kind", "SeriesDrift"]
