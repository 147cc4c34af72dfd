"""The array shapes in signatures and dataclasses, checked at every call while the tests run.

`def nll(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "draws n"]` is then a promise that is kept, and
"n" is the same number in both places. Other annotations are mypy's.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, install_import_hook, jaxtyped
from typing_extensions import is_protocol

ROOMS = (
    "calibration",
    "chain",
    "data",
    "decision",
    "detector",
    "drift",
    "evaluation",
    "export",
    "fitting",
    "judging",
    "networks",
    "numerics",
    "posteriors",
    "prepare",
    "report",
)


def check() -> None:
    """Check the shapes of all that is imported from these rooms from now on."""
    jaxtyping.jaxtyped = _jaxtyped_if_it_has_arrays  # the hook decorates everything with what it finds there
    install_import_hook([f"indubio.{room}" for room in ROOMS], "tests.array_shapes.with_checked_arrays")


def _jaxtyped_if_it_has_arrays(*context: Any, typechecker: Any = None) -> Any:
    """What has no array is left alone: wrapped too, it would make the tests a third slower."""
    if context:  # the library's own `with jaxtyped("context")`
        return jaxtyped(*context)

    def decorate(made: Any) -> Any:
        if isinstance(made, type):
            hints = [field.type for field in fields(made)] if is_dataclass(made) else []
        else:
            hints = list(made.__annotations__.values())
        return jaxtyped(made, typechecker=typechecker) if any(map(_has_array, hints)) else made

    return decorate


def with_checked_arrays(function: Any) -> Any:
    """The function with those of its annotations checked that speak of arrays.

    jaxtyping asks twice: for a check of the arguments before the call, and for one of arguments and result after it.
    The second is enough, and leaves what is refused with a message of its own to that message.
    """
    before_the_call = function.__annotations__.get("return") is Any
    arrays = {name: _checkable(hint) for name, hint in function.__annotations__.items() if _has_array(hint)}
    if before_the_call or not arrays:
        return function
    function.__annotations__ = arrays
    return beartype(conf=BeartypeConf(is_pep484_tower=True))(function)  # an int is a float too


def _has_array(hint: Any) -> bool:
    return _is_array(hint) or any(map(_has_array, get_args(hint)))


def _is_array(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)


def _checkable(hint: Any) -> Any:
    """What of an annotation can be asked of a value.

    Nothing of protocols and functions. Nothing of what is in a list of any length: of that beartype would look at one,
    chosen with the global random numbers, which tests watch.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(map(_checkable, inner))]  # noqa: UP007 - made of what is only known now
    if origin is Callable or is_protocol(hint):
        return object
    if not origin or _is_array(hint):
        return hint
    if ... in inner or (issubclass(origin, Sequence) and origin is not tuple):
        return origin
    return origin[tuple(map(_checkable, inner))]
