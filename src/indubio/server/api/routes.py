"""The routes for machines: the Open Inference Protocol, /assess, and what an operator asks."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from indubio import __version__
from indubio.errors import NotFoundError
from indubio.server.api import tensors
from indubio.server.api.model_inputs import Name, require_printable
from indubio.server.api.openapi import document
from indubio.server.api.verdict_requests import ASSESS_KINDS, INFER_KINDS, Begin, Begun, Scoring, Sent, require_kind
from indubio.server.http.answers import Answer
from indubio.server.http.error_answers import RefusalError, decoded
from indubio.server.http.gate import Actor, Way, require
from indubio.server.models.registry import Loaded
from indubio.server.service import Service
from indubio.server.store.alarms import alarm_history, ringing
from indubio.server.store.cases import case_by_reference
from indubio.server.store.keys import Role
from indubio.server.store.reviews import counting, history, verdict_of_people
from indubio.server.store.versions import Version, activation_history

BODY_SECONDS = 30.0  # a body must have come by then
WHOLE = "indubio.whole"  # in a request's scope: its body is there already
EXTENSIONS = ["binary_tensor_data", "model_repository"]


class Activate(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an activation."""

    version: int
    note: Name = ""


_activate = msgspec.json.Decoder(Activate)


async def body_of(request: Request, largest: int, *kinds: bytes) -> bytes:
    """The body, if it is of an accepted kind and not too large."""
    require_kind(dict(request.scope["headers"]), largest, *kinds)
    if request.scope.get(WHOLE):  # nothing to wait for: a timer costs as much as reading the JSON does
        return await _read(request, largest)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read(request, largest)
    except TimeoutError:
        raise RefusalError(408, f"the body did not come within {BODY_SECONDS:g} seconds.") from None


