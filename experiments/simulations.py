"""Promises through fitted detectors: data of a known truth is drawn, a detector fitted, fresh rows are judged.

A repetition is one fit. The rows that one fit judges share its luck, so the mean of each fit counts as one number, and
standard errors are over fits.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import IsolationForest

from experiments.results_file import Row
from indubio import AnchoredEnsemble, Budget, CrossFit, Detector, HoldOut, TargetRisk, Training
from indubio.calibration import Calibration
from indubio.detector import EnsembleDetector
from indubio.drift import DriftTest
from indubio.errors import DataError

FEATURES, FRESH = 4, 200
LEVELS = (0.01, 0.05, 0.1)
SHARES = (0.05, 0.1, 0.2)
FDR, DELTA = 0.1, 0.1
STATIONS, OFF = 5, 2.0
FAR, CLOSE = 4.0, 1.2  # standard deviations by which anomalies are off in every feature
TOLERANCE = 3.0  # standard errors
Truth = Callable[[np.random.Generator, int], np.ndarray]


def blob(random: np.random.Generator, count: int) -> np.ndarray:
    """Independent normal values."""
    return random.normal(size=(count, FEATURES))


def skewed(random: np.random.Generator, count: int) -> np.ndarray:
    """Half of the features lognormal, half with the tails of Student's t with three degrees of freedom."""
    half = (count, FEATURES // 2)
    return np.hstack([random.lognormal(sigma=1.0, size=half), random.standard_t(3, size=half)])


def counted(random: np.random.Generator, count: int) -> np.ndarray:
    """Small whole numbers: many rows are equal."""
    return random.poisson(0.7, size=(count, FEATURES)).astype(float)


def at_rest(random: np.random.Generator, count: int) -> np.ndarray:
    """A machine that rests for 30 % of the time, when all its sensors give exactly 0."""
    return np.where(random.uniform(size=(count, 1)) < 0.3, 0.0, random.normal(3.0, 1.0, size=(count, FEATURES)))


def correlated(random: np.random.Generator, count: int) -> np.ndarray:
    """One thing that all features follow, and some noise."""
    return random.normal(size=(count, 1)) + 0.3 * random.normal(size=(count, FEATURES))


TRUTHS: dict[str, Truth] = {
    "blob": blob,
    "skewed": skewed,
    "counts": counted,
    "at rest": at_rest,
    "correlated": correlated,
}
TIED = ("counts", "at rest")  # ties are on the safe side: no rate is near, only below
CALIBRATIONS: dict[str, Calibration] = {"HoldOut": HoldOut(), "CrossFit": CrossFit()}
DETECTORS = ("default", "ensemble", "isolation forest")


def fitted(
    name: str, rows: np.ndarray, seed: int, calibration: str = "CrossFit", false_alarms: float = 0.1
) -> Detector | EnsembleDetector:
    """A fitted detector."""
    common = {"calibration": CALIBRATIONS[calibration], "false_alarms": false_alarms, "seed": seed}
    if name == "isolation forest":
        forest = IsolationForest(n_estimators=10)
        return EnsembleDetector(forest, members=5, one_by_one=False, **common).fit(rows)
    if name == "ensemble":
        return Detector(posterior=AnchoredEnsemble(members=5), training=Training(epochs=5), **common).fit(rows)
    return Detector(**common).fit(rows)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often something happened.

    Args:
        rate: mean over the repetitions.
        error: its standard error.
        repetitions: how many.
        nominal: what was promised.
        near: whether the rate is promised to be near it; else to be at most that.
    """

    rate: float
    error: float
    repetitions: int
    nominal: float
    near: bool = False

    @classmethod
    def of(cls, shares: Iterable[float], nominal: float, *, near: bool = False) -> "Rate":
        """Of one share per fit."""
        values = np.fromiter(shares, dtype=float)
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        return cls(rate=float(values.mean()), error=error, repetitions=len(values), nominal=nominal, near=near)

    @classmethod
    def of_events(cls, happened: Iterable[bool], nominal: float) -> "Rate":
        """Of one yes or no per fit: the binomial error of what was promised."""
        values = np.fromiter(happened, dtype=bool)
        error = float(np.sqrt(nominal * (1 - nominal) / len(values)))
        return cls(rate=float(values.mean()), error=error, repetitions=len(values), nominal=nominal)

    @property
    def kept(self) -> bool:
        """Whether it is within three standard errors of what was promised."""
        above = self.rate - self.nominal
        return above <= TOLERANCE * self.error + 1e-12 and (not self.near or above >= -TOLERANCE * self.error - 1e-12)

    def row(self, **named: float | str) -> Row:
        """For a file of results."""
        return {**named, **vars(self), "kept": self.kept}


def attainable(level: float, reference: int) -> float:
    """P(p <= level) of scores without ties: p-values are multiples of 1 / (n + 1)."""
    return float(np.floor(level * (reference + 1) + 1e-9)) / (reference + 1)


def proven(level: float, reference: int, folds: int) -> float:
    """What cross-fitting is proven to keep to: 2a + 2(1 - a)(K - 1) / (n + K); a itself where rows are held out."""
    return level if folds == 1 else 2 * level + 2 * (1 - level) * (folds - 1) / (reference + folds)


def good_rows(cell: Row, repetitions: int) -> list[Row]:
    """Fresh good rows: their p-values, what is called an anomaly, and what is referred within a budget.

    Args:
        cell: detector, calibration, data, n and the rate of false alarms, by name.
        repetitions: how many fits.
    """
    truth, rate = TRUTHS[cell["data"]], cell["false_alarms"]
    low, referred, called = defaultdict(list), defaultdict(list), []
    for seed in range(repetitions):
        random = np.random.default_rng(seed)
        detector = fitted(cell["detector"], truth(random, cell["n"]), seed, cell["calibration"], rate)
        new = truth(random, FRESH)
        found = detector.assess(new)
        called.append(float(found.prediction.mean()))
        for level in LEVELS:
            low[level].append(float((found.p_value <= level).mean()))
        for share in SHARES:
            verdicts = detector.refer_by(Budget(share=share)).assess(new).verdict
            referred[share].append(float((verdicts == "REFER").mean()))
    assert detector.reference_ is not None
    reference, folds = detector.reference_.examples, len(detector.reference_.scores)
    free = cell["data"] not in TIED
    rows = [Rate.of(called, rate, near=free).row(promise="verdict", level=rate)]
    for level, shares in low.items():
        at_most = proven(level, reference, folds)
        rows.append(Rate.of(shares, at_most).row(promise="p-value, proven", level=level))
        close = attainable(level, reference)
        rows.append(Rate.of(shares, close, near=free).row(promise="p-value, near", level=level))
    budgets = referred.items()
    return rows + [Rate.of(shares, share, near=free).row(promise="budget", level=share) for share, shares in budgets]


def discoveries(cell: Row, repetitions: int) -> list[Row]:
    """Batches of which a tenth are anomalies: the false share of what is selected at a false-discovery rate."""
    truth, false, found_share = TRUTHS[cell["data"]], [], []
    anomalies = FRESH // 10
    for seed in range(repetitions):
        random = np.random.default_rng(seed)
        detector = fitted(cell["detector"], truth(random, cell["n"]), seed, cell["calibration"])
        new = truth(random, FRESH)
        new[:anomalies] += FAR * _spread(truth)
        selected = detector.assess(new).selected(FDR)
        false.append(selected[anomalies:].sum() / max(1, selected.sum()))
        found_share.append(selected[:anomalies].mean())
    return [Rate.of(false, FDR).row(promise="discoveries", level=FDR, found=float(np.mean(found_share)))]


def _spread(truth: Truth) -> np.ndarray:
    return np.asarray(truth(np.random.default_rng(0), 1000).std(axis=0))


def labelled(random: np.random.Generator, truth: Truth, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows as they come, of which three in ten are anomalies that overlap with the good ones."""
    rows, anomaly = truth(random, count), random.uniform(size=count) < 0.3
    rows[anomaly] += CLOSE * _spread(truth)
    return rows, anomaly


def target_risk(cell: Row, repetitions: int) -> list[Row]:
    """How often more than alpha of the accepted verdicts are wrong; nothing accepted is nothing wrong.

    The cell's `taught` says what the detector has learned from before: no labels, other labels than the rule is fitted
    on, or the same, which voids the promise.
    """
    truth, alpha = TRUTHS[cell["data"]], cell["alpha"]
    exceeded, accepted_share = [], []
    for seed in range(repetitions):
        random = np.random.default_rng(seed)
        detector = fitted(cell["detector"], truth(random, cell["n"]), seed, cell["calibration"])
        rows, labels = labelled(random, truth, cell["labelled"])
        if cell["taught"] != "none":
            taught = (rows, labels) if cell["taught"] == "the same" else labelled(random, truth, cell["labelled"])
            detector = detector.learn(*taught, recent=labelled(random, truth, FRESH)[0])
        try:
            detector = detector.refer_by(TargetRisk(alpha=alpha, delta=DELTA), rows, labels)
        except DataError:
            exceeded.append(False)
            accepted_share.append(0.0)
            continue
        new, truly = labelled(random, truth, 10_000)
        found = detector.assess(new)
        accepted = found.verdict != "REFER"
        accepted_share.append(float(accepted.mean()))
        exceeded.append(bool((found.prediction != truly)[accepted].mean() > alpha) if accepted.any() else False)
    return [Rate.of_events(exceeded, DELTA).row(promise="risk", level=DELTA, accepted=float(np.mean(accepted_share)))]


def drift(cell: Row, repetitions: int) -> list[Row]:
    """How often drift is found where nothing has changed: in independent rows, or in stations that take turns."""
    truth = TRUTHS[cell["data"]]
    alarms: dict[float, list[bool]] = defaultdict(list)

    def rows(random: np.random.Generator, count: int) -> np.ndarray:
        made = truth(random, count)
        if cell["order"] == "stations":
            made[::STATIONS] += OFF
        return made

    for seed in range(repetitions):
        random = np.random.default_rng(seed)
        training, new = rows(random, cell["n"]), rows(random, cell["new"])
        detector = fitted(cell["detector"], training, seed, cell["calibration"])
        p_value = detector.assess(new).p_value
        for alpha in LEVELS:
            monitor = detector.monitored(new, p_value, test=DriftTest(alpha=alpha))
            assert monitor is not None
            alarms[alpha].append(monitor.drift().alarm)
    return [Rate.of_events(found, alpha).row(promise="drift", level=alpha) for alpha, found in alarms.items()]


def resting(cell: Row, repetitions: int) -> list[Row]:
    """How often a row of zeros is called an anomaly, where exactly this share of the training rows are such."""
    called = []
    for seed in range(repetitions):
        random = np.random.default_rng(seed)
        rows = random.normal(3.0, 1.0, size=(cell["n"], FEATURES))
        rows[: round(cell["share"] * cell["n"])] = 0.0
        detector = fitted(cell["detector"], rows, seed, cell["calibration"], cell["false_alarms"])
        called.append(bool(detector.predict(np.zeros((1, FEATURES)))[0] == -1))
    return [Rate.of_events(called, 0.0).row(promise="at rest", level=cell["false_alarms"])]
