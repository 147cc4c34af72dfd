"""Requests for verdicts: the body becomes examples, they wait for the model, and its results become the answer.

A `VerdictEndpoint` is a plain ASGI application, without Starlette's request and response objects: docs/server.md has
what was measured.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio.to_thread
import msgspec
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from indubio.errors import DataError, NotFoundError
from indubio_server.api import tensors
from indubio_server.http import (
    JSON_TYPE,
    Actor,
    Answer,
    RefusalError,
    RequestHeaders,
    decoded,
    is_whole_number,
    read_body,
    require,
    without_blocking,
)
from indubio_server.models import (
    ExampleBatch,
    ExampleOrigin,
    Loaded,
    ModelInput,
    Name,
    Registry,
    Result,
    require_printable,
)
from indubio_server.plant import Plant
from indubio_server.service import Service
from indubio_server.store import Role

TOP = 3
Respond = Callable[[Service, Actor, Loaded, RequestHeaders, bytes], Awaitable[Answer]]


class VerdictEndpoint:
    """An ASGI application that scores what it is sent.

    Args:
        service: scores and keeps.
        respond: reads the body and gives the answer: `assess` or `infer`.
        types: content types that are accepted.
    """

    def __init__(self, service: Service, respond: Respond, types: tuple[bytes, ...]) -> None:
        self._service, self._respond, self._types = service, respond, types

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, score and answer one request."""
        service, state = self._service, scope["state"]
        actor = require(state["actor"], Role.SCORER)
        loaded = await addressed_model(service.registry, scope)
        body = await read_body(scope, receive, state["headers"], service.settings.largest_body, self._types)
        answer = await self._respond(service, actor, loaded, state["headers"], body)
        await answer(scope, receive, send)


async def addressed_model(registry: Registry, scope: Scope) -> Loaded:
    """The model that a URL names, in its active version unless the URL names another."""
    path = scope["path_params"]
    name = path.get("name")
    if name is None and scope["query_string"]:
        name = QueryParams(scope["query_string"]).get("model")
    active = registry.model(name)
    version = path.get("version")
    if version is None:
        return active
    if not is_whole_number(version):
        raise NotFoundError(f"there is no version {version!r}: versions are numbers.")
    if active.version == int(version):
        return active
    return await anyio.to_thread.run_sync(registry.version, active.name, int(version))


async def assess(service: Service, actor: Actor, loaded: Loaded, headers: RequestHeaders, body: bytes) -> Answer:  # noqa: ARG001
    """Verdicts of rows by column name."""
    request, examples = await without_blocking(body, _rows, loaded.model.input, body)
    machine = "" if request.machine is msgspec.UNSET else request.machine
    ids = None if request.ids is msgspec.UNSET else request.ids
    origins = example_origins(len(examples), machine, ids, actor.name)
    require_own_machines(service.plant, actor, origins)
    top = TOP if request.top is msgspec.UNSET else request.top
    result = await service.assess(loaded, examples, origins, top)
    return Answer(msgspec.json.encode(_assessed(result, ids)))


async def infer(service: Service, actor: Actor, loaded: Loaded, headers: RequestHeaders, body: bytes) -> Answer:
    """Verdicts of tensors by the Open Inference Protocol."""
    most_rows = service.settings.most_rows
    request, examples = await without_blocking(body, _tensors, loaded, body, _json_size(headers), most_rows)
    wanted = tensors.wanted_outputs(request)
    machine = decoded(msgspec.convert, request.parameters["machine"], Name) if "machine" in request.parameters else ""
    origins = example_origins(len(examples), machine, None, actor.name)
    require_own_machines(service.plant, actor, origins)
    return _inferred(await service.assess(loaded, examples, origins), request.id, wanted)


def _rows(model: ModelInput, body: bytes) -> tuple[Any, ExampleBatch]:
    request = decoded(model.decode, body)
    return request, model.from_rows(request.rows)


