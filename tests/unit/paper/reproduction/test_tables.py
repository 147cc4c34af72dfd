"""Tables, claims and tests from records made up for the purpose, against numbers worked out by hand or by numpy."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from indubio.paper.reproduction import Cell, Record
from indubio.paper.reproduction.choice import chosen_conversions, judged_as_chosen
from indubio.paper.reproduction.claims import claims
from indubio.paper.reproduction.judgements import Judgement, within
from indubio.paper.reproduction.page import Experiment, sheets
from indubio.paper.reproduction.result_tables import Mean, auroc_by_series, gain_table, positive_runs, sizes
from indubio.paper.reproduction.statistics import models_against_deterministic, uncertainties_against_total
from indubio.report.sheets import to_csv, to_html, to_markdown
from indubio.uncertainty import UNCERTAINTIES

LEVEL = "cdf_of_mean"
MODELS = ("Deterministic AE", "BAE-Ensemble", "BAE-SGHMC")


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
        judged=tuple(judged),
    )


def made_up(seed=0, tasks=("cardio", "pima"), models=MODELS, seeds=range(3)) -> list[Record]:
    """Random W and Base for everything that a grid would judge."""
    random = np.random.default_rng(seed)
    every = dict.fromkeys([*within("cdf_of_mean"), *within("mean_of_cdf")])
    return [
        record(
            cell(task, model, run),
            [
                Judgement(conversion, uncertainty, metric, *random.uniform(0.5, 1, 2))
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


def test_a_mean_is_over_tasks_and_seeds_and_its_error_over_seeds():
    # seed 0: tasks 0.8 and 0.6; seed 1: 1.0 and 0.8; means of the seeds 70 and 90.
    mean = Mean.over([(0, 0.8), (0, 0.6), (1, 1.0), (1, 0.8)])
    assert mean.value == pytest.approx(80)
    assert mean.error == pytest.approx(np.std([70, 90], ddof=1) / np.sqrt(2))
    assert (mean.runs, mean.undefined) == (4, 0)


def test_an_undefined_run_is_left_out_and_counted():
    mean = Mean.over([(0, 0.8), (1, float("nan"))])
    assert (mean.value, mean.runs, mean.undefined) == (pytest.approx(80), 2, 1)
    assert np.isnan(mean.error)


def test_the_mean_of_the_models_leaves_out_what_the_paper_leaves_out():
    records = made_up()
    entries = {
        (entry.model, entry.uncertainty): entry
        for entry in gain_table(records, "odds", metric="gss", level=LEVEL, choice="fixed")
    }
    assert ("Deterministic AE", "epistemic") not in entries
    # One model of the paper with draws: the mean over the models is that model's, and SGHMC is no part of it.
    assert entries["Mean", "epistemic"].weighted_average == entries["BAE-Ensemble", "epistemic"].weighted_average
    both = [
        value
        for model in ("Deterministic AE", "BAE-Ensemble")
        for task in ("cardio", "pima")
        for value in weighted(records, task, model, "total", "gss", "ecdf+scale")
    ]
    assert entries["Mean", "total"].weighted_average.value == pytest.approx(100 * np.mean(both))
    assert entries["BAE-SGHMC", "total"].paper is None
    assert entries["BAE-Ensemble", "total"].paper == (88.0, 4.6)


def test_positive_runs_are_counted_for_the_models_of_the_paper_by_total_uncertainty():
    better, worse = Judgement("ecdf", "total", "gss", 0.9, 0.8), Judgement("ecdf", "total", "gss", 0.8, 0.8)
    others = (Judgement("ecdf", "epistemic", "gss", 0.9, 0.8), Judgement("ecdf", "total", "auroc", 0.9, 0.8))
    records = [
        record(cell(seed=0), [better, *others]),
        record(cell(seed=1), [worse, *others]),
        record(cell(model="BAE-SGHMC"), [better]),
    ]
    counted = {runs.conversion: runs for runs in positive_runs(records, "odds", level=LEVEL)}
    assert (counted["ecdf"].positive, counted["ecdf"].total) == (1, 2)
    assert counted["ecdf"].paper == (73, 400)
    assert counted["gaussian"].total == 0


def test_sizes_say_whether_they_are_the_papers():
    (same,) = sizes([record(cell("cardio"), [])], "odds")
    (other,) = sizes([record(cell("pima"), [])], "odds")
    assert same.agrees
    assert not other.agrees


def test_the_auroc_with_nothing_rejected_is_averaged_over_the_seeds():
    records = [
        record(cell(seed=run), [Judgement("ecdf", "total", "auroc", 0.99, base)]) for run, base in enumerate((0.9, 1))
    ]
    (mean,) = auroc_by_series(records).values()
    assert mean.value == pytest.approx(95)


def test_paired_tests_are_wilcoxons_corrected_by_holm():
    records = made_up(tasks=("cardio", "pima", "thyroid"), seeds=range(6))
    found = {one.better: one for one in models_against_deterministic(records, level=LEVEL, choice="fixed")}
    raw = {}
    for model in ("BAE-Ensemble", "BAE-SGHMC"):
        differences = np.concatenate(
            [
                np.subtract(
                    weighted(records, task, model, "total", "gss", "ecdf+scale"),
                    weighted(records, task, "Deterministic AE", "total", "gss", "ecdf+scale"),
                )
                for task in ("cardio", "pima", "thyroid")
            ]
        )
        raw[model] = wilcoxon(differences).pvalue
        assert found[model].difference == pytest.approx(100 * differences.mean())
        assert found[model].pairs == 18
        assert found[model].tasks_won == sum(part.mean() > 0 for part in differences.reshape(3, 6))
    smaller, larger = sorted(raw, key=lambda model: raw[model])
    assert found[smaller].p_pairs == pytest.approx(min(1, 2 * raw[smaller]))
    assert found[larger].p_pairs == pytest.approx(min(1, max(2 * raw[smaller], raw[larger])))


def test_a_uniform_advantage_is_significant_and_no_difference_is_not():
    records = []
    for run in range(10):
        for task in ("cardio", "pima", "thyroid", "vowels", "lympho", "optdigits"):
            values = {"total": 0.9 + 0.001 * run, "aleatoric": 0.8, "epistemic": 0.9 + 0.001 * run}
            judged = [Judgement("ecdf+scale", name, "gss", value, 0.7) for name, value in values.items()]
            records.append(record(cell(task, seed=run), judged))
    found = {one.other: one for one in uncertainties_against_total(records, level=LEVEL, choice="fixed")}
    assert found["aleatoric"].verdict == "significantly better"
    assert found["epistemic"].verdict == "not significant"
    assert found["exceed"].pairs == 0


def test_claims_compare_with_the_paper():
    judged = [Judgement(name, "total", metric, 0.95, 0.9) for name in within(LEVEL) for metric in ("gss", "auroc")]
    judged += [Judgement(name, "aleatoric", "gss", 0.96, 0.9) for name in within(LEVEL)]
    worse = [Judgement(name, "total", metric, 0.8, 0.9) for name in within(LEVEL) for metric in ("gss", "auroc")]
    found = {
        claim.sentence: claim.holds
        for claim in claims(
            [record(cell(), judged), record(cell(model="Deterministic AE"), worse)], "odds", level=LEVEL
        )
    }
    assert found["BAE-Ensemble: W^GSS by total uncertainty is at least the paper's 88.0"]
    assert found["BAE-Ensemble is better than the Deterministic AE"]
    assert not found["mean of the models: total is at least as good as aleatoric"]
    assert not found["ecdf: scaling raises the share of runs with Gain > 0"]


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
