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
from typing import Any

from indubio.workers.one_core import keep_to_one_core


@contextmanager
def processes_here(
    count: int | None, start: Callable[..., object] | None, args: tuple[Any, ...]
) -> Iterator[ProcessPoolExecutor]:
    """So many processes for as long as the block runs; None takes one for each core."""
    spawned = multiprocessing.get_context("spawn")  # a forked process would share torch's locks in whatever state
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


def _start(ended: Connection, start: Callable[..., object] | None, args: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches all: the parent decides
    threading.Thread(target=_end_with_the_parent, args=(ended,), daemon=True).start()
    keep_to_one_core()
    if start is not None:
        start(*args)


def _end_with_the_parent(ended: Connection) -> None:
    """A pool's worker outlives a parent that was killed, waiting for work for ever, and finishes what is running."""
    parent = multiprocessing.parent_process()
    multiprocessing.connection.wait([ended, *([parent.sentinel] if parent is not None else [])])
    os._exit(1)
