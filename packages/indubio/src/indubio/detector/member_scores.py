"""How the models of other packages score, with one sign: high means anomalous.

a function                      what it returns for the rows
PyOD's detectors                decision_function
scikit-learn's                  minus score_samples, which is low for outliers there (also of densities)
anything else that fits         `scored_by`, a function of the fitted model and the rows
"""

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from indubio.errors import ConfigError, DataError, IndubioError, ShapeError

Values: TypeAlias = Float[np.ndarray, "examples features"]
Score: TypeAlias = Callable[[Any, Values], np.ndarray]


def distance_to_centre(model: Any, rows: Values) -> Float[np.ndarray, " examples"]:
    """Distance to the nearest centre of a fitted clustering, such as scikit-learn's `KMeans`."""
    return np.asarray(model.transform(rows).min(axis=1))


def can_fit(base: Any) -> bool:
    """Whether it learns from rows; a plain function does not."""
    return hasattr(base, "fit")


def is_pyod(base: Any) -> bool:
    """Whether it is one of PyOD's detectors; PyOD is loaded if there is one."""
    loaded = sys.modules.get("pyod.models.base")
    return loaded is not None and isinstance(base, loaded.BaseDetector)


def score_of(base: Any) -> Score:
    """The way this model scores; refused with the way out where it has none that is known."""
    if is_pyod(base):
        return lambda model, rows: model.decision_function(rows)
    if hasattr(base, "score_samples"):
        return lambda model, rows: -model.score_samples(rows)
    if not can_fit(base) and callable(base):
        return lambda model, rows: model(rows)
    name = type(base).__name__
    if getattr(last_step(base), "novelty", None) is False:
        name = type(last_step(base)).__name__
        raise ConfigError(f"`base`: {name} scores only the rows it was fitted on. Make it {name}(novelty=True).")
    raise ConfigError(
        f"`base`: {name} has no score that is known. Give a detector of scikit-learn or PyOD, a function of the rows, "
        "or `scored_by`, a function of the fitted model and the rows; high means anomalous."
    )


def last_step(model: Any) -> Any:
    """The detector at the end of a pipeline, or the model itself."""
    from sklearn.pipeline import Pipeline  # loads much that detectors of our own do without

    return model[-1] if isinstance(model, Pipeline) else model


def kept_training_scores(model: Any) -> Float[np.ndarray, " examples"] | None:
    """What the fitted model itself keeps of the rows it was fitted on, where it does.

    A detector by neighbours leaves a row out when it scores the row in training. Scored again as a new row, it would
    be its own nearest neighbour.
    """
    if is_pyod(model):
        return np.asarray(model.decision_scores_, dtype=np.float64)
    factor = getattr(last_step(model), "negative_outlier_factor_", None)
    return None if factor is None else -np.asarray(factor, dtype=np.float64)


def scores(score: Score, model: Any, rows: Values) -> Float[np.ndarray, "draws examples"]:
    """Scores of the rows, checked; a single draw where the model gives one value per row."""
    try:
        values = np.asarray(score(model, rows), dtype=np.float64)
    except IndubioError:
        raise
    except (ValueError, TypeError) as error:
        raise DataError(f"{type(model).__name__} refused the rows: {error}") from error
    if values.ndim not in (1, 2) or values.shape[-1] != len(rows):
        raise ShapeError(
            f"the scores of {len(rows)} rows must have the shape ({len(rows)},) or (draws, {len(rows)}), "
            f"got {values.shape}."
        )
    if not (values > -np.inf).all():  # NaN fails this comparison too
        raise DataError(f"{type(model).__name__} gave scores that are NaN or minus infinity.")
    return np.atleast_2d(values)
