"""Errors as answers: bad input is 4xx and says where, a server that cannot work is 503, and nothing else gets out."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException

from indubio.errors import (
    ConfigError,
    ConflictError,
    DataError,
    IndubioError,
    ModelFileError,
    NotFoundError,
    StoreError,
)
from indubio.texts import english
from indubio_server.http.answers import JSON, Answer

T = TypeVar("T")
RETRY_STORE = 5  # seconds
RETRY_SOON = 1
_PLACE = re.compile(r" - at `(.*)`$", re.DOTALL)


class RefusalError(IndubioError):
    """A request that is refused, with the status of the answer.

    Args:
        status: of the answer.
        message: why, where, and the way out.
        headers: of the answer.
    """

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class BusyError(RefusalError):
    """A request that is refused because too much work waits already."""

    def __init__(self, message: str, **headers: str) -> None:
        super().__init__(503, message, retry_after=str(RETRY_SOON), **headers)


def decoded(decode: Callable[..., T], *arguments: Any) -> T:
    """Call a decoder; what it cannot read is a DataError that says where."""
    try:
        return decode(*arguments)
    except msgspec.DecodeError as error:
        raise DataError(_explained(str(error))) from None
    except UnicodeDecodeError as error:
        raise DataError(f"the text is not UTF-8: {error.reason}.") from None
    except RecursionError:
        raise DataError("the JSON is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise DataError(f"JSON is malformed: {error}.") from None


def _explained(message: str) -> str:
    if message.startswith("JSON is malformed: invalid character"):
        return f"{message}: neither NaN nor Infinity is a number of JSON"
    return "the body is empty or ends too early" if message == "Input data was truncated" else message


def refusal_of(error: Exception) -> RefusalError | None:
    """The refusal that a client gets for an error; None where the error is a fault of the server."""
    match error:
        case RefusalError():
            return error
        case HTTPException():
            return RefusalError(error.status_code, error.detail, **(error.headers or {}))
        case NotFoundError():
            return RefusalError(404, str(error))
        case ConflictError() | ModelFileError():
            return RefusalError(409, str(error))
        case DataError() | ConfigError():
            return RefusalError(400, str(error))
        case StoreError():  # where the database is, is nobody's business
            return RefusalError(503, english("the server cannot reach its database."), retry_after=str(RETRY_STORE))
        case _:
            return None


def error_answer(error: RefusalError) -> Answer:
    """A refusal as JSON: why, and the place in the body where that is known."""
    message = str(error)
    place = _PLACE.search(message)
    content: dict[str, Any] = {"error": message} | ({"place": place[1]} if place else {})
    # A lone surrogate of a URL cannot be written as UTF-8.
    body = msgspec.json.encode({key: text.encode(errors="replace").decode() for key, text in content.items()})
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in error.headers.items()]
    return Answer(body, error.status, [*JSON, *headers])
