"""The tables of docs/reproduction.md and docs/posteriors.md are those of the committed line of each cell."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from docs.make_reproduction import END, START, SUMMARY, TABLES, TITLES, filled

from experiments.paper import CHANGES, EXPERIMENTS, cells
from indubio_lab.paper.reproduction import published
from indubio_lab.paper.reproduction.summary import read_summaries

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, str]]:
    with SUMMARY.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("page", "block"), [(page, block) for page, blocks in TABLES.items() for block in blocks])
def test_every_table_is_made_of_the_cells_that_are_kept(page, block):
    text = (ROOT / page).read_text()
    assert filled(text, block, TABLES[page][block](read_summaries(SUMMARY))) == text


def test_a_number_of_the_page_is_the_mean_over_tasks_of_the_means_over_seeds(lines):
    text = (ROOT / "docs/reproduction.md").read_text()
    table = text.split(START.format(name="summary"))[1].split(END)[0]
    for column, protocol in ((4, "text"), (6, "authors")):
        for model in published.MODELS_OF_THE_PAPER:
            (row,) = (line.split("|") for line in table.splitlines() if line.startswith(f"| ODDS, {model} "))
            if row[column].strip() == "-":
                continue
            by_task: dict[str, list[float]] = {}
            for line in lines:
                place = (line["collection"], line["protocol"], line["variant"], line["model"])
                if place == ("odds", protocol, "-", model):
                    by_task.setdefault(line["task"], []).append(float(line["gss total"]))
            there = re.search(r"\((\d) of 8 tasks\)", row[column])
            assert len(by_task) == (int(there[1]) if there else 8)
            expected = np.mean([np.mean(values) for values in by_task.values()])
            assert float(re.search(r"\d+\.\d", row[column])[0]) == pytest.approx(expected, abs=0.0501)


def test_a_cell_has_one_line_and_is_one_of_those_that_are_to_be_run(lines):
    keys = ("collection", "protocol", "sensors", "variant", "task", "model")
    there = [(*(line[name] for name in keys), int(line["seed"])) for line in lines]
    asked = {(*(getattr(cell, name) for name in keys), cell.seed) for cell in cells()}
    assert len(set(there)) == len(there)
    assert set(there) <= asked


def test_three_seeds_of_every_task_and_model_come_before_further_ones():
    ordered = [cell for cell in cells() if cell.variant == "-" and cell.model in published.MODELS_OF_THE_PAPER]
    first = [cell for cell in ordered if cell.seed < 3]
    assert ordered[: len(first)] == first
    assert len(ordered) == 5 * 10 * (8 + 8 + 4 + 4 + 4)


def test_every_experiment_has_a_title_and_every_change_an_experiment():
    assert set(TITLES) == set(EXPERIMENTS)
    assert set(CHANGES) <= set(EXPERIMENTS)
