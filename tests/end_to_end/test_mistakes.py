"""Mistakes: wrong files, wrong flags, wrong order. Each gets one line that names the place and the way out.

Messages are judged by their essential words: the file, the line, the column, the flag. Nothing is written.
"""

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from indubio.cli.exit_codes import MEANINGS
from tests.end_to_end.test_commands import run

FAILED, USAGE = 1, 2


@dataclass(frozen=True)
class Mistake:
    """A command that cannot work, and what must be said of it."""

    command: str
    words: tuple[str, ...]
    code: int = FAILED


def of(command: str, *words: str, code: int = FAILED) -> Mistake:
    return Mistake(command, words, code)


MISTAKES = [
    # paths
    of("fit nowhere.csv -o out", "nowhere.csv"),
    of("fit nowhere/*.csv -o out", "nowhere/*.csv"),
    of("fit notes.md -o out", "notes.md", ".csv"),
    of("fit empty_folder -o out", "empty_folder"),
    of("fit good.csv -o model", "model", "--overwrite"),
    of("fit good.csv -o good.csv", "good.csv"),
    of("fit good.csv -o good.csv --overwrite", "good.csv"),
    of("fit good.csv -o good.csv/model", "good.csv"),
    of("fit good.csv", "--out", code=USAGE),
    # content of files
    of("fit empty.csv -o out", "empty.csv"),
    of("fit header.csv -o out", "header.csv", "no rows"),
    of("fit ragged.csv -o out", "ragged.csv", "line 5"),
    of("fit word.csv -o out", "word.csv", "line 5", '"b"'),
    of("fit text.csv -o out", '"operator"', "--categorical", "--id"),
    of("fit gap.csv -o out", "gap.csv", "line 5", '"b"', "--missing"),
    of("fit hollow.csv -o out --categorical operator --missing refer", 'column "hollow" has no value at all'),
    of("fit unmanned.csv -o out --categorical operator", "unmanned.csv", "line 5", 'column "operator"'),
    of("fit trailing.csv -o out", "trailing.csv", "end with a separator", "--columns"),
    of("fit infinite.csv -o out", "infinite.csv", "line 5", '"b"'),
    of("fit double.csv -o out", "double.csv", '"a"'),
    of("fit two.parquet -o out", "two.parquet"),
    of("fit either.csv -o out", "either.csv", '"a"', "--set file.decimal=,", "--set file.thousands=,"),
    of("fit marks.csv -o out --id serial", "marks.csv", '"a"', "--set file.decimal"),
    of("fit latin.csv -o out --set file.encoding=utf-8", "latin.csv", "--set file.encoding=cp1252"),
    of("fit units.csv -o out", "units.csv", "line 2", '"bar"', "--set file.units_lines=1", "--set file.skip_lines=1"),
    of("fit units.csv -o out --window 8 --time time", "units.csv", "line 2", '"bar"', "--set file.units_lines=1"),
    of("fit einheiten.csv -o out --id time", "einheiten.csv", "line 2", '"l/min"', "--set file.units_lines=1"),
    of("assess units.csv -m model -o out.csv", "units.csv", "line 2", '"bar"', "--set file.units_lines=1"),
    of("fit logger.csv -o out", "logger.csv", "line 2", "line 3 is the header", "--set file.skip_lines=2"),
    of("fit good.csv -o out --set file.separator=x", "--set file.separator", "'x'"),
    of("fit good.csv -o out --set file.decimal=x", "--set file.decimal", "'x'"),
    of("fit good.csv -o out --set file.decimal=, --set file.thousands=,", "--set file.decimal", "--set file.thousands"),
    # columns and labels
    of("fit good.csv -o out --columns a,colour", '"colour"', '"a", "b", "c"'),
    of("fit good.csv -o out --id serial", '"serial"', '"a", "b", "c"'),
    of("fit good.csv -o out --label bad", '"bad"', '"a", "b", "c"'),
    of("fit grades.csv -o out --label grade", "grades.csv", "line", '"grade"', "--anomaly"),
    of("fit labelled.csv -o out --label bad --anomaly 0 --anomaly 1", "labelled.csv", "no good", "--anomaly"),
    of("fit half_labelled.csv -o out --label bad", "half_labelled.csv", "line 5", '"bad"'),
    of("fit good.csv -o out --categorical a --window 8", "--categorical", "--id"),
    # settings
    of("fit good.csv -o out --set posterior=ensemble", "posterior", "anchored_ensemble"),
    of("fit good.csv -o out --missing mean", "missing", "median"),
    of("fit good.csv -o out --set training.epochs=many", "--set training.epochs"),
    of("fit good.csv -o out --set training.epochs=5", "--set training", "is computed"),
    of("fit good.csv -o out --set posterior.draws=0", "--set posterior.draws", "at least 1"),
    of("fit good.csv -o out --set trimming.share=lots", "--set trimming.share"),
    of("fit good.csv -o out --set trimming.shar=0.1", "trimming.share", "indubio config"),
    of("fit good.csv -o out --set share=0.1", "referral.share", "indubio config"),
    of("fit good.csv -o out --set seed", "--set seed=VALUE"),
    of("fit good.csv -o out --set posterior.members=3", "anchored_ensemble", "--set posterior"),
    of("fit good.csv -o out --false-alarms 2", "--false-alarms", "less than 1"),
    of("fit good.csv -o out --config wrong.toml", "wrong.toml", "`false_alarms`", "less than 1"),
    of("fit good.csv -o out --set referral=cost --set referral.share=0.1", "referral.share", "budget"),
    of("fit good.csv -o out --set referral.prevalence=0.1", "referral.prevalence", "cost", "budget"),
    of("fit good.csv -o out --widow 8", "--widow", "--window", code=USAGE),
    of("fit good.csv -o out --set images.size=[8,8]", "images", "good.csv"),
    of("fit good.csv -o out --config nowhere.toml", "nowhere.toml"),
    of("fit good.csv -o out --config broken.toml", "broken.toml", "line 1"),
    of("fit good.csv -o out --config unknown.toml", "unknown.toml", "postrior", "posterior"),
    of("fit good.csv -o out --labelled good.csv", "good.csv", '"bad"'),
    # recordings
    of("fit recording.csv -o out --window 500 --time time", "500", "--window"),
    of("fit recording.csv -o out --window 8 --time clock", '"clock"', '"time"'),
    of(
        "fit backwards.csv -o out --window 8 --time time", "backwards.csv", "line 12", "layout.ordered=false", "--group"
    ),
    of("fit machines.csv -o out --window 8 --time time", "machines.csv", '"machine"', "--group machine"),
    of(
        "fit blocks.csv -o out --window 8 --time time",
        "blocks.csv",
        'column "machine" holds "A", "B"',
        "--group machine",
    ),
    of("fit american.csv -o out --window 8 --time time", "american.csv", "line 2", "--set layout.time_format"),
    of("fit zones.csv -o out --window 8 --time time", "zones.csv", "line 42", "time zone"),
    of("fit good.csv -o out --set layout.time_format=%Y", "--set layout", "--window"),
    of("fit recording.csv -o out --window 8 --group part", '"part"'),
    of("fit recording.csv -o out --window 8 --rate 10", "--rate", "--time"),
    of("fit recording.csv -o out --window 8 --set layout.tag=time --set layout.value=x", "--time"),
    of("fit recording.csv -o out --step 4", "--window"),
    of("fit recording.csv -o out --rate 4 --set windowing.gaps=hold", "--window"),
    of("fit holes.csv -o out --window 8 --time time", "holes.csv", "line 7", '"x"', "--set windowing.gaps"),
    of("fit recording.csv -o out --window 8 --set windowing.gaps=close", "gaps", "hold"),
    of("fit recording.csv -o out --window 8 --label time --id start", '"start"'),
    # models
    of("assess good.csv -m nowhere -o out.csv", "nowhere"),
    of("assess good.csv -m empty_folder -o out.csv", "empty_folder"),
    of("assess good.csv -m good.csv -o out.csv", "good.csv"),
    of("assess good.csv -m damaged -o out.csv", "damaged", "checksum"),
    of("assess good.csv -m nowhere.onnx -o out.csv", "nowhere.onnx"),
    of("assess fewer.csv -m model -o out.csv", "fewer.csv", '"c"'),
    of("assess recording.csv -m model -o out.csv", "recording.csv", '"a", "b", "c"'),
    of("assess word.csv -m model -o out.csv", "word.csv", "line 5", '"b"'),
    of("assess gap.csv -m model -o out.csv", "gap.csv", "line 5", '"b"'),
    of("assess machines.csv -m windows -o out.csv", "--group, --id: of `indubio fit`", "fit again"),
    of(
        "assess backwards.csv -m windows -o out.csv",
        "--set layout.ordered=false, --group: of `indubio fit`",
        "fit again",
    ),
    of("assess holes.csv -m windows -o out.csv", "line 7", "--set windowing.gaps: of `indubio fit`", "fit again"),
    of("assess header.csv -m model -o out.csv", "header.csv", "no rows"),
    of("assess good.csv -m model -o out.csv --pass serial", '"serial"'),
    of("assess good.csv -m model -o out.csv --label bad", '"bad"'),
    of("assess good.csv -m model -o out.xlsm", "out.xlsm", ".csv"),
    of("assess good.csv -m model -o empty_folder", "empty_folder"),
    of("assess good.csv -m model -o good.csv/out.csv", "good.csv"),
    of("assess good.csv -m model -o out.csv --per-run runs.csv", "--per-run", "rows"),
    of("assess good.csv -m model --json -o -", "--json", "--out", code=USAGE),
    of("assess good.csv -m model -o out.csv --fdr 2", "--fdr", "2"),
    of("assess good.csv -m model -o - --workers 1", "--out", code=USAGE),
    of("report header.csv -m model -o page.html", "header.csv", "no rows"),
    of("report good.csv -m model -o empty_folder", "empty_folder"),
    of("export nowhere -o model.onnx", "nowhere"),
    # evaluation
    of("evaluate good.csv", "--label", code=USAGE),
    of("evaluate good.csv --label bad", "good.csv", "--uncertainty"),
    of("evaluate assessed.csv --label bad", "assessed.csv", '"bad"'),
    of("evaluate one_class.csv --label bad", "one_class.csv", "bad", "--anomaly"),
    of("evaluate nowhere.csv --label bad", "nowhere.csv"),
    # the server and the rest
    of("serve --model model --port many", "--port", code=USAGE),
    of("serve", "--model", code=USAGE),
    of("keys revok", "revoke", code=USAGE),
    of("learn labelled.csv -m model -o out", "--label", code=USAGE),
    of("learn nowhere.csv -m model -o out --label bad --recent good.csv", "nowhere.csv"),
    of("learn labelled.csv -m model -o model --label bad --recent good.csv", "model", "--overwrite"),
    of("tune nowhere.csv -o tuned.toml", "nowhere.csv"),
    of("inspect good.csv", "good.csv"),
    of("asess good.csv", "asess", "assess", code=USAGE),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Files as people have them."""
    folder = tmp_path_factory.mktemp("mistakes")
    random = np.random.default_rng(0)
    good = pd.DataFrame(random.normal(size=(60, 3)), columns=["a", "b", "c"]).round(3)
    good.to_csv(folder / "good.csv", index=False)
    lines = (folder / "good.csv").read_text().splitlines()
    cells = lines[4].split(",")

    def spoilt(name: str, line: str) -> None:
        (folder / f"{name}.csv").write_text("\n".join([*lines[:4], line, *lines[5:]]) + "\n")

    spoilt("ragged", lines[4] + ",7,8")
    spoilt("word", f"{cells[0]},broken,{cells[2]}")
    spoilt("gap", f"{cells[0]},,{cells[2]}")
    spoilt("infinite", f"{cells[0]},inf,{cells[2]}")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b,c\n")
    (folder / "double.csv").write_text("\n".join(["a,a,c", *lines[1:]]) + "\n")
    (folder / "notes.md").write_text("a,b,c\n1,2,3\n")
    (folder / "two.parquet").write_bytes(b"not parquet at all")
    (folder / "empty_folder").mkdir()
    (folder / "either.csv").write_text("a;b\n" + "1,234;2\n" * 20)
    (folder / "marks.csv").write_text("a;serial\n" + "1,5;A\n2.5;B\n" * 20)
    (folder / "latin.csv").write_bytes("Höhe;b\n".encode("cp1252") + b"1;2\n" * 20)
    timed = [f"{place},{line}" for place, line in enumerate(lines[1:])]
    (folder / "units.csv").write_text("\n".join(["time,a,b,c", "s,l/min,bar,%", *timed]) + "\n")
    (folder / "einheiten.csv").write_text(
        "\n".join(["time;a;b;c", ";l/min;bar;%", *(line.replace(",", ";").replace(".", ",") for line in timed)]) + "\n"
    )
    (folder / "logger.csv").write_text("\n".join(["Logger 3000,serial 17,hall 3", "Start: today", *lines]) + "\n")
    good.assign(operator="Ann").to_csv(folder / "text.csv", index=False)
    crew = good.assign(operator=["Ann", "Bob"] * 30)
    crew.assign(hollow=None).to_csv(folder / "hollow.csv", index=False)
    crew.loc[3, "operator"] = None
    crew.to_csv(folder / "unmanned.csv", index=False)
    (folder / "trailing.csv").write_text("".join(f"{line},\n" for line in lines))
    good.assign(grade=["fine", "worn", "broken"] * 20).to_csv(folder / "grades.csv", index=False)
    good.assign(bad=[0, 1] * 30).to_csv(folder / "labelled.csv", index=False)
    half = good.assign(bad="0")
    half.loc[3, "bad"] = None
    half.to_csv(folder / "half_labelled.csv", index=False)
    good.drop(columns="c").to_csv(folder / "fewer.csv", index=False)
    (folder / "broken.toml").write_text("posterior = \n")
    (folder / "wrong.toml").write_text("false_alarms = 2.0\n")
    (folder / "unknown.toml").write_text('postrior = "prototypes"\n')
    recording = pd.DataFrame({"time": np.arange(80.0), "x": random.normal(size=80), "start": 0})
    recording.to_csv(folder / "recording.csv", index=False)
    recording.assign(time=np.where(np.arange(80) == 10, 0, recording["time"])).to_csv(
        folder / "backwards.csv", index=False
    )
    recording.assign(machine=["A", "B"] * 40, time=np.arange(80) // 2).to_csv(folder / "machines.csv", index=False)
    recording.assign(machine=["A"] * 40 + ["B"] * 40, time=[*range(40)] * 2).to_csv(folder / "blocks.csv", index=False)
    stamps = pd.Timestamp("2026-03-29") + pd.to_timedelta(recording["time"], unit="s")
    recording.assign(time=stamps.dt.strftime("%m/%d/%Y %I:%M:%S %p")).to_csv(folder / "american.csv", index=False)
    mixed = stamps.dt.strftime("%Y-%m-%dT%H:%M:%S") + np.where(np.arange(80) < 40, "", "+00:00")
    recording.assign(time=mixed).to_csv(folder / "zones.csv", index=False)
    holes = recording.copy()
    holes.loc[5, "x"] = np.nan
    holes.to_csv(folder / "holes.csv", index=False)
    run("fit", folder / "good.csv", "-o", folder / "model", "--set", "posterior.draws=2")
    run("assess", folder / "good.csv", "-m", folder / "model", "-o", folder / "assessed.csv")
    run("fit", folder / "recording.csv", "-o", folder / "windows", "--window", "8", "--time", "time", "--columns", "x")
    pd.read_csv(folder / "assessed.csv").assign(bad=0).to_csv(folder / "one_class.csv", index=False)
    shutil.copytree(folder / "model", folder / "damaged")
    weights = next((folder / "damaged").glob("*.safetensors"))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    return folder


def test_there_are_as_many_as_promised():
    assert len({mistake.command for mistake in MISTAKES}) >= 47


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.command)
def test_a_mistake_gets_one_line_with_the_place_and_the_way_out(mistake, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = run(*mistake.command.split(), code=mistake.code)
    said = done.stderr.strip()
    assert "Traceback" not in said
    if mistake.code == FAILED:
        # How a file is read is told before, where it is not the plain way.
        assert len([line for line in said.splitlines() if ": read with " not in line]) == 1, said
    for word in mistake.words:
        assert word in said
    assert done.stdout == ""
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_an_extra_that_is_missing_is_named_with_its_brackets(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    done = run("export", "model", "-o", "model.onnx", code=FAILED)
    assert 'pip install "indubio[onnx]"' in done.stderr


@pytest.mark.parametrize("more", [(), ("--window", "8", "--time", "time")], ids=["rows", "windows"])
def test_units_that_are_told_of_once_are_known_to_the_model(folder, monkeypatch, more):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    plain, model = ["--id", "time"] if not more else [], f"measured{len(more)}"
    told = run(
        "fit", "einheiten.csv", "-o", model, "--set", "posterior.draws=2", "--set", "file.units_lines=1", *plain, *more
    ).stderr
    assert "1 line below the header left out; --set file.separator, --set file.decimal and --set" in told
    lines = Path("units.csv").read_text().splitlines()
    Path("bare.csv").write_text("\n".join([lines[0], *lines[2:]]) + "\n")
    verdicts = []
    for name in ("einheiten.csv", "units.csv", "bare.csv"):
        run("assess", name, "-m", model, "-o", "measured.csv")
        verdicts.append(pd.read_csv("measured.csv")[["nll", "probability", "verdict"]])
    run("assess", "units.csv", "-m", model, "-o", f"{model}_shards", "--workers", "1", "--format", "csv")
    (shard,) = Path(f"{model}_shards").glob("*.csv")
    verdicts.append(pd.read_csv(shard)[["nll", "probability", "verdict"]])
    for verdict in verdicts[1:]:
        pd.testing.assert_frame_equal(verdict, verdicts[0], check_exact=True)


def test_columns_that_are_not_used_are_told_of(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    told = run("assess", "text.csv", "-m", "model", "-o", "told.csv").stderr.splitlines()[0]
    assert '"operator"' in told
    assert "--pass" in told
    pd.read_csv("recording.csv").assign(operator="Ann").drop(columns="start").to_csv("spoken.csv", index=False)
    cut = ("--window", "8", "--time", "time", "--set", "posterior.draws=2")
    told = run("fit", "spoken.csv", "-o", "told", *cut).stderr
    assert '"operator"' in told
    assert "--id" in told
    assert "Not used" not in run("fit", "spoken.csv", "-o", "said", *cut, "--id", "operator").stderr


def test_columns_that_are_not_used_are_told_of_once_over_workers_and_by_the_report(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    told = run("assess", "text.csv", "-m", "model", "-o", "told.csv").stderr.splitlines()[0]
    for command in ("assess text.csv -m model -o told --workers 1", "report text.csv -m model -o told.html"):
        assert run(*command.split()).stderr.splitlines().count(told) == 1


@pytest.mark.slow
def test_columns_that_are_not_used_are_told_of_once_by_a_search(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    pd.read_csv("recording.csv").assign(operator="Ann").drop(columns="start").to_csv("spoken.csv", index=False)
    Path("cut.toml").write_text('layout = { kind = "wide", time = "time" }\nwindowing = { length = 4 }\n')
    common = ("spoken.csv", "--config", "cut.toml", "-o")
    told = next(line for line in run("fit", *common, "cut").stderr.splitlines() if "Not used" in line)
    tuned = run(
        "tune",
        *common,
        "tuned.toml",
        "--trials",
        "1",
        "--set",
        "search.draws=1",
        "--set",
        "training.epochs=1",
        "--workers",
        "1",
    ).stderr
    assert tuned.splitlines().count(told) == 1


def test_all_exit_codes_are_in_the_help_and_the_docs():
    told = " ".join(run("--help").stdout.replace("│", " ").split())
    _, _, listed = (Path(__file__).parents[2] / "docs" / "commands.md").read_text().partition("Exit codes:")
    for code, meaning in MEANINGS.items():
        assert f"{code.value} {meaning}" in told
        assert re.search(rf"\b{code.value}\b", listed.partition("\n\n")[0])


def test_standard_input_is_called_so(folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = run("assess", "-", "-m", "model", "-o", "out.csv", stdin="a,b\n1,2\n", code=FAILED)
    assert done.stderr.startswith('DataError: standard input: no column "c"')


def test_a_header_of_numbers_is_told_of(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    lines = Path("good.csv").read_text().splitlines(keepends=True)
    (tmp_path / "bare.csv").write_text("".join(lines[1:]))
    told = run("fit", tmp_path / "bare.csv", "-o", tmp_path / "bare", "--set", "posterior.draws=2").stderr
    assert "bare.csv: the header holds numbers only" in told
    (tmp_path / "counted.csv").write_text("".join(["0,1,2\n", *lines[1:]]))
    assert "header" not in run("fit", tmp_path / "counted.csv", "-o", tmp_path / "counted").stderr


def test_how_times_are_written_is_remembered(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    how = ["--window", "8", "--time", "time", "--set", "layout.time_format=%m/%d/%Y %I:%M:%S %p"]
    run("fit", "american.csv", "-o", tmp_path / "model", *how)
    run("assess", "american.csv", "-m", tmp_path / "model", "-o", tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["start"][1].startswith("2026-03-29 00:00:08")


def test_windows_over_a_pause_are_told_of_with_the_flag(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    frame = pd.read_csv("recording.csv")[["time", "x"]]
    frame.loc[45:, "time"] += 500
    frame.to_csv(tmp_path / "pause.csv", index=False)
    how = ["--window", "8", "--time", "time"]
    told = run("fit", tmp_path / "pause.csv", "-o", tmp_path / "model", *how).stdout
    assert "1 window goes on over a pause, the longest of 501 s: with --set windowing.longest_gap" in told
    told = run("assess", tmp_path / "pause.csv", "-m", "windows", "-o", tmp_path / "found.csv").stderr
    assert "1 window goes on over a pause, the longest of 501 s" in told
    assert "--set windowing.longest_gap: of `indubio fit`" in told
    assert pd.read_csv(tmp_path / "found.csv")["notes"].fillna("").str.contains("pause: 501 s").sum() == 1
    told = run("fit", tmp_path / "pause.csv", "-o", tmp_path / "cut", *how, "--set", "windowing.longest_gap=5").stdout
    assert "windows begin anew after 1 pause" in told
