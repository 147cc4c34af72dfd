"""New versions from people's labels: other rules, and new training; both versions measured side by side."""

import gzip
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from indubio import Detector
from indubio.data import Reading, Roles, read_table
from indubio.decision import Cost, TargetRisk
from indubio.errors import ConfigError, DataError
from indubio.storage import load, save
from indubio_server.retraining import Jobs
from indubio_server.retraining.new_versions import VersionOrder, make_version
from indubio_server.server_settings import ServerSettings
from indubio_server.store import JobStatus, all_jobs, chosen_cases, review
from indubio_server.store.jobs import job_by_id
from tests.machine_recordings import READING, recorded, write_recording
from tests.review_server import Running, logged_in, running, token
from tests.served import NAMES, QUICK, good_rows, table_model

SIZE, ANOMALIES = 90, 12


def told(share: float, message: str) -> None:
    assert 0 <= share <= 1
    assert message


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """A server whose every verdict is kept for control, and all of them reviewed."""
    folder = tmp_path_factory.mktemp("making")
    good_rows().to_csv(folder / "good.csv", index=False)
    with running(table_model(folder / "fitted"), folder, control_share=1.0) as server:
        rows = good_rows(SIZE, seed=5).to_numpy()
        server.assess(np.concatenate([rows[:ANOMALIES] + 6.0, rows[ANOMALIES:]]))
        for place, case in enumerate(server.store.read(chosen_cases)):
            label: Any = "A" if place < ANOMALIES else "I"
            server.store.write(lambda c, case=case, label=label: review(c, case.id, "ada", label))
        yield server, folder


def order(reviewed: tuple[Running, Path], out: Path, **more: Any) -> VersionOrder:
    server, folder = reviewed
    plain = {"url": server.store.database.url, "name": "press", "path": str(folder / "press"), "control_share": 1.0}
    return VersionOrder(**plain | {"kind": "recalibrate", "out": str(out)} | more)


def test_a_rule_by_cost_refers_where_a_look_is_cheaper(reviewed: tuple[Running, Path], tmp_path: Path) -> None:
    costs = {"missed_anomaly": 20.0, "false_alarm": 5.0, "review": 1.0}
    found = make_version(order(reviewed, tmp_path / "new", rule="cost", settings=costs), told)
    new = load(tmp_path / "new")
    common = (ANOMALIES + 0.5) / (SIZE + 1)  # learned from the reviews, which are of all verdicts
    assert new.referral == Cost(**costs, prevalence=common)
    assert new.decision_threshold == pytest.approx(5 * (1 - common) / (5 * (1 - common) + 20 * common))
    assert (found["cases"], found["anomalies"]) == (SIZE, ANOMALIES)
    assert found["present"].keys() == found["new"].keys()
    make_version(order(reviewed, tmp_path / "said", rule="cost", settings=costs | {"prevalence": 0.5}), told)
    assert load(tmp_path / "said").decision_threshold == 0.2
    with pytest.raises(ConfigError, match="Or say the prevalence"):
        make_version(order(reviewed, tmp_path / "no", rule="cost", settings=costs, control_share=0.0), told)


def test_a_target_risk_is_fitted_on_cases_as_they_come(reviewed: tuple[Running, Path], tmp_path: Path) -> None:
    wanted = {"alpha": 0.3, "delta": 0.1}
    found = make_version(order(reviewed, tmp_path / "new", rule="target_risk", settings=wanted), told)
    new = load(tmp_path / "new")
    assert new.referral == TargetRisk(**wanted)
    rows, anomaly, held_out = all_reviewed(reviewed)
    by_hand = load(reviewed[1] / "press").refer_by(new.referral, read_table(rows[held_out]), anomaly[held_out])
    assert new.referral_threshold_ == by_hand.referral_threshold_
    accepted = 1 - found["new"]["referred"]
    assert found["new"]["wrong_accepted"] <= 0.3 * accepted
    with pytest.raises(ConfigError, match="--control-share"):
        make_version(order(reviewed, tmp_path / "no", rule="target_risk", settings=wanted, control_share=0.0), told)
    needed = TargetRisk(alpha=0.001).fewest
    with pytest.raises(DataError, match=f"at least {needed} .* there are {held_out.sum()}: of {SIZE} reviewed ones"):
        make_version(order(reviewed, tmp_path / "no", rule="target_risk", settings=wanted | {"alpha": 0.001}), told)


