"""What to say of training examples that know each other: what was found, what follows, and what nobody can promise."""

from dataclasses import dataclass

from indubio.message import Message
from indubio.prepare.finding_rules import DataFinding
from indubio.texts import english

KINDS = frozenset({"neighbours", "unlike stretches"})  # what says that neighbours are alike
MOST_ALARMS = 1.5  # times what was asked for, on stretches that were not seen
WORST_ALARMS = 3.0  # on the worst of them
COPIES_TOLD = 0.1  # share of the examples; fewer are kept together too, and nothing follows
NOUNS = {1: english("Rows"), 2: english("Windows"), 3: english("Images")}


@dataclass(frozen=True, kw_only=True)
class DependenceFacts:
    """What was found, and how it was calibrated.

    Args:
        likeness: of neighbours; 0 where there is none.
        gap: how many examples apart they are alike.
        lasting: whether they are alike further apart too.
        runs: how many runs there are.
        copies: share of the examples that are copies of others.
        in_stretches: whether neighbours that are alike were held out together.
        unseen: whether what calibrates was not trained on.
        alarms: of each stretch, the share that the others would call anomalies; empty where it is not known.
    """

    likeness: float = 0.0
    gap: int = 0
    lasting: bool = False
    runs: int = 1
    copies: float = 0.0
    in_stretches: bool = False
    unseen: bool = True
    alarms: tuple[float, ...] = ()


def neighbours_alike(facts: DependenceFacts, usual: float, dimensions: int) -> DataFinding | None:
    """What to say where examples that follow each other are alike; else None.

    Args:
        facts: what was found.
        usual: the share of good examples that are expected to be called anomalies.
        dimensions: of an example: 1 for rows, 2 for windows, 3 for images.
    """
    if not facts.likeness:
        return None
    alarms = facts.alarms if facts.in_stretches else ()
    unlike = bool(alarms) and (_mean(alarms) > MOST_ALARMS * usual or max(alarms) > WORST_ALARMS * usual)
    kept_apart = facts.in_stretches and not unlike
    examples = NOUNS[dimensions]
    far = english(
        "{examples} that follow each other are alike, up to {gap:,} apart and more.", examples=examples, gap=facts.gap
    )
    near = english(
        "{examples} that follow each other are alike, up to about {gap:,} apart.", examples=examples, gap=facts.gap
    )
    return DataFinding(
        kind="neighbours" if kept_apart else "unlike stretches",
        what=far if facts.lasting else near,
        follows=_follows(facts, alarms),
        way_out=_way_out(facts),
    )


def _mean(alarms: tuple[float, ...]) -> float:
    return sum(alarms) / len(alarms)


def _follows(facts: DependenceFacts, alarms: tuple[float, ...]) -> Message:
    if not facts.in_stretches:
        return english(
            "What calibrates has neighbours among what trains, so later good ones are called anomalies more often than "
            "asked for."
        )
    if not alarms:
        return english("So stretches of them were held out to calibrate on.")
    return english(
        "So {count:d} stretches were held out in turn: on stretches it had not seen it would call {mean:.0f} % "
        "anomalies (best {best:.0f}, worst {worst:.0f}).",
        count=len(alarms),
        mean=100 * _mean(alarms),
        best=100 * min(alarms),
        worst=100 * max(alarms),
    )


def _way_out(facts: DependenceFacts) -> Message:
    if not facts.in_stretches:
        return Message('Leave the calibration to be chosen, or pass `calibration=CrossFit(rows="in order")`.')
    if facts.runs == 1:
        return english(
            "All are of one run: a later hour may differ, and nothing is promised of it. More runs would tell, as "
            "files of their own."
        )
    return english(
        "They are of {runs:d} runs: one more is unlike all of them with a chance of 1 in {more:d}.",
        runs=facts.runs,
        more=facts.runs + 1,
    )


def copies_together(facts: DependenceFacts) -> DataFinding | None:
    """What to say where many examples were copied, and copies were kept together; else None."""
    if facts.copies < COPIES_TOLD or not facts.unseen:
        return None
    return DataFinding(
        kind="copies",
        what=english("{copies:.0f} % of the training examples are copies of others.", copies=100 * facts.copies),
        follows=english("None is compared with what was trained on its copy; in the scores a copy counts again."),
        way_out=Message("Leave the copies out if they say nothing new."),
    )
