"""Windows by commands alone: spectra, verdicts per run, scores of time steps."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.end_to_end.test_commands import run

RATE, LENGTH = 1000.0, 64


def recording(runs: int, seed: int, faulty: tuple[int, ...] = (), samples: int = 640) -> pd.DataFrame:
    """Runs of a vibration and a pressure; faulty ones have a tone of 400 Hz in their second half."""
    random, frames = np.random.default_rng(seed), []
    for number in range(runs):
        time = np.arange(samples) / RATE
        vibration = np.sin(2 * np.pi * 60 * time) + 0.3 * random.normal(size=samples)
        if number in faulty:
            vibration[samples // 2 :] += np.sin(2 * np.pi * 400 * time)[samples // 2 :]
        pressure = 5 + 0.1 * random.normal(size=samples)
        frames.append(pd.DataFrame({"run": number, "time": time, "vibration": vibration, "pressure": pressure}))
    return pd.concat(frames)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    recording(12, 1).to_csv(folder / "good.csv", index=False)
    recording(4, 2, faulty=(2,)).to_csv(folder / "new.csv", index=False)
    quick = ("--window", LENGTH, "--step", 32, "--time", "time", "--group", "run", "--set", "posterior.draws=3")
    told = run(
        "fit", folder / "good.csv", "-o", folder / "model", *map(str, quick), "--set", "spectra.bands=8",
        "--set", f"spectra.rate={RATE}", "--set", "spectra.statistics=false", "--set", "spectra.patterns=0", "--json",
    )  # fmt: skip
    assert json.loads(told.stdout)["features"] == [2 * (16 + 2 + 8 + 8)]
    return folder


def test_fit_with_spectra_and_look_at_the_model(folder):
    shown = run("inspect", folder / "model").stdout
    assert "bands 8" in shown
    assert "68, 34 of each sensor" in shown
    manifest = json.loads(run("inspect", folder / "model", "--json").stdout)
    assert manifest["settings"]["spectra"]["rate"] == RATE
    assert manifest["settings"]["architecture"]["kind"] == "linear_views"


def test_verdicts_of_windows_name_features(folder):
    run("assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "found.csv")
    found = pd.read_csv(folder / "found.csv")
    worst = found.sort_values("nll").iloc[-1]
    assert worst["group"] == 2
    assert "vibration: 375-437.5 Hz" in worst["top_features"]


def test_a_verdict_per_run(folder):
    told = run(
        "assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "found.csv", "--json",
        "--per-run", folder / "runs.csv", "--set", "run_share=0.4",
    )  # fmt: skip
    runs = pd.read_csv(folder / "runs.csv")
    assert runs["run"].tolist() == [0, 1, 2, 3]
    assert runs["windows"].tolist() == [19] * 4
    assert runs["verdict"][2] == "ANOMALY"
    assert runs["p_value"].idxmin() == 2
    assert json.loads(told.stdout)["runs"]["ANOMALY"] == (runs["verdict"] == "ANOMALY").sum()
    assert runs["start"].tolist() == [0.0] * 4
    np.testing.assert_allclose(runs["end"], 0.639)
    words = run(
        "assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "f.csv", "--per-run", folder / "r.csv"
    )
    assert "4 runs: " in words.stderr


def test_a_score_per_time_step(folder):
    run(
        "assess",
        folder / "new.csv",
        "-m",
        folder / "model",
        "-o",
        folder / "found.parquet",
        "--points",
        folder / "p.csv",
    )
    points = pd.read_csv(folder / "p.csv")
    assert len(points) == 4 * 640
    np.testing.assert_allclose(points["time"], points["sample"] / RATE)
    faulty = points[points["group"] == 2].set_index("sample")["score"]
    assert faulty[320 + LENGTH :].min() > faulty[: 320 - LENGTH].max()
    found = pd.read_parquet(folder / "found.parquet")
    first = found[(found["group"] == "0")]["nll"].to_numpy()
    np.testing.assert_allclose(points["score"][:64], [*[first[0]] * 32, *[first[:2].mean()] * 32])


def test_a_report_of_a_recording(folder):
    run("report", folder / "new.csv", "-m", folder / "model", "-o", folder / "report.html")
    page = (folder / "report.html").read_text()
    assert "375-437.5 Hz" in page
    assert "<h2>Runs</h2>" in page


def test_raw_windows_have_scores_of_their_own_time_steps(folder):
    quick = ("--window", "32", "--step", "16", "--time", "time", "--group", "run", "--set", "posterior.draws=2")
    run(
        "fit", folder / "good.csv", "-o", folder / "raw", *quick, "--set", "spectra=false", "--set", "calibration=train"
    )
    run(
        "assess", folder / "new.csv", "-m", folder / "raw", "-o", folder / "found.csv",
        "--points", folder / "steps.csv", "--set", "points_by=contribution",
    )  # fmt: skip
    steps = pd.read_csv(folder / "steps.csv")
    assert len(steps) == 4 * 640
    refused = run(
        "assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "found.csv",
        "--points", folder / "steps.csv", "--set", "points_by=contribution", code=1,
    )  # fmt: skip
    assert "have no score per time step" in " ".join(refused.stderr.split())


def test_spectra_in_a_configuration(folder):
    (folder / "spectra.toml").write_text(
        'posterior = { kind = "anchored_ensemble", members = 2 }\ntraining = { epochs = 2 }\n'
        'spectra = { bands = 4, spacing = "log" }\nlayout = { kind = "wide", time = "time", group = "run" }\n'
        "windowing = { length = 64 }\n"
    )
    for flags, bands in (
        ((), 4),
        (("--set", "spectra.bands=5"), 5),
        (
            ("--set", "spectra=true"),
            4,
        ),
    ):
        run("fit", folder / "good.csv", "-o", folder / "c", "--overwrite", "--config", folder / "spectra.toml", *flags)
        settings = json.loads(run("inspect", folder / "c", "--json").stdout)["settings"]["spectra"]
        assert (settings["bands"], settings["spacing"]) == (bands, "log")
    shown = run("config").stdout
    assert "# [spectra]" in shown
    assert "# bands = 16" in shown


def test_a_coalition_in_a_configuration(folder):
    (folder / "coalition.toml").write_text(
        'posterior = { kind = "anchored_ensemble", members = 2 }\ntraining = { epochs = 20 }\n'
        'architecture = { kind = "coalition", network = { kind = "dense", widths = [32], skips = false } }\n'
        'layout = { kind = "wide", time = "time", group = "run" }\nwindowing = { length = 64 }\n'
    )
    run("fit", folder / "good.csv", "-o", folder / "apart", "--config", folder / "coalition.toml")
    shown = run("inspect", folder / "apart").stdout
    assert "coalition" in shown
    run("assess", folder / "new.csv", "-m", folder / "apart", "-o", folder / "found.csv")
    worst = pd.read_csv(folder / "found.csv").sort_values("nll").iloc[-1]
    assert worst["group"] == 2
    assert worst["top_features"].startswith("vibration")


def test_rows_have_no_runs_and_workers_give_none(folder):
    recording(1, 3)[["vibration", "pressure"]].to_csv(folder / "rows.csv", index=False)
    run("fit", folder / "rows.csv", "-o", folder / "rows", "--set", "posterior.draws=2")
    refused = run(
        "assess",
        folder / "rows.csv",
        "-m",
        folder / "rows",
        "-o",
        folder / "f.csv",
        "--per-run",
        folder / "r.csv",
        code=1,
    )
    assert "are for windows of a recording" in " ".join(refused.stderr.split())
    refused = run("fit", folder / "rows.csv", "-o", folder / "no", "--set", "spectra=true", code=1)
    assert "spectra are of windows" in " ".join(refused.stderr.split())
    refused = run(
        "assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "out", "--workers", "1",
        "--per-run", folder / "r.csv", code=2,
    )  # fmt: skip
    assert "--per-run" in refused.stderr


def test_a_batch_on_workers_has_the_same_scores(folder):
    run("assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "found.csv")
    run(
        "assess",
        folder / "new.csv",
        "-m",
        folder / "model",
        "-o",
        folder / "batch",
        "--workers",
        "1",
        "--format",
        "csv",
    )
    (made,) = (folder / "batch").glob("*.csv")
    np.testing.assert_array_equal(pd.read_csv(made)["nll"], pd.read_csv(folder / "found.csv")["nll"])


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Recordings with a label, a serial number and a remark; the model is fitted on all but what is labelled bad."""
    folder = tmp_path_factory.mktemp("labelled")
    for name, runs, seed, faulty in (("old", 12, 1, (3,)), ("new", 4, 2, (2,))):
        frame = recording(runs, seed, faulty)
        frame["fault"] = (frame["run"].isin(faulty) & (frame["time"] >= 0.32)).astype(int)
        frame["serial"] = [f"{number:03}" for number in frame["run"]]
        frame["remark"] = "by hand"
        (folder / name).mkdir()
        frame.to_csv(folder / name / f"{name}.csv", index=False)
    cut = ("--window", "64", "--time", "time", "--group", "run", "--set", "posterior.draws=3")
    told = run(
        "fit", folder / "old", "-o", folder / "model", *cut, "--label", "fault", "--id", "serial", "--suspects", "3"
    )
    return folder, told


