"""The ASGI application of the server: the routes for machines and the pages for people, behind the gate."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import anyio.to_thread
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp

from indubio_server.api import Api
from indubio_server.http import Gate
from indubio_server.service import Service

log = logging.getLogger("indubio_server")
REFRESH = 1.5  # seconds; so long a revoked key may still open something, and a version that another activated wait


def build_app(service: Service) -> ASGIApp:
    """The ASGI application that answers for a service."""
    from indubio_server import review  # the pages bring detectors and matplotlib with them

    gate: Gate

    @contextlib.asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:  # noqa: ARG001 - Starlette passes it
        refreshing = asyncio.create_task(_refresh(gate, service))
        yield
        refreshing.cancel()

    routes: list[BaseRoute] = [*Api(service).routes(), *review.routes(service)]
    gate = Gate(
        Router(routes, redirect_slashes=False, lifespan=lifespan),
        service.store,
        service.metrics,
        service.settings,
        provider=None if service.login is None else service.login.rules,
    )
    return gate


async def _refresh(gate: Gate, service: Service) -> None:
    while True:
        await asyncio.sleep(REFRESH)
        for refresh, what in (
            (service.beat, "database"),
            (gate.refresh, "keys"),
            (service.follow, "versions"),
            (service.refresh_plant, "plant"),
        ):
            try:
                await anyio.to_thread.run_sync(refresh)
            except Exception:
                log.exception("the %s could not be read again", what)
