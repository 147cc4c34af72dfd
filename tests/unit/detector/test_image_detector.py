"""A detector of images (N, H, W, C): from pixels to verdicts, reasons, drift and a report."""

import re

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest

from indubio import AnchoredEnsemble, Conv2d, Detector, MCDropout, Spectra, Training
from indubio.cli.by_flags import by_flags
from indubio.data import Images
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, DataError, ShapeError
from indubio.report import html_report
from indubio.storage import load, save
from indubio_lab.tuning import Sample
from indubio_lab.tuning.criterion import broken

DIGITS = load_digits()
ZEROS = DIGITS.images[DIGITS.target == 0][..., None]
OTHERS = DIGITS.images[DIGITS.target != 0][:60][..., None]
RNG = np.random.default_rng(0)
COLOURED = np.linspace(0, 200, 49).reshape(7, 7, 1) * [1.0, 0.5, 0.1] + 5 * RNG.normal(size=(60, 7, 7, 3))


def quick(**settings) -> Detector:
    usual = {"posterior": AnchoredEnsemble(members=3), "training": Training(epochs=20)}
    return Detector(**usual | settings)


@pytest.fixture(scope="module")
def zeros() -> Detector:
    return quick(posterior=MCDropout(draws=8)).fit(ZEROS[:120])


def images(values: np.ndarray, channels=("grey",)) -> Images:
    origin = pa.table({"file": [f"{n}.png" for n in range(len(values))]})
    return Images(values=values, channels=channels, origin=origin)


def test_a_network_for_images_is_chosen_and_tells_digits_apart(zeros):
    assert isinstance(zeros.draws_.autoencoder.architecture, Conv2d)
    good, bad = zeros.assess(ZEROS[120:]).nll, zeros.assess(OTHERS).nll
    assert np.mean(bad[:, None] > good) > 0.98


def test_the_default_detector_takes_images_as_rows_of_their_pixels():
    detector = Detector().fit(ZEROS[:120])
    assert detector.draws_.weights["encoder.0.weight"].shape[1] == 64
    assert (detector.assess(OTHERS).verdict != "INLIER").mean() > 0.9
    assert (detector.assess(ZEROS[120:]).verdict == "INLIER").mean() > 0.7


def test_every_channel_has_one_range_for_all_pixels():
    detector = quick(training=Training(epochs=1)).fit(COLOURED)
    scaling = detector.preparation_.scaling
    np.testing.assert_array_equal(scaling.smallest, COLOURED.min(axis=(0, 1, 2)))
    scaled = detector.preparation_.scaled(COLOURED)
    np.testing.assert_allclose(scaled.min(axis=(0, 1, 2)), 0, atol=1e-7)
    np.testing.assert_allclose(scaled.max(axis=(0, 1, 2)), 1, atol=1e-6)


def test_the_heat_map_is_where_the_image_is_wrong():
    detector = quick().fit(COLOURED)
    wrong = COLOURED[:4].copy()
    wrong[:, 5, 2, 1] += 150  # one pixel, in green
    why = detector.contributions(wrong)
    assert why.pixels.value.shape == (4, 7, 7)
    assert all(np.unravel_index(one.argmax(), one.shape) == (5, 2) for one in why.pixels.value)
    assert why.top(1).names.tolist() == [["x1"]] * 4


def test_contributions_add_up_by_pixel_and_by_channel(zeros):
    why = zeros.contributions(OTHERS)
    score = zeros.assess(OTHERS).nll
    for parts in (why.values, why.features, why.pixels):
        total = parts.value.reshape(len(OTHERS), -1).sum(axis=1)
        np.testing.assert_allclose(why.typical + total, score, rtol=1e-5)
    plain = why.to_plain(3)
    np.testing.assert_array_equal(plain["pixels"]["contribution"], why.pixels.value[3])
    np.testing.assert_array_equal(why.taken(np.array([5])).pixels.spread[0], why.pixels.spread[5])


def test_named_images_keep_their_files_beside_the_verdicts(zeros):
    detector = quick(training=Training(epochs=2)).fit(images(ZEROS))
    found = detector.assess(images(OTHERS), explain=True)
    table = found.to_arrow(top=1, contributions=True)
    assert table["file"].to_pylist()[:2] == ["0.png", "1.png"]
    assert "contribution: grey" in table.column_names
    np.testing.assert_array_equal(found.nll, detector.assess(images(OTHERS)).nll)
    with pytest.raises(ShapeError, match=r'channels do not match.*"grey" then, "red", "green", "blue" now'):
        detector.assess(images(np.zeros((2, 8, 8, 3)), ("red", "green", "blue")))


