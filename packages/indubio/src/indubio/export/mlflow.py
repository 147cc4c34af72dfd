"""A detector in MLflow, without pickle: the model folder is the artifact, and this module loads it.

    log_model(detector, name="press")              the folder of `indubio.save`, with settings as parameters
    load_model("models:/press/3")                  the detector again, to the bit
    mlflow.pyfunc.load_model(uri).predict(frame)   the columns of an assessment, as a DataFrame

Nothing of the artifact is executed: `indubio.load` reads it and checks every file.
"""

import math
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from indubio import __version__
from indubio.data import Column, read_table
from indubio.detector import Detector
from indubio.errors import ConfigError, DataError, MissingExtraError, ModelFileError, ShapeError, quoted
from indubio.evaluation import Evaluation
from indubio.networks import OwnNetwork, engine_for
from indubio.storage import load, save, taken_apart

try:
    import mlflow
    import pandas as pd

    with warnings.catch_warnings():  # of MLflow's own classes; nothing that a user could change
        warnings.filterwarnings("ignore", message=".*Any type hint is inferred as AnyType")
        import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.models.model import ModelInfo
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, TensorSpec
    from mlflow.types import Schema as MlflowSchema
except ImportError:
    raise MissingExtraError('MLflow is missing: pip install "indubio[mlflow]".') from None

FLAVOR = "indubio"
DATA = "detector"  # the folder's name within the artifact
GROUP = "group"  # the column of groups, where the model was not fitted on a file that names it
TOP = "top"


