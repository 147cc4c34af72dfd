"""The workers of a Dask cluster."""

import asyncio
import uuid
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from indubio.errors import ConfigError, MissingExtraError, WorkersError
from indubio.workers.one_core import keep_to_one_core

try:
    from distributed import Client, Security, Worker, WorkerPlugin
    from distributed.cfexecutor import ClientExecutor
except ImportError:
    raise MissingExtraError('a cluster needs the dask extra: pip install "indubio[dask]".') from None


class _Started(WorkerPlugin):
    """Starts every worker that is there and every one that joins.

    Args:
        start: to call on each.
        args: what to call it with.
    """

    def __init__(self, start: Callable[..., object] | None, args: tuple[Any, ...]) -> None:
        self.name = f"indubio-{uuid.uuid4().hex}"  # others may use the same cluster at the same time
        self._version = version("indubio")
        self._start, self._args = start, args
        self._stop: object = None

    def setup(self, worker: Worker) -> None:
        """Called by Dask, on the worker."""
        if version("indubio") != self._version:
            raise WorkersError(f"{worker.address} has version {version('indubio')}")
        keep_to_one_core()
        if self._start is not None:
            self._stop = self._start(*self._args)

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - Dask's signature
        """Called by Dask, on the worker, when the client is done with it."""
        if callable(self._stop):
            self._stop()


class _Executor(ClientExecutor):
    """Dask's own, but that every outcome arrives, and that results which have arrived are let go.

    Dask's loses the outcome of a task whose worker died before its result was fetched and which then fails: its future
    is never done. And as long as its futures are held, the results stay on the workers, and all that a worker has ever
    done is done again when it dies.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # type: ignore[override]
        """Give a job to the cluster, as every executor does."""
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        there, here = self._client.submit(fn, *args, **(self._kwargs | kwargs)), Future[Any]()
        self._futures.add(there)
        known = weakref.ref(there)  # Dask holds it until it is done
        here.add_done_callback(lambda here: _cancel(known()) if here.cancelled() else None)
        self._client.loop.add_callback(_pass_on, there, here)
        return here

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As every executor has it; Dask's does not know `cancel_futures`."""
        super().shutdown(wait and not cancel_futures)


def _cancel(there: Any) -> None:
    if there is not None and there.status != "cancelled":
        there.cancel()


async def _pass_on(there: Any, here: Future[Any]) -> None:
    """The outcome of a task on the cluster, to the future that the caller holds."""
    result, failed = None, None
    try:
        result = await there
    except (CancelledError, asyncio.CancelledError):
        here.cancel()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
        failed = error
    if not here.set_running_or_notify_cancel():
        return
    if failed is None:
        here.set_result(result)
    else:
        here.set_exception(failed)


@contextmanager
def cluster_workers(
    cluster: str,
    tls: tuple[Path | None, ...] | None,
    start: Callable[..., object] | None,
    args: tuple[Any, ...],
) -> Iterator[_Executor]:
    """An executor on a cluster for as long as the block runs.

    Args:
        cluster: address or scheduler file.
        tls: certificate of the authority, certificate and key of this client.
        start: what every worker calls first.
        args: what with.
    """
    started = _Started(start, args)
    with _connected(cluster, tls) as client:
        try:
            client.register_plugin(started)
        except Exception as error:  # noqa: BLE001 - whatever the workers raised
            raise WorkersError(
                f"{cluster}: its workers cannot run indubio {version('indubio')} ({error}). "
                "Install that version there, with the same extras."
            ) from None
        executor = _Executor(client, pure=False)
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False)
            raise
        finally:
            executor.shutdown()
            client.unregister_worker_plugin(started.name)


def _connected(cluster: str, tls: tuple[Path | None, ...] | None) -> Client:
    in_file = cluster.endswith(".json")
    if in_file and not Path(cluster).is_file():
        raise ConfigError(f"{cluster}: there is no such scheduler file.")
    options: dict[str, Any] = {"scheduler_file": cluster} if in_file else {"address": cluster}
    if tls is not None:
        ca, cert, key = (None if path is None else str(path) for path in tls)
        options["security"] = Security(
            tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key or cert, require_encryption=True
        )
    try:
        return Client(**options, set_as_default=False, name="indubio")
    except (OSError, ValueError, TypeError) as error:
        raise WorkersError(f"{cluster}: no Dask scheduler answers there ({error}).") from None
