"""Jobs: started by an admin, run in a process of their own, told to the store, ended as a new version or an error."""

import logging
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from indubio.decision import REFERRALS, Referral
from indubio.errors import ConfigError, ConflictError, DataError, IndubioError
from indubio.io import COMPRESSIONS, full_ending
from indubio.message import Message
from indubio.texts import english
from indubio_server.models import Model, Registry
from indubio_server.server_settings import ServerSettings
from indubio_server.store import (
    JobStatus,
    Origin,
    ServerStore,
    Version,
    abandoned_jobs,
    add_job,
    all_jobs,
    finish_job,
    interrupt_jobs,
    job_progress,
    renew_leases,
    version_of,
)

log = logging.getLogger("indubio_server")
ORIGINS: dict[str, Origin] = {"recalibrate": "recalibrated", "learn": "learned", "retrain": "retrained"}
RENEW = 5.0  # seconds between two renewals of leases, which last four times as long
MOST_UNPACKED = 100  # times the size of an upload: files of measurements pack ten times, at most
SMALL_UPLOAD = 16 * 2**20  # bytes that anything may unpack to
PATIENCE = 10.0  # seconds that a server which stops waits for a job's end to be kept
STOPPED = english("the server stopped while it ran")
_JOB_FOLDER = re.compile(rb'[^\s"]*/indubio-job-[^/\s"]+/')


