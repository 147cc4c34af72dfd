"""Processes of this machine."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from indubio.workers.one_core import keep_to_one_core


@contextmanager
def processes_here(
    count: int | None, start: Callable[..., object] | None, args: tuple[Any, ...]
) -> Iterator[ProcessPoolExecutor]:
    """So many processes for as long as the block runs; None takes one for each core."""
    spawned = _Spawned()  # a forked process would share torch's locks in whatever state
    ended, end = spawned.Pipe(duplex=False)
    pool = ProcessPoolExecutor(count or cores(), mp_context=spawned, initializer=_start, initargs=(ended, start, args))
    try:
        yield pool
    except BaseException:
        end.close()
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        pool.shutdown()
        end.close()
        ended.close()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _DeafProcess(SpawnProcess):
    """Does not hear of Ctrl-C, not even while it starts: in a terminal it reaches all processes, the parent decides."""

    def start(self) -> None:
        """Start it; Ctrl-C waits until then."""
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            super().start()
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # is inherited
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Spawned(SpawnContext):
    Process = _DeafProcess


def _start(ended: Connection, start: Callable[..., object] | None, args: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, args=(ended,), daemon=True).start()
    keep_to_one_core()
    if start is not None:
        start(*args)


def _end_with_the_parent(ended: Connection) -> None:
    """A pool's worker outlives a parent that was killed, waiting for work for ever, and finishes what is running."""
    parent = multiprocessing.parent_process()
    multiprocessing.connection.wait([ended, *([parent.sentinel] if parent is not None else [])])
    os._exit(1)
