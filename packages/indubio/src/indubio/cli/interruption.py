"""Ctrl-C: a command ends within about a second, whatever it is in the middle of.

Python hears of a signal only between two of its own steps, and a call into the compiled core may take a minute. The
core lets other threads run meanwhile, so one of them waits for the signal too. If Python has not heard of it after a
moment, the process ends there: the core only computes, and what is written has another name until it is whole.
"""

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer

from indubio.cli.exit_codes import ExitCode

PATIENCE = 1.0  # seconds until Python must have heard of the signal
STOPPED = "Stopped by Ctrl-C."


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block Ctrl-C ends the process with one line and the exit code of an interrupted command."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as of a job that a shell put into the background
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _Watch()
    handler = signal.signal(signal.SIGINT, watch.interrupt)
    wakeup = signal.set_wakeup_fd(watch.tells.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch.run, daemon=True).start()
    try:
        yield
    except SystemExit as left:
        if isinstance(getattr(left.__context__, "__cause__", None), KeyboardInterrupt):  # nobody has said anything yet
            typer.echo(STOPPED, err=True)
        raise
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, handler)
        watch.tells.close()


class _Watch:
    def __init__(self) -> None:
        self._hears, self.tells = socket.socketpair()
        self.tells.setblocking(False)
        self._heard = threading.Event()

    def interrupt(self, number: int, frame: FrameType | None) -> NoReturn:
        """Python has heard of the signal."""
        del number, frame
        self._heard.set()
        raise KeyboardInterrupt

    def run(self) -> None:
        """Wait for the signal, until the block ends."""
        with self._hears:
            while numbers := self._hears.recv(64):
                ours = signal.getsignal(signal.SIGINT) == self.interrupt  # a server handles it in its own way
                if signal.SIGINT in numbers and ours and not self._heard.wait(PATIENCE):
                    _end()


def _end() -> NoReturn:
    for child in multiprocessing.active_children():
        child.kill()
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(ExitCode.INTERRUPTED)
