"""Assessment: everything a detector says of some examples, one array per statement."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from indubio.chain.explain import Contributions
from indubio.decision import Reason, Verdict
from indubio.errors import ConfigError, DataError, MissingExtraError, ShapeError, quoted
from indubio.judging import DISPLAY_FACTOR, alarms, select_anomalies

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from indubio.report import AssessmentPlots


NO_COLUMNS = ("passed", "smallest_p", "promise", "why")
TENS = np.array([float(f"1e{power}") for power in range(23)])  # those that a double holds exactly
FULL_ONLY = ("epistemic", "aleatoric", "exceed", "var_nll", "disagreement")  # not in the short set of columns
SORTED_BY = ("nll", "total")  # fewer digits would make neighbours equal, and `evaluate` find another order
DIGITS, DIGITS_TO_SORT_BY = 3, 6  # significant ones of the short set


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessment:
    """What the detector found; every field has one value per example.

    Attributes:
        verdict: INLIER, ANOMALY or REFER, as strings that equal the `Verdict` members.
        reason: why a verdict is referred: `uncertain-epistemic`, `uncertain-aleatoric`, `unfamiliar`, `bad_input`,
            `out_of_range`.
        prediction: True for what would be called an anomaly if nothing were referred.
        probability: mean anomaly probability over the draws, in [0, 1].
        epistemic: variance of the draws' probabilities: they disagree on the verdict, or too few reference examples
            tell it. In [0, 1/4].
        aleatoric: mean of p(1 - p): every draw is torn between good and bad. In [0, 1/4].
        total: their sum. In [0, 1/4].
        exceed: U_exceed of Perini et al., in [0, 1].
        var_nll: variance of the draws' scores.
        nll: mean score over the draws; high means anomalous. Use it to rank: it does not saturate as a probability
            does.
        novelty: how far it is from all that was seen; one good example in a hundred is above 1.
        p_value: conformal p-value: how rare a score this high is among good examples. NaN where the detector can give
            none; `promise` says what it promises, or why there is none.
        notes: what was wrong with the example's data, such as "missing: pressure"; "" where nothing was.
        smallest_p: the smallest p-value that each example could have; not a column of the output.
        promise: what the p-values promise, in words.
        passed: columns of the input that are passed through (ids, times); None where there are none.
        disagreement: share of the draws that do not explain the example, in [0, 1), where the referral rule goes by it;
            else None, and no column. `disagreement` of a detector gives it by itself.
        why: what made the scores of anomalies and referrals, where that was asked: `why.places` says which these are.

    Examples:
        >>> import numpy as np
        >>> from indubio import AnchoredEnsemble, Detector, Training
        >>> good = np.random.default_rng(0).normal(size=(200, 3))
        >>> detector = Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=20)).fit(good)
        >>> found = detector.assess(np.array([[0.0, 0.1, -0.2], [9.0, -9.0, 9.0]]))
        >>> len(found)
        2
        >>> bool(found.nll[1] > found.nll[0])
        True
        >>> found.alarms(0.05).tolist()
        [False, True]
        >>> found.to_arrow().column_names[:4]
        ['verdict', 'reason', 'prediction', 'probability']
        >>> found[found.verdict == "ANOMALY"]
        Assessment(1 examples: 0 INLIER, 1 ANOMALY, 0 REFER)
    """

    verdict: Shaped[np.ndarray, " examples"]
    reason: Shaped[np.ndarray, " examples"]
    prediction: Bool[np.ndarray, " examples"]
    probability: Float[np.ndarray, " examples"]
    epistemic: Float[np.ndarray, " examples"]
    aleatoric: Float[np.ndarray, " examples"]
    total: Float[np.ndarray, " examples"]
    exceed: Float[np.ndarray, " examples"]
    var_nll: Float[np.ndarray, " examples"]
    nll: Float[np.ndarray, " examples"]
    novelty: Float[np.ndarray, " examples"]
    p_value: Float[np.ndarray, " examples"]
    notes: Shaped[np.ndarray, " examples"]
    smallest_p: Float[np.ndarray, " examples"]
    promise: str
    passed: "pa.Table | None" = None
    disagreement: Float[np.ndarray, " examples"] | None = None
    why: Contributions | None = None

    def __len__(self) -> int:
        return len(self.verdict)

    def __repr__(self) -> str:
        counts = ", ".join(f"{np.count_nonzero(self.verdict == verdict)} {verdict}" for verdict in Verdict)
        return f"Assessment({len(self)} examples: {counts})"

    def __getitem__(self, which: Any) -> "Assessment":
        """Some of the examples, as an assessment of their own.

        Args:
            which: a mask, a slice, places, or one place.
        """
        places = np.atleast_1d(_places(which, len(self)))
        arrays = {
            field.name: value[places]
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)
        }
        return replace(
            self,
            **arrays,
            passed=None if self.passed is None else self.passed.take(places),
            why=None if self.why is None else self.why.of(places),
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: counts, a plot, and what is most uncertain."""
        from indubio.report import assessment_html

        return assessment_html(self)

    @property
    def plot(self) -> "AssessmentPlots":
        """Plots by name: `found.plot.uncertainty()`, `found.plot.rejection(labels)`; see `indubio.report.plots`."""
        from indubio.report import AssessmentPlots

        return AssessmentPlots(self)

    @property
    def total_percent(self) -> Float[np.ndarray, " examples"]:
        """Total uncertainty from 0 to 100: the paper multiplies by 4 so that a fair coin reads as full doubt."""
        return self.total * (100 * DISPLAY_FACTOR)

    def to_dict(self) -> dict[str, np.ndarray]:
        """The arrays by name, in the order of the columns."""
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in NO_COLUMNS}
        if self.disagreement is None:
            del found["disagreement"]
        return found

    def alarms(self, level: float) -> Bool[np.ndarray, " examples"]:
        """P <= level: raised for at most this share of good examples; see `judging.Conformal` for the promise."""
        return alarms(self.p_value, level, self.smallest_p)

    def selected(self, fdr: float = 0.1) -> Bool[np.ndarray, " examples"]:
        """The anomalies of this batch, of which at most this share are false, on average (Benjamini-Hochberg)."""
        return select_anomalies(self.p_value, fdr, smallest_p=self.smallest_p)

    def to_arrow(self, *, top: int = 0, contributions: bool = False, full: bool = True) -> "pa.Table":
        """An Arrow table, one row per example, the columns that are passed through first.

        Args:
            top: a last column of so many top features of each anomaly and referral; "" for inliers.
            contributions: also columns of what every feature adds to the score, and its spread; empty for inliers.
            full: all columns with all digits; else the columns that people read, with three significant digits (of the
                score and the total uncertainty, which examples are sorted by, six).
        """
        import pyarrow as pa

        columns = {} if self.passed is None else {name: self.passed.column(name) for name in self.passed.column_names}
        found = self.to_dict()
        taken = columns.keys() & found.keys()
        if not full:
            found = {name: _short(name, values) for name, values in found.items() if name not in FULL_ONLY}
        if taken:
            raise DataError(f"columns {quoted(sorted(taken))} of the input have names of the output. Rename them.")
        words = {"verdict": tuple(Verdict), "reason": ("", *Reason), "notes": ("",)}
        made = {
            name: _worded(values, words[name]) if name in words else pa.array(values) for name, values in found.items()
        }
        table = pa.table(columns | made)
        if (top or contributions) and self.why is None:
            raise ConfigError("nobody asked for reasons: assess(X, explain=True).")
        if top and self.why is not None:
            texts = np.full(len(self), "", dtype=object)
            texts[self.why.places] = self.why.top(top).texts()
            table = table.append_column("top_features", pa.array(texts, pa.string()))
        if contributions and self.why is not None:
            for name, made_by in self.why.columns(len(self)).items():
                column = made_by if full else significant(made_by, DIGITS)
                table = table.append_column(name, pa.array(column, from_pandas=True))  # NaN: an empty cell
        return table

    def to_pandas(self, index: Any = None) -> "pd.DataFrame":
        """A pandas DataFrame, one row per example.

        Args:
            index: row labels, for example those of the frame that was assessed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("to_pandas needs pandas: pip install pandas. to_arrow works without it.") from None
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        if index is not None and len(index) != len(frame):
            raise ShapeError(f"`index` must have a label for each of the {len(frame)} examples, got {len(index)}.")
        return frame if index is None else frame.set_axis(index, axis=0)

    def to_polars(self) -> "pl.DataFrame":
        """A polars DataFrame, one row per example."""
        try:
            import polars as pl
        except ImportError:
            raise MissingExtraError("to_polars needs polars: pip install polars. to_arrow works without it.") from None
        frame: pl.DataFrame = pl.DataFrame(self.to_arrow())
        return frame

    def summary(self, most: int = 10) -> str:
        """How many there are of each verdict, and the most anomalous with why: text for a person.

        Args:
            most: so many anomalies and referrals, the highest scores first.
        """
        from indubio.chain.most_anomalous import summary

        return summary(self, most)


OUTPUT_COLUMNS = frozenset(
    {field.name for field in fields(Assessment)} - set(NO_COLUMNS) | {"top_features", "selected"}
)  # names that columns of the input may not have beside the verdicts


def _places(which: Any, count: int) -> Int[np.ndarray, "..."]:
    """The places of some examples, however they were named."""
    chosen = which if isinstance(which, slice) else np.asarray(which)
    if isinstance(chosen, np.ndarray):
        if chosen.dtype == bool and chosen.shape != (count,):
            raise ShapeError(f"a mask must have one value for each of the {count} examples, got {chosen.shape}.")
        if chosen.size == 0:
            chosen = chosen.astype(np.int64)
        if chosen.dtype.kind not in "biu" or chosen.ndim > 1:
            raise ConfigError(f"examples are chosen by a mask, a slice or their places, got {which!r}.")
    return np.asarray(np.arange(count)[chosen])


def significant(values: Float[np.ndarray, " examples"], digits: int) -> Float[np.ndarray, " examples"]:
    """Numbers with so many significant digits; what is smaller than 1e-22 has fewer.

    Example:
        >>> significant(np.array([0.123456, -98765.4, 0.0, np.inf]), 3).tolist()
        [0.123, -98800.0, 0.0, inf]
    """
    size = np.abs(values)
    whole = np.isfinite(size) & (size > 0)
    places = digits - 1 - np.floor(np.log10(size, where=whole, out=np.zeros_like(size))).astype(np.int64)
    up, down = (TENS[np.clip(places * sign, 0, len(TENS) - 1)] for sign in (1, -1))
    return np.where(whole, np.rint(values * up / down) / up * down, values)


def _short(name: str, values: Shaped[np.ndarray, " examples"]) -> Shaped[np.ndarray, " examples"]:
    """A column of the short set."""
    if values.dtype.kind != "f":
        return values
    return significant(values, DIGITS_TO_SORT_BY if name in SORTED_BY else DIGITS)


def _worded(texts: Shaped[np.ndarray, " examples"], known: tuple[str, ...]) -> "pa.Array":
    """The texts as an Arrow array; those that are all of a few known words without turning each into a text of Arrow's.

    Args:
        texts: any.
        known: the words that all of them may be.
    """
    import pyarrow as pa

    which, counted = np.zeros(len(texts), dtype=np.int8), 0
    for place, word in enumerate(known):
        same = texts == word
        counted += int(np.count_nonzero(same))
        which += same.view(np.int8) * np.int8(place)
    if counted < len(texts):
        return pa.array(texts, pa.string())
    return pa.array(known, pa.string()).take(pa.array(which))