def _tensors(
    loaded: Loaded, body: bytes, json_size: int | None, most_rows: int
) -> tuple[tensors.InferRequest, ExampleBatch]:
    request, binary = decoded(tensors.decode, body, json_size)
    require_printable(request.id, "$.id")
    if request.model_name and request.model_name != loaded.name:
        raise DataError(f"the URL asks for the model {loaded.name!r}, not {request.model_name!r} - at `$.model_name`")
    return request, decoded(tensors.examples, request, binary, loaded.model.input, most_rows)


def example_origins(count: int, machine: Any, ids: list[str] | None, by: str) -> list[ExampleOrigin]:
    """Where the examples of a request came from.

    Args:
        count: of examples.
        machine: one name for all of them, or one for each.
        ids: the client's name of each; None where it gave none.
        by: the name of the key that asks.
    """
    if count == 1 and ids is None and isinstance(machine, str):
        return [ExampleOrigin(machine=require_printable(machine, "$.machine"), external_id=None, by=by)]
    machines = [machine] * count if isinstance(machine, str) else list(machine)
    names: list[str | None] = [None] * count if ids is None else list(ids)
    for what, given in (("machine", machines), ("ids", names)):
        if len(given) != count:
            raise RefusalError(400, f"`{what}` must have one name for each of the {count} rows, got {len(given)}.")
        for place, name in enumerate({machine} if isinstance(machine, str) and what == "machine" else given):
            require_printable(name or "", f"$.{what}[{place}]")
    return [ExampleOrigin(machine=one, external_id=name, by=by) for one, name in zip(machines, names, strict=True)]


def require_own_machines(plant: Plant, actor: Actor, origins: Sequence[ExampleOrigin]) -> None:
    """Refuse rows of machines that are not of the actor's sites, and rows without a machine."""
    if actor.sites is None:
        return
    for machine in {origin.machine for origin in origins}:
        if plant.site_of(machine) not in actor.sites:
            whose = f"{machine!r} is none of them" if machine else "say in `machine` which one a row comes from"
            sites = ", ".join(sorted(actor.sites))
            raise RefusalError(403, f"{actor.name!r} may score for the machines of {sites} only: {whose}.")


def verdict_endpoints(service: Service) -> tuple[VerdictEndpoint, VerdictEndpoint]:
    """The endpoints of `assess` and `infer`."""
    return (
        VerdictEndpoint(service, assess, JSON_TYPE),
        VerdictEndpoint(service, infer, (*JSON_TYPE, b"application/octet-stream", b"")),
    )


def _json_size(headers: RequestHeaders) -> int | None:
    size = headers.get(b"inference-header-content-length")
    if size is None:
        return None
    if not (size.isdigit() and len(size) < 20):
        raise DataError(f"Inference-Header-Content-Length must be a number, got {size.decode('latin-1')!r}.")
    return int(size)


def _inferred(result: Result, name: str, wanted: dict[str, bool]) -> Answer:
    loaded = result.loaded
    head: dict[str, Any] = {"model_name": loaded.name, "model_version": str(loaded.version)}
    if name:
        head["id"] = name
    if not result.kept:
        head["parameters"] = {"kept": False}
    content, json_size = tensors.answer(result.columns, wanted, head)
    if json_size is None:
        return Answer(content)
    size = (b"inference-header-content-length", b"%d" % json_size)
    return Answer(content, headers=[(b"content-type", b"application/octet-stream"), size])


def _assessed(result: Result, ids: list[str] | None) -> dict[str, Any]:
    columns = result.columns
    names = list(columns)
    rows = []
    for place, values in enumerate(zip(*columns.values(), strict=True)):
        row = dict(zip(names, values, strict=True))
        row["case"] = row["case"] or None
        row["top_features"] = result.top[place]
        if ids is not None:
            row["id"] = ids[place]
        rows.append(row)
    return {"model": result.loaded.named, "kept": result.kept, "results": rows}
