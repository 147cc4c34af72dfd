"""The server as a process: how uvicorn is set up and run."""

import contextlib
import gc
import signal
import sys
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from indubio.server.http.connections import LimitedProtocol

MOST_CONNECTIONS = 1000
GRACE = 20  # seconds for requests under way when the server stops
SWITCH = 0.0001  # seconds; the event loop asks for Python's lock at every callback, and would wait for other threads


def configured(app: ASGIApp, *, host: str, port: int, **options: Any) -> uvicorn.Config:
    """The settings that uvicorn runs the application with.

    Args:
        app: the application.
        host: address to listen at.
        port: 0 for a free one.
        options: of uvicorn, such as `ssl_keyfile` and `ssl_certfile`.
    """
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="auto",
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE,
        **options,
    )


def run(config: uvicorn.Config) -> None:
    """Serve until a signal ends it; requests under way are answered first."""
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: to look through all of it again and again would stop every request
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again when it is done
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run()
