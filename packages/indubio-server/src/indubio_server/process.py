"""The server as a process: how uvicorn is set up and run."""

import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from indubio.errors import ConfigError
from indubio_server.http import RESERVED, ConnectionTable, LimitedProtocol, limited, with_tls
from indubio_server.server_settings import ServerSettings
from indubio_server.trusted_proxies import TrustedProxies

log = logging.getLogger("indubio_server")
OTHER_FILES = 256  # that the process has open besides connections: database, models, logs, sockets that are closing
GRACE = 20  # seconds for requests under way when the server stops
SWITCH = 0.0001  # seconds; the event loop asks for Python's lock at every callback, and would wait for other threads


class LimitedServer(uvicorn.Server):
    """uvicorn's server, but that connections with TLS are plain ones first: so they count before their handshake."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; the protocol does the TLS handshake, so that its limits hold from the first byte."""
        config = self.config
        self._context, config.ssl = config.ssl, None
        if self._context is not None:
            config.http_protocol_class = with_tls(
                cast("type[LimitedProtocol]", config.http_protocol_class), self._context
            )
        await super().startup(sockets)

    def _log_started_message(self, listeners: Sequence[socket.SocketType]) -> None:
        self.config.ssl = self._context  # the message says https by this
        super()._log_started_message(listeners)


def configured(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    settings: ServerSettings | None = None,
    loop: str = "auto",
    **options: Any,
) -> uvicorn.Config:
    """The settings that uvicorn runs the application with.

    Args:
        app: the application.
        host: address to listen at.
        port: 0 for a free one.
        settings: of the server; None for the defaults.
        loop: uvicorn's name of the event loop; auto takes uvloop where it is installed.
        options: of uvicorn, such as `ssl_keyfile` and `ssl_certfile`.

    Raises:
        ConfigError: the certificate or its key cannot be used.
    """
    if options.get("ssl_keyfile") and not options.get("ssl_certfile"):
        raise ConfigError("--private-key is the key of a certificate: give --certificate too.")
    settings = settings or ServerSettings()
    table = ConnectionTable(
        most=connections_that_fit(settings.most_connections),
        per_address=settings.connections_per_address,
        proxies=TrustedProxies(settings.trusted_proxies),
    )
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop=loop,
        http=limited(table),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
        **options,
    )
    try:
        config.load()
    except OSError as error:  # of the ssl module too
        files = [str(path) for path in (config.ssl_certfile, config.ssl_keyfile) if path]
        raise ConfigError(
            f"--certificate and --private-key: {' and '.join(files)} cannot be used ({error}). "
            "They are files in PEM, and the key is that of the certificate."
        ) from error
    return config


def connections_that_fit(wanted: int) -> int:
    """How many connections there can be: as wanted, or as many files as the process may open, which is raised first."""
    if sys.platform == "win32":  # no such limit there
        return wanted
    import resource

    needed = wanted + RESERVED + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < needed:
            fitting = max(1, soft - RESERVED - OTHER_FILES)
            log.warning(
                "the process may open %d files, too few for %d connections: there will be %d at most. "
                "Raise the limit (ulimit -n %d) or lower the setting most_connections.",
                *(soft, wanted, fitting, needed),
            )
            return fitting
    return wanted


def run(config: uvicorn.Config) -> None:
    """Serve until a signal ends it; requests under way are answered first."""
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: to look through all of it again and again would stop every request
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again when it is done
    with contextlib.suppress(KeyboardInterrupt):
        LimitedServer(config).run()
