"""Summaries, tables and claims from records made up for the purpose, against numbers worked out by hand or by numpy."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import wilcoxon

from indubio.judging import UNCERTAINTIES
from indubio.report import to_csv, to_html, to_markdown
from indubio_lab.paper.reproduction.cell_store import Record
from indubio_lab.paper.reproduction.cells import Cell
from indubio_lab.paper.reproduction.choice import chosen_conversions, judged_as_chosen
from indubio_lab.paper.reproduction.claims import claims
from indubio_lab.paper.reproduction.judgements import Judgement, within
from indubio_lab.paper.reproduction.page import Experiment, sheets
from indubio_lab.paper.reproduction.result_tables import Mean, auroc_by_series, gain_table, positive_runs, sizes
from indubio_lab.paper.reproduction.summary import gaps, read_summaries, summarised, write_summaries

LEVEL = "mean_of_cdf"
MODELS = ("Deterministic AE", "BAE-Ensemble", "BAE-SGHMC")
NOTHING = Judgement("ecdf", "total", "auroc", 0.9, 0.9)


def cell(task="cardio", model="BAE-Ensemble", seed=0) -> Cell:
    return Cell("odds", "text", "-", task, model, seed)


def record(of: Cell, judged) -> Record:
    return Record(
        cell=of,
        train=1324,
        inliers=331,
        anomalies=176,
        draws=10,
        cpu_seconds=60.0,
        generated=False,
        remarks=(),
        judged=tuple(judged) if any(one.metric == "auroc" for one in judged) else (*judged, NOTHING),
    )


def made_up(seed=0, tasks=("cardio", "pima"), models=MODELS, seeds=range(3)) -> list[Record]:
    """Random W and Base for everything that a grid would judge."""
    random = np.random.default_rng(seed)
    every = dict.fromkeys([*within("cdf_of_mean"), *within("mean_of_cdf")])
    return [
        record(
            cell(task, model, run),
            [
                Judgement(conversion, uncertainty, metric, *_w_and_base(random, metric))
                for conversion in every
                for uncertainty in UNCERTAINTIES
                if model != "Deterministic AE" or uncertainty not in ("epistemic", "var_nll")
                for metric in ("gss", "auroc")
            ],
        )
        for run in seeds
        for task in tasks
        for model in models
    ]


def _w_and_base(random: np.random.Generator, metric: str) -> tuple[float, float]:
    weighted, base = random.uniform(0.5, 1, 2)
    return weighted, base if metric == "gss" else 0.9  # AUROC with nothing rejected is that of the scores


def weighted(records, task, model, uncertainty, metric, conversion) -> list[float]:
    return [
        one.weighted_average
        for record in records
        if (record.cell.task, record.cell.model) == (task, model)
        for one in record.judged
        if (one.uncertainty, one.metric, one.conversion) == (uncertainty, metric, conversion)
    ]


@pytest.mark.parametrize("level", ["cdf_of_mean", "mean_of_cdf"])
@pytest.mark.parametrize("metric", ["gss", "auroc"])
def test_the_oracle_takes_the_best_of_eight_on_the_mean_over_seeds(metric, level):
    records = made_up()
    names = within(level)
    assert len(names) == 8
    chosen = chosen_conversions(records, level=level, choice="oracle")
    for task in ("cardio", "pima"):
        means = [np.mean(weighted(records, task, "BAE-Ensemble", "total", metric, name)) for name in names]
        assert chosen[cell(task).series, "total", metric] == names[int(np.argmax(means))]


def test_the_fixed_choice_is_ecdf_with_the_scaling_of_the_reading():
    records = made_up()
    assert set(chosen_conversions(records, level="cdf_of_mean", choice="fixed").values()) == {"ecdf+scale"}
    assert set(chosen_conversions(records, level="mean_of_cdf", choice="fixed").values()) == {"ecdf+scale*"}


def test_every_cell_uncertainty_and_metric_counts_once():
    records = made_up()
    counted = judged_as_chosen(records, level=LEVEL, choice="oracle")
    keys = [(of, one.uncertainty, one.metric) for of, one in counted]
    assert len(keys) == len(set(keys)) == 2 * 3 * (5 + 5 + 3) * 2


# ----- summaries


def test_a_summary_has_w_and_gain_of_the_chosen_conversion_in_percent():
    records = made_up()
    chosen = chosen_conversions(records, level=LEVEL, choice="oracle")
    formulas = chosen_conversions(records, level="cdf_of_mean", choice="oracle")
    for one, of in zip(summarised(records), records, strict=True):
        judged = {(each.conversion, each.uncertainty, each.metric): each for each in of.judged}
        for table, name, conversion in (
            ("gss", "total", chosen[of.cell.series, "total", "gss"]),
            ("auroc", "exceed", chosen[of.cell.series, "exceed", "auroc"]),
            ("formula", "total", formulas[of.cell.series, "total", "gss"]),
            ("fixed", "total", "ecdf+scale*"),
        ):
            expected = judged[conversion, name, "auroc" if table == "auroc" else "gss"]
            assert one.weighted[table, name] == 100 * expected.weighted_average
            if table in ("gss", "auroc"):
                assert one.gain(table, name) == pytest.approx(100 * expected.gain)
        assert one.gained == tuple(judged[name, "total", "gss"].gain > 0 for name in within(LEVEL))


def test_summaries_come_back_from_their_file_but_for_rounding(tmp_path):
    written = summarised(made_up())
    write_summaries(tmp_path / "cells.csv", written)
    read = read_summaries(tmp_path / "cells.csv")
    assert len((tmp_path / "cells.csv").read_text().splitlines()) == 1 + len(written)
    for one, back in zip(written, read, strict=True):
        rounded = {"weighted": {}, "gains": {}, "auroc": 0}
        assert dataclasses.replace(back, **rounded) == dataclasses.replace(one, **rounded)
        assert back.weighted == pytest.approx(one.weighted, abs=0.006)
        assert back.gains == pytest.approx(one.gains, abs=0.006)


def test_a_seed_that_is_missing_before_a_later_one_is_named():
    here = [cell(seed=0), cell(seed=2), cell("pima", seed=0), cell("pima", seed=1)]
    assert gaps(summarised([record(of, []) for of in here])) == ["ODDS, text, cardio, BAE-Ensemble, seed 1"]


# ----- tables


def test_a_mean_is_over_tasks_and_its_error_over_seeds():
    # seed 0: tasks 80 and 60; seed 1: 100 and 80; means of the seeds 70 and 90.
    mean = Mean.over([("a", 0, 80.0), ("b", 0, 60.0), ("a", 1, 100.0), ("b", 1, 80.0)])
    assert mean.value == pytest.approx(80)
    assert mean.error == pytest.approx(np.std([70, 90], ddof=1) / np.sqrt(2))
    assert (mean.runs, mean.undefined) == (4, 0)


def test_a_task_of_which_a_run_is_missing_counts_as_much_as_the_others():
    mean = Mean.over([("a", 0, 90.0), ("a", 1, 90.0), ("a", 2, 90.0), ("b", 0, 40.0), ("b", 1, 60.0)])
    assert mean.value == pytest.approx(70)
    assert mean.error == pytest.approx(0.5 * np.std([40, 60], ddof=1) / np.sqrt(2))
    assert np.isnan(Mean.over([("a", 0, 90.0), ("a", 1, 80.0), ("b", 0, 50.0)]).error)  # how far b varies is not known


def test_an_undefined_run_is_left_out_and_counted():
    mean = Mean.over([("a", 0, 80.0), ("a", 1, float("nan"))])
    assert (mean.value, mean.runs, mean.undefined) == (pytest.approx(80), 2, 1)
    assert np.isnan(mean.error)
    assert str(Mean.over([])) == "-"


def test_the_mean_of_the_models_leaves_out_what_the_paper_leaves_out():
    records = made_up()
    entries = {(entry.model, entry.uncertainty): entry for entry in gain_table(summarised(records), "gss")}
    fixed = {(entry.model, entry.uncertainty): entry for entry in gain_table(summarised(records), "fixed")}
    assert ("Deterministic AE", "epistemic") not in entries
    # One model of the paper with draws: the mean over the models is that model's, and SGHMC is no part of it.
    assert entries["Mean", "epistemic"].weighted_average == entries["BAE-Ensemble", "epistemic"].weighted_average
    both = [
        value
        for model in ("Deterministic AE", "BAE-Ensemble")
        for task in ("cardio", "pima")
        for value in weighted(records, task, model, "total", "gss", "ecdf+scale*")
    ]
    assert fixed["Mean", "total"].weighted_average.value == pytest.approx(100 * np.mean(both))
    assert entries["BAE-SGHMC", "total"].paper is None
    assert entries["BAE-Ensemble", "total"].paper == (88.0, 4.6)


def test_positive_runs_are_counted_for_the_models_of_the_paper_by_total_uncertainty():
    better, worse = ([Judgement(name, "total", "gss", w, 0.8) for name in within(LEVEL)] for w in (0.9, 0.8))
    others = (Judgement("ecdf", "epistemic", "gss", 0.9, 0.8), Judgement("ecdf", "total", "auroc", 0.9, 0.8))
    records = [
        record(cell(seed=0), [*better, *others]),
        record(cell(seed=1), [*worse, *others]),
        record(cell(model="BAE-SGHMC"), better),
    ]
    counted = {runs.conversion: runs for runs in positive_runs(summarised(records))}
    assert (counted["ecdf"].positive, counted["ecdf"].total) == (1, 2)
    assert counted["ecdf"].paper == (73, 400)
    assert counted["ecdf+scale"].paper == (332, 400)


def test_sizes_say_whether_they_are_the_papers():
    (same,) = sizes([record(cell("cardio"), [])])
    (other,) = sizes([record(cell("pima"), [])])
    assert same.agrees
    assert not other.agrees


def test_the_auroc_with_nothing_rejected_is_averaged_over_the_seeds():
    records = [
        record(cell(seed=run), [Judgement("ecdf", "total", "auroc", 0.99, base)]) for run, base in enumerate((0.9, 1))
    ]
    (mean,) = auroc_by_series(summarised(records)).values()
    assert mean.value == pytest.approx(95)


# ----- claims


def runs_of(of: str, values, judged) -> list[Record]:
    """A record for each value, of six tasks and some seeds of a model."""
    tasks = ("cardio", "pima", "thyroid", "vowels", "lympho", "optdigits")
    names = [(task, seed) for task in tasks for seed in range(len(values) // len(tasks))]
    return [record(cell(task, of, seed), judged(value)) for (task, seed), value in zip(names, values, strict=True)]


def by_total(value: float) -> list[Judgement]:
    return [Judgement(name, "total", "gss", value, 0.5) for name in within(LEVEL)]


def test_models_are_compared_by_wilcoxons_test_corrected_by_holm():
    random = np.random.default_rng(0)
    values = {name: random.uniform(0.5, 1, 36) for name in ("Deterministic AE", "VAE", "BAE-MCD")}
    records = [one for name, of in values.items() for one in runs_of(name, of, by_total)]
    found = {claim.sentence.split()[0]: claim for claim in claims(summarised(records)) if "is better" in claim.sentence}
    differences = {name: of - values["Deterministic AE"] for name, of in values.items() if name != "Deterministic AE"}
    raw = {name: wilcoxon(of).pvalue for name, of in differences.items()}
    smaller, larger = sorted(raw, key=lambda name: raw[name])
    assert found[smaller].p == pytest.approx(min(1, 2 * raw[smaller]))
    assert found[larger].p == pytest.approx(min(1, max(2 * raw[smaller], raw[larger])))
    for name, of in differences.items():
        assert found[name].holds == (of.mean() > 0)
        assert found[name].tasks == f"{(of.reshape(6, 6).mean(axis=1) > 0).sum()} of 6"
        assert (
            found[name].ours == f"{100 * values[name].mean():.1f} against {100 * values['Deterministic AE'].mean():.1f}"
        )


def test_total_is_compared_with_epistemic_on_the_models_that_have_both():
    def judged(value: float) -> list[Judgement]:
        return [*by_total(value), *(Judgement(name, "epistemic", "gss", 0.8, 0.5) for name in within(LEVEL))]

    records = [*runs_of("VAE", [0.9] * 6, judged), *runs_of("Deterministic AE", [0.1] * 6, by_total)]
    (claim, *_) = claims(summarised(records))
    assert claim.sentence == "total is at least as good as epistemic, on the models that have both"
    assert claim.ours == "90.0 against 80.0"
    assert claim.holds


def test_claims_on_the_scaling_are_counts():
    lower = {"ecdf": 0.4, "ecdf+scale*": 0.6}

    def judged(_: float) -> list[Judgement]:
        return [Judgement(name, "total", "gss", lower.get(name, 0.6), 0.5) for name in within(LEVEL)]

    found = {claim.sentence: claim for claim in claims(summarised(runs_of("VAE", [0] * 6, judged)))}
    ecdf = found["ecdf: scaling raises the share of runs with Gain > 0"]
    assert (ecdf.ours, ecdf.holds) == ("0 to 6 of 6", True)
    assert not found["gaussian: scaling raises the share of runs with Gain > 0"].holds


# ----- the page


def test_the_page_has_every_table_and_says_what_is_missing():
    records = made_up()
    cells = tuple(one.cell for one in records)
    whole = sheets(Experiment(cells, tuple(records)))
    part = sheets(Experiment((*cells, cell("vowels")), tuple(records)))
    assert "Complete." in whole[0].note
    assert "Not complete" in part[0].note
    assert f"Missing: {cell('vowels').name}." in part[0].note
    assert (
        "Missing" not in sheets(Experiment((*cells, *(cell(seed=k) for k in range(90, 120))), tuple(records)))[0].note
    )
    text = to_markdown("ODDS", whole)
    page = to_html("ODDS", [("ODDS", whole)], [])
    for sheet in whole:
        assert sheet.title in text
        assert sheet.rows
        assert all(len(row) == len(sheet.header) for row in sheet.rows)
        assert to_csv(sheet).count("\n") == 1 + len(sheet.rows)
    assert page.count("<table>") == len(whole)
    assert "[88.0 (+4.6)" in text


def test_generated_data_is_never_shown_without_saying_so():
    made = record(cell(), [])
    generated = Record(**{**vars(made), "generated": True})
    assert "generated traces, not the real data" in Experiment((made.cell,), (generated,)).title
    assert "generated" not in Experiment((made.cell,), (made,)).title
