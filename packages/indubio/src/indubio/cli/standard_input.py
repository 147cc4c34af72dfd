"""Standard input as a source: it is put into a file first, so that it is read like any other."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# How the files begin that are no plain text; a spreadsheet is a ZIP file.
BEGINNINGS = {b"\x1f\x8b": ".csv.gz", b"\x28\xb5\x2f\xfd": ".csv.zst", b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx"}


@contextmanager
def named_source(source: str) -> Iterator[str]:
    """The source itself, or for "-" a file with what comes in, for as long as the block runs."""
    if source != "-":
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="indubio-") as folder:
        first = sys.stdin.buffer.read(4)
        ending = next((kind for begins, kind in BEGINNINGS.items() if first.startswith(begins)), ".csv")
        path = Path(folder) / f"stdin{ending}"
        with path.open("wb") as file:
            file.write(first)
            shutil.copyfileobj(sys.stdin.buffer, file)
        from indubio.io import known_as

        with known_as(path, "standard input"):
            yield str(path)
