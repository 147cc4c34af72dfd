"""From a CSV of good parts to verdicts, a report and an exported model, as a user would: by commands alone."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import venv
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
from sklearn.datasets import load_breast_cancer

from indubio.cli import main
from indubio.errors import IndubioError
from indubio.judging import CONVERSIONS
from indubio.networks import LIKELIHOODS

COLOUR = re.compile("\x1b\\[[0-9;]*3[0-7]m")
COLOUR_OR_STYLE = re.compile("\x1b[^m]*m")
MAIN = "from indubio.cli import main; main()"


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


class TerminalText(io.TextIOWrapper):
    """A stream that says of itself that a person looks at it."""

    def isatty(self) -> bool:
        return True


def run(*arguments: str | Path, stdin: str | None = None, code: int = 0, terminal: bool = False) -> Done:
    """The command in this process, which has torch imported already; standard streams are caught."""
    text = TerminalText if terminal else io.TextIOWrapper
    out, err = (text(io.BytesIO(), write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["indubio", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((stdin or "").encode())))
        try:
            main()
            returncode = 0
        except SystemExit as left:
            returncode = int(left.code or 0)
    done = Done(returncode, *(stream.buffer.getvalue().decode() for stream in (out, err)))
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """good.csv, new.csv with labels, and a model fitted by the command."""
    folder = tmp_path_factory.mktemp("user")
    frame = load_breast_cancer(as_frame=True).frame
    frame.insert(0, "case", [f"{i:04}" for i in range(len(frame))])
    frame["malignant"] = 1 - frame.pop("target")
    good = frame[frame.malignant == 0]
    good[:250].drop(columns="malignant").to_csv(folder / "good.csv", index=False)
    frame.drop(index=good.index[:250]).to_csv(folder / "new.csv", index=False)
    run("fit", folder / "good.csv", "--out", folder / "model", "--id", "case", "--set", "posterior.draws=3")
    return folder


def test_verdicts_come_with_ids_reasons_and_top_features(folder):
    run("assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "out.parquet", "--pass", "malignant")
    found = parquet.read_table(folder / "out.parquet").to_pandas()
    new = pd.read_csv(folder / "new.csv", dtype={"case": str})
    assert list(found["case"]) == list(new["case"])
    assert set(found["verdict"]) <= {"INLIER", "ANOMALY", "REFER"}
    assert (found["top_features"] != "").equals(found["verdict"] != "INLIER")
    assert found["reason"].fillna("").str.startswith("uncertain").equals(found["verdict"] == "REFER")


@pytest.fixture(scope="module")
def odd(folder) -> Path:
    """A table with an id, a label and the same measurement twice."""
    good = pd.read_csv(folder / "good.csv").drop(columns="case").iloc[:, :3]
    good["serial"], good["is_bad"], good["radius in inch"] = range(len(good)), 0, good["mean radius"] / 25.4
    good.to_csv(folder / "odd.csv", index=False)
    return folder / "odd.csv"


def test_fit_says_what_is_odd_about_the_data_and_the_flags_that_help(odd, folder):
    done = run("fit", odd, "--out", folder / "odd")
    assert done.stderr == ""  # no warning of Python's beside it
    told = done.stdout.partition("Before you rely on it:")[2].strip().split("\n")
    assert len(told) == 3
    assert "--label is_bad" in told[0]
    assert "--id serial" in told[1]
    assert '"radius in inch" repeats "mean radius"' in told[2]
    assert "--id 'radius in inch'" in told[2]
    shown = run("inspect", folder / "odd").stdout
    assert "Before you rely on it" in shown
    flags = ["--label", "is_bad", "--id", "serial", "--id", "radius in inch"]
    assert "Before you rely" not in run("fit", odd, "--out", folder / "mended", *flags).stdout
    assert "Before you rely" not in run("inspect", folder / "mended").stdout


@pytest.mark.parametrize(
    "flags", [[], ["--missing", "refer"], ["--set", "stream=true"]], ids=["median", "refer", "stream"]
)
def test_fit_says_how_many_values_of_a_table_it_filled_in(folder, flags):
    rows = pd.read_csv(folder / "good.csv").drop(columns="case").iloc[:, :3]
    rows.iloc[[3, 9], 0] = None
    rows.iloc[5:36, 2] = None
    rows.to_csv(folder / "gaps.csv", index=False)
    asked = ["fit", folder / "gaps.csv", "--out", folder / "gaps", "--overwrite", "--missing", "median", *flags]
    words = "missing: mean radius 2, mean perimeter 31; filled in by the median of the column"
    assert f"Read: {words}.\n" in run(*asked).stdout
    assert json.loads(run(*asked, "--json").stdout)["read"] == words


def test_fit_gives_its_findings_as_json(odd, folder):
    told = json.loads(run("fit", odd, "--out", folder / "odd", "--overwrite", "--json").stdout)
    assert [(one["kind"], one["columns"]) for one in told["findings"]] == [
        ("label", ["is_bad"]),
        ("id", ["serial"]),
        ("repeated", ["radius in inch"]),
    ]
    assert all(one["what"] and one["follows"] and one["way_out"] for one in told["findings"])
    assert 0 <= told["reference_anomalies"] <= told["calibration_examples"] == 250


def test_contributions_are_columns_that_add_up_for_what_needs_a_look(folder):
    target = folder / "why.parquet"
    run("assess", folder / "new.csv", "-m", folder / "model", "-o", target, "--pass", "malignant", "--contributions")
    found = pd.read_parquet(target)
    parts = found[[name for name in found if name.startswith("contribution: ")]]
    assert parts.shape[1] == 30
    assert parts.notna().all(axis=1).equals(found["verdict"] != "INLIER")
    looked_at = parts.dropna().sum(axis=1)
    np.testing.assert_allclose(np.ptp(found.loc[looked_at.index, "nll"] - looked_at), 0, atol=1e-6)
    assert (found.loc[looked_at.index, "spread: mean radius"] > 0).all()


def test_the_formats_hold_the_same(folder):
    for name in ("same.csv", "same.parquet", "same.jsonl"):
        asked = ["-m", folder / "model", "-o", folder / name, "--pass", "malignant", "--full"]
        run("assess", folder / "new.csv", *asked)
    csv = pd.read_csv(folder / "same.csv")
    np.testing.assert_allclose(csv["total"], pd.read_parquet(folder / "same.parquet")["total"])
    lines = [json.loads(line) for line in (folder / "same.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(csv["total"], [line["total"] for line in lines])


def test_a_csv_has_the_columns_that_people_read_with_three_digits_unless_all_are_asked_for(folder):
    asked = ["assess", folder / "new.csv", "-m", folder / "model", "--pass", "malignant"]
    short, full = (io.StringIO(run(*asked, *more).stdout) for more in ([], ["--full"]))
    short, full = (pd.read_csv(text, dtype={"case": str}, keep_default_na=False) for text in (short, full))
    assert {"epistemic", "aleatoric", "exceed", "var_nll"} == set(full) - set(short)
    for name in ("probability", "p_value", "novelty"):
        digits = short[name].astype(str).str.replace(".", "").str.lstrip("0")
        assert digits.str.len().max() <= 3
        np.testing.assert_allclose(short[name], full[name], rtol=5e-3)
    for name in ("nll", "total"):  # what is sorted by them keeps its order
        assert np.all(np.diff(short[name].to_numpy()[np.argsort(full[name])]) >= 0)
    same = [name for name in short if short[name].dtype.kind not in "f"]
    assert short[same].equals(full[same])


def test_a_terminal_gets_counts_the_worst_and_what_to_do_next_and_no_rows(folder, monkeypatch):
    for columns in (60, 80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        shown = run("assess", folder / "new.csv", "-m", folder / "model", "--pass", "malignant", terminal=True).stdout
        assert COLOUR.search(shown)
        lines = re.sub(COLOUR_OR_STYLE, "", shown).splitlines()
        told = " ".join(" ".join(lines).split())
        assert "INLIER" in lines[0]
        assert "The 10 most anomalous" in told
        assert "never" in told
        assert "Drift:" in told
        assert lines[-1].startswith("Next: indubio report ")
        assert len(lines) < 60
        assert all(len(line) <= columns for line in lines[:-1])  # the command stays in one line, to be copied


def test_no_color_is_honoured(folder, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    shown = run("assess", folder / "new.csv", "-m", folder / "model", "--pass", "malignant", terminal=True).stdout
    assert not COLOUR.search(shown)


def test_the_worst_are_the_highest_scores_that_are_not_accepted(folder):
    target = folder / "worst.parquet"
    told = run("assess", folder / "new.csv", "-m", folder / "model", "-o", target, "--pass", "malignant").stderr
    found = pd.read_parquet(target)
    worst = found[found["verdict"] != "INLIER"].nlargest(10, "nll")
    rows = told.partition("most anomalous")[2].splitlines()[2:12]
    assert [row.split()[0] for row in rows] == list(worst["case"])
    for row, top in zip(rows, worst["top_features"], strict=True):
        assert top.partition(" (±")[0] in row


def test_workers_can_write_one_file(folder):
    for number in (1, 2):
        rows = pd.read_csv(folder / "new.csv", dtype={"case": str})[number::2]
        (folder / "halves").mkdir(exist_ok=True)
        rows.to_csv(folder / "halves" / f"{number}.csv", index=False)
    asked = ["assess", folder / "halves", "-m", folder / "model", "--pass", "malignant"]
    run(*asked, "-o", folder / "alone.csv")
    told = run(*asked, "-o", folder / "joined.csv", "--workers", "1").stderr
    assert (folder / "joined.csv").read_bytes() == (folder / "alone.csv").read_bytes()
    assert "INLIER" in told
    assert not (folder / "joined.csv.shards").exists()


def test_shards_stay_beside_the_file_where_some_input_was_put_aside(folder):
    (folder / "partly").mkdir()
    for name, text in (("1.csv", (folder / "new.csv").read_text()), ("2.csv", "case,other\n1,2\n")):
        (folder / "partly" / name).write_text(text)
    asked = ["assess", folder / "partly", "-m", folder / "model", "-o", folder / "partly.csv", "--workers", "1"]
    assert "partly.csv.shards" in run(*asked, code=4).stderr
    assert (folder / "partly.csv.shards").is_dir()
    (folder / "partly" / "2.csv").unlink()
    assert "1 of them by earlier runs" in run(*asked).stderr
    assert not (folder / "partly.csv.shards").exists()


def test_it_works_in_a_pipe(folder):
    text = (folder / "new.csv").read_text()
    shown = run("assess", "-", "-m", folder / "model", "--pass", "malignant", "--format", "jsonl", stdin=text)
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(lines) == text.count("\n") - 1
    assert lines[0]["case"] == text.splitlines()[1].split(",")[0]


def test_json_is_all_that_is_on_stdout(folder):
    told = run(
        "assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "j.csv", "--pass", "malignant", "--json"
    )
    summary = json.loads(told.stdout)
    assert summary["examples"] == summary["INLIER"] + summary["ANOMALY"] + summary["REFER"]
    judged = run("evaluate", folder / "j.csv", "--label", "malignant", "--json")
    told = json.loads(judged.stdout)
    assert 0 <= told["total"]["gss_w"] <= 1
    assert sum(told["truth"]["good"]) + sum(told["truth"]["anomalies"]) == summary["examples"]
    assert json.loads(run("inspect", folder / "model", "--json").stdout)["settings"]["posterior"]["draws"] == 3


def test_drift_is_told_kept_between_runs_and_can_fail_the_run(folder):
    good = pd.read_csv(folder / "good.csv", dtype={"case": str})
    moved = good.assign(**{"mean radius": good["mean radius"] + 5})
    moved.to_csv(folder / "moved.csv", index=False)
    arguments = ("-m", folder / "model", "-o", folder / "d.csv", "--drift-state", folder / "drift.json")
    told = " ".join(run("assess", folder / "good.csv", *arguments).stderr.split())
    assert "Drift: no drift found in 250 examples (P(any false alarm, ever) <= 0.01" in told
    done = run("assess", folder / "moved.csv", *arguments, "--json", "--fail-on", "drift", code=3)
    drift = json.loads(done.stdout)["drift"]
    assert drift["alarm"]
    assert drift["examples"] == 500
    assert {one["name"] for one in drift["changed"]} - {"score"} == {"mean radius"}  # scores of moved rows move too
    assert all(one["since"] >= 250 for one in drift["changed"])


def test_drift_is_told_by_the_numbers_of_the_file_and_takes_a_promise_back(folder):
    new, moved = pd.read_csv(folder / "new.csv", dtype={"case": str}), folder / "moved_labelled.csv"
    new = new.sort_values("malignant", ascending=False, kind="stable")
    new["mean radius"] *= 1.5
    new.to_csv(moved, index=False)
    arguments = ("-m", folder / "model", "-o", folder / "d.csv", "--fdr", "0.1")
    told = run("assess", moved, *arguments, "--label", "malignant").stderr
    bad, all_of_them = np.count_nonzero(new["malignant"]), len(new)
    assert int(re.search(r"DRIFT since example (\d+)", told)[1]) >= bad
    assert f" of {all_of_them}, {bad} labelled as anomalies left out: " in told
    selected, *_ = [line for line in told.splitlines() if "selected as anomalies" in line]
    assert "not to be relied on here" in selected
    assert "drift was found" in selected


def test_a_damaged_drift_state_is_refused(folder):
    (folder / "broken.json").write_text("{")
    arguments = ("-m", folder / "model", "--drift-state", folder / "broken.json")
    assert "broken.json" in run("assess", folder / "good.csv", *arguments, code=1).stderr


def test_evaluate_says_what_referral_buys(folder):
    table = pd.DataFrame(
        {
            "bad": [0, 0, 0, 0, 1, 1, 1, 1],
            "prediction": [0, 0, 1, 1, 1, 1, 0, 0],
            "verdict": ["INLIER", "INLIER", "ANOMALY", "REFER", "ANOMALY", "REFER", "INLIER", "REFER"],
            "total": [0.1, 0.1, 0.1, 0.2, 0.1, 0.2, 0.1, 0.2],
        }
    )
    table.to_csv(folder / "judged.csv", index=False)
    told = json.loads(run("evaluate", folder / "judged.csv", "--label", "bad", "--json").stdout)["referral"]
    assert told["without"] == {"verdicts": 8, "missed": 2, "false_alarms": 2}
    assert told["referring"] == {"verdicts": 5, "missed": 1, "false_alarms": 1}
    said = " ".join(run("evaluate", folder / "judged.csv", "--label", "bad").stdout.split())
    assert "1 of 4 anomalies pass as inliers" in said
    assert "1 of 4 good ones: 250 in 1,000" in said
    assert "50.0% of the 2 called anomalies are such" in said
    assert "25.0% of the anomalies are called so; 75.0% with those that are referred" in said
    assert "looks at 3 of 8 (37.5%) and sees 2 of the 4 errors" in said
    assert "50.0% of all verdicts" in said
    assert "40.0% of those that are accepted" in said


def test_evaluate_takes_the_columns_of_any_tool(folder):
    frame = pd.DataFrame({"y": ["ok"] * 30 + ["bad"] * 10, "p": np.linspace(0, 1, 40), "doubt": np.linspace(0, 1, 40)})
    frame.to_csv(folder / "other.csv", index=False)
    arguments = ("--label", "y", "--anomaly", "bad", "--probability", "p", "--uncertainty", "doubt", "--score", "p")
    found = json.loads(run("evaluate", folder / "other.csv", *arguments, "--json").stdout)["doubt"]
    assert found["anomalies"] == 10
    assert found["auroc"] == 1.0
    assert "doubt" in run("evaluate", folder / "other.csv", *arguments).stdout


def test_costs_are_given_to_fit_and_added_up_by_evaluate(folder):
    costs = ("--costs", "20", "5", "1")
    flags = ("--id", "case", "--set", "posterior.draws=3", "--out", folder / "by cost")
    rule = 'referral={ kind = "cost", missed_anomaly = 20, false_alarm = 5, review = 1 }'
    run("fit", folder / "good.csv", *flags, "--set", rule, "--set", "referral.prevalence=0.2")
    rule = json.loads(run("inspect", folder / "by cost", "--json").stdout)["settings"]["referral"]
    assert (rule["kind"], rule["review"], rule["prevalence"]) == ("cost", 1.0, 0.2)
    target = folder / "costs.csv"
    run("assess", folder / "new.csv", "-m", folder / "by cost", "-o", target, "--pass", "malignant")
    found = pd.read_csv(target)
    judged = ("evaluate", target, "--label", "malignant", *costs)
    told = json.loads(run(*judged, "--json").stdout)["cost"]
    accepted = found.verdict != "REFER"
    wrong = np.where(found.malignant == 1, 20 * ~found.prediction, 5 * found.prediction)
    assert told["verdicts"] == pytest.approx(np.where(accepted, wrong, 1).mean())
    assert told["all inliers"] == pytest.approx(20 * found.malignant.mean())
    assert told["all reviewed"] == 1
    assert "Cost an example: verdicts" in run(*judged).stdout
    assert "`verdict`" in run("evaluate", folder / "new.csv", "--label", "malignant", "--prediction", "malignant",
                              "--uncertainty", "mean radius", *costs, code=1).stderr  # fmt: skip


@pytest.mark.parametrize(("asked", "code"), [("anomaly", 3), ("any", 3)])
def test_fail_on_gives_its_own_exit_code_and_the_output_all_the_same(folder, asked, code):
    target = folder / f"fail-{asked}.csv"
    run(
        "assess",
        folder / "new.csv",
        "-m",
        folder / "model",
        "-o",
        target,
        "--pass",
        "malignant",
        "--fail-on",
        asked,
        code=code,
    )
    assert target.exists()


def test_the_report_is_one_html_file(folder):
    run("report", folder / "new.csv", "-m", folder / "model", "--label", "malignant", "-o", folder / "report.html")
    page = (folder / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "Gain" in page


def test_inspect_shows_settings_columns_and_checksums(folder):
    shown = run("inspect", folder / "model").stdout
    for word in ("prototypes", "mean radius", "250", "sha256"):
        assert word in shown
    assert "epochs" not in shown  # prototypes are not trained
    assert "10 % of good examples" in shown


def test_a_limit_of_novelty_refers_what_was_never_seen_and_is_told(folder):
    flags = ("--id", "case", "--set", "novelty_limit=1.5", "--false-alarms", "0.05")
    run("fit", folder / "good.csv", "--out", folder / "limited", *flags)
    shown, card = run("inspect", folder / "limited").stdout, (folder / "limited" / "README.md").read_text()
    assert all(word in shown for word in ("5 % of good examples", "novelty limit", "1.5"))
    assert "rate of false alarms: 5 %" in card
    assert "novelty above 1.5" in card
    for name in ("limited.csv", "limited.parquet"):
        run("assess", folder / "new.csv", "-m", folder / "limited", "--pass", "malignant", "-o", folder / name)
    found = pd.read_csv(folder / "limited.csv", keep_default_na=False)
    novel = found["novelty"] > 1.5
    assert novel.any()
    assert set(found["reason"][novel]) == {"unfamiliar"}
    assert set(found["verdict"][novel]) == {"REFER"}
    np.testing.assert_allclose(pd.read_parquet(folder / "limited.parquet")["novelty"], found["novelty"], rtol=5e-3)


def test_what_is_trained_says_so_in_inspect_card_and_report(folder):
    flags = ("--id", "case", "--set", "posterior.kind=anchored_ensemble", "--set", "posterior.members=2")
    flags = (*flags, "--set", "training.epochs=3")
    run("fit", folder / "good.csv", "--out", folder / "ensemble", *flags)
    assert "epochs 3" in run("inspect", folder / "ensemble").stdout
    for model, epochs in (("ensemble", True), ("model", False)):
        run("report", folder / "good.csv", "-m", folder / model, "-o", folder / "told.html")
        for page in (folder / "told.html", folder / model / "README.md"):
            assert ("epochs" in page.read_text()) == epochs


def test_the_number_of_draws_has_the_posterior_s_own_name(folder):
    flags = ("--id", "case", "--set", "posterior=anchored_ensemble", "--set", "posterior.members=2")
    flags = (*flags, "--set", "training.epochs=1")
    run("fit", folder / "good.csv", "--out", folder / "two", *flags)
    assert json.loads(run("inspect", folder / "two", "--json").stdout)["settings"]["posterior"]["members"] == 2
    flags = ("--id", "case", "--set", "posterior=deterministic", "--set", "posterior.draws=2")
    assert "posterior.draws" in run("fit", folder / "good.csv", "--out", folder / "one", *flags, code=1).stderr


# ----- configuration


def test_the_default_configuration_is_toml_that_gives_the_default_detector(folder):
    from indubio import Detector
    from indubio.configuration import Configuration, configured

    text = run("config").stdout
    (folder / "default.toml").write_text(text)
    detector = configured(Configuration, tomllib.loads(text)).detector
    for name, value in detector.get_params(deep=False).items():
        default = getattr(Detector(), name)
        assert value == default or default is None
    assert detector.settings_in_use() == Detector().settings_in_use()
    assert "fine" in run("config", "--check", folder / "default.toml").stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[posterior]\nkind = 'anchored_ensemble'\nmembres = 3", 'membres.*Did you mean "members"'),
        ("[posterior]\nkind = 'ensemble'", "posterior.kind"),
        ("sed = 3", 'Did you mean "seed"'),
        ("[training]\nepochs = -1", "training.epochs"),
        ("[table]\nlabels = 'x'", 'Did you mean "label"'),
        ("[posterior", "not TOML"),
        ("training = " + "[" * 2000 + "]" * 2000, "nested too deeply"),
        (f"[training{'.a' * 5000}]\nb = 1", "nested too deeply"),
    ],
)
def test_a_mistake_in_a_configuration_is_named_with_the_nearest_name(folder, text, message):
    path = folder / "mistake.toml"
    path.write_text(text)
    error = " ".join(run("config", "--check", path, code=1).stderr.split())
    assert re.search(message, error)


def test_a_configuration_and_flags_are_put_together_and_flags_win(folder):
    path = folder / "some.toml"
    path.write_text(
        'seed = 5\n[posterior]\nkind = "mc_dropout"\ndraws = 4\n[training]\nepochs = 3\n[table]\nids = ["case"]'
    )
    changes = ("--set", "training.epochs=2", "--set", "posterior.draws=6", "--set", "false_alarms=0.2")
    changes = (*changes, "--false-alarms", "0.3")
    run("fit", folder / "good.csv", "-o", folder / "configured", "--config", path, *changes)
    settings = json.loads(run("inspect", folder / "configured", "--json").stdout)["settings"]
    assert (settings["seed"], settings["posterior"]["kind"], settings["posterior"]["draws"]) == (5, "mc_dropout", 6)
    assert settings["training"]["epochs"] == 2
    assert settings["false_alarms"] == 0.3
    auto = ("--set", "posterior=deterministic", "--set", "training.epochs=auto", "--id", "case")
    run("fit", folder / "good.csv", "-o", folder / "auto", *auto)
    assert json.loads(run("inspect", folder / "auto", "--json").stdout)["settings"]["training"]["epochs"] == "auto"


def test_flags_and_tables_of_training_are_refused_where_nothing_is_trained(folder):
    refused = run("fit", folder / "good.csv", "--id", "case", "-o", folder / "no", "--set", "training.epochs=5", code=1)
    said = " ".join(refused.stderr.split())
    assert "--set training is for posteriors that are trained, and Prototypes is computed" in said
    path = folder / "computed.toml"
    path.write_text("posterior = 'random_features'\n[training]\nepochs = 3\n")
    refused = run("fit", folder / "good.csv", "--id", "case", "-o", folder / "no", "--config", path, code=1)
    said = " ".join(refused.stderr.split())
    assert "training is for posteriors that are trained, and RandomFeatures is computed" in said.replace("`", "")
    flags = ("--id", "case", "-o", folder / "no", "--set", "posterior=deterministic", "--set", "training.epochs=many")
    refused = " ".join(run("fit", folder / "good.csv", *flags, code=1).stderr.split())
    assert "--set training.epochs" in refused
    assert "'auto', got 'many'" in refused
    assert not (folder / "no").exists()


def test_every_likelihood_and_conversion_can_be_named_on_the_command_line(folder):
    trained = ("--id", "case", "--set", "posterior=deterministic", "--set", "training.epochs=2")
    trained = (*trained, "--overwrite", "-o", folder / "named")
    for likelihood, kind in LIKELIHOODS.items():
        clip = ("--set", f"scaling.clip={str(kind().unit_interval).lower()}")
        run("fit", folder / "good.csv", *trained, "--set", f"likelihood={likelihood}", *clip)
        settings = json.loads(run("inspect", folder / "named", "--json").stdout)["settings"]
        assert settings["likelihood"]["kind"] == likelihood
        assert settings["scaling"]["clip"] == kind().unit_interval
    for conversion in CONVERSIONS:
        run("fit", folder / "good.csv", *trained, "--set", f"conversion={conversion}")
        settings = json.loads(run("inspect", folder / "named", "--json").stdout)["settings"]
        assert settings["conversion"]["kind"] == conversion


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--set", "likelihood=beta", "--set", "posterior=vae"), r"needs data within \[0, 1\]"),
        (("--set", "likelihood=beta", "--set", "posterior=vae", "--set", "scaling=z_score"), "needs data within"),
        (("--set", "likelihood=betta"), 'Did you mean "beta"'),
    ],
)
def test_a_likelihood_that_does_not_go_with_the_rest_is_refused_with_the_flag_to_pass(folder, flags, message):
    refused = run("fit", folder / "good.csv", "--id", "case", "-o", folder / "no", *flags, code=1)
    assert re.search(message, " ".join(refused.stderr.split()))
    assert not (folder / "no").exists()


# ----- windows


def test_a_recording_becomes_windows_by_flags(folder):
    rng = np.random.default_rng(0)
    time_column = np.tile(np.arange(40), 30)
    frame = pd.DataFrame(
        {
            "t": time_column,
            "cycle": np.repeat(np.arange(30), 40),
            "a": np.sin(time_column / 5),
            "b": rng.normal(size=1200),
        }
    )
    frame.to_parquet(folder / "recording.parquet")
    flags = ("--window", "40", "--time", "t", "--group", "cycle", "--set", "posterior.draws=2")
    run("fit", folder / "recording.parquet", "-o", folder / "windows", *flags)
    frame.loc[frame.cycle == 3, "b"] += 50
    frame.to_parquet(folder / "later.parquet")
    run("assess", folder / "later.parquet", "-m", folder / "windows", "-o", folder / "windows.csv")
    found = pd.read_csv(folder / "windows.csv", dtype={"group": str}).set_index("group")
    assert len(found) == 30
    assert found.loc["3", "verdict"] == "ANOMALY"
    assert found.loc["3", "top_features"].startswith("b: ")


# ----- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("assess", "nowhere.csv", "-m", "model"), "no such file"),
        (("assess", "new.csv", "-m", "nowhere"), "nowhere"),
        (("fit", "good.csv", "-o", "model"), "--overwrite"),
        (("fit", "good.csv", "-o", "m", "--columns", "mean radius,colour"), '"colour"'),
    ],
)
def test_errors_are_one_line_that_names_the_place(folder, arguments, message, monkeypatch):
    monkeypatch.chdir(folder)
    done = run(*arguments, code=1)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert re.search(message, done.stderr)
    assert done.stdout == ""


def test_debug_shows_the_traceback(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(IndubioError, match="no such file"):
        run("assess", "nowhere.csv", "-m", "model", "--debug")


def test_an_interrupt_leaves_no_half_written_file(folder):
    wide = pd.read_csv(folder / "new.csv", dtype={"case": str})
    pd.concat([wide] * 600).to_parquet(folder / "large.parquet")
    target = folder / "interrupted.csv"
    arguments = ["assess", folder / "large.parquet", "-m", folder / "model", "-o", target, "--pass", "malignant"]
    process = subprocess.Popen([sys.executable, "-c", MAIN, *map(str, arguments)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(folder.glob(".interrupted.csv.*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not target.exists()
    assert not list(folder.glob(".interrupted.csv.*"))


# ----- without torch


def test_a_model_is_used_where_torch_is_not_installed(folder, tmp_path):
    run("assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "torch.csv", "--pass", "malignant")
    python = _environment_without_torch(tmp_path / "environment")
    arguments = ["assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "without.csv"]
    subprocess.run([python, "-c", MAIN, *map(str, arguments), "--pass", "malignant"], check=True, timeout=120)
    assert (folder / "torch.csv").read_text() == (folder / "without.csv").read_text()
    without = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in without.stderr


def _environment_without_torch(path: Path) -> Path:
    """A virtual environment that has every package of this one but torch, and indubio itself."""
    venv.create(path, symlinks=True)
    packages = next((path / "lib").glob("python3*/site-packages"))
    here = Path(np.__file__).parents[1]
    for item in here.iterdir():
        if not item.name.lower().startswith(("torch", "functorch")) and not (packages / item.name).exists():
            (packages / item.name).symlink_to(item)
    sources = sorted((Path(__file__).parents[2] / "packages").glob("*/src"))
    (packages / "indubio_here.pth").write_text("".join(f"{source}{os.linesep}" for source in sources))
    return path / "bin" / "python"


def test_anomalies_are_selected_over_the_whole_file_at_a_false_discovery_rate(folder):
    told = run(
        "assess", folder / "new.csv", "-m", folder / "model", "-o", folder / "fdr.csv", "--pass", "malignant",
        "--fdr", "0.1", "--json",
    )  # fmt: skip
    found, summary = pd.read_csv(folder / "fdr.csv"), json.loads(told.stdout)
    assert summary["selected"] == found["selected"].sum() > 0
    assert summary["smallest_p"] == pytest.approx(1 / 250)  # 3 folds of 83 of the 250 rows
    largest = found.loc[found["selected"], "p_value"].max()
    assert (found["p_value"] <= largest).equals(found["selected"])


def test_a_model_calibrated_on_training_scores_has_no_p_values_and_selects_nothing(folder):
    arguments = ("--id", "case", "--set", "posterior.draws=2", "--set", "calibration=train")
    shown = run("fit", folder / "good.csv", "--out", folder / "paper", *arguments)
    assert "no p-values" in shown.stdout
    new, out = folder / "new.csv", folder / "none.csv"
    run("assess", new, "-m", folder / "paper", "-o", out, "--pass", "malignant")
    assert pd.read_csv(out)["p_value"].isna().all()
    refused = run("assess", new, "-m", folder / "paper", "-o", out, "--pass", "malignant", "--fdr", "0.1", code=1)
    assert "have no p-value" in refused.stderr


def test_at_most_so_many_are_referred_of_a_file_however_it_is_cut(folder):
    (folder / "most.toml").write_text('[referral]\nkind = "at_most"\ncount = 5\n')
    arguments = ("--id", "case", "--set", "posterior.draws=2", "--config", folder / "most.toml")
    run("fit", folder / "good.csv", "--out", folder / "most", *arguments)
    told = run(
        "assess", folder / "new.csv", "-m", folder / "most", "-o", folder / "m.csv", "--pass", "malignant", "--json"
    )
    assert json.loads(told.stdout)["REFER"] <= 5


def test_a_model_learns_from_a_file_of_labels(folder):
    rows = pd.read_csv(folder / "new.csv")
    rows[::2].to_csv(folder / "reviewed.csv", index=False)
    rows[1::2].to_csv(folder / "next.csv", index=False)
    told = run(
        "learn", folder / "reviewed.csv", "-m", folder / "model", "--label", "malignant", "--recent",
        folder / "new.csv", "-o", folder / "learned", "--json",
    )  # fmt: skip
    summary = json.loads(told.stdout)
    compared = summary["compared"]
    assert summary["labels"] + compared["cases"] == len(rows[::2])
    assert summary["anomalies"] + compared["anomalies"] == rows[::2].malignant.sum()
    assert 0.2 < compared["cases"] / len(rows[::2]) < 0.47  # a third of 150
    assert compared["new"]["wrong"] < compared["present"]["wrong"]
    assert summary["prevalence"] == pytest.approx(pd.read_csv(folder / "new.csv").malignant.mean(), abs=0.1)
    errors = {}
    for model in ("model", "learned"):
        out = folder / f"by {model}.csv"
        run("assess", folder / "next.csv", "-m", folder / model, "-o", out, "--pass", "malignant")
        found = pd.read_csv(out)
        errors[model] = (found.prediction != found.malignant.astype(bool)).mean()
    assert errors["learned"] < errors["model"]
    again = run(
        "learn", folder / "reviewed.csv", "-m", folder / "model", "--label", "malignant", "--recent",
        folder / "new.csv", "-o", folder / "learned", code=1,
    )  # fmt: skip
    assert "--overwrite" in again.stderr


def test_verdicts_are_by_group_where_it_is_asked_for(folder):
    good = pd.read_csv(folder / "good.csv").assign(machine=["A", "B"] * 125)
    good.to_csv(folder / "machines.csv", index=False)
    run(
        "fit", folder / "machines.csv", "-o", folder / "by machine", "--group", "machine", "--id", "case",
        "--set", "smallest_group=20",
    )  # fmt: skip
    new = pd.read_csv(folder / "new.csv").drop(columns="malignant").assign(machine="A")
    new.loc[:2, "machine"] = "C"
    new.to_csv(folder / "new machines.csv", index=False)
    for more in ([], ["--workers", "1"]):
        out = folder / "judged"
        target = out if more else out.with_suffix(".csv")
        run("assess", folder / "new machines.csv", "-m", folder / "by machine", "-o", target, *more)
        files = sorted(target.glob("*.parquet")) if more else [target]
        found = pd.concat([pd.read_parquet(f) if more else pd.read_csv(f) for f in files])
        assert found.notes.fillna("").str.contains("judged by all groups").sum() == 3
