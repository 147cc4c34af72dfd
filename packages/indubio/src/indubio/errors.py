"""Every error indubio raises on purpose, one family named by cause.

A message says the parameter or place, the rule, the value and the way out.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from indubio.message import Message


class IndubioError(Exception):
    """Base of all errors of this package.

    Args:
        text: what is wrong; with fields the template of a message.
        fields: the values in it.
    """

    def __init__(self, text: str, /, **fields: Any) -> None:
        super().__init__(Message(text, **fields) if fields else text)


class ConfigError(IndubioError, ValueError):
    """A setting has a value it must not have."""


class DataError(IndubioError, ValueError):
    """The data cannot be used as it is: missing values, text, too few rows."""


class ShapeError(DataError):
    """The data has another shape than the model or the stage needs."""


class OutputError(DataError):
    """What was found cannot be written: a full disk, a folder that may not be written to."""


class TrainingError(IndubioError, RuntimeError):
    """Training failed, for example because the loss diverged."""


class EngineError(IndubioError, RuntimeError):
    """The compiled core refused a call: its library does not fit the package, or memory has run out."""


class WorkersError(IndubioError, RuntimeError):
    """The processes or the cluster that should do the work cannot be reached, or went away."""


class MissingExtraError(IndubioError, ImportError):
    """A package is missing that this needs and the core does not."""


class DownloadError(IndubioError, OSError):
    """A file of a public collection could not be had."""


class ModelFileError(IndubioError, ValueError):
    """A model on disk is missing, damaged, changed or not ours, or cannot be written."""


class StoreError(IndubioError, RuntimeError):
    """The server's database cannot be opened, read or written."""


class ConflictError(IndubioError, ValueError):
    """What was asked for does not go with what is there: a case that another person holds, a name that is taken."""


class NotFoundError(IndubioError, LookupError):
    """There is no such case, model, version, key or job."""


class CalibrationWarning(UserWarning):
    """Probabilities are worth less than they could be; the message says why, and the way out."""


class DataWarning(UserWarning):
    """The training data is odd in a way that a model of it should not be relied on; the message says how."""


class MixingWarning(UserWarning):
    """The chain of a posterior has not forgotten its beginning; the message says what follows, and the way out."""


class PerformanceWarning(UserWarning):
    """It works, but slower than it could; the message says why."""


@contextmanager
def data_warnings_told_otherwise() -> Iterator[None]:
    """Fit without `DataWarning`: what it says is in `findings_` too, and said from there, or of no use to anybody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        yield


def quoted(names: Iterable[object]) -> str:
    """Names for a message: "a", "b"."""
    return ", ".join(f'"{name}"' for name in names)
