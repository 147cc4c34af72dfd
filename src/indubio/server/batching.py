"""Greedy micro-batching: the model takes whatever waits, at once, and no request waits for a timer.

While a batch is scored the next one gathers, so batches grow with the load by themselves. Beyond a limit of waiting
rows requests are refused: a queue that only grows helps nobody.
"""

import asyncio
import logging
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from indubio.errors import StoreError
from indubio.server.errors import BusyError
from indubio.server.inputs import Examples
from indubio.server.metrics import Metrics
from indubio.server.recording import Recorder, Source, Verdicts
from indubio.server.registry import Loaded
from indubio.server.settings import ServerSettings
from indubio.server.store.chain import now

log = logging.getLogger("indubio.server")
MOST_AT_ONCE = 1024  # rows; larger batches are no faster


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
    top: list[list[dict[str, Any]] | None]
    kept: bool


class Batcher:
    """The thread that scores with one version of a model, and the queue before it.

    Args:
        loaded: the version.
        recorder: where verdicts go.
        settings: of the server.
        metrics: to count in.
    """

    def __init__(self, loaded: Loaded, recorder: Recorder, settings: ServerSettings, metrics: Metrics) -> None:
        self._loaded, self._recorder, self._settings, self._metrics = loaded, recorder, settings, metrics
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._rows = 0  # only the event loop's thread counts here
        self._thread = threading.Thread(target=self._run, name=f"indubio-scorer-{loaded.name}", daemon=True)
        self._thread.start()

    def submit(self, examples: Examples, sources: list[Source], top: int) -> "asyncio.Future[Result]":
        """Score; the future is done when the answer may be given."""
        count = len(examples)
        if self._rows and self._rows + count > self._settings.most_waiting:
            raise BusyError(f"{self._rows} rows wait for the model already.")
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._rows += count
        done.add_done_callback(lambda _: self._leave(count))
        self._queue.put(Job(examples=examples, sources=sources, top=top, done=done))
        return done

    def _leave(self, count: int) -> None:
        self._rows -= count

    def close(self) -> None:
        """Score what waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            jobs = []
            job = self._queue.get()
            rows = 0
            while job is not None:
                jobs.append(job)
                rows += len(job.examples)
                if rows >= MOST_AT_ONCE or self._queue.empty():
                    break
                job = self._queue.get()
            ended = job is None
            if jobs:
                self._score(jobs)

    def _score(self, jobs: list[Job]) -> None:
        try:
            verdicts = self._verdicts(jobs)
            top = [self._top(job, verdicts, start) for job, start in _starts(jobs)]
        except Exception as error:  # noqa: BLE001 - it goes to whoever asked
            if len(jobs) == 1:
                _deliver([(jobs[0], error)])
            else:
                for job in jobs:  # one request's bad value is not the others' fault
                    self._score([job])
            return
        self._record(jobs, verdicts, top)

    def _verdicts(self, jobs: list[Job]) -> Verdicts:
        examples = Examples.joined([job.examples for job in jobs])
        sources = [source for job in jobs for source in job.sources]
        assessment = self._loaded.model.assess(examples, [source.machine for source in sources])
        verdicts = Verdicts(
            loaded=self._loaded,
            at=now(),
            found={name: values.tolist() for name, values in assessment.to_dict().items()},
            inputs=examples.inputs,
            sources=sources,
        )
        verdicts.keep(self._settings.control_share)
        self._metrics.scored(self._loaded.name, verdicts.found)
        return verdicts

    def _top(self, job: Job, verdicts: Verdicts, start: int) -> list[list[dict[str, Any]] | None]:
        found = verdicts.found["verdict"][start : start + len(job.examples)]
        top: list[list[dict[str, Any]] | None] = [None] * len(found)
        places = [place for place, verdict in enumerate(found) if verdict != "INLIER"]
        if job.top and places:
            largest = self._loaded.model.top(job.examples.chosen(places), job.top)
            for place, names in zip(places, largest or (), strict=largest is not None):
                top[place] = names
        return top

    def _record(self, jobs: list[Job], verdicts: Verdicts, top: list[list[Any]]) -> None:
        ready, waiting = [], []
        unanswered: list[int] = []
        for (job, start), names in zip(_starts(jobs), top, strict=True):
            rows = range(start, start + len(job.examples))
            found = {name: values[start : rows.stop] for name, values in verdicts.found.items()}
            result = Result(loaded=self._loaded, found=found, top=names, kept=True)
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

    try:
        results[0][0].done.get_loop().call_soon_threadsafe(give)
    except RuntimeError:  # the loop is closed: there is nobody left to answer
        log.warning("an answer came after the end", extra={"requests": len(results)})
