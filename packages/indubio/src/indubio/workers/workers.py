"""`Workers`: how many, and where."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indubio.errors import ConfigError
from indubio.message import Message
from indubio.settings import AtLeastOne, Settings
from indubio.workers.processes import cores, processes_here

Start = Callable[..., object]


@dataclass(frozen=True, kw_only=True)
class Workers(Settings):
    """Processes of this machine, or a Dask cluster.

    Args:
        processes: how many processes here; None takes one for each core.
        cluster: address of a Dask scheduler, such as "tcp://host:8786", or its scheduler file, such as "cluster.json".
        tls_ca: certificate of the authority, for a cluster that speaks TLS.
        tls_cert: certificate of this client.
        tls_key: its key; None when it is in the file of the certificate.
    """

    processes: AtLeastOne | None = None
    cluster: str | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cluster is not None and self.processes is not None:
            raise ConfigError(Message("give `processes` or `cluster`, not both: a cluster has its own workers."))
        if self.cluster is None and any((self.tls_ca, self.tls_cert, self.tls_key)):
            raise ConfigError(Message("`tls_ca`, `tls_cert` and `tls_key` are for a `cluster`."))
        if (self.tls_ca is None) != (self.tls_cert is None) or (self.tls_key is not None and self.tls_cert is None):
            raise ConfigError(
                Message("TLS needs `tls_ca` and `tls_cert`, and `tls_key` when the key has its own file.")
            )

    def slots(self, executor: Executor) -> int:
        """How many tasks its workers run at a time, for work that is given out as results come in."""
        if self.cluster is None:
            return self.processes or cores()
        return max(1, sum(executor._client.nthreads().values()))  # type: ignore[attr-defined]

    @contextmanager
    def executor(self, start: Start | None = None, args: tuple[Any, ...] = ()) -> Iterator[Executor]:
        """An executor for as long as the block runs.

        When the block ends with an exception, Ctrl-C included, what has not started never does, and processes here end
        at once; a task that runs on a cluster runs to its end there.

        Args:
            start: what every worker calls before its first task, also one that joins later; a function of a module.
                On a cluster, what it returns is called at the end, if it can be.
            args: what it is called with; sent to a worker once.
        """
        if self.cluster is None:
            with processes_here(self.processes, start, args) as executor:
                yield executor
            return
        from indubio.workers.cluster import cluster_workers

        tls = None if self.tls_ca is None else (self.tls_ca, self.tls_cert, self.tls_key)
        with cluster_workers(self.cluster, tls, start, args) as executor:
            yield executor


def ended_its_workers(error: BaseException) -> bool:
    """Whether a task was given up because every worker that took it died; only a cluster tries a task again."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(error, distributed.KilledWorker)
