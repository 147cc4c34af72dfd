"""What is odd about training data, in words: what it is, what follows, and the way out.

A column that never changes, an id among the features, the same measurement twice, a label that was left in: a model is
fitted all the same, and this is said at once, before anybody relies on it.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from indubio.data import Schema
from indubio.errors import quoted
from indubio.message import Message
from indubio.prepare.oddities import ENOUGH, SLIVER, SeenExamples
from indubio.prepare.quality import QualityLimits
from indubio.texts import english

FindingKind = Literal[
    "one example",
    "few examples",
    "all equal",
    "copies",
    "label",
    "id",
    "categories",
    "constant",
    "repeated",
    "extreme",
    "frozen",
    "own anomalies",
    "levels",
    "neighbours",
    "unlike stretches",
]
LISTED = 3  # columns that are named in a sentence
APART = 5.0  # standard deviations of a machine's windows; from here on the levels of machines differ
REPEATED = (  # of one column, of two, of three
    english('"{a}" repeats "{b}"'),
    english('"{a}" repeats "{b}", "{c}" repeats "{d}"'),
    english('"{a}" repeats "{b}", "{c}" repeats "{d}", "{e}" repeats "{f}"'),
)


@dataclass(frozen=True, kw_only=True)
class DataFinding:
    """One thing that is odd about the training data.

    Args:
        kind: in a word or two.
        what: what it is, with names and numbers.
        follows: what comes of it.
        way_out: what to do.
        columns: all that are concerned.
    """

    kind: FindingKind
    what: Message
    follows: Message
    way_out: Message
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        fields = {"what": self.what, "follows": self.follows, "way_out": self.way_out}
        return Message("{what} {follows} {way_out}", **fields)


def data_findings(
    values: Float[np.ndarray, "examples ..."],
    schema: Schema,
    *,
    by_range: bool,
    quality: QualityLimits | None = None,
    examples: int | None = None,
) -> tuple[DataFinding, ...]:
    """All that is odd about training data; mostly nothing.

    Args:
        values: rows (N, D), windows (N, L, K) or images (N, H, W, C) in the order of the data, NaN where missing.
        schema: their columns, sensors or channels.
        by_range: whether values are scaled so that a few can stretch the scale of all others.
        quality: what the sensors of windows did, from `fit_quality`; None for rows.
        examples: how many there are where the values are but a sample of them, and the schema is of all; else None.

    Examples:
        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(100, 3))
        >>> rows[:, 1] = 7
        >>> [finding] = data_findings(rows, Schema.of_values(rows, ("speed", "mode", "flow")), by_range=True)
        >>> finding.kind, finding.columns, finding.what
        ('constant', ('mode',), '"mode" never changes.')
    """
    seen = SeenExamples(values=values, schema=schema, quality=quality, examples=examples)
    if seen.count == 1:
        return (_one_example(),)
    if len(seen.constant) == len(schema.columns):
        return (_all_equal(seen),)
    if not seen.enough:
        return ()
    if seen.images:
        constant = _constant(seen, seen.constant)
        return tuple(one for one in (_copies(seen), constant, _repeated(seen, seen.repeated)) if one is not None)
    told = {*seen.labels, *seen.ids, *seen.crowded}  # what goes out for this need not be spoken of again
    repeated = {name: first for name, first in seen.repeated.items() if name not in told and first not in told}
    made = (
        _copies(seen),
        _labels(seen),
        _ids(seen, [name for name in seen.ids if name not in seen.labels]),
        _crowded(seen),
        _constant(seen, [name for name in seen.constant if name not in told]),
        _repeated(seen, repeated),
        _stretched([name for name in seen.stretched if name not in told] if by_range else []),
        _stuck(seen),
    )
    return tuple(finding for finding in made if finding is not None)


def few_examples(count: int, smallest_p: float | None) -> DataFinding | None:
    """What to say where there are too few training examples to tell what is usual; else None.

    Args:
        count: training examples.
        smallest_p: the smallest p-value that there can be; None where there are none.
    """
    if not 1 < count < ENOUGH:  # of a single one more is said
        return None
    if smallest_p is None:
        follows = english(
            "There are no p-values and nothing is promised: new examples are compared with those that were trained on, "
            "and good ones are called anomalies more often than asked for."
        )
    else:
        follows = english(
            "About one good example in {many:.0f} scores above all that it is compared with, so no p-value is below "
            "{smallest:.2g}, and as many false alarms must be expected.",
            many=1 / smallest_p,
            smallest=smallest_p,
        )
    return DataFinding(
        kind="few examples",
        what=english("There are only {count:d} training examples.", count=count),
        follows=follows,
        way_out=Message("Give examples of all that is usual, at least {count}.", count=ENOUGH),
    )


def own_anomalies(called: int, reference: int, usual: float) -> DataFinding | None:
    """What to say where a detector calls far more of its own reference examples anomalies than it should; else None.

    Args:
        called: reference examples that it calls anomalies.
        reference: how many there are.
        usual: the share of good examples that are expected to be.
    """
    expected, by_chance = usual * reference, 4 * sqrt(usual * (1 - usual) * reference)
    if reference < ENOUGH or called <= max(2 * expected, expected + by_chance):
        return None
    return DataFinding(
        kind="own anomalies",
        what=english(
            "It would call {called:,} of its {reference:,} reference examples anomalies ({share:.0f} %).",
            called=called,
            reference=reference,
            share=100 * called / reference,
        ),
        follows=english(
            "{usual:.0f} % would be usual. Either they are not all good, or as many false alarms must be expected.",
            usual=100 * usual,
        ),
        way_out=Message(
            "Look at those that score highest (`suspects(detector, rows)`), or leave them out (`trimming=Trimming()`)."
        ),
    )


def machine_levels(
    values: Float[np.ndarray, "windows length sensors"], machines: Shaped[np.ndarray, " windows"], schema: Schema
) -> DataFinding | None:
    """What to say where machines that are learned together run at levels far from each other; else None.

    Args:
        values: of windows, NaN where missing.
        machines: the machine of each.
        schema: the sensors.
    """
    counts = np.count_nonzero(~np.isnan(values), axis=1)
    means = np.nansum(values, axis=1) / np.maximum(counts, 1)
    each = [means[machines == name] for name in np.unique(machines)]
    levels = np.stack([np.median(own, axis=0) for own in each])
    between, within = np.ptp(levels, axis=0), np.median([own.std(axis=0) for own in each], axis=0)
    columns = [name for name, far in zip(schema.names, between > APART * within, strict=True) if far]
    if not columns:
        return None
    first = schema.names.index(columns[0])
    return DataFinding(
        kind="levels",
        what=english(
            "{columns}: the {count:d} machines run at levels far from each other "
            '("{column}" {low:.4g} to {high:.4g}, within one ± {within:.2g}).',
            columns=named(columns),
            count=len(each),
            column=columns[0],
            low=levels[:, first].min(),
            high=levels[:, first].max(),
            within=within[first],
        ),
        follows=english("Beside that a fault of one of them is small, and may not be seen."),
        way_out=Message("Fit a model for each machine, on its data alone."),
        columns=tuple(columns),
    )


def named(columns: list[str]) -> str:
    """Names for a sentence: "a", "b", "c" and 12 more."""
    more = len(columns) - LISTED
    first = quoted(columns[:LISTED])
    return english("{columns} and {more:d} more", columns=first, more=more) if more > 0 else first


def _left_out(seen: SeenExamples, columns: list[str]) -> Message:
    """How to leave columns out."""
    if seen.images:
        return Message("`colour='grey'`")
    more = " ..." if len(columns) > LISTED else ""
    if seen.windows:
        return Message("`exclude={names}`{more}", names=columns[:LISTED], more=more)
    return Message("`ids={names}`{more}", names=columns[:LISTED], more=more)


def _one_example() -> DataFinding:
    return DataFinding(
        kind="one example",
        what=english("There is a single training example."),
        follows=english("What is usual cannot be told from it, so verdicts mean nothing."),
        way_out=Message("Give examples of all that is usual, at least {count}.", count=ENOUGH),
    )


def _all_equal(seen: SeenExamples) -> DataFinding:
    return DataFinding(
        kind="all equal",
        what=english("All {count:,} training examples are equal.", count=seen.count),
        follows=english("Every example that differs, however little, is strange beside them."),
        way_out=Message("Give examples of all that is usual."),
    )


def _copies(seen: SeenExamples) -> DataFinding | None:
    (copies, commonest), count = seen.copies, len(seen.values)
    if not copies:
        return None
    return DataFinding(
        kind="copies",
        what=english(
            "{copies:.0f} % of the training examples are copies of others; the commonest makes {commonest:.0f} %.",
            copies=100 * copies / count,
            commonest=100 * commonest / count,
        ),
        follows=english(
            "If the process repeats itself, all is well. If rows were copied, those that calibrate were trained on "
            "too, and new ones look strange beside them."
        ),
        way_out=Message("Leave the copies out then."),
    )


def _labels(seen: SeenExamples) -> DataFinding | None:
    if not seen.labels:
        return None
    name, *others = seen.labels
    return DataFinding(
        kind="label",
        what=english("{columns}: like a label, but among the features.", columns=named(seen.labels)),
        follows=english("If it is one, verdicts go by it, and new examples will have none."),
        way_out=Message(
            'Read it as one: `label="{name}"`{rest} (and `anomaly_values`, where anomalies are not 1 or true), and '
            "train on those that it calls good.",
            name=name,
            rest=Message(" and {how}", how=_left_out(seen, others)) if others else "",
        ),
        columns=tuple(seen.labels),
    )


def _ids(seen: SeenExamples, columns: list[str]) -> DataFinding | None:
    if not columns:
        return None
    return DataFinding(
        kind="id",
        what=english(
            "{columns}: another value in every {example}, counting up or down, as of an id, a counter or a time.",
            columns=named(columns),
            example=english("window") if seen.windows else english("row"),
        ),
        follows=english("New examples go on where these end, and look strange for that alone."),
        way_out=Message("Leave it out: {how}.", how=_left_out(seen, columns)),
        columns=tuple(columns),
    )


def _crowded(seen: SeenExamples) -> DataFinding | None:
    columns = list(seen.crowded)
    if not columns:
        return None
    return DataFinding(
        kind="categories",
        what=english(
            "{columns}: {categories:,} categories in {rows:,} rows.",
            columns=named(columns),
            categories=max(seen.crowded.values()),
            rows=seen.count,
        ),
        follows=english("Most come once, so those of new examples will not be known, and they are referred."),
        way_out=Message("Make fewer categories, or leave it out: {how}.", how=_left_out(seen, columns)),
        columns=tuple(columns),
    )


def _constant(seen: SeenExamples, columns: list[str]) -> DataFinding | None:
    if not columns:
        return None
    return DataFinding(
        kind="constant",
        what=english(
            english("{columns} never changes.") if len(columns) == 1 else english("{columns} never change."),
            columns=named(columns),
        ),
        follows=english("There is nothing to learn, and a new value counts by its bare difference, whatever its unit."),
        way_out=Message("Unless any change there is an anomaly, leave it out: {how}.", how=_left_out(seen, columns)),
        columns=tuple(columns),
    )


def _repeated(seen: SeenExamples, repeated: dict[str, str]) -> DataFinding | None:
    if not repeated:
        return None
    columns = list(repeated)
    pairs = [name for one in columns[:LISTED] for name in (one, repeated[one])]
    told = english(REPEATED[len(pairs) // 2 - 1], **dict(zip("abcdef", pairs, strict=False)))
    more = english(", and {more:d} more do so", more=len(columns) - LISTED) if len(columns) > LISTED else ""
    return DataFinding(
        kind="repeated",
        what=english("But for scale and shift, {told}{more}.", told=told, more=more),
        follows=english("The same measurement counts more than once in every score."),
        way_out=Message("Leave out all but one: {how}.", how=_left_out(seen, columns)),
        columns=tuple(columns),
    )


def _stretched(columns: list[str]) -> DataFinding | None:
    if not columns:
        return None
    return DataFinding(
        kind="extreme",
        what=english(
            "{columns}: a few values lie so far out that the middle 99 % fill less than {share:.0f} % of the range.",
            columns=named(columns),
            share=100 * SLIVER,
        ),
        follows=english("On this scale all others look alike, and what is strange among them is not seen."),
        way_out=Message("Look at these values; pass `scaling=Robust()`, or `trimming=Trimming()` if they are bad."),
        columns=tuple(columns),
    )


def _stuck(seen: SeenExamples) -> DataFinding | None:
    columns = list(seen.stuck)
    if not columns:
        return None
    return DataFinding(
        kind="frozen",
        what=english(
            "{columns}: no change in {share:.0f} % of the training windows, and movement all the time in the others.",
            columns=named(columns),
            share=100 * max(seen.stuck.values()),
        ),
        follows=english("It is taken for usual, so a sensor that is stuck later will not be noted as frozen."),
        way_out=Message("Leave these stretches out if it was broken."),
        columns=tuple(columns),
    )