async def _read(request: Request, largest: int) -> bytes:
    chunks, size, more = [], 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        size, more = size + len(chunk), message.get("more_body", False)
        if size > largest:
            raise RefusalError(413, f"the body has more than {largest} bytes.")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class Api:
    """The routes, on one service."""

    def __init__(self, service: Service) -> None:
        self._service, self._scoring = service, Scoring(service)

    def routes(self) -> list[Route]:
        """All of them; those for scoring first, for routes are tried in order."""
        post, get = ["POST"], ["GET"]
        return [
            Route("/v2/models/{name}/infer", self.infer, methods=post),
            Route("/assess", self.assess, methods=post),
            Route("/models/{name}/assess", self.assess, methods=post),
            Route("/models/{name}/versions/{version}/assess", self.assess, methods=post),
            Route("/v2/models/{name}/versions/{version}/infer", self.infer, methods=post),
            Route("/v2/health/live", self.live, methods=get),
            Route("/v2/health/ready", self.ready, methods=get),
            Route("/v2", self.about, methods=get),
            Route("/v2/models/{name}/ready", self.model_ready, methods=get),
            Route("/v2/models/{name}/versions/{version}/ready", self.model_ready, methods=get),
            Route("/v2/models/{name}", self.metadata, methods=get),
            Route("/v2/models/{name}/versions/{version}", self.metadata, methods=get),
            Route("/v2/repository/index", self.index, methods=post),
            Route("/v2/repository/models/{name}/load", self.load, methods=post),
            Route("/models", self.models, methods=get),
            Route("/models/{name}", self.model, methods=get),
            Route("/models/{name}/activate", self.activate, methods=post),
            Route("/cases/{reference}", self.case, methods=get),
            Route("/alarms", self.alarms, methods=get),
            Route("/metrics", self.metrics, methods=get),
            Route("/openapi.json", self.openapi, methods=get),
        ]

    def ways(self) -> dict[bytes, Way]:
        """The straight ways: to the active version of every model, by the URL that asks for it."""
        scoring = self._scoring
        found = {b"/assess": self._way("/assess", None, scoring.assess, ASSESS_KINDS)}
        for name in self._service.registry.names:
            url = f"/v2/models/{name}/infer", f"/models/{name}/assess"
            found[url[0].encode()] = self._way("/v2/models/{name}/infer", name, scoring.infer, INFER_KINDS)
            found[url[1].encode()] = self._way("/models/{name}/assess", name, scoring.assess, ASSESS_KINDS)
        return found

    def _way(self, path: str, name: str | None, begin: Begin, kinds: tuple[bytes, ...]) -> Way:
        registry, largest = self._service.registry, self._service.settings.largest_body

        def begun(actor: Actor, sent: Sent, body: bytes) -> Begun:
            loaded = registry.model(name)
            require_kind(sent, largest, *kinds)
            return begin(actor, loaded, sent, body)

        return Way(path, begun)

    async def assess(self, request: Request) -> Answer:
        """Rows by column name."""
        return await self._scored(request, self._scoring.assess, ASSESS_KINDS)

    async def infer(self, request: Request) -> Answer:
        """Tensors by the Open Inference Protocol."""
        return await self._scored(request, self._scoring.infer, INFER_KINDS)

    async def _scored(self, request: Request, begin: Begin, kinds: tuple[bytes, ...]) -> Answer:
        actor = require(request.state.actor, Role.SCORER)
        loaded = await self._loaded(request)
        body = await body_of(request, self._service.settings.largest_body, *kinds)
        waiting, render = begin(actor, loaded, dict(request.scope["headers"]), body)
        return render(await waiting)

    async def live(self, request: Request) -> Answer:  # noqa: ARG002 - routes are called alike
        """The process answers."""
        return Answer.json({"live": True})

    async def ready(self, request: Request) -> Answer:  # noqa: ARG002
        """Requests are answered."""
        return Answer.json({"ready": self._service.ready}, 200 if self._service.ready else 503)

    async def about(self, request: Request) -> Answer:  # noqa: ARG002
        """The server."""
        return Answer.json({"name": "indubio", "version": __version__, "extensions": EXTENSIONS})

    async def model_ready(self, request: Request) -> Answer:
        """A version can score."""
        require(request.state.actor, Role.SCORER)
        loaded = await self._loaded(request)
        return Answer.json({"name": loaded.name, "ready": self._service.ready}, 200 if self._service.ready else 503)

    async def metadata(self, request: Request) -> Answer:
        """What a model takes and gives."""
        require(request.state.actor, Role.SCORER)
        loaded = await self._loaded(request)
        known = await anyio.to_thread.run_sync(self._service.registry.known, loaded.name)
        return Answer.json(
            {
                "name": loaded.name,
                "versions": [str(one.version) for one in known],
                "platform": "indubio",
                "inputs": tensors.described(loaded.model.input),
                "outputs": [{"name": n, "datatype": kind, "shape": [-1]} for n, kind in tensors.OUTPUTS.items()],
                "parameters": {"sha256": loaded.sha256, "rule": loaded.rule, "version": str(loaded.version)},
            }
        )

    async def index(self, request: Request) -> Answer:
        """The models, as the repository extension lists them."""
        require(request.state.actor, Role.SCORER)
        loaded = [self._service.registry.model(name) for name in self._service.registry.names]
        return Answer.json(
            [{"name": one.name, "version": str(one.version), "state": "READY", "reason": ""} for one in loaded]
        )

    async def load(self, request: Request) -> Answer:
        """Read a model's folder again."""
        actor = require(request.state.actor, Role.ADMIN)
        name = request.path_params["name"]
        loaded = await anyio.to_thread.run_sync(lambda: self._service.registry.reload(name, by=actor.name))
        return Answer.json({"name": loaded.name, "version": str(loaded.version)})

    async def models(self, request: Request) -> Answer:
        """The models and their active versions."""
        require(request.state.actor, Role.SCORER)
        loaded = [self._service.registry.model(name) for name in self._service.registry.names]
        return Answer.json({"models": [one.named() for one in loaded]})

    async def model(self, request: Request) -> Answer:
        """A model's versions and who activated which."""
        require(request.state.actor, Role.SCORER)
        loaded = self._service.registry.model(request.path_params["name"])
        known = await anyio.to_thread.run_sync(self._service.registry.known, loaded.name)
        done = await self._read(lambda c: activation_history(c, loaded.name))
        return Answer.json({"active": loaded.version, "versions": list(map(_told, known)), "activations": done})

    async def activate(self, request: Request) -> Answer:
        """Make a version the active one."""
        actor = require(request.state.actor, Role.ADMIN)
        name = request.path_params["name"]
        self._service.registry.model(name)
        body = await body_of(request, self._service.settings.largest_body, b"application/json")
        asked = decoded(_activate.decode, body)
        require_printable(asked.note, "$.note")
        loaded = await anyio.to_thread.run_sync(
            lambda: self._service.registry.activate(name, asked.version, by=actor.name, note=asked.note)
        )
        return Answer.json(loaded.named())

    async def case(self, request: Request) -> Answer:
        """What became of an example that was kept."""
        reference = request.path_params["reference"]

        def read(connection: Any) -> dict[str, Any]:
            case = case_by_reference(connection, reference)
            said = counting(history(connection, case.id)).get(case.id, {})
            label = verdict_of_people(list(said.values()))
            return {"case": case.reference, "verdict": case.verdict, "status": case.status, "label": label}

        return Answer.json(await self._read(read))

    async def alarms(self, request: Request) -> Answer:  # noqa: ARG002
        """The machines that ring, and the latest events."""
        now_ringing, events = await self._read(lambda c: (ringing(c), alarm_history(c)))
        drift = [
            {"model": one.loaded.name, "version": one.loaded.version} | one.drift.to_plain()
            for one in self._service.drift.found()
        ]
        return Answer.json({"ringing": now_ringing, "events": events, "drift": drift})

    async def metrics(self, request: Request) -> Answer:  # noqa: ARG002
        """For Prometheus."""
        text = await anyio.to_thread.run_sync(self._service.measured)
        return Answer(text, headers=[(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])

    async def openapi(self, request: Request) -> Answer:  # noqa: ARG002
        """This API, described."""
        return Answer.json(document(self._service.registry, self._service.settings))

    async def _read(self, function: Callable[[Any], Any]) -> Any:
        return await anyio.to_thread.run_sync(self._service.store.read, function)

    async def _loaded(self, request: Request) -> Loaded:
        registry = self._service.registry
        path = request.path_params
        name = path["name"] if "name" in path else request.query_params.get("model")
        version = path.get("version")
        if version is None:
            return registry.model(name)
        if not (version.isascii() and version.isdecimal() and len(version) < 10):
            raise NotFoundError(f"there is no version {version!r}: versions are numbers.")
        assert name is not None
        active = registry.model(name)
        if active.version == int(version):
            return active
        return await anyio.to_thread.run_sync(registry.version, name, int(version))


def _told(known: Version) -> dict[str, Any]:
    """A version without its path: where files are is nobody's business."""
    return {name: value for name, value in known.__dict__.items() if name != "path"}