def all_reviewed(reviewed: tuple[Running, Path]) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The rows of all cases, what people said, and which of them never teach."""
    rows = good_rows(SIZE, seed=5)
    rows.iloc[:ANOMALIES] += 6.0
    references = [case.reference for case in reviewed[0].store.read(chosen_cases)]
    return rows, np.arange(SIZE) < ANOMALIES, np.array([int(one[:8], 16) % 3 == 0 for one in references])


def test_a_risk_after_learning_is_promised_on_cases_that_taught_nothing(
    reviewed: tuple[Running, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, pd.DataFrame]] = []
    learn, refer_by = Detector.learn, Detector.refer_by

    def learned(self: Detector, X: Any, y: Any, **more: Any) -> Detector:
        seen.append(("taught", X.features.to_pandas()))
        return learn(self, X, y, **more)

    def referring(self: Detector, rule: Any, X: Any = None, y: Any = None, **more: Any) -> Detector:
        if y is not None:
            seen.append(("promised on", X.features.to_pandas()))
        return refer_by(self, rule, X, y, **more)

    monkeypatch.setattr(Detector, "learn", learned)
    monkeypatch.setattr(Detector, "refer_by", referring)
    make_version(order(reviewed, tmp_path / "learned", kind="learn"), told)
    again = {"path": str(tmp_path / "learned"), "rule": "target_risk", "settings": {"alpha": 0.3, "delta": 0.1}}
    found = make_version(order(reviewed, tmp_path / "new", **again), told)
    _, _, held_out = all_reviewed(reviewed)
    assert [what for what, _ in seen] == ["taught", "promised on"]
    (_, taught), (_, promised) = seen
    assert (len(taught), len(promised)) == ((~held_out).sum(), held_out.sum())
    assert not set(taught.itertuples(index=False)) & set(promised.itertuples(index=False))
    assert found["cases"] == held_out.sum()


def test_new_training_is_an_update_with_the_confirmed_inliers(reviewed: tuple[Running, Path], tmp_path: Path) -> None:
    server, folder = reviewed
    found = make_version(order(reviewed, tmp_path / "new", kind="retrain", training=str(folder / "good.csv")), told)
    cases = server.store.read(chosen_cases)
    trained = [place >= ANOMALIES and int(case.reference[:8], 16) % 3 > 0 for place, case in enumerate(cases)]
    confirmed = good_rows(SIZE, seed=5)[np.array(trained)]
    by_hand = load(folder / "press").update(read_table(confirmed), training_data=read_table(good_rows()))
    rows = good_rows(7, seed=6)[list(NAMES)]
    np.testing.assert_allclose(load(tmp_path / "new").nll(read_table(rows)), by_hand.nll(read_table(rows)), rtol=1e-5)
    assert found["confirmed"] == sum(trained)
    assert found["cases"] == SIZE - sum(trained)


def test_a_rule_that_needs_labels_is_fitted_again_after_new_training(
    reviewed: tuple[Running, Path], tmp_path: Path
) -> None:
    by_risk = load(reviewed[1] / "press")
    rows = good_rows(60, seed=8).to_numpy()
    labelled = read_table(good_rows(60, seed=8))
    by_risk = by_risk.refer_by(TargetRisk(alpha=0.4), labelled, np.zeros(len(rows), dtype=bool))
    save(by_risk, tmp_path / "by risk")
    again = {"kind": "retrain", "path": str(tmp_path / "by risk"), "training": str(reviewed[1] / "good.csv")}
    make_version(order(reviewed, tmp_path / "new", **again), told)
    assert load(tmp_path / "new").referral == TargetRisk(alpha=0.4)


def test_a_version_learns_from_both_kinds_of_labels_and_is_compared_on_others(
    reviewed: tuple[Running, Path], tmp_path: Path
) -> None:
    found = make_version(order(reviewed, tmp_path / "new", kind="learn"), told)
    rows, anomaly, held_out = all_reviewed(reviewed)
    by_hand = load(reviewed[1] / "press").learn(
        read_table(rows[~held_out]), anomaly[~held_out], recent=read_table(rows)
    )
    new, other = load(tmp_path / "new"), read_table(good_rows(9, seed=6)[list(NAMES)])
    np.testing.assert_allclose(new.assess(other).probability, by_hand.assess(other).probability, rtol=1e-6)
    assert new.referral_threshold_ == pytest.approx(by_hand.referral_threshold_)
    assert (found["cases"], found["anomalies"]) == (held_out.sum(), anomaly[held_out].sum())
    with pytest.raises(ConfigError, match="--control-share"):
        make_version(order(reviewed, tmp_path / "no", kind="learn", control_share=0.0), told)


def test_new_training_does_not_forget_what_labels_taught(reviewed: tuple[Running, Path], tmp_path: Path) -> None:
    make_version(order(reviewed, tmp_path / "learned", kind="learn"), told)
    again = {"kind": "retrain", "path": str(tmp_path / "learned"), "training": str(reviewed[1] / "good.csv")}
    make_version(order(reviewed, tmp_path / "new", **again), told)
    assert load(tmp_path / "new").correction_.reviewed == load(tmp_path / "learned").correction_.reviewed


@pytest.mark.parametrize("smallest_group", [None, 10])
def test_a_model_by_group_stays_one(smallest_group: int | None, tmp_path: Path) -> None:
    frame = good_rows(120).assign(machine=["M1", "M2"] * 60)
    frame.to_csv(tmp_path / "good.csv", index=False)
    reading = Reading(table=Roles(group="machine"))
    fitted = Detector(**QUICK, smallest_group=smallest_group).fit(reading.read(str(tmp_path / "good.csv")))
    fitted = fitted.read_by(reading)
    with running(fitted, tmp_path, control_share=1.0) as server:
        rows = good_rows(40, seed=5).to_numpy()
        server.assess(np.concatenate([rows[:8] + 6.0, rows[8:]]), machine="M1")
        for place, case in enumerate(server.store.read(chosen_cases)):
            label: Any = "A" if place < 8 else "I"
            server.store.write(lambda c, case=case, label=label: review(c, case.id, "ada", label))
        here = (server, tmp_path)
        make_version(order(here, tmp_path / "trained", kind="retrain", training=str(tmp_path / "good.csv")), told)
        found = make_version(order(here, tmp_path / "learned", kind="learn"), told)
    assert load(tmp_path / "trained").reference_.groups == ("M1", "M2")
    assert (load(tmp_path / "trained").group_conversions_ is not None) == (smallest_group is not None)
    assert found["new"]["wrong"] is not None


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of levels far from each other
def test_new_training_on_machines_holds_out_a_part_of_each(tmp_path: Path) -> None:
    windows = recorded({"press": 0.0, "drill": 20.0})
    fitted = Detector(spectra=False).fit(windows).read_by(READING)
    with running(fitted, tmp_path, control_share=1.0) as server:
        here, again = (server, tmp_path), {"kind": "retrain", "training": str(tmp_path / "good.csv")}
        write_recording(tmp_path / "good.csv", {"press": 0.0, "drill": 20.0})
        make_version(order(here, tmp_path / "same", **again), told)
        server.assess(windows.values[:5])
        for case in server.store.read(chosen_cases):
            server.store.write(lambda c, case=case: review(c, case.id, "ada", "I"))
        assert make_version(order(here, tmp_path / "more", **again), told)["confirmed"] > 0
    faulty = recorded({"press": 0.0, "drill": 20.0}, fault=8.0).select(range(80, 100))
    np.testing.assert_array_equal(load(tmp_path / "same").assess(faulty).p_value, fitted.assess(faulty).p_value)
    assert (load(tmp_path / "more").assess(faulty).verdict == "ANOMALY").all()


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"rule": "luck"}, "must be one of"),
        ({"rule": "cost", "missed_anomaly": "1", "false_alarm": "much", "review": "1"}, "must be a number"),
        ({"rule": "cost", "missed_anomaly": "1", "false_alarm": "-1", "review": "1"}, "false_alarm"),
        ({"rule": "cost", "missed_anomaly": "1", "false_alarm": "1", "review": "1", "prevalence": "150"}, "prevalence"),
        ({"rule": "target_risk", "alpha": "500", "confidence": "90"}, "alpha"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_before_a_job_begins(
    reviewed: tuple[Running, Path], form: dict[str, str], why: str
) -> None:
    with logged_in(reviewed[0], "eve") as eve:
        answer = eve.post("/review/models/press/recalibrate", data={"token": token(eve), **form})
    assert answer.status_code == 400
    assert why in answer.text


def test_the_page_asks_how_common_anomalies_are_and_shows_what_a_rule_by_cost_goes_by(tmp_path: Path) -> None:
    form = {"rule": "cost", "missed_anomaly": "20", "false_alarm": "5", "review": "1", "prevalence": "2"}
    with running(table_model(tmp_path / "fitted"), tmp_path) as server, logged_in(server, "eve") as eve:
        assert 'name="prevalence"' in eve.get("/review/models").text
        eve.post("/review/models/press/recalibrate", data={"token": token(eve), **form})
        while 'class="job running"' in (page := eve.get("/review/models").text):
            time.sleep(0.1)
    assert "false alarm 5, anomalies 2% of all" in page


def as_written(name: str) -> bytes:
    """The good rows as people have them: with semicolons and decimal commas, compressed, or as a spreadsheet."""
    text = good_rows().to_csv(index=False, sep=";", decimal=",").encode()
    if name.endswith(".gz"):
        return gzip.compress(text)
    if name.endswith(".csv"):
        return text
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (list(NAMES), *good_rows().to_numpy().tolist()):
        book.active.append(row)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "good.csv.gz",
        pytest.param("good.csv", marks=pytest.mark.slow),
        pytest.param("good.xlsx", marks=pytest.mark.slow),
    ],
)
def test_training_data_is_uploaded_in_whatever_it_is_written(
    name: str, reviewed: tuple[Running, Path], tmp_path: Path
) -> None:
    server, folder = reviewed
    make_version(order(reviewed, tmp_path / "plain", kind="retrain", training=str(folder / "good.csv")), told)
    with logged_in(server, "eve") as eve:
        files = {"training": (name, as_written(name))}
        eve.post("/review/models/press/retrain", data={"token": token(eve)}, files=files)
        while 'class="job running"' in eve.get("/review/models").text:
            time.sleep(0.1)
    job = server.store.read(all_jobs)[0]
    assert job.status is JobStatus.DONE, job.message
    assert job.result is not None
    new = {version.version: version for version in server.service.registry.known("press")}[job.result["version"]]
    rows = read_table(good_rows(7, seed=6))
    there = load(server.service.registry.folder_of(new))
    np.testing.assert_array_equal(there.nll(rows), load(tmp_path / "plain").nll(rows))


def test_an_upload_that_unpacks_to_far_more_than_it_is_is_refused_before_a_job_begins(
    reviewed: tuple[Running, Path],
) -> None:
    server, _ = reviewed
    before = len(server.store.read(all_jobs))
    with logged_in(server, "eve") as eve:
        bomb = gzip.compress(b"pressure,flow,heat,noise\n" + bytes(64 * 2**20))
        files = {"training": ("bomb.csv.gz", bomb)}
        answer = eve.post("/review/models/press/retrain", data={"token": token(eve)}, files=files)
    assert answer.status_code == 400
    assert "unpacks to more than 100 times its size" in answer.text
    assert len(server.store.read(all_jobs)) == before


@pytest.mark.parametrize(
    ("limit", "told"),
    [({"job_memory": 300 * 2**20}, "job_memory"), ({"job_minutes": 0.002}, "took longer than 0.002 minutes")],
)
def test_a_job_that_needs_too_much_ends_with_the_reason(
    reviewed: tuple[Running, Path], tmp_path: Path, limit: dict[str, float], told: str
) -> None:
    server, folder = reviewed
    settings = ServerSettings(control_share=1.0, **limit)  # type: ignore[arg-type]
    jobs = Jobs(server.store, server.service.registry, {"press": folder / "good.csv"}, settings)
    number = jobs.retrain("press", by="eve")
    while (job := server.store.read(lambda c: job_by_id(c, number))).status is JobStatus.RUNNING:
        time.sleep(0.05)
    assert job.status is JobStatus.FAILED
    assert told in job.message
    jobs.close()


def test_an_upload_that_cannot_be_read_is_called_by_its_own_name(reviewed: tuple[Running, Path]) -> None:
    server, _ = reviewed
    with logged_in(server, "eve") as eve:
        files = {"training": ("C:\\runs\\week 7.csv", b"something\n1\n2\n")}
        eve.post("/review/models/press/retrain", data={"token": token(eve)}, files=files)
        while 'class="job running"' in eve.get("/review/models").text:
            time.sleep(0.1)
    job = server.store.read(all_jobs)[0]
    assert job.status is JobStatus.FAILED
    assert "week 7.csv: no column" in str(job.message)
    assert "indubio-job" not in str(job.message)
