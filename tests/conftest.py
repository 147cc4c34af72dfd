"""What all tests share."""

import logging
import signal
from collections.abc import Iterator

import hypothesis
import pytest
import torch

from tests import array_shapes

array_shapes.check()  # before anything of indubio is imported

from tests.data_folder import data_folder  # noqa: E402
from tests.server_databases import (  # noqa: E402
    database_url,
    migrated_file,
    postgres_server,
    sqlite_store,
    sqlite_url,
    store,
)

__all__ = ["data_folder", "database_url", "migrated_file", "postgres_server", "sqlite_store", "sqlite_url", "store"]

# A busy machine is not a failing test.
hypothesis.settings.register_profile("indubio", deadline=None)
hypothesis.settings.load_profile("indubio")
# Tests run in two processes on two cores: more threads only fight each other.
torch.set_num_threads(1)
# A shell starts what runs in its background with Ctrl-C ignored, and so would be every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """`indubio serve` sends its logs to the stderr of the test that calls it, closed when the next one runs."""
    loggers = [logging.getLogger(name) for name in ("indubio_server", "uvicorn.error")]
    before = [(one.handlers[:], one.propagate, one.level) for one in loggers]
    yield
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)
