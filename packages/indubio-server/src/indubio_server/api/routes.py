"""The routes for machines: /assess, the Open Inference Protocol, and what an operator needs."""

from collections.abc import Callable
from typing import Annotated, Any

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.routing import Route

from indubio import __version__
from indubio_server.api import tensors
from indubio_server.api.openapi import document
from indubio_server.api.verdict_requests import addressed_model, verdict_endpoints
from indubio_server.http import Answer, decoded, read_body, require
from indubio_server.models import Name, require_printable
from indubio_server.service import Service
from indubio_server.store import (
    Filters,
    Role,
    Version,
    activation_history,
    alarm_history,
    case_by_reference,
    counting,
    history,
    ringing,
    verdict_of_people,
)

EXTENSIONS = ["binary_tensor_data", "model_repository"]


class Activate(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request to activate a version."""

    version: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    note: Name = ""


_activate = msgspec.json.Decoder(Activate)


class Api:
    """The handlers of the routes, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """All routes; those for scoring first, because routes are tried in order."""
        post, get = ["POST"], ["GET"]
        assess, infer = verdict_endpoints(self._service)
        return [
            Route("/v2/models/{name}/infer", infer, methods=post),
            Route("/assess", assess, methods=post),
            Route("/models/{name}/assess", assess, methods=post),
            Route("/models/{name}/versions/{version}/assess", assess, methods=post),
            Route("/v2/models/{name}/versions/{version}/infer", infer, methods=post),
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

    async def live(self, request: Request) -> Answer:  # noqa: ARG002 - routes are called alike
        """Say that the process runs."""
        return Answer.json({"live": True})

    async def ready(self, request: Request) -> Answer:  # noqa: ARG002
        """Say whether requests for verdicts are answered; 503 if not."""
        return Answer.json({"ready": self._service.ready}, 200 if self._service.ready else 503)

    async def about(self, request: Request) -> Answer:  # noqa: ARG002
        """Name the server, its version and its extensions."""
        return Answer.json({"name": "indubio", "version": __version__, "extensions": EXTENSIONS})

    async def model_ready(self, request: Request) -> Answer:
        """Say whether a version of a model can score."""
        require(request.state.actor, Role.SCORER)
        loaded = await addressed_model(self._service.registry, request.scope)
        return Answer.json({"name": loaded.name, "ready": self._service.ready}, 200 if self._service.ready else 503)

    async def metadata(self, request: Request) -> Answer:
        """Describe the inputs and outputs of a model."""
        require(request.state.actor, Role.SCORER)
        loaded = await addressed_model(self._service.registry, request.scope)
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
        """List the models as the protocol's repository extension does."""
        require(request.state.actor, Role.SCORER)
        loaded = [self._service.registry.model(name) for name in self._service.registry.names]
        return Answer.json(
            [{"name": one.name, "version": str(one.version), "state": "READY", "reason": ""} for one in loaded]
        )

    async def load(self, request: Request) -> Answer:
        """Read a model's folder again; new content becomes the active version."""
        actor = require(request.state.actor, Role.ADMIN, everywhere=True)
        name = request.path_params["name"]
        loaded = await anyio.to_thread.run_sync(lambda: self._service.registry.reload(name, by=actor.name))
        return Answer.json({"name": loaded.name, "version": str(loaded.version)})

    async def models(self, request: Request) -> Answer:
        """List the models with their active versions."""
        require(request.state.actor, Role.SCORER)
        loaded = [self._service.registry.model(name) for name in self._service.registry.names]
        return Answer.json({"models": [one.named for one in loaded]})

    async def model(self, request: Request) -> Answer:
        """List a model's versions, and who activated which."""
        actor = require(request.state.actor, Role.SCORER)
        loaded = self._service.registry.model(request.path_params["name"])
        known = await anyio.to_thread.run_sync(self._service.registry.known, loaded.name)
        done = await self._read(lambda c: activation_history(c, loaded.name))
        shown = [_shown(one, everywhere=actor.everywhere) for one in known]
        return Answer.json({"active": loaded.version, "versions": shown, "activations": done})

    async def activate(self, request: Request) -> Answer:
        """Make a version the active one."""
        actor = require(request.state.actor, Role.ADMIN, everywhere=True)
        name = request.path_params["name"]
        self._service.registry.model(name)
        body = await read_body(
            request.scope, request.receive, request.state.headers, self._service.settings.largest_body
        )
        wanted = decoded(_activate.decode, body)
        require_printable(wanted.note, "$.note")
        loaded = await anyio.to_thread.run_sync(
            lambda: self._service.registry.activate(name, wanted.version, by=actor.name, note=wanted.note)
        )
        return Answer.json(loaded.named)

    async def case(self, request: Request) -> Answer:
        """Say what became of an example that was kept."""
        reference = request.path_params["reference"]
        seen = Filters(machines=self._service.plant.patterns(request.state.actor.sites))

        def read(connection: Any) -> dict[str, Any]:
            case = case_by_reference(connection, reference, seen)
            said = counting(history(connection, case.id)).get(case.id, {})
            label = verdict_of_people(list(said.values()))
            return {"case": case.reference, "verdict": case.verdict, "status": case.status, "label": label}

        return Answer.json(await self._read(read))

    async def alarms(self, request: Request) -> Answer:
        """List the machines that ring, the latest alarms, and drift; `site` chooses a site or a line of one."""
        actor = request.state.actor
        seen = self._service.plant.patterns(actor.sites, request.query_params.get("site"))
        now_ringing, events = await self._read(lambda c: (ringing(c, seen), alarm_history(c, machines=seen)))
        drift = [  # of all that a model scores, whatever the site
            {"model": one.loaded.name, "version": one.loaded.version} | one.drift.to_plain()
            for one in (self._service.drift.watched() if actor.everywhere else ())
        ]
        return Answer.json({"ringing": now_ringing, "events": events, "drift": drift})

    async def metrics(self, request: Request) -> Answer:
        """Give the metrics in the format of Prometheus; they are of all sites."""
        require(request.state.actor, Role.METRICS, everywhere=True)
        text = await anyio.to_thread.run_sync(self._service.measured)
        return Answer(text, headers=[(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])

    async def openapi(self, request: Request) -> Answer:  # noqa: ARG002
        """Describe this API as an OpenAPI document."""
        return Answer.json(document(self._service.registry, self._service.settings))

    async def _read(self, function: Callable[[Any], Any]) -> Any:
        return await anyio.to_thread.run_sync(self._service.store.read, function)


def _shown(known: Version, *, everywhere: bool) -> dict[str, Any]:
    """A version as answers show it.

    Args:
        known: the version.
        everywhere: show too how it did on the cases of all sites.
    """
    hidden = () if everywhere else ("evaluation",)
    return {name: value for name, value in known.__dict__.items() if name not in hidden}