def test_images_of_another_form_are_refused_with_the_way_out(zeros):
    with pytest.raises(ShapeError, match=r"of shape \(8, 8, 1\), got \(8, 8\)\. Give grey images a channel"):
        zeros.assess(OTHERS[..., 0])
    with pytest.raises(ShapeError, match=r"of shape \(8, 8, 1\), got \(8, 7, 1\)"):
        zeros.assess(OTHERS[:, :, :7])
    with pytest.raises(ShapeError, match=r"Conv2d needs images .*got windows of 8 x 8.*images\[\.\.\., None\]"):
        quick(architecture=Conv2d()).fit(ZEROS[..., 0])
    with pytest.raises(ConfigError, match="`spectra` are of windows"):
        quick(spectra=Spectra()).fit(ZEROS)


def test_a_missing_pixel_is_named_or_filled_in(zeros):
    holed = OTHERS.copy()
    holed[3, 5, 2, 0] = np.nan
    with pytest.raises(DataError, match=r"1 of 60 rows contain NaN \(first: row 3, pixel 5, 2, channel 0\)"):
        zeros.assess(holed)
    detector = quick(missing="refer", training=Training(epochs=1)).fit(ZEROS)
    found = detector.assess(holed)
    assert found.notes[3] == "missing: x0"
    assert found.verdict[3] == "REFER"


def test_a_channel_far_outside_its_range_is_noted():
    detector = quick(range_margin=0.5, training=Training(epochs=1)).fit(COLOURED)
    bright = COLOURED[:3].copy()
    bright[1, 2, 3, 2] = 1000
    assert detector.assess(bright).notes.tolist() == ["", "out of range: x2", ""]


def test_drift_of_brightness_is_found(zeros):
    def alarm(shown: np.ndarray) -> bool:
        return zeros.monitored(shown, zeros.assess(shown).p_value).drift().alarm

    assert not alarm(ZEROS[120:])
    assert alarm(np.repeat(ZEROS[120:] + 4, 4, axis=0))


def test_copies_and_equal_channels_are_told_and_dark_images_are_not_odd():
    grey = np.repeat(COLOURED[..., :1], 3, axis=3)
    with pytest.warns(UserWarning, match="repeats"):
        detector = quick(training=Training(epochs=1)).fit(grey)
    assert [finding.kind for finding in detector.findings_] == ["repeated"]
    assert "--set images.colour=grey" in by_flags(detector.findings_[0].way_out)
    dark = np.zeros((60, 9, 9, 1))
    dark[np.arange(60), RNG.integers(0, 9, 60), RNG.integers(0, 9, 60)] = RNG.uniform(1, 255, size=(60, 1))
    assert quick(training=Training(epochs=1)).fit(dark).findings_ == ()


def test_a_model_of_images_is_saved_and_says_what_it_is_of(zeros, tmp_path):
    save(zeros, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.nll(OTHERS), zeros.nll(OTHERS))
    assert "images of 8 x 8 pixels, 1 channels" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize("channels", [1, 3])
def test_a_report_shows_images_with_heat_maps(channels):
    good = ZEROS if channels == 1 else COLOURED
    names = ("grey",) if channels == 1 else ("red", "green", "blue")
    page = html_report(quick(training=Training(epochs=2)).fit(images(good, names)), images(good[:20], names))
    assert "what each pixel adds to the score" in page
    assert page.count("data:image/png;base64") >= 3 * 6
    assert "Channels and their ranges" in page
    assert re.search(r"\d+\.png", page)


def test_a_search_breaks_half_of_a_channel():
    sample = Sample(trained=COLOURED, held_out=COLOURED, columns=(np.array([0]), np.array([1]), np.array([2])))
    changed = broken(sample, seed=0) != COLOURED
    assert not changed[:, :3].any()
    assert (changed.any(axis=(1, 2)).sum(axis=1) == 1).all()


def test_any_detector_takes_images_as_rows_of_their_pixels():
    detector = EnsembleDetector(IsolationForest(n_estimators=10, random_state=0), members=3).fit(ZEROS[:120])
    found = detector.assess(np.concatenate([ZEROS[120:], OTHERS]))
    assert found.nll[58:].mean() > found.nll[:58].mean()
    assert "Channels and their ranges" in html_report(detector, OTHERS[:10])
