"""A detector on spectra, everywhere a detector goes: files, streams, explanations, drift, reports, other detectors."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from sklearn.base import clone
from sklearn.neighbors import LocalOutlierFactor

from indubio import (
    AnchoredEnsemble,
    Conv1d,
    Dense,
    Detector,
    ExampleStream,
    HoldOut,
    NormalWishart,
    Training,
    TrainScores,
    Trimming,
    load,
    save,
)
from indubio.configuration import detector_from_plain, detector_to_plain
from indubio.data import Reading, Wide, Windowing, Windows, read_windows
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, DataError, ModelFileError, ShapeError
from indubio.export import OnnxModel, export_onnx
from indubio.posteriors import Prototypes, RandomFeatures
from indubio.prepare import SCALINGS, Robust, Spectra, ZScore
from indubio.report import html_report
from indubio.storage import read_manifest
from indubio_server.store import ServerStore
from tests.served import serving
from tests.small_examples import trained_if_so
from tests.stored_models import assert_same, reseal

RNG = np.random.default_rng(0)
SENSORS = ("vibration", "pressure")
RATE = 1000.0


def recording(samples: int, seed: int, fault: bool = False) -> pa.Table:
    """A vibration with a tone, and a slow pressure; a fault adds a tone of 400 Hz."""
    random, time = np.random.default_rng(seed), np.arange(samples) / RATE
    vibration = np.sin(2 * np.pi * 60 * time) + 0.3 * random.normal(size=samples)
    if fault:
        vibration += 0.5 * np.sin(2 * np.pi * 400 * time)
    pressure = 5 + 0.1 * random.normal(size=samples)
    return pa.table({"time": time, "vibration": vibration, "pressure": pressure})


READING = Reading(layout=Wide(time="time"), windowing=Windowing(length=64, rate=RATE))
GOOD = READING.read(recording(64 * 120, 1))
NEW = READING.read(recording(64 * 30, 2))
BAD = READING.read(recording(64 * 30, 3, fault=True))


def made(**settings) -> Detector:
    spectra = Spectra(bands=8, statistics=False, patterns=0)
    quick = {"posterior": AnchoredEnsemble(members=3), "training": Training(epochs=30), "spectra": spectra}
    return Detector(**trained_if_so(quick | settings))


@pytest.fixture(scope="module")
def detector() -> Detector:
    return made().fit(GOOD)


def test_a_fault_is_found_by_its_band(detector):
    found = detector.assess(BAD)
    assert np.median(found.nll) > detector.assess(NEW).nll.max()
    names = detector.contributions(BAD).top(1).names[:, 0]
    assert np.mean([name.startswith("vibration: ") for name in names]) > 0.9
    assert "vibration: 375-437.5 Hz" in names


def test_features_have_names_with_the_rate_of_the_windows(detector):
    names = detector.chain_.preparation.value_schema.names
    assert "vibration: 0-62.5 Hz" in names
    assert "pressure: envelope 0-15.62 Hz" in names
    assert len(names) == detector.preparation_.spectra.count == detector.draws_.autoencoder.network.input_shape[0]
    assert detector.schema_.names == SENSORS
    assert detector.input_shape_ == (64, 2)


def test_contributions_are_per_feature_and_per_sensor_and_add_up(detector):
    found = detector.contributions(BAD)
    assert found.steps is None
    assert found.sensor_names == SENSORS
    np.testing.assert_allclose(found.score, detector.assess(BAD).nll, rtol=1e-5)
    for place, sensor in enumerate(SENSORS):
        own = [at for at, name in enumerate(found.names) if name.startswith(f"{sensor}: ")]
        np.testing.assert_allclose(found.features.value[:, own].sum(axis=1), found.sensors.value[:, place], atol=1e-12)
    assert found.by_sensor.top(1).names[0, 0] == "vibration"
    plain = found.to_plain(0, k=2)
    assert len(plain["features"]) == 2
    assert {sensor["name"] for sensor in plain["sensors"]} == set(SENSORS)
    assert plain["sensors"][0]["contribution"] >= plain["sensors"][1]["contribution"]
    json.dumps(plain)


def test_reasons_and_tables_are_of_features(detector):
    found = detector.assess(BAD, explain=True)
    again = detector.contributions(BAD).taken(found.why.places)
    np.testing.assert_array_equal(found.why.sensors.value, again.sensors.value)
    table = found.to_arrow(top=2, contributions=True)
    assert "vibration: 375-437.5 Hz" in " ".join(table["top_features"].to_pylist())
    assert "contribution: vibration: 375-437.5 Hz" in table.column_names


def test_a_score_does_not_depend_on_its_company(detector):
    whole = detector.nll(NEW)
    parts = [detector.nll(NEW.select(np.arange(start, min(start + 7, 30)))) for start in range(0, 30, 7)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    order = RNG.permutation(30)
    np.testing.assert_array_equal(detector.nll(NEW.select(order)), whole[:, order])


def test_arrays_and_windows_are_scored_alike(detector):
    array = made().fit(GOOD.values)
    np.testing.assert_array_equal(array.nll(NEW.values), detector.nll(NEW))
    with pytest.raises(ShapeError, match=r"shape \(64, 2\), got \(32, 2\)"):
        detector.assess(replace(NEW, values=NEW.values[:, :32]))


def test_none_and_false_take_windows_as_they_are():
    for spectra in (None, False):
        raw = made(spectra=spectra, architecture=Conv1d(linear=(8,)), training=Training(epochs=1)).fit(GOOD)
        assert raw.preparation_.spectra is None
        assert raw.draws_.autoencoder.network.input_shape == (64, 2)


def test_rows_have_no_spectra():
    with pytest.raises(ConfigError, match=r"`spectra` are of windows .* rows of 3 values"):
        made().fit(RNG.normal(size=(30, 3)))


def test_the_usual_network_of_many_features_is_no_wider_than_it_must_be():
    settings = made().settings_in_use()
    (features,) = settings.value_shape_for((64, 1))
    assert settings.architecture_for((64, 1), rows=100).widths == (4 * features, 4 * features)
    assert settings.architecture_for((64, 50), rows=100).widths == (256, 256)
    assert made(architecture=Dense()).settings_in_use().architecture_for((64, 50), rows=100) == Dense()


@pytest.mark.parametrize("missing", ["median", "refer"])
def test_missing_values_are_filled_in_before_the_spectrum(missing):
    gaps = GOOD.values.copy()
    gaps[3, 5:9, 0] = np.nan
    fitted = made(missing=missing).fit(gaps)
    assert np.isfinite(fitted.nll(gaps)).all()
    new = NEW.values.copy()
    new[0, 10, 1] = np.nan
    found = fitted.assess(new)
    assert found.notes[0] == "missing: x1"
    assert (found.verdict[0] == "REFER") or missing == "median"
    with pytest.raises(DataError, match="NaN"):
        made().fit(gaps)


def test_a_frozen_sensor_is_noted_and_far_away(detector):
    stuck = NEW.values.copy()
    stuck[:, :, 0] = 0.1
    found = detector.assess(replace(NEW, values=stuck))
    assert set(found.notes) == {"frozen: vibration"}
    assert found.nll.min() > detector.assess(NEW).nll.max()


def test_features_out_of_range_are_named():
    found = made(range_margin=0.1).fit(GOOD).assess(BAD)
    named = ["vibration: 375-437.5 Hz" in note and "out of range" in note for note in found.notes]
    assert np.mean(named) > 0.9
    assert np.mean(found.reason == "out_of_range") > 0.9


@pytest.mark.parametrize("scaling", SCALINGS)
def test_every_scaling_is_of_the_features(scaling, tmp_path):
    chosen = SCALINGS[scaling]()
    fitted = made(scaling=chosen, calibration=TrainScores()).fit(GOOD)
    alone = chosen.fit(fitted.chain_.preparation.followed(GOOD))
    for name in ("start", "step", "bounds"):
        np.testing.assert_array_equal(getattr(fitted.preparation_.scaling, name), getattr(alone, name))
    assert np.median(fitted.assess(BAD).nll) > np.median(fitted.assess(NEW).nll)
    save(fitted, tmp_path / "model")
    assert_same(fitted, load(tmp_path / "model"), BAD)


@pytest.mark.parametrize("posterior", [RandomFeatures(draws=2, units=100), Prototypes(draws=2)])
def test_a_posterior_in_closed_form_sees_the_features(posterior):
    fitted = made(posterior=posterior).fit(GOOD)
    assert fitted.draws_.autoencoder.network.input_shape == (fitted.preparation_.spectra.count,)
    assert np.median(fitted.assess(BAD).nll) > np.median(fitted.assess(NEW).nll)


@pytest.mark.filterwarnings("ignore:the average score")  # of the detector that is not trimmed
@pytest.mark.parametrize(
    "detector",
    [
        made(trimming=Trimming(share=0.1)),
        EnsembleDetector(
            LocalOutlierFactor(novelty=True), members=2, spectra=Spectra(bands=8), trimming=Trimming(share=0.1)
        ),
    ],
)
def test_windows_that_are_not_good_are_left_out_by_their_features(detector):
    loud = replace(BAD.select(range(4)), values=4 * BAD.values[:4])
    both = Windows.joined([GOOD, loud]).select(np.random.default_rng(0).permutation(124))
    trimmed, whole = detector.fit(both), clone(detector).set_params(trimming=None).fit(both)
    (low,), (high,) = (fitted.chain_.preparation.value_schema.columns[16:17] for fitted in (trimmed, whole))
    assert low.name == high.name == "vibration: RMS"
    assert low.largest < high.largest
    assert trimmed.assess(loud).nll.min() > whole.assess(loud).nll.max()


def test_drift_is_told_of_features(detector):
    monitor = None
    for seed in range(4):
        bad = READING.read(recording(64 * 60, 50 + seed, fault=True))
        monitor = detector.monitored(bad, detector.assess(bad).p_value, monitor)
    changed = {one.name for one in monitor.drift().changed}
    assert "vibration: 375-437.5 Hz" in changed
    assert not any(name.startswith("pressure: mean") for name in changed)


def test_a_saved_model_is_the_same_to_the_bit(detector, tmp_path):
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_same(detector, loaded, BAD)
    assert loaded.spectra == detector.spectra
    assert loaded.chain_.preparation.value_schema == detector.chain_.preparation.value_schema
    assert read_manifest(tmp_path / "model").settings["spectra"]["bands"] == 8
    card = (tmp_path / "model" / "README.md").read_text()
    assert "energies of 8 frequency bands" in card
    assert "at 1000 samples a second" in card


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain["settings"].update(spectra=False),
        lambda plain: plain["settings"]["spectra"].update(bands=9),
        lambda plain: plain["fitted"]["preparation_"].update(spectra=None),
        lambda plain: plain["fitted"]["preparation_"]["spectra"].update(length=65),
        lambda plain: plain["fitted"]["preparation_"]["spectra"]["spectra"].update(bands=9),
        lambda plain: plain["fitted"]["preparation_"]["spectra"].update(rate="fast"),
        lambda plain: plain["fitted"]["preparation_"]["spectra"].update(smallest=None),
    ],
)
def test_a_model_whose_spectra_do_not_fit_is_refused(detector, tmp_path, change):
    save(detector, tmp_path / "model")
    reseal(tmp_path / "model", change)
    with pytest.raises(ModelFileError):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spectra": Spectra(spacing="log", envelope=0, blocks=3)},
        {"posterior": NormalWishart(), "spectra": None},
        {"posterior": NormalWishart(), "spectra": Spectra(patterns=0), "missing": "median"},
        {"missing": "median"},
        {"calibration": HoldOut()},
        {"range_margin": 0.1},
        {"scaling": ZScore()},
        {"scaling": Robust()},
    ],
)
@pytest.mark.parametrize("length", [30, 61, 64])
def test_an_exported_model_equals_the_library(settings, length, tmp_path):
    fitted = made(**settings).fit(GOOD.values[:, :length] if length < 64 else GOOD.values)
    export_onnx(fitted, tmp_path / "model.onnx")
    model = OnnxModel(tmp_path / "model.onnx")
    new = np.concatenate([NEW.values, BAD.values])[:, :length].copy()
    new[0] = 0.0
    new[1, :, 0] = 1e30
    if "missing" in settings:
        new[2, 3, 1] = np.nan
    ours, theirs = fitted.assess(new), model.assess(new)
    np.testing.assert_allclose(theirs.nll, ours.nll, rtol=1e-5)
    np.testing.assert_array_equal(theirs.notes, ours.notes)
    np.testing.assert_allclose(theirs.p_value, ours.p_value, atol=0.02)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_correction_by_labels_is_exported_too(scaling, tmp_path):
    both = Windows.joined([NEW, BAD])
    learned = made(scaling=SCALINGS[scaling]()).fit(GOOD).learn(both, np.repeat([0, 1], 30), recent=both)
    export_onnx(learned, tmp_path / "model.onnx")
    found = OnnxModel(tmp_path / "model.onnx").assess(both)
    np.testing.assert_allclose(found.probability, learned.assess(both).probability, atol=1e-3)
    save(learned, tmp_path / "model")
    assert_same(learned, load(tmp_path / "model"), both)


def test_settings_are_plain_data_and_back():
    for spectra in (None, False, Spectra(bands=4, rate=12000.0)):
        plain = json.loads(json.dumps(detector_to_plain(Detector(spectra=spectra))))
        assert detector_from_plain(plain).spectra == spectra
    with pytest.raises(ConfigError, match=r"spectra.*bnds"):
        detector_from_plain({"spectra": {"bnds": 4}})
    assert made().set_params(spectra__bands=3).spectra.bands == 3


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_stream_learns_what_memory_holds(scaling, tmp_path):
    """The same examples, read in every epoch: ranges to the bit, and floors from a sample that is all of them."""
    parquet.write_table(recording(64 * 300, 1), tmp_path / "run.parquet")
    settings = {"calibration": TrainScores(), "training": Training(epochs=2), "scaling": SCALINGS[scaling]()}
    streamed = made(**settings).fit(ExampleStream(tmp_path / "run.parquet", READING, buffer=50))
    held = made(**settings).fit(READING.read(tmp_path / "run.parquet"))
    for name in ("smallest", "span"):
        np.testing.assert_array_equal(
            getattr(streamed.preparation_.scaling, name), getattr(held.preparation_.scaling, name), err_msg=name
        )
    for name in ("start", "step"):
        ours, theirs = (getattr(detector.preparation_.scaling, name) for detector in (streamed, held))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(streamed.preparation_.spectra.floor, held.preparation_.spectra.floor)
    assert streamed.chain_.preparation.value_schema == held.chain_.preparation.value_schema
    assert streamed.drift_reference_.features == held.drift_reference_.features
    assert np.isfinite(streamed.assess(NEW).nll).all()


def test_a_stream_with_gaps_fills_them_in(tmp_path):
    table = recording(64 * 200, 1)
    pressure = table["pressure"].to_numpy().copy()
    pressure[::500] = np.nan
    table = table.set_column(2, "pressure", pa.array(pressure, from_pandas=True))
    parquet.write_table(table, tmp_path / "run.parquet")
    reading = Reading(layout=Wide(time="time"), windowing=Windowing(length=64, gaps="leave"))
    stream = ExampleStream(tmp_path / "run.parquet", reading, buffer=50)
    fitted = made(missing="median", training=Training(epochs=2), calibration=HoldOut()).fit(stream)
    assert np.isfinite(fitted.assess(reading.read(table)).nll).all()


def test_any_other_detector_can_have_spectra():
    fitted = EnsembleDetector(LocalOutlierFactor(novelty=True), members=2, spectra=Spectra(bands=8)).fit(GOOD)
    assert fitted.members_[0].n_features_in_ == fitted.preparation_.spectra.count
    assert np.median(fitted.assess(BAD).nll) > np.median(fitted.assess(NEW).nll)
    assert "375-437.5 Hz" in html_report(fitted, BAD)
    with pytest.raises(ConfigError, match="`spectra`"):
        EnsembleDetector(LocalOutlierFactor(novelty=True), spectra=Spectra()).fit(RNG.normal(size=(30, 3)))


def test_an_update_with_confirmed_windows_starts_warm():
    fitted = made(calibration=TrainScores()).fit(GOOD)
    updated = fitted.update(NEW, training_data=GOOD, epochs=1)
    assert updated.n_training_ == len(GOOD) + len(NEW)
    assert np.isfinite(updated.nll(NEW)).all()


def test_a_report_shows_signals_features_and_runs(detector):
    table = pa.concat_tables([recording(64 * 10, 5), recording(64 * 10, 6, fault=True)])
    table = table.append_column("run", pa.array(["Monday"] * 640 + ["Tuesday"] * 640))
    windows = read_windows(table, Wide(time="time", sensors=SENSORS, group="run"), READING.windowing)
    page = html_report(detector, windows)
    assert "375-437.5 Hz" in page
    assert "Features of a window" in page
    assert "<td>Monday</td>" in page
    assert "<td>Tuesday</td><td>ANOMALY</td>" in page
    assert "measured" in page
    assert "expected, " not in page  # what draws reconstruct are features, not signals


def test_a_server_gives_what_the_library_gives(detector, tmp_path):
    save(detector, tmp_path / "model")
    with (
        ServerStore(f"sqlite:///{tmp_path / 'store.sqlite'}") as store,
        serving(store, {"m": tmp_path / "model"}, tmp_path / "state") as (_, client),
    ):
        rows = [dict(zip(SENSORS, window.T.tolist(), strict=True)) for window in BAD.values[:5]]
        answer = client.post("/assess", json={"rows": rows, "top": 2})
        assert answer.status_code == 200, answer.text
        results = answer.json()["results"]
    expected = detector.assess(BAD.select(range(5)))
    assert [result["nll"] for result in results] == expected.nll.tolist()
    assert "vibration: " in answer.text
