"""The rows a network is trained on: one tensor in memory, or stretch after stretch of what is larger than memory.

An epoch goes through the rows in stretches. Within one, every network has an order of its own; a tensor is a single
stretch. So there is one engine, and rows that come in one stretch give the same weights as the same rows in memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor


class StreamedRows(ABC):
    """Rows that are read again in every epoch.

    Attributes:
        dtype: of the stretches.
        device: of the stretches.
    """

    dtype: torch.dtype
    device: torch.device

    @abstractmethod
    def __len__(self) -> int:
        """How many rows an epoch has."""

    @abstractmethod
    def stretches(self, epoch: int, batch: int) -> Iterator[Float[Tensor, "n ..."]]:
        """All rows of an epoch, each once.

        Args:
            epoch: which; every epoch mixes the rows in another way, and the same one always in the same way.
            batch: rows per step; all stretches but the last are whole batches.
        """

    @abstractmethod
    def held_out(self, share: float) -> tuple["StreamedRows", Float[Tensor, "n2 ..."]]:
        """The rows without some of them, chosen at random, and these; so few that memory holds them."""


TrainingRows = Tensor | StreamedRows


def stretches(rows: TrainingRows, epoch: int, batch: int) -> Iterator[Float[Tensor, "n ..."]]:
    """The rows of an epoch; a tensor is one stretch."""
    if isinstance(rows, Tensor):
        yield rows
    else:
        yield from rows.stretches(epoch, batch)
