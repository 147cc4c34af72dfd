"""Requests for verdicts: from a body to work that waits for the model, and from what it found to an answer.

Both steps are plain functions, so that a route of the application and the straight way (see `straight`) share them.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from indubio.errors import DataError
from indubio.server.api import tensors
from indubio.server.api.model_inputs import Name, require_printable
from indubio.server.http.answers import Answer
from indubio.server.http.error_answers import RefusalError, decoded
from indubio.server.http.gate import Actor
from indubio.server.models.batching import Result
from indubio.server.models.registry import Loaded
from indubio.server.service import Service

TOP = 3
Sent = dict[bytes, bytes]  # a request's headers
Begun = tuple["asyncio.Future[Result]", Callable[[Result], Answer]]
Begin = Callable[[Actor, Loaded, Sent, bytes], Begun]
ASSESS_KINDS = (b"application/json",)
INFER_KINDS = (b"application/json", b"application/octet-stream", b"")


def require_kind(sent: Sent, largest: int, *kinds: bytes) -> None:
    """Refuse a body of another kind, and one that says it is too large."""
    given = sent.get(b"content-type", b"")
    if given not in kinds and (given := given.partition(b";")[0].strip().lower()) not in kinds:
        shown = given.decode("latin-1") or "none"
        raise RefusalError(415, f"the content type must be {kinds[0].decode()}, got {shown!r}.")
    if sent.get(b"content-encoding", b"identity").lower() != b"identity":
        raise RefusalError(415, "a compressed body is not accepted: send it as it is.")
    said = sent.get(b"content-length", b"")
    if said.isdigit() and int(said) > largest:
        raise RefusalError(413, f"the body has {said.decode()} bytes, and may have {largest}.")


class Scoring:
    """Both ways to ask, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def assess(self, actor: Actor, loaded: Loaded, sent: Sent, body: bytes) -> Begun:  # noqa: ARG002 - called alike
        """Rows by column name."""
        model = loaded.model.input
        asked = decoded(model.decode, body)
        examples = model.from_rows(asked.rows)
        sources = self._service.sources_of(
            len(examples),
            "" if asked.machine is msgspec.UNSET else asked.machine,
            None if asked.ids is msgspec.UNSET else asked.ids,
            actor.name,
        )
        top = TOP if asked.top is msgspec.UNSET else asked.top
        ids = [source.external_id for source in sources]
        return self._service.assess(loaded, examples, sources, top), lambda result: Answer.json(_assessed(result, ids))

    def infer(self, actor: Actor, loaded: Loaded, sent: Sent, body: bytes) -> Begun:
        """Tensors by the Open Inference Protocol."""
        asked, binary = decoded(tensors.decode, body, _json_size(sent))
        require_printable(asked.id, "$.id")
        if asked.model_name and asked.model_name != loaded.name:
            raise DataError(f"the URL asks for the model {loaded.name!r}, not {asked.model_name!r} - at `$.model_name`")
        examples = decoded(tensors.examples, asked, binary, loaded.model.input, self._service.settings.most_rows)
        wanted = tensors.wanted_outputs(asked)
        machine = decoded(msgspec.convert, asked.parameters["machine"], Name) if "machine" in asked.parameters else ""
        sources = self._service.sources_of(len(examples), machine, None, actor.name)
        return self._service.assess(loaded, examples, sources), lambda result: _inferred(result, asked.id, wanted)


def _json_size(sent: Sent) -> int | None:
    said = sent.get(b"inference-header-content-length")
    if said is None:
        return None
    if not (said.isdigit() and len(said) < 20):
        raise DataError(f"Inference-Header-Content-Length must be a number, got {said.decode('latin-1')!r}.")
    return int(said)


def _inferred(result: Result, name: str, wanted: dict[str, bool]) -> Answer:
    loaded = result.loaded
    head: dict[str, Any] = {"model_name": loaded.name, "model_version": str(loaded.version)}
    if name:
        head["id"] = name
    if not result.kept:
        head["parameters"] = {"kept": False}
    content, json_size = tensors.answer(result.found, wanted, head)
    if json_size is None:
        return Answer(content)
    size = (b"inference-header-content-length", b"%d" % json_size)
    return Answer(content, headers=[(b"content-type", b"application/octet-stream"), size])


def _assessed(result: Result, ids: list[str | None]) -> dict[str, Any]:
    found = result.found
    names = list(found)
    rows = []
    for place, values in enumerate(zip(*found.values(), strict=True)):
        row = dict(zip(names, values, strict=True))
        row["case"] = row["case"] or None
        row["top_features"] = result.top[place]
        if ids[place] is not None:
            row["id"] = ids[place]
        rows.append(row)
    return {"model": result.loaded.named(), "kept": result.kept, "results": rows}
