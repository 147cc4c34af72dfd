"""From the standings to what people read: tables, figures, Markdown, CSV and one HTML page."""

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from indubio import __version__
from indubio.evaluation import critical_difference
from indubio.io import whole_file
from indubio.report import Drawing, PagePicture, Sheet, report_style, to_html, to_markdown
from indubio_lab.benchmark.drawings import WIDE, diagram_height, plot_critical_difference, plot_quality_and_cost
from indubio_lab.benchmark.measures import MEASURES, NOMINAL
from indubio_lab.benchmark.standings import PairTest, Standings

WORDS = {
    "auroc": "AUROC",
    "aupr": "AUPR",
    "gss_w": "W (GSS)",
    "false_alarms": "False alarms of the verdict",
    "errors_in_5": "Share of the errors in the first 5 %",
}
TITLE = "Detectors compared"


@dataclass(frozen=True)
class _Picture:
    """A figure that can be drawn into a page and into a file."""

    name: str
    title: str
    caption: str
    draw: Callable[[Axes], None]
    size: tuple[float, float]

    def write(self, path: Path) -> None:
        with report_style():
            figure = Figure(figsize=self.size, layout="constrained", facecolor="white")
            self.draw(figure.subplots())
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as stream:
                figure.savefig(stream, format="svg", facecolor="white", metadata={"Date": None})


