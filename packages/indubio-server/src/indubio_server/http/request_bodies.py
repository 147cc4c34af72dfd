"""Request bodies: read in time, or refused where the type is wrong or the size too large."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio.to_thread
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from indubio.texts import english
from indubio_server.http.error_answers import RefusalError

BODY_SECONDS = 30.0  # a body must have come by then
WHOLE = "indubio.whole"  # in a request's scope: its body is there already
JSON_TYPE = (b"application/json",)
FORM_TYPES = (b"application/x-www-form-urlencoded", b"multipart/form-data", b"")
MOST_FIELDS = 50  # of a form
LARGE = 64 * 2**10  # bytes of a body that is taken apart in a thread, so that other requests go on meanwhile

RequestHeaders = dict[bytes, bytes]
P = ParamSpec("P")
T = TypeVar("T")


async def read_body(
    scope: Scope, receive: Receive, headers: RequestHeaders, largest: int, types: tuple[bytes, ...] = JSON_TYPE
) -> bytes:
    """Read the body, or refuse it before all of it is read.

    Args:
        scope: of the request.
        receive: gives the body in pieces, as ASGI has it.
        headers: of the request.
        largest: bytes it may have.
        types: content types that are accepted.
    """
    given = headers.get(b"content-type", b"")
    if given not in types and (given := given.partition(b";")[0].strip().lower()) not in types:
        shown = given.decode("latin-1") or "none"
        raise RefusalError(
            415, english("the content type must be {wanted}, got {shown!r}.", wanted=types[0].decode(), shown=shown)
        )
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise RefusalError(415, "a compressed body is not accepted: send it as it is.")
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > largest:
        raise RefusalError(
            413, english("the body has {length} bytes, and may have {most:d}.", length=length.decode(), most=largest)
        )
    if WHOLE in scope:  # a limit on the time costs as much as reading the JSON does
        return await _joined(receive, largest)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _joined(receive, largest)
    except TimeoutError:
        why = english("the body did not come within {seconds:g} seconds.", seconds=BODY_SECONDS)
        raise RefusalError(408, why, connection="close") from None


async def _joined(receive: Receive, largest: int) -> bytes:
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        size, more = size + len(chunk), message.get("more_body", False)
        if size > largest:
            raise RefusalError(413, english("the body has more than {most:d} bytes.", most=largest))
        chunks.append(chunk)
    return b"".join(chunks)


async def read_form(scope: Scope, receive: Receive, headers: RequestHeaders, largest: int) -> FormData:
    """Read a form like any other body, and take it apart.

    Args:
        scope: of the request.
        receive: gives the body in pieces, as ASGI has it.
        headers: of the request.
        largest: bytes it may have.
    """
    kind = headers.get(b"content-type", b"").lower()
    if b"charset" in kind and b"charset=utf-8" not in kind.replace(b'"', b""):  # others make what is no text
        raise RefusalError(415, english("the text of a form must be UTF-8."))
    body = await read_body(scope, receive, headers, largest, FORM_TYPES)

    async def whole() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def taken_apart() -> FormData:
        return await Request(scope, whole).form(max_files=1, max_fields=MOST_FIELDS)

    if len(body) <= LARGE:
        return await taken_apart()
    return await anyio.to_thread.run_sync(lambda: asyncio.run(taken_apart()))


async def without_blocking(body: bytes, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call what takes a body apart: at once for a small one, and in a thread for one that others would wait for."""
    if len(body) <= LARGE:
        return function(*arguments, **named)
    return await anyio.to_thread.run_sync(lambda: function(*arguments, **named))
