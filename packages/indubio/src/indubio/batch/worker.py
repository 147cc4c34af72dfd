"""What a worker does. It keeps the model of every batch that it works for, loaded at its first shard."""

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from indubio.batch.batch_manifest import Done
from indubio.batch.model_bytes import SentModel
from indubio.batch.output_folder import OutFolder
from indubio.batch.shards import Looked, Shard, look
from indubio.decision import Verdict
from indubio.errors import DataError, OutputError
from indubio.io import Format, Source, sink
from indubio.judge import Judge


@dataclass(frozen=True)
class BatchOrder:
    """What every worker has to know of a batch.

    Args:
        key: tells it from other batches on the same workers.
        model: to assess with.
        out: folder of results.
        format: of the files of results.
        passed: columns to pass through.
        top: so many top features of each anomaly and referral.
        contributions: also what every feature adds to the score.
        full: all columns and digits.
        label: column of labels to pass on; None for the one the model knows.
        anomaly_values: its values that mean anomaly.
    """

    key: str
    model: SentModel
    out: OutFolder
    format: Format
    passed: tuple[str, ...]
    top: int
    contributions: bool
    full: bool
    label: str | None
    anomaly_values: tuple[str, ...] | None

    @cached_property
    def judge(self) -> Judge:
        """The model in use, loaded once in each process."""
        with _loading:
            return self.model.loaded()


@dataclass(frozen=True)
class Refused:
    """A file or shard that cannot be assessed.

    Args:
        reason: why, for people.
    """

    reason: str


@dataclass(frozen=True)
class ShardReport:
    """What became of a shard.

    Args:
        outcome: done or refused.
        worker: who did it.
        seconds: how long it took.
    """

    outcome: Done | Refused
    worker: str
    seconds: float


_kept: dict[str, BatchOrder] = {}
_loading = threading.Lock()


def keep(order: BatchOrder) -> Callable[[], object]:
    """Called once on every worker; what comes back forgets the order again."""
    _kept[order.key] = order
    return partial(_kept.pop, order.key, None)


def look_at(source: Source, grouped_by: str | None, row_by_row: bool) -> Looked | Refused:
    """What has to be known of a file before it is cut."""
    try:
        return look(source, grouped_by, row_by_row)
    except (DataError, pa.ArrowException, OSError) as error:
        return Refused(str(error))


def assess_shard(key: str, shard: Shard) -> ShardReport:
    """Assess a shard and write its results."""
    begun = time.perf_counter()
    order = _kept[key]
    out = f"{shard.name}.{order.model.digest[:12]}.{order.format}"
    counts: Counter[str] = Counter()
    try:
        with sink(order.out.target(out), order.format) as target:
            for table, found in _tables(order, shard):
                target.write(table)
                counts.update(found)
            if not counts.total():
                raise DataError(f"{shard.file}: there are no rows.")
        verdicts = {name.value: counts[name] for name in Verdict}
        outcome: Done | Refused
        outcome = Done(out, shard.file, shard.version, order.out.size(out), counts.total(), verdicts)
    except OutputError:
        raise  # nothing is wrong with the shard
    except DataError as error:
        outcome = Refused(str(error))
    return ShardReport(outcome, f"{socket.gethostname()}:{os.getpid()}", time.perf_counter() - begun)


def _tables(order: BatchOrder, shard: Shard) -> Iterator[tuple[pa.Table, dict[str, int]]]:
    """Tables of results, and how many of each verdict are in them."""
    judge = order.judge
    try:
        sources = list(shard.sources)
        reading = judge.reading(sources, order.passed, order.label, order.anomaly_values)
        for part in reading.stream(sources, unlabelled=True):
            found, table = judge.assessed(
                part, reading, top=order.top, contributions=order.contributions, full=order.full
            )
            yield table, {name: int(np.count_nonzero(found.verdict == name)) for name in Verdict}
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{shard.file}: {error}") from None