def write_results(standings: Standings, chosen: str, folder: Path, *, cells: int) -> list[Path]:
    """Everything that can be said of a benchmark; gives the files for people.

    Args:
        standings: of what is done.
        chosen: the detector that is tested against each other.
        folder: where the files go: benchmark.md, cells.csv, benchmark.html and figures.
        cells: how many should be done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = write_markdown(standings, chosen, folder / "benchmark.md", cells=cells)
    drawing = Drawing()
    pictures = [
        PagePicture(one.title, one.caption, drawing.one(one.title, one.draw, one.size)) for one in _pictures(standings)
    ]
    _write(folder / "benchmark.html", to_html(TITLE, _parts(standings, chosen, cells), pictures))
    _write(folder / "cells.csv", cells_csv(standings))
    return [page, folder / "benchmark.html", folder / "cells.csv"]


def write_markdown(standings: Standings, chosen: str, path: Path, *, cells: int) -> Path:
    """The tables as a page for a repository, with the figures in the folder `images` beside it."""
    made = [sheet for _, sheets in _parts(standings, chosen, cells) for sheet in sheets]
    text = to_markdown(TITLE, made)
    for one in _pictures(standings):
        one.write(path.parent / "images" / f"{one.name}.svg")
        text += f"\n![{one.title}](images/{one.name}.svg)\n\n{one.caption}\n"
    _write(path, text)
    return path


def cells_csv(standings: Standings) -> str:
    """One row for every cell: what it is, how large, and every measure; empty where it has none."""
    sizes = ("train", "features", "inliers", "anomalies")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["collection", "set", "detector", "seed", *sizes, *MEASURES, "left_out"])
    for record in standings.records:
        outcome = record.outcome
        numbers = [_plain(math.nan if outcome.measures is None else getattr(outcome.measures, m)) for m in MEASURES]
        of_cell = [record.collection, record.task, record.detector, record.seed]
        writer.writerow([*of_cell, *(getattr(outcome, name) for name in sizes), *numbers, outcome.left_out or ""])
    return out.getvalue()


def detection_sheet(standings: Standings) -> Sheet:
    """AUROC, AUPR, ranks and cost, the best rank first."""
    league = standings.league("detection")
    ranks = {measure: standings.ranks(league, measure) for measure in ("auroc", "aupr")}
    order = sorted(league, key=lambda name: (ranks["auroc"].get(name, math.inf), -standings.mean(name, "auroc")))
    rows = tuple(
        (
            standings.contenders[name].title,
            str(len(standings.by_set(name, "auroc"))),
            _share(standings.mean(name, "auroc")),
            _share(standings.median(name, "auroc")),
            _share(standings.mean(name, "aupr")),
            _two(ranks["auroc"].get(name)),
            _two(ranks["aupr"].get(name)),
            _seconds(standings.mean(name, "fit_seconds")),
            _seconds(standings.mean(name, "score_seconds")),
            _megabytes(standings.mean(name, "model_bytes")),
        )
        for name in order
    )
    header = ("detector", "sets", "AUROC", "median", "AUPR", "rank AUROC", "rank AUPR", "fit s", "score s", "MB")
    note = (
        "Means over the sets, each the mean of its seeds. Ranks are among detectors that ran on every set; 1 is the "
        "best. Seconds are processor time. Peers are the packages' own detectors on z-scores, nothing tuned."
    )
    return Sheet("Detection", header, rows, note)


def uncertainty_sheet(standings: Standings) -> Sheet:
    """W, Gain, errors and referral, the best rank of W first."""
    league = standings.league("uncertainty")
    ranks = standings.ranks(league, "gss_w")
    order = sorted(league, key=lambda name: (ranks.get(name, math.inf), -standings.mean(name, "gss_w")))
    shares = ("auroc", "gss", "gss_w", "gss_base")
    percents = (
        "error",
        "error_accepted",
        "errors_referred",
        "referred",
        "errors_in_5",
        "errors_in_10",
        "certain_wrong",
    )
    rows = tuple(
        (
            standings.contenders[name].title,
            *(_share(standings.mean(name, measure)) for measure in shares),
            _gain(standings.mean(name, "gss_gain")),
            _two(ranks.get(name)),
            *(_percent(standings.mean(name, measure)) for measure in percents),
            "{} of {}".format(*standings.better_when_sure(name)),
            _two(standings.mean(name, "log_loss")),
            _percent(standings.mean(name, "extreme")),
            _seconds(standings.cost(name)),
        )
        for name in order
    )
    header = (
        "detector", "AUROC", "GSS", "W", "Base", "Gain", "rank W", "error %", "accepted %", "errors referred %",
        "referred %", "errors in 5 %", "errors in 10 %", "certain and wrong %",
        "sets better when sure", "log loss", "0 or 1 %", "CPU s",
    )  # fmt: skip
    note = (
        "W and Gain: GSS = sqrt(sensitivity x specificity) while verdicts are rejected by total uncertainty; Gain is W "
        "minus Base. Accepted: errors among the verdicts that are not referred. Errors in 5 %: share of the errors "
        "among the 5 % of the rows that the rule refers first. Certain and wrong: share of the "
        "anomalies with a probability and a total uncertainty below 0.05. Log loss: mean over the two classes. 0 or 1: "
        "share of the runs with a probability of exactly 0 or 1. Refits are ten of a peer through the same "
        "calibration, conversion and referral."
    )
    return Sheet("Does the uncertainty know", header, rows, note)


def _parts(standings: Standings, chosen: str, cells: int) -> list[tuple[str, list[Sheet]]]:
    whole: list[tuple[str, list[Sheet]]] = [("What was run", [_progress(standings, cells)])]
    if standings.league("detection"):
        sheets = [detection_sheet(standings), *_tests(standings, chosen, "detection", ("auroc", "aupr"))]
        whole.append(("Detection", sheets))
    if standings.league("uncertainty"):
        sheets = [uncertainty_sheet(standings), _alarms(standings)]
        whole.append(("Uncertainty", [*sheets, *_tests(standings, chosen, "uncertainty", ("gss_w",))]))
    by_set = [_by_set(standings, "detection", measure) for measure in ("auroc", "aupr")]
    if standings.league("uncertainty"):
        by_set += [_by_set(standings, "uncertainty", measure) for measure in ("gss_w", "false_alarms", "errors_in_5")]
    return [*whole, ("Set by set", [_sizes(standings), *by_set])]


def _progress(standings: Standings, cells: int) -> Sheet:
    done = standings.records
    seconds = sum(
        record.outcome.measures.fit_seconds + record.outcome.measures.score_seconds
        for record in done
        if record.outcome.measures is not None
    )
    seeds = {record.seed for record in done}
    left_out = sum(record.outcome.left_out is not None for record in done)
    note = "Complete." if len(done) == cells else "Not complete: means are over the cells that are done."
    if left_out:
        note += f" {left_out} cells were left out, since the set is too large for a slow detector."
    row = (str(len(done)), str(cells), str(len(standings.sets)), str(len(seeds)), _seconds(seconds), __version__)
    return Sheet("What was run", ("cells done", "of", "sets", "seeds", "CPU s", "version"), (row,), note)


def _alarms(standings: Standings) -> Sheet:
    rows = tuple(
        (
            standings.contenders[name].title,
            _percent(standings.mean(name, "false_alarms_p")),
            "{} of {}".format(*standings.within_noise(name, "p-value")),
            _percent(standings.mean(name, "false_alarms")),
            _percent(standings.mean(name, "rate")),
            "{} of {}".format(*standings.within_noise(name, "verdict")),
        )
        for name in standings.league("uncertainty")
    )
    header = ("detector", f"p <= {NOMINAL} %", "runs within noise", "called anomalies %", "asked for %", "within noise")
    note = (
        f"Of the test inliers. {100 * NOMINAL:g} % are promised by p-values; the verdict is asked for a rate. Noise: "
        "two standard deviations, sqrt(rate (1 - rate) (1 / inliers + 1 / train))."
    )
    return Sheet("False alarms", header, rows, note)


def _tests(standings: Standings, chosen: str, league: str, measures: Sequence[str]) -> list[Sheet]:
    names = standings.league(league)
    if chosen not in names:
        return []
    title = standings.contenders[chosen].title
    sheets = []
    for measure in measures:
        found = standings.tests(chosen, names, measure)
        header = ("against", "difference", "won", "lost", "sets", "p (Holm)", f"{title} is")
        rows = tuple(_test(standings, one) for one in found)
        note = "Wilcoxon signed rank over the sets, two-sided, corrected by Holm for the number of detectors."
        sheets += [Sheet(f"{title} against the others: {WORDS[measure]}", header, rows, note)] if rows else []
    return sheets


def _test(standings: Standings, one: PairTest) -> tuple[str, ...]:
    p = "< 0.001" if one.p < 0.001 else f"{one.p:.3f}"
    title = standings.contenders[one.other].title
    return title, _gain(one.difference), str(one.won), str(one.lost), str(one.sets), p, one.verdict


def _by_set(standings: Standings, league: str, measure: str) -> Sheet:
    names = standings.league(league)
    found = {name: standings.by_set(name, measure) for name in names}
    rows = tuple(
        (f"{collection}/{task}", *(_share(found[name].get((collection, task), math.nan)) for name in names))
        for collection, task in standings.sets
    )
    header = ("set", *(standings.contenders[name].title for name in names))
    return Sheet(f"{WORDS[measure]} set by set", header, rows)


def _sizes(standings: Standings) -> Sheet:
    found = {(record.collection, record.task): record.outcome for record in standings.records}
    rows = tuple(
        (f"{collection}/{task}", str(one.train), str(one.features), str(one.inliers), str(one.anomalies))
        for (collection, task), one in found.items()
    )
    return Sheet("Sets", ("set", "train", "features", "test inliers", "test anomalies"), rows)


def _pictures(standings: Standings) -> list[_Picture]:
    pictures: list[_Picture] = []
    for league, measure in (("detection", "auroc"), ("detection", "aupr"), ("uncertainty", "gss_w")):
        pictures += _diagram(standings, league, measure)
    for league, measure in (("detection", "auroc"), ("uncertainty", "gss_w")):
        pictures += _cost(standings, league, measure)
    return pictures


def _diagram(standings: Standings, league: str, measure: str) -> list[_Picture]:
    names = standings.league(league)
    ranks = standings.ranks(names, measure)
    sets = len(standings.table(names, measure)[1])
    if len(ranks) < 2 or sets < 2:
        return []
    titled = {standings.contenders[name].title: rank for name, rank in ranks.items()}
    draw = partial(
        plot_critical_difference,
        ranks=titled,
        difference=critical_difference(len(ranks), sets),
        ours=_ours(standings),
    )
    word = WORDS[measure]
    caption = (
        f"Average rank of {word} over {sets} sets, the best on the left. Detectors joined by a bar are not told apart "
        "by Nemenyi's test at 5 %."
    )
    size = WIDE, diagram_height(len(ranks))
    return [_Picture(f"ranks-{measure.replace('_', '-')}", f"Average ranks by {word}", caption, draw, size)]


def _cost(standings: Standings, league: str, measure: str) -> list[_Picture]:
    points = {
        standings.contenders[name].title: (standings.cost(name), standings.mean(name, measure))
        for name in standings.league(league)
    }
    points = {name: at for name, at in points.items() if all(map(math.isfinite, at)) and at[0] > 0}
    if len(points) < 2:
        return []
    word = WORDS[measure]
    draw = partial(plot_quality_and_cost, points=points, quality=f"mean {word}", ours=_ours(standings))
    caption = f"Mean {word} against processor time. The line joins those that no other beats in both."
    name = f"cost-{measure.replace('_', '-')}"
    return [_Picture(name, f"{word} against cost", caption, draw, (WIDE, 4.2))]


def _ours(standings: Standings) -> frozenset[str]:
    return frozenset(one.title for one in standings.contenders.values() if one.form == "own")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as stream:
        stream.write(text.encode())


def _plain(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _gain(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.3f}"


def _two(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.2f}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}"


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}" if value < 1 else f"{value:.1f}"


def _megabytes(value: float) -> str:
    return "-" if math.isnan(value) else f"{value / 1e6:.2f}"