def save_model(
    detector: Detector,
    path: str | PathLike[str],
    *,
    mlflow_model: Model | None = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted detector as a folder of MLflow.

    Args:
        detector: fitted, and not with a network of your own: that is Python, which no file holds.
        path: the folder, which must not exist.
        mlflow_model: what MLflow knows of the model by now; `log_model` passes it.
        pip_requirements: what it needs to run; None is this version of indubio.
        metadata: anything of yours that goes with it.
    """
    _require_storable(detector)
    model = Model() if mlflow_model is None else mlflow_model
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / DATA
        save(detector, folder)
        model.add_flavor(FLAVOR, data=f"data/{DATA}", indubio_version=__version__)
        mlflow.pyfunc.save_model(
            path=str(path),
            loader_module=__name__,
            data_path=str(folder),
            mlflow_model=model,
            signature=signature_of(detector),
            input_example=example_of(detector),
            pip_requirements=list(pip_requirements or requirements_of(detector)),
            metadata=None if metadata is None else dict(metadata),
        )


def log_model(
    detector: Detector,
    name: str = "model",
    *,
    registered_model_name: str | None = None,
    tags: Mapping[str, str] | None = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ModelInfo:
    """Log a fitted detector to MLflow's tracking store, in the active run where there is one.

    Its settings are the parameters of the logged model, and facts about it (examples, draws, findings) are tags.

    Args:
        detector: fitted.
        name: of the logged model.
        registered_model_name: also register it under this name.
        tags: further tags.
        pip_requirements: as for `save_model`.
        metadata: likewise.
    """
    _require_storable(detector)
    info: ModelInfo = Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        registered_model_name=registered_model_name,
        metadata=None if metadata is None else dict(metadata),
        params=settings_of(detector),
        tags=facts_of(detector) | dict(tags or {}),
        detector=detector,
        pip_requirements=pip_requirements,
    )
    return info


def load_model(model_uri: str, *, device: str | None = None) -> Detector:
    """The detector of a logged or saved model, which scores as the one that was logged.

    Args:
        model_uri: as MLflow names it: "models:/press/3", "models:/m-...", "runs:/...", or a path.
        device: as for `indubio.load`.
    """
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri))
    flavors = Model.load(str(folder)).flavors
    if FLAVOR not in flavors:
        raise ModelFileError(f"{model_uri} is no model of indubio: it has the flavors {quoted(sorted(flavors))}.")
    data = (folder / flavors[FLAVOR]["data"]).resolve()
    if folder.resolve() not in data.parents:
        raise ModelFileError(f"{model_uri}: its data lies outside of the model's folder. Do not use it.")
    return load(data, device=device)


def log_evaluation(evaluation: Evaluation, *, prefix: str = "", model_id: str | None = None) -> None:
    """Log what `indubio.evaluate` found as metrics of the active run; what is undefined (NaN) is left out.

    Args:
        evaluation: of predictions on labelled examples.
        prefix: before the name of every metric, such as "test_".
        model_id: the logged model that they are of, `log_model(...).model_id`.
    """
    found = {f"{prefix}{name}": float(value) for name, value in evaluation.to_dict().items()}
    mlflow.log_metrics({name: value for name, value in found.items() if math.isfinite(value)}, model_id=model_id)


def settings_of(detector: Detector) -> dict[str, str]:
    """The settings that a detector was fitted with as flat parameters: {"posterior.kind": "prototypes", ...}."""
    flat: dict[str, str] = {}

    def walk(value: Any, name: str) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                walk(inner, f"{name}.{key}" if name else str(key))
        elif value is not None:
            flat[name] = str(value)

    walk(taken_apart(detector).settings, "")
    return flat


def facts_of(detector: Detector) -> dict[str, str]:
    """What is known of a fitted detector, as tags."""
    return {
        "indubio.version": __version__,
        "indubio.training_examples": str(detector.n_training_),
        "indubio.reference_examples": str(detector.n_reference_),
        "indubio.example_shape": " x ".join(map(str, detector.input_shape_)),
        "indubio.draws": str(detector.draws_.count),
        "indubio.findings": ", ".join(finding.kind for finding in detector.findings_) or "none",
    }


def requirements_of(detector: Detector) -> list[str]:
    """What a fitted detector needs to run: torch only where no compiled core runs its network."""
    extras = ["mlflow"] + (["torch"] if engine_for(detector.draws_.autoencoder).name == "torch" else [])
    return [f"indubio[{','.join(extras)}]=={__version__}"]


def signature_of(detector: Detector) -> ModelSignature:
    """Columns in, by name and kind, or windows and images as tensors; the columns of an assessment out."""
    inputs: list[Any] = [TensorSpec(np.dtype(np.float64), (-1, *detector.input_shape_))]
    if _is_table(detector):
        kinds = {"number": DataType.double, "category": DataType.string}
        inputs = [ColSpec(kinds[column.kind], column.name) for column in detector.schema_.columns]
        if _is_grouped(detector):
            inputs.append(ColSpec(DataType.string, _group_column(detector)))
    example = example_of(detector)
    given = detector.assess(_examples(detector, example), groups=_groups(detector, example)).to_dict()
    words = {"verdict", "reason", "notes"}
    outputs: list[Any] = [
        ColSpec(
            DataType.string if name in words else DataType.boolean if name == "prediction" else DataType.double, name
        )
        for name in given
    ]
    outputs.append(ColSpec(DataType.string, "top_features", required=False))
    return ModelSignature(
        inputs=MlflowSchema(inputs),
        outputs=MlflowSchema(outputs),
        params=ParamSchema([ParamSpec(TOP, DataType.long, 0)]),
    )


def example_of(detector: Detector) -> Any:
    """One example in the middle of the training ranges: a frame of one row, or an array of one window or image."""
    columns = detector.schema_.columns
    if _is_table(detector):
        known = detector.reference_.groups
        group = {_group_column(detector): [known[0]]} if known else {}
        return pd.DataFrame({column.name: [_middle(column)] for column in columns} | group)
    return np.broadcast_to([float(_middle(column)) for column in columns], (1, *detector.input_shape_)).copy()


def _load_pyfunc(path: str) -> "PyfuncDetector":
    """What MLflow calls to load the model."""
    return PyfuncDetector(load(path))


class PyfuncDetector:
    """A detector as MLflow's generic models are: `predict` gives a DataFrame.

    Args:
        detector: fitted.
    """

    def __init__(self, detector: Detector) -> None:
        self.detector = detector

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Verdict, probability and uncertainties of every example, in the order they came.

        Args:
            model_input: a frame with the columns of the training data, or an array of windows or images.
            params: `top`: also a column of so many top features of each anomaly and referral.
        """
        top = (params or {}).get(TOP, 0)
        if not isinstance(top, int | np.integer) or top < 0:
            raise ConfigError("`top` must be a whole number of 0 or more, got {top!r}.", top=top)
        examples, groups = _examples(self.detector, model_input), _groups(self.detector, model_input)
        table = self.detector.assess(examples, groups=groups, explain=int(top) > 0).to_arrow(top=int(top))
        index = model_input.index if isinstance(model_input, pd.DataFrame) else None
        frame: pd.DataFrame = table.to_pandas()
        return frame if index is None else frame.set_axis(index, axis=0)


def _require_storable(detector: Detector) -> None:
    if not isinstance(detector, Detector) or isinstance(detector.architecture, OwnNetwork):
        what = "a network of your own" if isinstance(detector, Detector) else f"{type(detector).__name__}"
        raise ModelFileError(
            f"{what} is Python that only pickle could put into an artifact, and loading a pickle runs what is in it. "
            "Keep the training data and the settings: the same seed fits the same model."
        )


def _examples(detector: Detector, given: Any) -> Any:
    """The examples as `Detector.assess` takes them: categories are told, or numbers in text would be none."""
    if not _is_table(detector):
        if isinstance(given, pd.DataFrame):
            raise ShapeError(
                f"this model takes arrays (examples, {', '.join(map(str, detector.input_shape_))}), got a frame."
            )
        return np.asarray(given)
    if not isinstance(given, pd.DataFrame):
        raise DataError(f"this model takes a DataFrame with its columns, got {type(given).__name__}.")
    columns = detector.schema_.columns
    missing = [column.name for column in columns if column.name not in given]
    if missing:
        raise ShapeError(f"columns {quoted(missing)} are missing; there are {quoted(given.columns)}.")
    categories = {column.name: column.categories for column in columns if column.kind == "category"}
    return read_table(given, columns=[column.name for column in columns], categorical=categories)


def _groups(detector: Detector, given: Any) -> list[str] | None:
    """The group of each row, where the model is calibrated by group."""
    column = _group_column(detector)
    if not _is_grouped(detector) or not isinstance(given, pd.DataFrame) or column not in given:
        return None  # where groups are needed, the detector says so
    return [str(name) for name in given[column]]


def _is_table(detector: Detector) -> bool:
    return len(detector.input_shape_) == 1


def _is_grouped(detector: Detector) -> bool:
    return detector.reference_.groups is not None


def _group_column(detector: Detector) -> str:
    reading = getattr(detector, "reading_", None)
    named = None if reading is None or reading.table is None else reading.table.group
    return named or GROUP


def _middle(column: Column) -> float | str:
    if column.kind == "category":
        return column.categories[0]
    if column.smallest is None or column.largest is None:
        return 0.0
    return column.smallest / 2 + column.largest / 2
