"""The application: the routes behind the gate."""

import asyncio
import contextlib
import importlib.util
import logging
from collections.abc import AsyncIterator

import anyio.to_thread
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp

from indubio.server.api.routes import Api
from indubio.server.http.gate import Guard
from indubio.server.service import Service

log = logging.getLogger("indubio.server")
REFRESH = 2.0  # seconds; so long a revoked key may still open something


def build_app(service: Service) -> ASGIApp:
    """The ASGI application of a service. `request.app` is the service."""
    guard: Guard

    @contextlib.asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:  # noqa: ARG001 - Starlette passes it
        refreshing = asyncio.create_task(_refresh(guard))
        yield
        refreshing.cancel()

    api = Api(service)
    routes: list[BaseRoute] = [*api.routes(), *_pages(service)]
    guard = Guard(
        Router(routes, redirect_slashes=False, lifespan=lifespan),
        service.store,
        service.metrics,
        rate=service.settings.rate,
        access_log=service.settings.access_log,
        state=service,
        ways=api.ways(),
    )
    return guard


def _pages(service: Service) -> list[BaseRoute]:
    if importlib.util.find_spec("indubio.server.review") is None:
        return []
    pages = importlib.import_module("indubio.server.review")
    found: list[BaseRoute] = pages.routes(service)
    return found


async def _refresh(guard: Guard) -> None:
    while True:
        await asyncio.sleep(REFRESH)
        try:
            await anyio.to_thread.run_sync(guard.refresh)
        except Exception:
            log.exception("the keys could not be read again")
