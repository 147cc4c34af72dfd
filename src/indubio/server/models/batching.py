"""Greedy micro-batching: the model takes whatever waits, at once, and no request waits for a timer.

While a batch is scored the next one gathers, so batches grow with the load by themselves. Beyond a limit of waiting
rows requests are refused: a queue that only grows helps nobody.

A batch is what the event loop reads until a turn of it brings nothing more. One that takes little time is scored where
it is, for threads that hand Python's lock to each other cost more than that; any other goes to a thread.
"""

import asyncio
import logging
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from indubio.assessment import Assessment
from indubio.errors import StoreError
from indubio.server.api.model_inputs import Examples
from indubio.server.http.error_answers import BusyError
from indubio.server.http.metrics import Metrics
from indubio.server.models.drift_watch import DriftWatch
from indubio.server.models.registry import Contributors, Loaded
from indubio.server.models.verdict_records import Recorder, Source, Verdicts
from indubio.server.settings import ServerSettings
from indubio.server.store.audit_trail import now

log = logging.getLogger("indubio.server")
MOST_AT_ONCE = 1024  # rows; larger batches are no faster
SMALL = (
    64  # rows; whether the event loop may score a batch is learned on batches up to this size, and true only of them
)
QUICK = 0.004  # seconds of CPU that a small batch may take in the event loop


@dataclass(kw_only=True, eq=False)
class Job:
    """The examples of one request.

    Args:
        examples: what to score.
        sources: where each came from.
        top: how many top features of anomalies and referrals to give.
        done: the answer.
    """

    examples: Examples
    sources: list[Source]
    top: int
    done: "asyncio.Future[Result]"


@dataclass(kw_only=True, eq=False)
class Result:
    """What a request is answered.

    Args:
        loaded: what scored it.
        found: columns of the assessment as lists; "case" has the references of what was kept, else "".
        top: top features of each example, where they were asked for.
        kept: whether what was to be kept is durable.
    """

    loaded: Loaded
    found: dict[str, list[Any]]
    top: list[Contributors | None]
    kept: bool


