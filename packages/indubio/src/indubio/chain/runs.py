r"""A verdict per run: the windows of one recording, part or cycle judged together.

Of n windows, k = share n (rounded up) must be anomalous for the run to be:

    ANOMALY     at least k windows are called anomalies
    INLIER      fewer would be, even if every referred window were one
    REFER       it hangs on windows that were referred

    score, probability      the k-th largest of the windows': so many windows have at least this one
    p-value                 min(1, n / k p_(k)), p_(k) the k-th smallest of the windows'       Rüger (1978)

The windows of a run depend on each other, by overlap and because one machine made them all, so their p-values must not
be multiplied as if they were independent. Rüger's bound needs no independence: if windows of good runs have valid
p-values, P(p <= a) <= a, then on average at most n k a / n = k a of the n windows of a good run have p <= k a / n, and
by Markov's inequality k of them have with a probability of at most a. Good runs therefore raise fewer false alarms than
promised, not more. What is not promised: that windows of new runs are like those that calibrated. With few good runs
to learn from, a new one differs from all of them, and no p-value knows by how much.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from indubio.chain.assessment import Assessment
from indubio.decision import Verdict
from indubio.errors import ConfigError, DataError, ShapeError
from indubio.texts import english

SHARE = 0.5
ALL_DEPENDENT = english(
    "For a good run P(p <= a) <= a if it holds for its windows, however these depend on each other. {promise}"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunAssessment:
    """What is found of runs; every field has one value per run, in the order of their first windows.

    Attributes:
        run: name of the run.
        verdict: INLIER, ANOMALY or REFER.
        probability: at least the share of the windows that decides has this probability.
        nll: at least so many windows have this score.
        p_value: of the run; NaN where its windows have none.
        windows: how many it has.
        anomalies: how many of these are called anomalies.
        referred: how many are referred.
        start: of its first window; None where that is not known.
        end: of its last window; likewise.
        promise: what the p-values promise, in words.
    """

    run: Shaped[np.ndarray, " runs"]
    verdict: Shaped[np.ndarray, " runs"]
    probability: Float[np.ndarray, " runs"]
    nll: Float[np.ndarray, " runs"]
    p_value: Float[np.ndarray, " runs"]
    windows: Int[np.ndarray, " runs"]
    anomalies: Int[np.ndarray, " runs"]
    referred: Int[np.ndarray, " runs"]
    start: pa.Array | None
    end: pa.Array | None
    promise: str

    def __len__(self) -> int:
        return len(self.run)

    def to_arrow(self) -> pa.Table:
        """A table, one row per run."""
        times = {} if self.start is None else {"start": self.start, "end": self.end}
        text = {"run": pa.array(self.run, pa.string()), **times, "verdict": pa.array(self.verdict, pa.string())}
        numbers = ("probability", "nll", "p_value", "windows", "anomalies", "referred")
        return pa.table(text | {name: pa.array(getattr(self, name)) for name in numbers})


def assess_runs(found: Assessment, runs: Sequence[Any] | None = None, *, share: float = SHARE) -> RunAssessment:
    """The windows of each run judged together.

    Args:
        found: what `assess` found of the windows.
        runs: the run of each; None takes the group of windows, or their file where there are no groups.
        share: of a run's windows that must be anomalous for the run to be. Half suits runs that are good or bad
            throughout; a small share suits faults that come and go, and needs a smaller p-value of those windows.

    Examples:
        >>> import numpy as np
        >>> from indubio import AnchoredEnsemble, Detector, Training
        >>> from indubio.prepare import Spectra
        >>> random = np.random.default_rng(0)
        >>> good = random.normal(size=(100, 64, 1))
        >>> detector = Detector(
        ...     spectra=Spectra(), posterior=AnchoredEnsemble(members=2), training=Training(epochs=20)
        ... ).fit(good)
        >>> new = np.concatenate([random.normal(size=(5, 64, 1)), 3 * random.normal(size=(5, 64, 1))])
        >>> found = assess_runs(detector.assess(new), ["A"] * 5 + ["B"] * 5)
        >>> found.run.tolist(), found.windows.tolist()
        (['A', 'B'], [5, 5])
        >>> bool(found.p_value[1] < 0.05 < found.p_value[0])
        True
    """
    gathered = RunGatherer(share)
    gathered.add(found, runs)
    return gathered.assessed()


class RunGatherer:
    """Gathers what is found of windows, part by part, until their runs can be judged.

    Args:
        share: of a run's windows that must be anomalous for the run to be.
    """

    def __init__(self, share: float = SHARE) -> None:
        if not 0 < share <= 1:
            raise ConfigError("`share` must be above 0 and at most 1, got {share}.", share=share)
        self._share = share
        self._runs: dict[str, int] = {}
        self._which: list[np.ndarray] = []
        self._parts: list[dict[str, np.ndarray]] = []
        self._times: dict[str, list[Any]] = {"start": [], "end": []}
        self._time_type: pa.DataType | None = None
        self._promise = ""

    def add(self, found: Assessment, runs: Sequence[Any] | None = None) -> None:
        """Some more windows.

        Args:
            found: what was found of them.
            runs: the run of each, as for `assess_runs`.
        """
        names = _names(found) if runs is None else [str(name) for name in runs]
        if len(names) != len(found):
            raise ShapeError(f"`runs` must have one name per window ({len(found)}), got {len(names)}.")
        which = np.array([self._runs.setdefault(name, len(self._runs)) for name in names], dtype=np.int64)
        self._which.append(which)
        columns = ("verdict", "probability", "nll", "p_value")
        self._parts.append({name: getattr(found, name) for name in columns})
        self._promise = found.promise
        if runs is None and found.passed is not None:
            self._keep_times(found.passed, which)

    def assessed(self) -> RunAssessment:
        """The runs of all windows so far."""
        if not self._which:
            raise DataError("there are no windows, and so no runs.")
        which = np.concatenate(self._which)
        each = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        windows = np.bincount(which)
        anomalies, referred = (
            np.bincount(which[each["verdict"] == verdict], minlength=len(windows))
            for verdict in (Verdict.ANOMALY, Verdict.REFER)
        )
        needed = np.maximum(np.ceil(self._share * windows * (1 - 1e-12)), 1).astype(np.int64)
        called = np.where(anomalies >= needed, Verdict.ANOMALY.value, Verdict.INLIER.value)
        unknown = np.isnan(each["p_value"])
        p_value = _ordered(np.where(unknown, 1.0, each["p_value"]), which, needed) * (windows / needed)
        without = np.bincount(which[unknown], minlength=len(windows)) == windows
        times = {
            name: pa.array(values, self._time_type) if self._time_type is not None else None
            for name, values in self._times.items()
        }
        return RunAssessment(
            run=np.array(list(self._runs), dtype=object),
            verdict=np.where((anomalies < needed) & (anomalies + referred >= needed), Verdict.REFER.value, called),
            probability=-_ordered(-each["probability"], which, needed),
            nll=-_ordered(-each["nll"], which, needed),
            p_value=np.where(without, np.nan, np.minimum(p_value, 1.0)),
            windows=windows,
            anomalies=anomalies,
            referred=referred,
            promise=self._promise if without.all() else english(ALL_DEPENDENT, promise=self._promise),
            **times,
        )

    def _keep_times(self, passed: pa.Table, which: Int[np.ndarray, " windows"]) -> None:
        self._time_type = passed.column("start").type
        first = len(self._times["start"])
        for run, start, end in zip(
            which.tolist(), passed.column("start").to_pylist(), passed.column("end").to_pylist(), strict=True
        ):
            if run >= first:
                self._times["start"].append(start)
                self._times["end"].append(end)
                first += 1
            self._times["end"][run] = end


def knows_runs(found: Assessment) -> bool:
    """Whether the examples say which run they are of, as windows of a recording do."""
    return found.passed is not None and {"file", "group", "start", "end"} <= set(found.passed.column_names)


def _names(found: Assessment) -> list[str]:
    passed = found.passed
    if passed is None or not knows_runs(found):
        raise DataError("these examples do not say which run they are of. Assess `Windows`, or pass `runs`.")
    both = zip(passed.column("group").to_pylist(), passed.column("file").to_pylist(), strict=True)
    return [str(group if group is not None else "" if file is None else file) for group, file in both]


def _ordered(
    values: Float[np.ndarray, " windows"], which: Int[np.ndarray, " windows"], needed: Int[np.ndarray, " runs"]
) -> Float[np.ndarray, " runs"]:
    """The k-th smallest value of each run."""
    order = np.lexsort((values, which))
    starts = np.searchsorted(which[order], np.arange(len(needed)))
    return np.asarray(values[order[starts + needed - 1]], dtype=np.float64)
