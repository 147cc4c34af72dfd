"""How far a batch is, and how long the rest will take."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from indubio.batch.batch_manifest import Done
from indubio.batch.shards import Shard
from indubio.batch.worker import ShardReport


@dataclass(frozen=True)
class WorkerState:
    """What one worker did in this run.

    Args:
        shards: how many.
        examples: in them.
        seconds: that it took.
        latest: the shard that it did last.
    """

    shards: int = 0
    examples: int = 0
    seconds: float = 0.0
    latest: str = ""

    @property
    def rate(self) -> float:
        """Examples per second, while it worked."""
        return self.examples / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class BatchAdvance:
    """How far a batch is.

    Args:
        done: shards that are done, with those of earlier runs.
        total: shards in all.
        refused: shards of this run that were put aside.
        examples: assessed in this run.
        seconds: since this run began.
        share: of the input that is done, by its size.
        left: estimate of the seconds that are left; None until a shard was done.
        workers: by name.
    """

    done: int
    total: int
    refused: int
    examples: int
    seconds: float
    share: float
    left: float | None
    workers: Mapping[str, WorkerState]

    @property
    def rate(self) -> float:
        """Examples per second of this run."""
        return self.examples / self.seconds if self.seconds > 0 else 0.0


class Counting:
    """Adds up what was done.

    Args:
        all_shards: of the batch.
        waiting: those that this run has to do.
    """

    def __init__(self, all_shards: Sequence[Shard], waiting: Sequence[Shard]) -> None:
        self._begun = time.monotonic()
        self._total, self._done, self._refused = len(all_shards), len(all_shards) - len(waiting), 0
        self._size, self._to_do = sum(one.size for one in all_shards), sum(one.size for one in waiting)
        self._finished, self._examples = 0.0, 0
        self._workers: dict[str, WorkerState] = {}

    def add(self, shard: Shard, report: ShardReport) -> None:
        """Count one more shard, done or refused."""
        done = report.outcome if isinstance(report.outcome, Done) else None
        self._done += done is not None
        self._refused += done is None
        self._finished += shard.size
        self._examples += done.examples if done else 0
        before = self._workers.get(report.worker, WorkerState())
        self._workers[report.worker] = WorkerState(
            before.shards + 1,
            before.examples + (done.examples if done else 0),
            before.seconds + report.seconds,
            shard.name,
        )

    def advance(self) -> BatchAdvance:
        """How far the batch is now."""
        seconds = time.monotonic() - self._begun
        left = seconds * (self._to_do - self._finished) / self._finished if self._finished else None
        share = 1 - (self._to_do - self._finished) / self._size if self._size else 1.0
        return BatchAdvance(
            self._done, self._total, self._refused, self._examples, seconds, share, left, dict(self._workers)
        )
