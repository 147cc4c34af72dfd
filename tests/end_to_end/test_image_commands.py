"""Folders of images by commands alone: fit, verdicts with file names, report, exported model."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from indubio.export import OnnxModel, export_onnx
from indubio.judge import Judge
from tests.end_to_end.test_commands import run


def saved(folder, images: np.ndarray) -> None:
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray((15 * image).astype(np.uint8)).save(folder / f"digit{number}.png")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, digits = tmp_path_factory.mktemp("images"), load_digits()
    zeros, others = digits.images[digits.target == 0], digits.images[digits.target != 0]
    saved(folder / "good", zeros[:120])
    saved(folder / "new", np.concatenate([zeros[120:140], others[:20]]))
    told = run("fit", folder / "good", "-o", folder / "model", "--set", "posterior.draws=3", "--json")
    assert json.loads(told.stdout)["shape"] == [8, 8, 1]
    return folder


def test_verdicts_carry_the_names_of_the_files(folder):
    run("assess", folder / "new", "-m", folder / "model", "-o", folder / "found.csv")
    found = pd.read_csv(folder / "found.csv")
    assert found["file"].tolist() == [f"digit{n}.png" for n in range(40)]
    assert (found["verdict"][20:] != "INLIER").mean() > 0.9
    assert found["nll"][20:].median() > found["nll"][:20].max()


def test_a_network_for_images_by_commands(folder):
    chosen = ("--set", "posterior=mc_dropout", "--set", "posterior.draws=5", "--set", "training.epochs=3")
    told = run("fit", folder / "good", "-o", folder / "dropout", *chosen)
    assert "Fitted 5 draws on 120 images of 8 x 8 x 1 values" in told.stdout
    manifest = json.loads(run("inspect", folder / "dropout", "--json").stdout)
    assert manifest["settings"]["architecture"]["kind"] == "conv2d"
    run("assess", folder / "new", "-m", folder / "dropout", "-o", folder / "dropout.csv", "--top", "0")
    judge, images = Judge.load(folder / "dropout"), str(folder / "new")
    export_onnx(judge.detector, folder / "model.onnx")
    theirs = OnnxModel(folder / "model.onnx").assess(judge.reading(images).read(images))
    np.testing.assert_allclose(theirs.nll, pd.read_csv(folder / "dropout.csv")["nll"], rtol=1e-4)


def test_a_size_is_kept_with_the_model_and_new_images_are_resized_alike(folder, tmp_path):
    how = ("--set", "images={ size = [6, 7], resize = true, colour = 'rgb', recolour = true }")
    run("fit", folder / "good", "-o", tmp_path / "model", "--set", "posterior.draws=3", *how)
    manifest = json.loads(run("inspect", tmp_path / "model", "--json").stdout)
    assert manifest["fitted"]["preparation_"]["input_shape"] == [6, 7, 3]
    run("assess", str(folder / "new" / "*.png"), "-m", tmp_path / "model", "-o", tmp_path / "found.csv")
    assert len(pd.read_csv(tmp_path / "found.csv")) == 40


def test_images_of_another_size_are_an_error_that_names_the_file(folder, tmp_path):
    Image.fromarray(np.zeros((9, 8), np.uint8)).save(tmp_path / "tall.png")
    told = run("assess", tmp_path, "-m", folder / "model", code=1)
    assert "tall.png: this image has 9 x 8 pixels, and 8 x 8 are wanted" in " ".join(told.stderr.split())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--set", "images.size=8"), "--set images.size must be a list"),
        (("--set", "images.colour=blue"), "--set images.colour"),
        (
            ("--set", "stream=true"),
            "images are held in memory",
        ),
        (
            ("--id", "part", "--set", "file.decimal=,"),
            "--id, --set file.decimal: for tables and recordings",
        ),
        (
            ("--set", "spectra=true"),
            "spectra are of windows",
        ),
    ],
)
def test_flags_that_make_no_sense_for_images_are_refused(folder, tmp_path, flags, message):
    assert message in " ".join(run("fit", folder / "good", "-o", tmp_path / "m", *flags, code=1).stderr.split())


def test_flags_of_images_are_refused_for_tables(tmp_path):
    (tmp_path / "rows.csv").write_text("x\n1\n2\n")
    told = run("fit", tmp_path / "rows.csv", "-o", tmp_path / "m", "--set", "images.size=[8, 8]", code=1)
    assert "is for .png, .jpg and .jpeg, and" in " ".join(told.stderr.split())


def test_a_report_of_a_folder_of_images(folder):
    run("report", folder / "new", "-m", folder / "model", "-o", folder / "report.html")
    assert "what each pixel adds to the score" in (folder / "report.html").read_text()


def test_workers_do_not_take_images_and_say_so(folder, tmp_path):
    told = run("assess", folder / "new", "-m", folder / "model", "-o", tmp_path / "out", "--workers", "2", code=2)
    assert "leave --workers out for images" in " ".join(told.stderr.replace("│", " ").split())