class Jobs:
    """Recalibration, learning from labels and retraining in the background, one at a time for a model.

    Args:
        store: where progress and results go.
        registry: has the models.
        training: the training data of models, where the operator named it.
        settings: of the server: the share of all verdicts that is kept for control, and what a job may use.
    """

    def __init__(
        self, store: ServerStore, registry: Registry, training: Mapping[str, Path], settings: ServerSettings
    ) -> None:
        self._store, self._registry, self.training = store, registry, dict(training)
        self._settings = settings
        self._lock = threading.Lock()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._under_way: set[int] = set()
        self._renewed = 0.0
        self._threads: list[threading.Thread] = []
        self._closed = False

    def recalibrate(self, name: str, rule: Referral, *, by: str) -> int:
        """Start making a version with another referral rule; the number of the job."""
        kind = next(kind for kind, known in REFERRALS.items() if known is type(rule))
        return self._start("recalibrate", name, {"rule": kind, "settings": asdict(rule)}, by)

    def learn(self, name: str, *, by: str) -> int:
        """Start making a version whose probabilities are corrected by people's labels; the number of the job."""
        return self._start("learn", name, {}, by)

    def retrain(self, name: str, *, upload: tuple[str, bytes] | None = None, by: str) -> int:
        """Start training a version on the training data and the confirmed inliers; the number of the job.

        Args:
            name: of the model.
            upload: name and content of a file with the training data; None takes the file that the operator named.
            by: who asks for it.
        """
        if upload is None and name not in self.training:
            raise ConfigError(
                english(
                    "the server does not know the training data of {name!r}: upload it, or name it when it starts.",
                    name=name,
                )
            )
        if upload is not None:
            _require_unpackable(*upload)
        return self._start("retrain", name, {"file": upload[0] if upload else self.training[name].name}, by, upload)

    def look_after(self) -> None:
        """Renew the leases of the jobs that run here, and tell of those that nobody runs any more."""
        with self._lock:
            running = list(self._under_way)
        if running and time.monotonic() - self._renewed > RENEW:
            self._renewed = time.monotonic()
            self._store.write(lambda c: renew_leases(c, running))
        if self._store.look_up(abandoned_jobs):
            self._store.write(interrupt_jobs)

    def close(self) -> None:
        """End the jobs that still run; the store says that they were interrupted."""
        with self._lock:
            self._closed = True
            running = dict(self._running)
        for process in running.values():
            process.kill()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _start(
        self, kind: str, name: str, parameters: dict[str, Any], by: str, upload: tuple[str, bytes] | None = None
    ) -> int:
        loaded = self._registry.model(name)
        parent = self._store.read(lambda c: version_of(c, name, loaded.version))
        with self._lock:
            for job in self._store.read(all_jobs):
                if job.model == name and job.status is JobStatus.RUNNING:
                    raise ConflictError(
                        english(
                            "job {job:d} is still making a version of {name!r}. Wait for it.", job=job.id, name=name
                        )
                    )
            started = parameters | {"version": parent.version}
            number = self._store.write(lambda c: add_job(c, kind, name, started, by=by))
            self._under_way.add(number)
        work = threading.Thread(
            target=self._run, args=(number, kind, parent, parameters, upload, by), name=f"indubio-job-{number}"
        )
        work.daemon = True
        self._threads = [*(thread for thread in self._threads if thread.is_alive()), work]
        work.start()
        return number

    def _run(
        self,
        number: int,
        kind: str,
        parent: Version,
        parameters: dict[str, Any],
        upload: tuple[str, bytes] | None,
        by: str,
    ) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="indubio-job-") as folder:
                out = Path(folder) / "new"
                order = {
                    "url": self._store.database.url,
                    "kind": kind,
                    "name": parent.name,
                    "path": str(self._registry.folder_of(parent)),
                    "out": str(out),
                    "control_share": self._settings.control_share,
                    "memory": self._settings.job_memory,
                }
                if kind == "retrain":
                    order["training"] = str(self._training_file(parent.name, upload, Path(folder)))
                else:
                    order |= parameters
                result = self._worked(number, order)
                message, version = self._registered(kind, parent, out, result, by)
            ended = JobStatus.DONE, message, result | {"version": version}
        except IndubioError as error:
            ended = JobStatus.INTERRUPTED if self._closed else JobStatus.FAILED, str(error), {}
        except Exception as error:
            log.exception("a job failed", extra={"job": number})
            fault = english("a fault of the server ({kind}); it is in its log.", kind=type(error).__name__)
            ended = JobStatus.FAILED, fault, {}
        try:
            self._store.write(lambda c: finish_job(c, number, *ended))
        except IndubioError:
            log.exception("the end of a job could not be kept", extra={"job": number})
        finally:
            with self._lock:
                self._under_way.discard(number)
                self._running.pop(number, None)

    def _training_file(self, name: str, upload: tuple[str, bytes] | None, folder: Path) -> Path:
        if upload is None:
            return self.training[name].resolve()
        # Messages name the file as the person does who sent it, and the folder of this computer is nobody's business.
        own = re.sub(r"[^\w. -]", "_", re.split(r"[/\\]", upload[0])[-1])[-100:].lstrip(". ")
        path = folder / (own if full_ending(own) else f"training{full_ending(upload[0])[:20]}")
        path.write_bytes(upload[1])
        return path

    def _worked(self, number: int, order: dict[str, Any]) -> dict[str, Any]:
        """Run the process and write its progress to the store; returns its result."""
        command = [sys.executable, "-m", "indubio_server.retraining.new_versions"]
        with (
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
            _killed_after(60 * self._settings.job_minutes, process) as late,
        ):
            with self._lock:
                self._running[number] = process
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            complaints: list[bytes] = []
            listening = threading.Thread(target=lambda: complaints.extend(process.stderr or ()), daemon=True)
            listening.start()
            process.stdin.write(msgspec.json.encode(order))
            process.stdin.close()
            for line in process.stdout:
                said = msgspec.json.decode(_JOB_FOLDER.sub(b"", line))
                if "error" in said:
                    raise ConfigError(Message.of(said["error"]))
                if "result" in said:
                    result: dict[str, Any] = said["result"]
                    return result
                message = Message.of(said["message"])
                self._store.write(partial(job_progress, job_id=number, progress=said["progress"], message=message))
            process.wait()
            listening.join()
        if self._closed:
            raise ConfigError(STOPPED)
        if late.is_set():
            minutes = self._settings.job_minutes
            raise ConfigError(
                english("the job took longer than {minutes:g} minutes, which `job_minutes` sets", minutes=minutes)
            )
        log.error(
            "a job's process failed", extra={"job": number, "last": b"".join(complaints[-20:]).decode(errors="replace")}
        )
        if process.returncode < 0:
            raise ConfigError(
                english(
                    "the job's process was ended by signal {signal:d}, perhaps for want of memory (`job_memory`); what "
                    "it said is in the server's log.",
                    signal=-process.returncode,
                )
            )
        raise ConfigError(
            english(
                "the job's process ended with {code:d}; what it said is in the server's log.", code=process.returncode
            )
        )

    def _registered(self, kind: str, parent: Version, out: Path, result: dict[str, Any], by: str) -> tuple[str, int]:
        model = Model.load(out)
        before = {known.version for known in self._registry.known(parent.name)}
        told: dict[str, Any] = {"origin": ORIGINS[kind], "parent": parent.version, "evaluation": result, "by": by}
        version = self._registry.added(parent.name, model, out, **told)
        if version.version in before:
            return english("this gives version {number:d} again.", number=version.version), version.version
        return english("version {number:d} is ready; it is not active yet.", number=version.version), version.version


@contextmanager
def _killed_after(seconds: float, process: "subprocess.Popen[bytes]") -> Iterator[threading.Event]:
    """Kill a process that takes longer; the event says whether it did."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _require_unpackable(name: str, content: bytes) -> None:
    """Refuse an upload that unpacks to far more than it is: a few megabytes would fill memory and disk."""
    packing = COMPRESSIONS.get(Path(name.lower()).suffix)
    if packing is None:
        return
    import pyarrow as pa

    most = max(SMALL_UPLOAD, MOST_UNPACKED * len(content))
    try:
        with pa.CompressedInputStream(pa.BufferReader(content), packing) as unpacked:
            size = 0
            while (piece := len(unpacked.read(2**20))) and size <= most:
                size += piece
    except OSError:  # it is no such file: the job says so, with its place
        return
    if size > most:
        raise DataError(
            english(
                "{name} unpacks to more than {most:d} times its size: upload it as it is.",
                name=name,
                most=MOST_UNPACKED,
            )
        )
