"""Truth by verdict, for people: what is missed, false alarms, and what referral bought."""

from rich.table import Table
from rich.text import Text

from indubio.cli.worst import COLOURS
from indubio.decision import Verdict
from indubio.evaluation import TruthByVerdict, VerdictErrors


def truth_table(truth: TruthByVerdict, good: str = "good", anomaly: str = "anomaly") -> Table:
    """How many of each kind have which verdict."""
    table = Table(title="Truth by verdict", title_justify="left", title_style="bold")
    table.add_column("truth")
    for verdict in Verdict:
        table.add_column(Text(verdict, style=COLOURS[verdict]), justify="right")
    table.add_column("all", justify="right")
    for name, counts in ((good, truth.good), (anomaly, truth.anomalies)):
        table.add_row(name, *map(str, counts), str(sum(counts)))
    return table


def truth_lines(truth: TruthByVerdict, bought: tuple[VerdictErrors, VerdictErrors] | None = None) -> Table:
    """What the table means, a line each.

    Args:
        truth: the counts.
        bought: errors without referral and with it, where there is one.
    """
    good, anomalies, called = sum(truth.good), sum(truth.anomalies), truth.good[1] + truth.anomalies[1]
    referred = f"; {truth.found_or_referred:.1%} with those that are referred" if truth.anomalies[2] else ""
    alarms = f"{truth.false_alarms} of {good} good ones: {truth.false_alarms_in_1000:.3g} in 1,000"
    lines = {
        "missed": f"{truth.missed} of {anomalies} anomalies pass as inliers ({_percent(truth.missed, anomalies)})",
        "false alarms": alarms,
        "precision": f"{_percent(truth.anomalies[1], called)} of the {called} called anomalies are such",
        "recall": f"{_percent(truth.anomalies[1], anomalies)} of the anomalies are called so{referred}",
    }
    if bought is not None:
        lines["referral"] = _bought(*bought)
    table = Table.grid(padding=(0, 2))
    for name, words in lines.items():
        table.add_row(Text(name, style="bold"), f"{words}.")
    return table


def _bought(without: VerdictErrors, referring: VerdictErrors) -> str:
    looked_at, caught = without.verdicts - referring.verdicts, without.wrong - referring.wrong
    return (
        f"a person looks at {looked_at} of {without.verdicts} ({looked_at / without.verdicts:.1%}) and sees {caught} "
        f"of the {without.wrong} errors: {without.share:.1%} of all verdicts are wrong, and {referring.share:.1%} of "
        "those that are accepted"
    )


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"
