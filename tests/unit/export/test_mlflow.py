"""A detector in the real MLflow, with tracking stores in temporary folders."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest

from indubio import Detector, evaluate
from indubio.data import read_table
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, ModelFileError
from indubio.export import mlflow as ours
from tests.served import good_rows
from tests.stored_models import assert_same

# Two that MLflow itself raises, with SQLAlchemy 2.1 and pandas 3.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader strategy", "ignore:Operation with range is deprecated"
)


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A tracking store in a temporary folder; MLflow takes seconds to make its tables."""
    folder = tmp_path_factory.mktemp("tracking")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'tracking.sqlite'}")
    mlflow.set_experiment(
        experiment_id=mlflow.create_experiment("lines", artifact_location=(folder / "artifacts").as_uri())
    )
    yield
    mlflow.set_tracking_uri(before)


def mixed_frame(rows: int) -> pd.DataFrame:
    numbers = np.random.default_rng(1).normal(size=rows)
    return pd.DataFrame(
        {"weight": numbers, "colour": np.resize(["red", "blue"], rows), "code": np.resize(["1", "1", "2"], rows)}
    )


@pytest.fixture(scope="module")
def mixed() -> Detector:
    """A number and two categories, one of them written in digits; missing values are referred."""
    return Detector(missing="refer").fit(read_table(mixed_frame(80), categorical=["colour", "code"]))


@pytest.fixture(scope="module")
def windows() -> Detector:
    return Detector().fit(np.random.default_rng(2).normal(size=(60, 16, 2)))


@pytest.mark.slow
@pytest.mark.usefixtures("tracking")
def test_a_logged_detector_is_loaded_again_to_the_bit(mixed: Detector) -> None:
    with mlflow.start_run() as run:
        info = ours.log_model(mixed, name="parts", registered_model_name="press", tags={"line": "3"})
    new = read_table(mixed_frame(10), categorical=["colour", "code"])
    for uri in (info.model_uri, "models:/press/1"):
        assert_same(ours.load_model(uri), mixed, new)
    logged = mlflow.get_logged_model(info.model_id)
    assert logged.source_run_id == run.info.run_id
    assert logged.params["missing"] == "refer"
    assert logged.params["posterior.kind"] == "prototypes"
    assert (logged.tags["indubio.training_examples"], logged.tags["line"]) == ("80", "3")


def test_the_artifact_holds_no_pickle_and_names_what_it_needs(mixed: Detector, tmp_path: Path) -> None:
    ours.save_model(mixed, tmp_path / "saved")
    files = [path for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".pth", ".joblib")]
    assert not [path for path in files if path.read_bytes()[:1] == b"\x80"]  # how a pickle begins
    needed = (tmp_path / "saved" / "requirements.txt").read_text().split()
    assert needed[-1].startswith("indubio[mlflow]==")
    assert not [line for line in needed if "torch" in line]
    assert_same(
        ours.load_model(str(tmp_path / "saved")), mixed, read_table(mixed_frame(5), categorical=["colour", "code"])
    )


def test_a_pyfunc_predicts_the_columns_of_an_assessment(mixed: Detector, tmp_path: Path) -> None:
    ours.save_model(mixed, tmp_path / "saved")
    generic = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    frame = mixed_frame(6).set_axis(list("abcdef"))
    frame.loc["b", "weight"] = np.nan
    frame.loc["c", "colour"] = "green"
    frame.loc["d", "weight"] = 1e6
    mixed_up = frame[["code", "weight", "colour"]].assign(shift=1)
    found = generic.predict(mixed_up)
    expected = mixed.assess(read_table(frame, categorical=["colour", "code"])).to_pandas(frame.index)
    pd.testing.assert_frame_equal(found, expected)
    assert (found.loc["b", "verdict"], found.loc["b", "reason"]) == ("REFER", "bad_input")
    assert "green" in found.loc["c", "notes"]
    named = generic.predict(mixed_up, params={"top": 2})["top_features"]
    table = mixed.assess(read_table(frame, categorical=["colour", "code"]), explain=True).to_arrow(top=2)
    assert named.tolist() == table["top_features"].to_pylist()
    assert named["d"].startswith("weight ")


