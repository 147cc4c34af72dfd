"""Means, ranks and tests, from records made by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from indubio_lab.benchmark import OURS, PEERS, BenchmarkRecord, Measures, Standings, cells_csv, write_markdown
from indubio_lab.benchmark.benchmark_cell import BenchmarkOutcome
from indubio_lab.benchmark.drawings import not_told_apart, pareto_front

WHO = [OURS["default"], PEERS["knn"], PEERS["lof"], PEERS["knn"].refits()]


def record(task, detector, seed=0, train=1000, inliers=1000, **measures) -> BenchmarkRecord:
    numbers = {"auroc": 0.5, "aupr": 0.5, "fit_seconds": 1.0, "score_seconds": 0.5} | measures
    outcome = BenchmarkOutcome(train=train, features=3, inliers=inliers, anomalies=9, measures=Measures(**numbers))
    return BenchmarkRecord(collection="c", task=task, detector=detector, seed=seed, outcome=outcome)


def left_out(task, detector) -> BenchmarkRecord:
    outcome = BenchmarkOutcome(train=9, features=3, inliers=9, anomalies=9, measures=None, left_out="too large")
    return BenchmarkRecord(collection="c", task=task, detector=detector, seed=0, outcome=outcome)


def filled(sets: int = 12) -> tuple[Standings, dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    values = {name: random.random((sets, 2)) for name in ("default", "knn", "lof")}
    records = [
        record(f"s{place}", name, seed, auroc=values[name][place, seed])
        for place in range(sets)
        for name in values
        for seed in range(2)
    ]
    return Standings.of(WHO, records), {name: value.mean(axis=1) for name, value in values.items()}


def test_a_set_is_the_mean_of_its_seeds_and_sets_count_alike():
    standings = Standings.of(
        WHO, [record("a", "knn", 0, auroc=0.2), record("a", "knn", 1, auroc=0.4), record("b", "knn", 0, auroc=0.9)]
    )
    assert standings.by_set("knn", "auroc") == {("c", "a"): pytest.approx(0.3), ("c", "b"): 0.9}
    assert standings.mean("knn", "auroc") == pytest.approx(0.6)
    assert standings.cost("knn") == 1.5


def test_ranks_are_scipys_over_the_sets():
    standings, means = filled()
    table = np.column_stack(list(means.values()))
    expected = stats.rankdata(-table, axis=1).mean(axis=0)
    assert standings.ranks(list(means), "auroc") == pytest.approx(dict(zip(means, expected, strict=True)))
    low = stats.rankdata(np.column_stack([np.full(12, 1.0)] * 3), axis=1).mean(axis=0)
    assert list(standings.ranks(list(means), "fit_seconds").values()) == pytest.approx(low.tolist())


def test_a_test_is_wilcoxons_over_the_sets_corrected_by_holm():
    standings, means = filled()
    found = {one.other: one for one in standings.tests("default", list(means), "auroc")}
    raw = {other: stats.wilcoxon(means["default"] - means[other]).pvalue for other in ("knn", "lof")}
    first, second = sorted(raw, key=lambda other: raw[other])
    assert found[first].p == pytest.approx(min(1, 2 * raw[first]))
    assert found[second].p == pytest.approx(min(1, max(2 * raw[first], raw[second])))
    assert found["knn"].difference == pytest.approx((means["default"] - means["knn"]).mean())
    assert found["knn"].won == (means["default"] > means["knn"]).sum()
    assert found["knn"].lost == 12 - found["knn"].won


def test_less_is_better_where_it_is_a_cost():
    records = [
        record(f"s{place}", name, error=value) for place in range(9) for name, value in (("default", 0.1), ("knn", 0.2))
    ]
    (one,) = Standings.of(WHO, records).tests("default", ["default", "knn"], "error")
    assert (one.won, one.lost) == (9, 0)
    assert one.verdict == "significantly better"


def test_who_did_not_run_on_every_set_is_not_ranked_but_tested_on_those_it_did():
    records = [record(task, name) for task in "ab" for name in ("default", "knn")]
    standings = Standings.of(WHO, [*records, record("a", "lof"), left_out("b", "lof")])
    assert standings.ranks(["default", "knn", "lof"], "auroc").keys() == {"default", "knn"}
    assert {one.other: one.sets for one in standings.tests("default", ["knn", "lof"], "auroc")} == {"knn": 2, "lof": 1}
    assert "too large" in cells_csv(standings)


def test_sets_without_a_number_for_all_are_left_out_of_the_ranks():
    records = [record("a", "default", gss_w=0.8), record("a", "knn-refits", gss_w=0.9)]
    records += [record("b", "default", gss_w=math.nan), record("b", "knn-refits", gss_w=0.9)]
    assert Standings.of(WHO, records).ranks(["default", "knn-refits"], "gss_w") == {"default": 2, "knn-refits": 1}


def test_plain_peers_detect_and_refits_are_unsure():
    standings = Standings.of(WHO, [record("a", one.name) for one in WHO])
    assert standings.league("detection") == ["default", "knn", "lof"]
    assert standings.league("uncertainty") == ["default", "knn-refits"]


def test_false_alarms_are_within_two_standard_deviations_or_not():
    noise = 2 * math.sqrt(0.05 * 0.95 * (1 / 1000 + 1 / 1000))
    shares = (0.05, 0.05 + 0.99 * noise, 0.05 + 1.01 * noise, math.nan)
    records = [record(f"s{place}", "default", false_alarms_p=share) for place, share in enumerate(shares)]
    assert Standings.of(WHO, records).within_noise("default", "p-value") == (2, 3)
    of_verdicts = [record(f"s{place}", "default", false_alarms=share, rate=0.05) for place, share in enumerate(shares)]
    assert Standings.of(WHO, of_verdicts).within_noise("default", "verdict") == (2, 3)


def test_sets_are_counted_on_which_the_accepted_are_wrong_less_often():
    errors = [(0.2, 0.1), (0.2, 0.3), (0.0, 0.0)]
    records = [record(f"s{n}", "default", error=e, error_accepted=a) for n, (e, a) in enumerate(errors)]
    assert Standings.of(WHO, records).better_when_sure("default") == (1, 2)


def test_the_csv_has_a_row_for_every_cell():
    standings, _ = filled(3)
    header, *rows = cells_csv(standings).splitlines()
    assert len(rows) == 3 * 3 * 2
    assert header.startswith("collection,set,detector,seed,train,")
    assert rows[0].split(",")[:4] == ["c", "s0", "default", "0"]


def test_a_page_has_the_figures_beside_it(tmp_path):
    standings, _ = filled()
    text = write_markdown(standings, "default", tmp_path / "page.md", cells=72).read_text()
    assert "Complete." in text
    for name in ("ranks-auroc", "ranks-aupr", "cost-auroc"):
        assert f"](images/{name}.svg)" in text
        assert (tmp_path / "images" / f"{name}.svg").read_text().startswith("<?xml")
    again = {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()}
    write_markdown(standings, "default", tmp_path / "page.md", cells=72)
    assert again == {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()}


def test_groups_that_are_not_told_apart_are_the_largest_ones():
    assert not_told_apart([1.0, 1.1, 1.2, 3.0], 0.5) == [(0, 2)]
    assert not_told_apart([1.0, 2.0, 3.0], 0.5) == []


def test_the_front_is_what_no_other_beats_in_both():
    points = [(1.0, 0.5), (1.0, 0.6), (2.0, 0.6), (3.0, 0.9), (0.5, 0.1)]
    front = pareto_front(points)
    assert front == [(0.5, 0.1), (1.0, 0.6), (3.0, 0.9)]
    for cost, quality in points:
        assert (cost, quality) in front or any(c <= cost and q >= quality for c, q in front)
