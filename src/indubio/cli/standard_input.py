"""Standard input as a source: it is put into a file first, so that it is read like any other."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def named_source(source: str) -> Iterator[str]:
    """The source itself, or for "-" a file with what comes in as CSV, for as long as the block runs."""
    if source != "-":
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="indubio-") as folder:
        path = Path(folder) / "stdin.csv"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path)