def test_the_signature_is_that_of_the_training_data(mixed: Detector, tmp_path: Path) -> None:
    ours.save_model(mixed, tmp_path / "saved")
    generic = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    kinds = {column.name: str(column.type) for column in generic.metadata.signature.inputs}
    assert kinds == {"weight": "DataType.double", "colour": "DataType.string", "code": "DataType.string"}
    example = generic.metadata.load_input_example(str(tmp_path / "saved"))
    assert set(generic.predict(example).columns) <= set(generic.metadata.signature.outputs.input_names())
    with pytest.raises(mlflow.MlflowException, match="weight"):
        generic.predict(mixed_frame(2).drop(columns="weight"))
    with pytest.raises(ConfigError, match="`top` must be"):
        generic.predict(mixed_frame(2), params={"top": -1})


def test_windows_are_tensors(windows: Detector, tmp_path: Path) -> None:
    ours.save_model(windows, tmp_path / "saved")
    generic = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    new = np.random.default_rng(3).normal(size=(4, 16, 2))
    pd.testing.assert_frame_equal(generic.predict(new), windows.assess(new).to_pandas())
    assert generic.metadata.signature.inputs.inputs[0].shape == (-1, 16, 2)
    with pytest.raises(mlflow.MlflowException, match="shape"):
        generic.predict(new[:, :8])


def test_groups_come_as_a_column(tmp_path: Path) -> None:
    frame = good_rows(400).assign(machine=["a", "b"] * 200)
    detector = Detector(smallest_group=30).fit(frame.drop(columns="machine"), groups=frame["machine"])
    ours.save_model(detector, tmp_path / "saved")
    generic = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    new = good_rows(20, seed=5)
    groups = ["a", "b"] * 10
    expected = detector.assess(new, groups=groups)
    np.testing.assert_array_equal(generic.predict(new.assign(group=groups))["p_value"], expected.p_value)
    with pytest.raises(mlflow.MlflowException, match="group"):
        generic.predict(new)


@pytest.mark.slow
@pytest.mark.usefixtures("tracking")
def test_an_evaluation_becomes_metrics_of_the_run_and_the_model() -> None:
    rows = good_rows(200)
    detector = Detector().fit(rows)
    labels = np.repeat([0, 1], [40, 10])
    new = pd.concat([good_rows(40, seed=7), good_rows(10, seed=8) + 6])
    found = detector.assess(new)
    evaluation = evaluate(labels, found.prediction, found.total, scores=found.nll)
    with mlflow.start_run() as run:
        info = ours.log_model(detector)
        ours.log_evaluation(evaluation, prefix="test_", model_id=info.model_id)
    metrics: dict[str, Any] = mlflow.get_run(run.info.run_id).data.metrics
    assert metrics["test_auroc"] == evaluation.metrics["auroc"]
    assert metrics["test_examples"] == 50
    assert all(np.isfinite(value) for value in metrics.values())


def test_what_is_no_model_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "MLmodel").write_text("flavors:\n  sklearn: {}\n")
    with pytest.raises(ModelFileError, match="no model of indubio"):
        ours.load_model(str(tmp_path / "other"))
    (tmp_path / "other" / "MLmodel").write_text("flavors:\n  indubio: {data: ../../elsewhere}\n")
    with pytest.raises(ModelFileError, match="outside"):
        ours.load_model(str(tmp_path / "other"))


def test_what_only_pickle_could_hold_is_refused(tmp_path: Path) -> None:
    other = EnsembleDetector(IsolationForest(n_estimators=5)).fit(good_rows(60).to_numpy())
    for attempt in (lambda: ours.save_model(other, tmp_path / "saved"), lambda: ours.log_model(other)):
        with pytest.raises(ModelFileError, match="only pickle"):
            attempt()
    assert not (tmp_path / "saved").exists()


def test_whole_numbers_are_refused_by_the_signature(mixed: Detector, tmp_path: Path) -> None:
    ours.save_model(mixed, tmp_path / "saved")
    with pytest.raises(mlflow.MlflowException, match="double"):
        mlflow.pyfunc.load_model(str(tmp_path / "saved")).predict(mixed_frame(2).assign(weight=[1, 2]))
