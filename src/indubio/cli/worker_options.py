"""Options that say where work runs, for every command that has much of it."""

from pathlib import Path
from typing import Annotated

import typer

Cluster = Annotated[
    str | None,
    typer.Option("--cluster", help="Address of a Dask scheduler (tcp://host:8786) or its scheduler file (.json)."),
]
TlsCa = Annotated[Path | None, typer.Option("--tls-ca", help="For a cluster with TLS: certificate of the authority.")]
TlsCert = Annotated[Path | None, typer.Option("--tls-cert", help="Certificate of this client.")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="Its key, where it has its own file.")]
