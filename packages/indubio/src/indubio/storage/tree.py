"""Fitted state as plain data and arrays, and back: a walk over frozen dataclasses.

    Preparation(medians=array([1., 2.]), missing="refer", ...)
      ->  {"class": "preparation", "medians": {"array": [2], "dtype": "float64"}, "missing": "refer", ...}
          and the array under its path, "preparation_.medians"

Only the classes in `CLASSES` are walked. On the way back the annotations say what is expected: nothing in a file
chooses what is made of it, and a value of another type or an array of another shape is refused. A new field needs no
code here; a new class needs one line.
"""

import dataclasses
import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import AbstractArray

from indubio.chain import Familiarity, KeptRows
from indubio.configuration import from_plain, to_plain
from indubio.data import Column, Schema
from indubio.drift import DriftReference
from indubio.errors import ModelFileError
from indubio.judging import Correction, FittedConversion, GroupConversions, Reference
from indubio.message import Message
from indubio.networks import KeptGaussianSums, KeptSums, Mixing
from indubio.prepare import DataFinding, FittedScaling, FittedSpectra, Preparation, QualityLimits
from indubio.settings import Settings
from indubio.storage.kept_fact import KeptFact
from indubio.storage.kept_uncertainty import KeptUncertainty

CLASSES: dict[str, type[Any]] = {
    "preparation": Preparation,
    "min_max": FittedScaling,
    "quality_limits": QualityLimits,
    "spectra": FittedSpectra,
    "schema": Schema,
    "column": Column,
    "data_finding": DataFinding,
    "conversion": FittedConversion,
    "reference": Reference,
    "correction": Correction,
    "group_conversions": GroupConversions,
    "kept_uncertainty": KeptUncertainty,
    "familiarity": Familiarity,
    "drift_reference": DriftReference,
    "kept_sums": KeptSums,
    "kept_gaussian_sums": KeptGaussianSums,
    "kept_rows": KeptRows,
    "mixing": Mixing,
    "kept_fact": KeptFact,
}

CLASS = "class"  # no field can have this name
_NOT_FINITE = ("inf", "-inf", "nan")  # JSON has no numbers for these
_NAMES = {walked: name for name, walked in CLASSES.items()}


def flattened(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """The value as plain data; its arrays are put into `arrays` under their paths.

    Args:
        value: what to store.
        place: its path.
        arrays: filled on the way.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Settings):
        return to_plain(value)
    if type(value) in _NAMES:
        inner = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {CLASS: _NAMES[type(value)]} | flattened(inner, place, arrays)
    if isinstance(value, np.ndarray):
        return _flattened_array(value, place, arrays)
    if isinstance(value, Mapping):
        return {str(name): flattened(item, f"{place}.{name}", arrays) for name, item in value.items()}
    if isinstance(value, tuple):
        return [flattened(item, f"{place}.{index}", arrays) for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Message):
        return value.plain()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(f"`{place}` is a {type(value).__name__}, which a model file cannot hold.")


def _flattened_array(values: np.ndarray, place: str, arrays: dict[str, np.ndarray]) -> Any:
    if values.dtype.kind in "OU":
        return [flattened(str(text), place, arrays) for text in values.tolist()]
    arrays[place] = values
    return {"array": list(values.shape), "dtype": values.dtype.name}


def rebuilt(hint: Any, plain: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """The value that `flattened` made plain; what does not fit the annotation is refused.

    Args:
        hint: the annotation of what is expected.
        plain: what the manifest has.
        place: its path.
        arrays: by path; those that are used are taken out.
    """
    if get_origin(hint) in (Union, UnionType):
        hint = _arm(get_args(hint), plain)
    if isinstance(hint, type) and issubclass(hint, Settings):
        return from_plain(hint, plain, place)
    if hint is Message:
        return _rebuilt_message(plain, place)
    if hint in _NAMES:
        return _rebuilt_class(hint, plain, place, arrays)
    if _is_array(hint):
        return _rebuilt_array(hint, plain, place, arrays)
    if get_origin(hint) is dict and isinstance(plain, dict):
        item = get_args(hint)[1]
        return {name: rebuilt(item, value, f"{place}.{name}", arrays) for name, value in plain.items()}
    if get_origin(hint) is tuple and isinstance(plain, list):
        item = get_args(hint)[0]
        return tuple(rebuilt(item, value, f"{place}.{index}", arrays) for index, value in enumerate(plain))
    if hint is float and plain in _NOT_FINITE:
        return float(plain)
    fits = plain in get_args(hint) if get_origin(hint) is Literal else type(plain) is hint
    if hint is NoneType and plain is None:
        return None
    if not fits:
        raise _unfit(place, hint, plain)
    return plain


def _rebuilt_class(walked: type[Any], plain: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(plain, dict) or plain.get(CLASS) != _NAMES[walked]:
        raise _unfit(place, walked, plain)
    hints = get_type_hints(walked, include_extras=True)
    needed, given = {field.name for field in dataclasses.fields(walked)}, plain.keys() - {CLASS}
    if given != needed:
        raise ModelFileError(f"`{place}` must have the entries {sorted(needed)}, and has {sorted(given)}.")
    return walked(**{name: rebuilt(hints[name], plain[name], f"{place}.{name}", arrays) for name in sorted(given)})


def _rebuilt_message(plain: Any, place: str) -> Message:
    try:
        return Message.of(plain)
    except ValueError:
        raise _unfit(place, Message, plain) from None


def _rebuilt_array(hint: Any, plain: Any, place: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    values: np.ndarray
    if isinstance(plain, list):
        values = np.array([rebuilt(str, text, place, arrays) for text in plain], dtype=object)
    elif isinstance(plain, dict) and place in arrays:
        values = arrays.pop(place)
        if plain != {"array": list(values.shape), "dtype": values.dtype.name}:
            raise ModelFileError(
                f"`{place}` is {plain} in the manifest, but {values.dtype} {values.shape} in its file."
            )
    else:
        raise _unfit(place, hint, plain)
    fits: bool = isinstance(values, hint)
    if not fits:
        raise ModelFileError(f"`{place}` has the shape {values.shape} and type {values.dtype}, and must be {hint}.")
    return values


def _arm(arms: tuple[Any, ...], plain: Any) -> Any:
    """The member of a union that this can be: None, or the one other."""
    if plain is None and NoneType in arms:
        return NoneType
    kind = plain.get(CLASS) if isinstance(plain, dict) else None
    named = [arm for arm in arms if arm in _NAMES and _NAMES[arm] == kind]
    return (named or [arm for arm in arms if arm is not NoneType])[0]


def _is_array(hint: Any) -> bool:
    return isinstance(hint, type) and (hint is np.ndarray or issubclass(hint, AbstractArray))


def _unfit(place: str, hint: Any, plain: Any) -> ModelFileError:
    called = _NAMES.get(hint) or getattr(hint, "__name__", hint)
    shown = repr(plain) if len(repr(plain)) < 60 else f"{repr(plain)[:60]}..."
    return ModelFileError(f"`{place}` must be {called}, got {shown}.")