class Batcher:
    """The thread that scores with one version of a model, and the queue before it.

    Args:
        loaded: the version.
        recorder: where verdicts go.
        settings: of the server.
        metrics: to count in.
        drift: sees what was scored.
    """

    def __init__(
        self, loaded: Loaded, recorder: Recorder, settings: ServerSettings, metrics: Metrics, drift: DriftWatch
    ) -> None:
        self._loaded, self._recorder, self._settings, self._metrics = loaded, recorder, settings, metrics
        self._drift = drift
        self._queue: queue.SimpleQueue[list[Job] | None] = queue.SimpleQueue()
        self._gathered: list[Job] = []  # this and the count of rows: only the event loop's thread comes here
        self._seen = 0  # how many had gathered a turn ago
        self._rows = 0
        self._seconds = QUICK  # of CPU for a small batch, smoothed
        self._thread = threading.Thread(target=self._run, name=f"indubio-scorer-{loaded.name}", daemon=True)
        self._thread.start()

    def submit(self, examples: Examples, sources: list[Source], top: int) -> "asyncio.Future[Result]":
        """Score; the future is done when the answer may be given."""
        count = len(examples)
        if self._rows and self._rows + count > self._settings.most_waiting:
            raise BusyError(f"{self._rows} rows wait for the model already.")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._rows += count
        done.add_done_callback(lambda _: self._leave(count))
        if not self._gathered:
            loop.call_soon(self._hand_over)
        self._gathered.append(Job(examples=examples, sources=sources, top=top, done=done))
        return done

    def _leave(self, count: int) -> None:
        self._rows -= count

    def _hand_over(self) -> None:
        """Score what has gathered, once a turn of the event loop brought no more: whatever waited is in it then."""
        if self._seen < len(self._gathered) < SMALL:
            self._seen = len(self._gathered)
            asyncio.get_running_loop().call_soon(self._hand_over)
            return
        jobs, self._gathered, self._seen = self._gathered, [], 0
        if self._seconds < QUICK and sum(len(job.examples) for job in jobs) <= SMALL:
            self._score(jobs)
        else:
            self._queue.put(jobs)

    def close(self) -> None:
        """Score what waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            jobs: list[Job] = []
            more = self._queue.get()
            while more is not None:
                jobs += more
                if sum(len(job.examples) for job in jobs) >= MOST_AT_ONCE or self._queue.empty():
                    break
                more = self._queue.get()
            ended = more is None
            if jobs:
                self._score(jobs)

    def _score(self, jobs: list[Job]) -> None:
        began = time.thread_time()
        try:
            examples = Examples.joined([job.examples for job in jobs])
            sources = [source for job in jobs for source in job.sources]
            asked = [job.top for job in jobs for _ in range(len(job.examples))]
            assessment, top = self._loaded.model.assess(examples, [source.machine for source in sources], asked)
            verdicts = self._verdicts(examples, sources, assessment)
        except Exception as error:  # noqa: BLE001 - it goes to whoever asked
            if len(jobs) == 1:
                _deliver([(jobs[0], error)])
            else:
                for job in jobs:  # one request's bad value is not the others' fault
                    self._score([job])
            return
        if len(verdicts.inputs) <= SMALL:
            self._seconds += 0.1 * (time.thread_time() - began - self._seconds)
        self._record(jobs, verdicts, top)

    def _verdicts(self, examples: Examples, sources: list[Source], assessment: Assessment) -> Verdicts:
        verdicts = Verdicts(
            loaded=self._loaded,
            at=now(),
            found={name: values.tolist() for name, values in assessment.to_dict().items()},
            inputs=examples.inputs,
            sources=sources,
        )
        verdicts.keep(self._settings.control_share)
        self._metrics.scored(self._loaded.name, verdicts.found)
        self._drift.see(self._loaded, examples, verdicts.found["p_value"])
        return verdicts

    def _record(self, jobs: list[Job], verdicts: Verdicts, top: list[Contributors | None]) -> None:
        ready, waiting = [], []
        unanswered: list[int] = []
        for job, start in _starts(jobs):
            rows = range(start, start + len(job.examples))
            found = {name: values[start : rows.stop] for name, values in verdicts.found.items()}
            result = Result(loaded=self._loaded, found=found, top=top[start : rows.stop], kept=True)
            if self._settings.answer_after == "all" or any(found["case"]):
                waiting.append((job, result))
                unanswered += rows
            else:
                ready.append((job, result))
        refused = unanswered if self._settings.when_database_fails == "refuse" else []
        written = self._recorder.record(verdicts, refused)
        _deliver(ready)
        if waiting:
            written.add_done_callback(lambda done: self._written(done, waiting))

    def _written(self, done: "Future[None]", waiting: list[tuple[Job, Result]]) -> None:
        error = done.exception()
        if error is None:
            _deliver(waiting)
        elif self._settings.when_database_fails == "refuse" or not isinstance(error, StoreError):
            _deliver([(job, error) for job, _ in waiting])
        else:
            for _, result in waiting:
                result.kept = False
                result.found["case"] = [""] * len(result.found["case"])
            _deliver(waiting)


def _starts(jobs: list[Job]) -> list[tuple[Job, int]]:
    starts, at = [], 0
    for job in jobs:
        starts.append((job, at))
        at += len(job.examples)
    return starts


def _deliver(results: "list[tuple[Job, Any]]") -> None:
    if not results:
        return

    def give() -> None:
        for job, result in results:
            if job.done.done():  # the client went away
                continue
            if isinstance(result, BaseException):
                job.done.set_exception(result)
            else:
                job.done.set_result(result)

    loop = results[0][0].done.get_loop()
    try:
        if asyncio._get_running_loop() is loop:
            give()
        else:
            loop.call_soon_threadsafe(give)
    except RuntimeError:  # the loop is closed: there is nobody left to answer
        log.warning("an answer came after the end", extra={"requests": len(results)})
