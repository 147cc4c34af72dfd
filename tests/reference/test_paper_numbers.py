"""The paper's numbers in our data file, compared with the paper's own source where that is at hand."""

import os
import re
from pathlib import Path

import pytest

from indubio.judging import UNCERTAINTIES
from indubio_lab.collections import DATASETS
from indubio_lab.paper.reproduction import published as paper

CONVERSIONS = {"ECDF": "ecdf", "Gaussian": "gaussian", "Exponen.": "exponential", "Uniform": "uniform"}
COLLECTIONS = ("odds", "zema", "strath")
TASKS = {"lactpos": "L_ACTpos", "aactspd": "A_ACTspd", "feedbackspa": "Feedback_SPA", "allsensors": "all"}


@pytest.fixture(scope="module")
def source() -> str:
    path = os.environ.get("INDUBIO_PAPER")
    if not path:
        pytest.skip("INDUBIO_PAPER does not name the paper's source")
    return Path(path).read_text()


def table(source: str, label: str) -> list[list[str]]:
    """Rows of the table that has this label, as cells without their markup."""
    end = source.index(rf"\label{{{label}}}")
    start = source.rindex(r"\begin{table}", 0, end)
    return [cells(line) for line in source[start:end].splitlines()]


def cells(line: str) -> list[str]:
    plain = re.sub(r"\\textbf\{(.*?)\}", r"\1", re.sub(r"\\\\|\\(mid|bottom|top)rule", "", line))
    return [cell.strip() for cell in plain.split("&")]


def sections(rows: list[list[str]], heading: str) -> dict[str, list[list[str]]]:
    """The rows under each collection's heading."""
    found: dict[str, list[list[str]]] = {}
    for row in rows:
        match = re.search(heading, row[0])
        if match:
            found[match[1].lower()] = []
        elif found:
            found[list(found)[-1]].append(row)
    return found


@pytest.mark.parametrize(("metric", "label"), [("gss", "table:retained"), ("auroc", "table:app-wauroc")])
def test_the_weighted_averages_and_gains_are_those_of_the_paper(metric, label, source):
    parts = sections(table(source, label), r"\\caption\{(ODDS|ZeMA|STRATH)\}")
    assert tuple(parts) == COLLECTIONS
    for collection, rows in parts.items():
        models = [row for row in rows if len(row) == 6 and "(" in row[2]]
        assert [row[0] for row in models] == [*paper.MODELS_OF_THE_PAPER, paper.MEAN]
        for model, *values in models:
            for uncertainty, text in zip(UNCERTAINTIES, values, strict=True):
                match = re.fullmatch(r"([\d.]+)\(([+-]?[\d.]+)\)", text)
                expected = None if text == "-" else (float(match[1]), float(match[2]))
                assert paper.weighted_average_and_gain(metric, collection, model, uncertainty) == expected


def test_the_sizes_of_the_datasets_are_those_of_the_paper(source):
    parts = sections(table(source, "table:datasets"), r"^(ODDS|ZeMA|STRATH)$")
    assert tuple(parts) == COLLECTIONS
    for collection, rows in parts.items():
        tasks = [(re.sub(r"^\([ivx]+\) ", "", row[0]), row[1:]) for row in rows if row[0].startswith("(")]
        ours = [TASKS.get(re.sub(r"[- ]", "", name).lower(), name.lower()) for name, _ in tasks]
        assert tuple(ours) == DATASETS[collection].tasks
        for task, (_, counts) in zip(ours, tasks, strict=True):
            assert paper.sizes(collection, task) == tuple(map(int, counts))


def test_the_counts_of_positive_runs_are_those_of_the_paper(source):
    rows = [row for row in table(source, "table:dist-positives") if len(row) == 4 and "/" in row[1]]
    assert len(rows) == 8
    for name, *shares in rows:
        base, *scaled = name.split(" + ")
        conversion = CONVERSIONS[base] + ("+scale" if scaled else "")
        for collection, share in zip(COLLECTIONS, shares, strict=True):
            expected = tuple(map(int, re.search(r"\((\d+)/(\d+)\)", share).groups()))
            assert paper.positive_runs(collection, conversion) == expected