def test_windows_with_rows_labelled_bad_are_left_out_of_training(labelled):
    folder, told = labelled
    assert "115 windows of 64 x 2 values" in told.stdout  # 12 runs of 10, less the 5 of the faulty half
    assert "5 windows left out that hold samples labelled as anomalies" in told.stdout
    suspects = pd.read_csv(folder / "model-suspects.csv", dtype=str)
    assert set(suspects["serial"]) <= {f"{number:03}" for number in range(12)}
    suspects.assign(bad="1").to_csv(folder / "said.csv", index=False)
    cut = ("--window", "64", "--time", "time", "--group", "run", "--label", "fault", "--id", "serial")
    cut = (*cut, "--set", "posterior.draws=3")
    again = run("fit", folder / "old", "-o", folder / "again", *cut, "--labelled", folder / "said.csv", "--json")
    assert json.loads(again.stdout)["examples"] == 112


def test_labels_and_columns_of_windows_go_to_evaluate_and_the_report(labelled):
    folder, _ = labelled
    run("assess", folder / "new", "-m", folder / "model", "--pass", "remark", "-o", folder / "found.csv")
    found = pd.read_csv(folder / "found.csv", dtype={"serial": str})
    assert (found["fault"] == ((found["group"] == 2) & (found["end"] >= 0.32))).all()
    assert found["serial"].tolist() == [f"{group:03}" for group in found["group"]]
    assert set(found["remark"]) == {"by hand"}
    told = run("evaluate", folder / "found.csv", "--label", "fault", "--json")
    assert json.loads(told.stdout)["total"]["auroc_base"] > 0.9
    run("report", folder / "new", "-m", folder / "model", "--pass", "remark", "-o", folder / "page.html")
    assert "normal (35)" in (folder / "page.html").read_text()


