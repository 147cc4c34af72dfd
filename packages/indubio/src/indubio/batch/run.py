"""Runs the shards that are not done, over workers, and tells how far it is."""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from indubio.batch.batch_manifest import BatchManifest
from indubio.batch.batch_progress import BatchAdvance, Counting
from indubio.batch.model_bytes import SentModel
from indubio.batch.output_folder import OutFolder
from indubio.batch.shards import SHARD_ROWS, InputFile, Looked, Shard, shards
from indubio.batch.worker import BatchOrder, Refused, ShardReport, assess_shard, keep, look_at
from indubio.decision import Verdict
from indubio.errors import ConfigError, WorkersError
from indubio.io import FileFormat, FileSource, RemotePath, is_remote, local_path
from indubio.judge import Judge, check_pinned
from indubio.settings import AtLeastOne, NotNegativeInt, Settings
from indubio.workers import Workers, ended_its_workers

T = TypeVar("T")
Item = TypeVar("Item")
OPTIONS = (
    "format",
    "passed",
    "label",
    "anomaly_values",
    "top",
    "contributions",
    "full",
    "shard_rows",
)  # that the files of results depend on
DEADLY = Refused("every worker that took it died: it may need more memory than they have.")
WRITE_EVERY = 1.0  # seconds between two manifests, or more where writing one takes long
WRITING_SHARE = 20  # a manifest is written for at most one part in so many of the time


@dataclass(frozen=True, kw_only=True)
class Batch(Settings):
    """What is to be assessed.

    Args:
        source: text (CSV), Parquet or spreadsheets: a file, a folder or a pattern, on this machine or as a URL.
        model: folder of a model.
        out: folder of results, path or URL.
        format: of the files in it.
        passed: columns to pass through, such as a serial number.
        label: column of labels to pass on as 0 and 1, where it is not the one the model knows.
        anomaly_values: its values that mean anomaly; None takes 1 and true.
        top: so many top features of each anomaly and referral.
        contributions: also a column per feature: what it adds to the score, and its spread.
        full: all columns with all digits; else those that people read, see `Assessment.to_arrow`.
        shard_rows: rows of a Parquet file that are one piece of work, and one file of results.
        sha256: that the model must have, see `Judge.load`; None takes any.
        file_format: how the files are read; None finds it out.
    """

    source: str
    model: Path
    out: str
    format: Literal["csv", "parquet", "jsonl"] = "parquet"
    passed: tuple[str, ...] = ()
    label: str | None = None
    anomaly_values: tuple[str, ...] | None = None
    top: NotNegativeInt = 3
    contributions: bool = False
    full: bool = True
    shard_rows: AtLeastOne = SHARD_ROWS
    sha256: str | None = None
    file_format: FileFormat | None = None


@dataclass(frozen=True, kw_only=True)
class BatchOutcome:
    """What a folder of results holds when a run ends.

    Args:
        shards: how many are done, and how many of them were before.
        before: shards that earlier runs did.
        verdicts: how many of each, in all of them.
        quarantined: reason by file or shard that could not be assessed.
        results: the files of results, below the folder, in the order of the input.
    """

    shards: int
    before: int
    verdicts: dict[str, int]
    quarantined: dict[str, str]
    results: tuple[str, ...]

    @property
    def examples(self) -> int:
        """How many examples are assessed."""
        return sum(self.verdicts.values())


def run_batch(
    batch: Batch,
    workers: Workers | None = None,
    *,
    executor: Executor | None = None,
    tell: Callable[[BatchAdvance], None] = lambda _: None,
) -> BatchOutcome:
    """Assess what is not assessed yet. What cannot be is put aside with a reason, and the rest goes on.

    Killed or interrupted at any moment, the next run goes on from there, and all files of results are the same to the
    byte as those of a run that nothing happened to, with any number of workers.

    Args:
        batch: what is to be assessed.
        workers: where; None is a process for each core.
        executor: an executor of this process instead.
        tell: called whenever something is done.
    """
    sent, judge = SentModel.read(batch.model), Judge.load(batch.model, sha256=batch.sha256)
    check_pinned(sent.digest, judge.digest, str(batch.model))  # nothing was saved there in between
    if judge.rule.OVER_BATCH:
        raise ConfigError(
            "the referral rule of this model decides over all examples together, which no worker sees. Give it a rule "
            "that decides one by one (`refer_by`), or assess without workers."
        )
    files = _files(_absolute(batch.source), judge, batch.file_format)
    folder = OutFolder(_absolute(batch.out))
    given = {name: getattr(batch, name) for name in OPTIONS}
    plain = {name: list(one) if isinstance(one, tuple) else one for name, one in given.items() if one is not None}
    manifest = BatchManifest.opened(folder, {"model": sent.digest} | plain | _asked(batch.file_format))
    folder.clear()
    manifest.keep(folder.sizes())
    manifest.write(folder)  # a target that cannot be written to is found now
    order = BatchOrder(
        key=uuid.uuid4().hex,
        model=sent,
        out=folder,
        format=batch.format,
        passed=batch.passed,
        top=batch.top,
        contributions=batch.contributions,
        full=batch.full,
        label=batch.label,
        anomaly_values=batch.anomaly_values,
    )
    with _executor(order, workers, executor) as pool, _saving(manifest, folder) as save:
        known = _looked(pool, files, judge, manifest)
        wanted = shards(known, batch.shard_rows, judge.grouped_by)
        for name in manifest.outdated(wanted):
            folder.remove(name)
        outcome = _assessed(pool, order.key, wanted, manifest, save, tell)
    folder.clear()  # what workers that died in this run were writing
    return outcome


