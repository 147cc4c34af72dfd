"""A risk that is promised after learning, through the server's own way: how often it is exceeded."""

import numpy as np
import pandas as pd
import pytest

from indubio import Detector
from indubio.data import read_table
from indubio.detector import HELD_OUT, LabelledExamples
from indubio.errors import DataError
from indubio_server.retraining.new_versions import VersionOrder, recalibrated

REPETITIONS, REVIEWED, COMING = 300, 450, 2000
ALPHA, DELTA = 0.15, 0.1


def normal(random: np.random.Generator, count: int) -> pd.DataFrame:
    return pd.DataFrame(random.normal(size=(count, 40)), columns=map(str, range(40)))


def arriving(random: np.random.Generator, count: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Examples as they come: two columns are wider than they were, and people mostly mind high values of both."""
    rows = normal(random, count) * [1.6, 1.6, *[1] * 38]
    return rows, np.asarray(rows["0"] + rows["1"] + random.normal(size=count) > 2.5)


@pytest.mark.slow
def test_a_risk_after_learning_is_kept_as_often_as_promised():
    rule = VersionOrder(
        url="", kind="recalibrate", name="", path="", out="", rule="target_risk", control_share=1.0,
        settings={"alpha": ALPHA, "delta": DELTA},
    )  # fmt: skip
    exceeded = refused = 0
    for repetition in range(REPETITIONS):
        random = np.random.default_rng([repetition, 5])
        detector = Detector(seed=repetition).fit(normal(random, 60))
        rows, anomaly = arriving(random, REVIEWED)
        reviewed = LabelledExamples(
            data=read_table(rows),
            anomaly=anomaly,
            held_out=random.uniform(size=REVIEWED) < 1 / HELD_OUT,
            as_they_come=np.ones(REVIEWED, dtype=bool),
            groups=np.full(REVIEWED, "", dtype=object),
        )
        taught = ~reviewed.held_out
        learned = detector.learn(rows[taught], anomaly[taught], recent=rows)
        new, truth = arriving(random, COMING)
        try:
            found = recalibrated(rule, learned, reviewed).assess(new)
        except DataError:  # no verdict can be accepted: no risk
            refused += 1
            continue
        accepted = found.verdict != "REFER"
        exceeded += bool(accepted.any() and (found.prediction != truth)[accepted].mean() > ALPHA)
    noise = np.sqrt(DELTA * (1 - DELTA) / REPETITIONS)
    assert refused < REPETITIONS / 2
    assert exceeded / REPETITIONS <= DELTA + 2 * noise, (exceeded, refused)
