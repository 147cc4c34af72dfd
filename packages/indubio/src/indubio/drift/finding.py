"""Drift: what the tests have found, in words and as plain data."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from indubio.drift.reference import Kind
from indubio.settings import Fraction, Settings
from indubio.texts import _, marked, written

WORDS = {
    "value": "{name}",
    "scatter": marked("scatter of {name}"),
    "within": marked("deviation within the window of {name}"),
    "score": "{name}",
}


@dataclass(frozen=True, kw_only=True)
class DriftTest(Settings):
    """How strict to be.

    Args:
        alpha: largest probability of ever raising a false alarm, over all features and the score, and over all time.
        anomalies: share of the new examples that may be anomalies without that being drift. It is also how much change
            is let pass: an average rank within half of it of 1/2 never raises an alarm.
    """

    alpha: Fraction = 0.01
    anomalies: Annotated[float, Field(ge=0, lt=1)] = 0.05


@dataclass(frozen=True, kw_only=True)
class SeriesDrift:
    """What is known of one series.

    Args:
        name: the feature, sensor or "score".
        kind: its value, its scatter, its deviation within a window, or the score.
        alarm: whether there was enough evidence of a change, at any time.
        since: the example at which there was, counted from 0 among all that came; None without an alarm.
        evidence: the largest wealth so far, relative to what an alarm needs: 1 and more is an alarm.
        rank: mean rank of the new values among the reference values, 0.5 where nothing has changed; None without any.
    """

    name: str
    kind: Kind
    alarm: bool
    since: int | None
    evidence: float
    rank: float | None

    def __str__(self) -> str:
        series = _(WORDS[self.kind], name=self.name)
        if self.rank is None:
            return series
        rank = written(f"{self.rank:.2f}")
        if self.rank > 0.5:
            return _("{series} (higher, mean rank {rank})", series=series, rank=rank)
        return _("{series} (lower, mean rank {rank})", series=series, rank=rank)


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Whether new data is like the training data.

    Args:
        examples: how many came.
        left_out: how many of them were not tested, as known anomalies are not.
        test: what was asked for.
        series: what is known of each, in the order of the reference.
        scores_tested: whether the score was tested too.
    """

    examples: int
    left_out: int
    test: DriftTest
    series: tuple[SeriesDrift, ...]
    scores_tested: bool

    @property
    def tested(self) -> int:
        """How many examples were tested."""
        return self.examples - self.left_out

    @property
    def alarm(self) -> bool:
        """Whether any series has changed."""
        return any(one.alarm for one in self.series)

    @property
    def changed(self) -> tuple[SeriesDrift, ...]:
        """The series that have changed, those whose rank moved most first."""
        return tuple(sorted((one for one in self.series if one.alarm), key=lambda one: -abs((one.rank or 0.5) - 0.5)))

    @property
    def promise(self) -> str:
        """What an alarm, and none, is worth."""
        told = _(
            "P(any false alarm, ever) <= {alpha}, for independent examples of which at most {share} % are anomalies",
            alpha=written(f"{self.test.alpha:g}"),
            share=written(f"{100 * self.test.anomalies:g}"),
        )
        if self.scores_tested:
            return told
        return _("{told}; features only: the model keeps no scores of examples it was not trained on", told=told)

    def __str__(self) -> str:
        if self.left_out and not self.tested:
            return f"not tested: all {self.examples} examples are labelled as anomalies"
        of = f"{self.examples} examples" if not self.alarm else f"{self.examples}"
        if self.left_out:
            of += f", {self.left_out} labelled as anomalies left out"
        if not self.alarm:
            return f"no drift found in {of} ({self.promise})"
        first = min(one.since for one in self.changed if one.since is not None)
        named = "; ".join(map(str, self.changed[:5]))
        more = f" and {len(self.changed) - 5} more" if len(self.changed) > 5 else ""
        return f"DRIFT since example {first} of {of}: {named}{more} ({self.promise})"

    def to_plain(self) -> dict[str, Any]:
        """The finding as a dictionary of numbers and text, ready for JSON."""
        changed = [
            {"name": one.name, "kind": one.kind, "since": one.since, "mean_rank": one.rank} for one in self.changed
        ]
        counts = {"examples": self.examples, "left_out": self.left_out}
        return {"alarm": self.alarm} | counts | {"changed": changed, "promise": self.promise}