@contextmanager
def _executor(order: BatchOrder, workers: Workers | None, executor: Executor | None) -> Iterator[Executor]:
    if executor is None:
        with (workers or Workers()).executor(keep, (order,)) as pool:
            yield pool
        return
    forget = keep(order)
    try:
        yield executor
    finally:
        forget()


@contextmanager
def _saving(manifest: BatchManifest, folder: OutFolder) -> Iterator[Callable[[], None]]:
    """Gives a function that writes the manifest now and then; it is written at the end, whatever happens."""
    due = 0.0

    def save() -> None:
        nonlocal due
        begun = time.monotonic()
        if begun >= due:
            manifest.write(folder)
            due = time.monotonic() + max(WRITE_EVERY, WRITING_SHARE * (time.monotonic() - begun))

    try:
        yield save
    finally:
        manifest.write(folder)


def _looked(
    pool: Executor, files: list[InputFile], judge: Judge, manifest: BatchManifest
) -> list[tuple[InputFile, Looked]]:
    """What has to be known of the files, of those that can be read."""
    found: dict[str, Looked] = {}

    def begun(file: InputFile) -> Future[Looked | Refused]:
        return pool.submit(look_at, file.source, judge.grouped_by, judge.row_by_row)

    for file, looked in _results(begun, files):
        if isinstance(looked, Refused):
            manifest.quarantined[file.name] = looked.reason
        else:
            found[file.name] = looked
    return [(file, found[file.name]) for file in files if file.name in found]


def _assessed(
    pool: Executor,
    key: str,
    all_shards: list[Shard],
    manifest: BatchManifest,
    save: Callable[[], None],
    tell: Callable[[BatchAdvance], None],
) -> BatchOutcome:
    waiting = [shard for shard in all_shards if not manifest.has(shard)]
    before = len(all_shards) - len(waiting)
    counting = Counting(all_shards, waiting)
    tell(counting.advance())
    for shard, report in _results(lambda shard: pool.submit(assess_shard, key, shard), waiting):
        if isinstance(report, Refused):
            report = ShardReport(report, "?", 0.0)
        if isinstance(report.outcome, Refused):
            manifest.quarantined[shard.name] = report.outcome.reason
        else:
            manifest.done[shard.name] = report.outcome
        counting.add(shard, report)
        save()
        tell(counting.advance())
    verdicts: Counter[str] = Counter()
    for one in manifest.done.values():
        verdicts.update(one.verdicts)
    counts = {name.value: verdicts[name] for name in Verdict}
    return BatchOutcome(
        shards=len(manifest.done),
        before=before,
        verdicts=counts,
        quarantined=dict(manifest.quarantined),
        results=tuple(manifest.done[shard.name].out for shard in all_shards if manifest.has(shard)),
    )


def _results(begun: Callable[[Item], Future[T]], items: Sequence[Item]) -> Iterator[tuple[Item, T | Refused]]:
    """What comes of each, as they finish; those that have not started never do when the caller gives up.

    A cluster blames the death of a worker on all tasks that it had, also on one that only waited there. So what seems
    to have ended its workers is done again, alone, and put aside when it does end them.

    Args:
        begun: gives one to a worker.
        items: all of them.
    """
    jobs = {begun(item): item for item in items}
    blamed: list[Item] = []
    try:
        for job in as_completed(jobs):
            item, result = jobs.pop(job), _result(job)
            if result is DEADLY:
                blamed.append(item)
            else:
                yield item, result
        for item in blamed:
            result = _result(begun(item))
            yield item, result
    except BaseException:
        for job in jobs:
            job.cancel()
        raise


def _result(job: Future[T]) -> T | Refused:
    try:
        return job.result()
    except (BrokenExecutor, CancelledError) as error:
        raise WorkersError(
            f"the workers are gone ({error or type(error).__name__}): a process was killed, perhaps for want of "
            "memory, or the cluster went away. What is done is kept: run the same command again to go on."
        ) from None
    except Exception as error:
        if ended_its_workers(error):
            return DEADLY
        raise


def _absolute(place: str) -> str:
    """A place as workers find it that were started in another folder."""
    return place if is_remote(place) else str(local_path(place).absolute())


def _files(source: str, judge: Judge, wanted: FileFormat | None) -> list[InputFile]:
    """The files of a source, in order, named by their path below the folder that is assessed."""
    root = _root(source)
    found = []
    for one in judge.opened(source, wanted):
        assert isinstance(one, FileSource)
        inner, (size, version) = _inner(one.path), one.version
        found.append(InputFile(inner.removeprefix(root).lstrip("/"), one, size, version))
    return found


def _root(source: str) -> str:
    """The folder that is assessed: the part of a pattern that is none, the folder of a single file."""
    path = RemotePath(source).inner if is_remote(source) else local_path(source).as_posix()
    if not is_remote(source) and local_path(source).is_dir():
        return path
    plain = path
    for sign in "*?[":
        plain = plain.partition(sign)[0]
    if is_remote(source) and plain == path and not RemotePath(source).is_file():
        return path
    return plain.rpartition("/")[0]


def _inner(path: Path | RemotePath) -> str:
    return path.inner if isinstance(path, RemotePath) else path.as_posix()


def _asked(wanted: FileFormat | None) -> dict[str, Any]:
    """What was asked of the files, for the manifest: results depend on it."""
    return {} if wanted is None else {name: getattr(wanted, name) for name in wanted.given}