def test_workers_pass_labels_and_columns_of_windows_too(labelled):
    folder, _ = labelled
    options = ("-m", folder / "model", "--pass", "remark", "--label", "fault", "--anomaly", "1")
    run("assess", folder / "new", *options, "-o", folder / "alone.csv")
    run("assess", folder / "new", *options, "--workers", "1", "--format", "csv", "-o", folder / "batch")
    (made,) = (folder / "batch").glob("*.csv")
    assert made.read_text() == (folder / "alone.csv").read_text()


def test_machines_that_take_turns_in_a_file_of_semicolons_are_judged_as_apart(tmp_path):
    """Two machines of a kind, each in its own phase; of the new rows of B the second half is broken."""

    def machines(rows: int, seed: int, broken: int = 0) -> pd.DataFrame:
        random, time = np.random.default_rng(seed), np.arange(rows)
        one, two = (
            pd.DataFrame({"zeit": time, "maschine": name, "druck": np.sin(time / 2 + phase)})
            for name, phase in (("A", 0), ("B", 2))
        )
        two.loc[rows - broken :, "druck"] *= -3
        both = pd.concat([one, two]).sort_values("zeit", kind="stable", ignore_index=True)
        return both.assign(druck=(both["druck"] + 0.1 * random.normal(size=2 * rows)).round(4))

    good, new = machines(640, 1), machines(160, 2, broken=80)
    for name, frame in (("good", good), ("new", new)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False, sep=";", decimal=",")
        frame.sort_values(["maschine", "zeit"]).to_csv(tmp_path / f"{name}_apart.csv", index=False)
    cut = ("--window", "16", "--time", "zeit")
    told = run("fit", tmp_path / "good.csv", "-o", tmp_path / "mixed", *cut, code=1).stderr.splitlines()
    assert len(told) == 2, "how the file is read, and the error"
    assert "--group maschine" in told[1]
    found = {}
    for name in ("", "_apart"):
        run("fit", tmp_path / f"good{name}.csv", "-o", tmp_path / f"model{name}", *cut, "--group", "maschine")
        out = tmp_path / f"found{name}.csv"
        run("assess", tmp_path / f"new{name}.csv", "-m", tmp_path / f"model{name}", "-o", out)
        found[name] = pd.read_csv(out)
    pd.testing.assert_frame_equal(found[""].drop(columns="file"), found["_apart"].drop(columns="file"))
    broken = (found[""]["group"] == "B") & (found[""]["start"] >= 80)
    assert broken.sum() == 5
    assert (found[""]["verdict"][broken] == "ANOMALY").all()
    assert found[""]["nll"][broken].min() > found[""]["nll"][~broken].max()
