"""What takes results: tables of one schema, one after the other."""

from abc import ABC, abstractmethod
from typing import IO

import pyarrow as pa


class Sink(ABC):
    """Takes tables of one schema, one after the other."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Add the rows of a table to the file."""

    def close(self) -> None:  # noqa: B027 - most formats have nothing to finish
        """Finish the format; the stream stays open."""
