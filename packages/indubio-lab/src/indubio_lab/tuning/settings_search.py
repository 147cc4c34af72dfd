"""The search: trials of Optuna's sampler, run by workers, kept in a study that can be gone on with.

Only this process asks and tells; workers get the settings of a trial and give back how good they are. What is told is
in the study's file (SQLite) at once, so a search that was stopped, or killed, loses the trials that were running.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from indubio.configuration import Configuration, detector_from_plain, detector_to_plain
from indubio.detector import Detector
from indubio.errors import ConfigError, MissingExtraError, TrainingError, WorkersError
from indubio.fitting import default_posterior
from indubio.settings import AtLeastOne, NotNegativeInt, Positive, Settings
from indubio.workers import Workers
from indubio_lab.tuning.criterion import By, SettingsQuality, described, judged, value_of
from indubio_lab.tuning.sample import Sample
from indubio_lab.tuning.space import suggested

NAME = "indubio"
OF = "of"  # attribute of a study: what it is of
ERROR = "error"  # attribute of a trial that could not be trained
USUAL = "usual"  # attribute of the trial of the settings that were given


@dataclass(frozen=True, kw_only=True)
class Search(Settings):
    """How long to search, and for what.

    Args:
        trials: settings to try, with those of earlier runs of the same study.
        timeout: seconds after which no new trial begins; None for no limit.
        by: "separation" tells held-out rows from broken ones; "nll" is the held-out NLL alone, see `criterion`.
        draws: of the posterior, at most, in a trial: few are enough to compare networks.
        seed: of the suggestions. With one worker the same seed tries the same settings; with more, what comes next
            depends on which trial is done first.
    """

    trials: AtLeastOne = 50
    timeout: Positive | None = None
    by: By = "separation"
    draws: AtLeastOne = 3
    seed: NotNegativeInt = 0


@dataclass(frozen=True, kw_only=True)
class SearchConfiguration(Configuration):
    """What `indubio tune` is told: the settings to begin with, how files are read, and how to search.

    Args:
        search: how long to search, and for what.
        rows: examples to search on, at random.
    """

    search: Search = Search()
    rows: Annotated[int, Field(ge=20)] = 20_000


@dataclass(frozen=True)
class Step:
    """How far a search is: trials that are done of those wanted, failed ones among them, and the best value so far."""

    done: int
    total: int
    failed: int
    best: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """The best settings so far.

    Args:
        detector: with them, and all else as it was given; unfitted.
        judged: how good they are.
        usual: how good the settings that were given are: the first trial.
        done: trials that were judged.
        failed: trials that could not be trained.
    """

    detector: Detector
    judged: SettingsQuality
    usual: SettingsQuality | None
    done: int
    failed: int


def search(
    detector: Detector,
    sample: Sample,
    study_file: Path,
    wanted: Search | None = None,
    workers: Workers | None = None,
    tell: Callable[[Step], None] = lambda _: None,
) -> Found:
    """Try settings until there are enough trials, and give the best.

    Ctrl-C ends it with `KeyboardInterrupt`; `best_so_far` says what was found until then.

    Args:
        detector: the settings to begin with; they are judged too, as the first trial.
        sample: what trials train and are judged on.
        study_file: is made, or gone on with.
        wanted: how long, and for what.
        workers: where trials run; None is one process for each core.
        tell: called when a trial ends.
    """
    wanted, workers = wanted or Search(), workers or Workers()
    with _study(study_file, detector, sample, wanted) as study:
        run = _Run(study, detector, sample, wanted, tell)
        if run.waiting(0):
            with workers.executor(_start, (run.key, sample)) as executor:
                run.through(executor, workers.slots(executor))
        return run.found()


def best_so_far(detector: Detector, sample: Sample, study_file: Path, wanted: Search) -> Found | None:
    """What a study found until now; None without a trial that is done."""
    with _study(study_file, detector, sample, wanted) as study:
        run = _Run(study, detector, sample, wanted, lambda _: None)
        return run.found() if run.step().done else None


class _Run:
    def __init__(
        self, study: Any, detector: Detector, sample: Sample, wanted: Search, tell: Callable[[Step], None]
    ) -> None:
        self._study, self._detector, self._wanted, self._tell = study, detector, wanted, tell
        self._shape = sample.trained.shape[1:]
        self.key = uuid.uuid4().hex  # others may search on the same cluster
        self._end = None if wanted.timeout is None else time.monotonic() + wanted.timeout

    def waiting(self, running: int) -> bool:
        """Whether another trial should begin while so many run; those that an earlier run left unfinished are lost."""
        late = self._end is not None and time.monotonic() >= self._end
        step = self.step()
        return not late and step.done + step.failed + running < self._wanted.trials

    def through(self, executor: Executor, slots: int) -> None:
        """Keep the workers busy until there are enough trials."""
        running: dict[Future[SettingsQuality], Any] = {}
        while running or self.waiting(0):
            while len(running) < slots and self.waiting(len(running)):
                trial = self._study.ask()
                if not any(map(_is_usual, [*self._judged(), *self._failed(), *running.values()])):
                    trial.set_user_attr(USUAL, True)
                running[executor.submit(_judge, self.key, detector_to_plain(self._of(trial)))] = trial
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                self._note(running.pop(future), future)
            self._tell(self.step())

    def _of(self, trial: Any) -> Detector:
        settings = self._usual if _is_usual(trial) else self._suggested(trial)
        posterior = settings.settings_for(self._shape).posterior
        few = posterior.with_count(min(self._wanted.draws, posterior.count))
        return Detector(**(settings.get_params(deep=False) | {"posterior": few}))

    @property
    def _usual(self) -> Detector:
        """The settings that were given; what they say of training is for the trials where the posterior is computed."""
        posterior = self._detector.posterior or default_posterior(self._detector.spectra, self._shape)
        without = {} if posterior.TRAINED else {"training": None}
        return Detector(**(self._detector.get_params(deep=False) | without))

    def _suggested(self, trial: Any) -> Detector:
        return suggested(self._detector, self._shape, trial, self._wanted.by)

    def _note(self, trial: Any, future: "Future[SettingsQuality]") -> None:
        import optuna

        try:
            found = future.result()
        except BrokenExecutor:
            raise WorkersError("a worker died. What is done is kept: run the same again to go on.") from None
        except TrainingError as error:  # a rate too high, for example: another trial will do better
            trial.set_user_attr(ERROR, str(error))
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        for name in ("separation", "nll"):
            trial.set_user_attr(name, getattr(found, name))
        self._study.tell(trial, value_of(found, self._wanted.by))

    def step(self) -> Step:
        """How many trials are done, and how good the best one is."""
        values = [trial.value for trial in self._judged()]
        return Step(len(values), self._wanted.trials, len(self._failed()), max(values, default=None))

    def _judged(self) -> list[Any]:
        return [trial for trial in self._study.get_trials(deepcopy=False) if trial.value is not None]

    def _failed(self) -> list[Any]:
        return [trial for trial in self._study.get_trials(deepcopy=False) if ERROR in trial.user_attrs]

    def found(self) -> Found:
        """The best settings of all trials."""
        step = self.step()
        if not step.done:
            raise TrainingError(
                f"none of {step.failed} trials could be trained. Look for extreme values in the data, or give a "
                "smaller learning rate to begin with."
            )
        trials = self._judged()
        best = max(trials, key=lambda trial: (trial.value, -trial.number))
        usual = [described(trial.user_attrs) for trial in trials if _is_usual(trial)]
        return Found(
            detector=self._usual if _is_usual(best) else self._suggested(_fixed(best.params)),
            judged=described(best.user_attrs),
            usual=usual[0] if usual else None,
            done=step.done,
            failed=step.failed,
        )


def _is_usual(trial: Any) -> bool:
    return USUAL in trial.user_attrs


def _fixed(params: dict[str, Any]) -> Any:
    import optuna

    return optuna.trial.FixedTrial(params)


@contextmanager
def _study(path: Path, detector: Detector, sample: Sample, wanted: Search) -> Iterator[Any]:
    """The study of this data and these settings, without trials that another run left unfinished."""
    try:
        import optuna
    except ImportError:
        raise MissingExtraError('tuning needs the tune extra: pip install "indubio[tune]".') from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent} for the study.")
    sampler = optuna.samplers.TPESampler(seed=wanted.seed)
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    except Exception as error:  # noqa: BLE001 - whatever SQLAlchemy or Alembic say of a file that is no study
        raise ConfigError(f"{path}: this is no study that can be gone on with ({type(error).__name__}).") from None
    try:
        study = optuna.create_study(
            storage=storage, study_name=NAME, direction="maximize", sampler=sampler, load_if_exists=True
        )
        _check(study, path, _identity(detector, sample, wanted))
        for trial in study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING]):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        yield study
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _identity(detector: Detector, sample: Sample, wanted: Search) -> str:
    told = [detector_to_plain(detector), wanted.by, wanted.draws, wanted.seed]
    content = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for values in (sample.trained, sample.held_out):
        content.update(values.tobytes())
    return content.hexdigest()


def _check(study: Any, path: Path, identity: str) -> None:
    known = study.user_attrs.get(OF)
    if known is None:
        study.set_user_attr(OF, identity)
    elif known != identity:
        raise ConfigError(
            f"{path}: this study is of other data or other settings. Give another file, or the same command as before."
        )


_samples: dict[str, Sample] = {}  # of a worker, by search


def _start(key: str, sample: Sample) -> Callable[[], None]:
    """Called once by every worker: the data is not sent with each trial."""
    _samples[key] = sample
    return partial(_forget, key)


def _forget(key: str) -> None:
    _samples.pop(key, None)


def _judge(key: str, settings: dict[str, Any]) -> SettingsQuality:
    return judged(detector_from_plain(settings), _samples[key])
