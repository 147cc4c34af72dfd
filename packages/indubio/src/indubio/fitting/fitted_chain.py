"""One fit: from good examples to a chain, wherever they are held and whatever scores them.

    plan        which examples train which draws, and which calibrate them
    suspects    those that look like anomalies are left out of training         with `trimming` only
    data        surveyed: what is done to every example before it is scored     RowsInMemory, StreamedData
    scores      of what calibrates, by a scorer that was fitted on the data     Method
    chain       what follows from the scores

Rows in memory are one block, which is scored whole; a stream is read again in every pass. A `Method` is what scores:
draws of a posterior (`PosteriorFit`), or other people's detectors (`ensemble`).
"""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from indubio.calibration import CrossFit, Plan
from indubio.decision import predictions
from indubio.drift import DriftReference
from indubio.errors import ConfigError
from indubio.fitting.fit_settings import FitSettings
from indubio.fitting.streams import StreamedData, TrainingData
from indubio.fitting.training_data import RowsInMemory, TrainingScores
from indubio.fitting.trimming import FARTHEST, held_out_scores
from indubio.fitting.unseen_scores import unseen_scores
from indubio.inputs.example_streams import ExampleStream
from indubio.inputs.preparation import Preparation
from indubio.inputs.training_examples import TrainingExamples
from indubio.message import Message
from indubio.pipeline.calibrated import Calibrated, needed_groups
from indubio.pipeline.chain import Chain, refuse_ranks, usual_alarms
from indubio.pipeline.decider import Decider
from indubio.pipeline.familiarity import Familiarity
from indubio.pipeline.held_out_rows import HeldOutRows
from indubio.training.loop import Report, silent
from indubio.uncertainty import disagreement

SUSPECT_FOLDS = 5  # by which training rows are scored without having been seen


class Method(Protocol):
    """What is fitted on prepared examples, and scores them."""

    @property
    def settings(self) -> FitSettings:
        """The settings that the fit goes by."""

    @property
    def draws(self) -> int:
        """How many scores an example has, M."""

    @property
    def remembers(self) -> bool:
        """Whether it scores rows that it has seen as if it remembered them."""

    @property
    def streams(self) -> bool:
        """Whether it can be fitted on examples that are larger than memory."""

    @property
    def judge(self) -> "Method":
        """The method that judges the training rows themselves."""

    def check_plan(self, plan: Plan) -> None:
        """Refuse folds of too few draws."""

    def nll(self, data: RowsInMemory) -> Float[np.ndarray, "draws examples"]:
        """Scores of all rows by what is fitted by their plan, and then forgotten."""

    def scores(self, data: TrainingData) -> TrainingScores:
        """What is fitted, and the scores of what calibrates."""


def fit_chain(
    method: Method, X: Any, groups: Any, detector: str, *, confirmed: int = 0, report: Report = silent
) -> Chain:
    """Fit on good examples in any form.

    Args:
        method: what scores.
        X: array, frame, `Table`, `Windows`, `Images`, or an `ExampleStream`.
        groups: the group of each; None takes the group column of a `Table`.
        detector: whose examples they are, for messages.
        confirmed: how many at the end were found to be good by a person: they train all draws and calibrate none.
        report: told of passes over a stream.
    """
    settings = method.settings
    if isinstance(X, ExampleStream):
        X, groups = _as_streamed(method, X, groups, detector), None
    data: TrainingData
    if isinstance(X, ExampleStream):
        data = StreamedData.of(settings, X, method.draws, detector, report)
    else:
        data = rows_in_memory(method, TrainingExamples.of(X, detector), groups, confirmed)
    drift = data.drift_reference(settings.seed)  # before anything is trained: it refuses what no histogram can hold
    return chain_of(
        method,
        data.preparation,
        drift_reference=drift,
        scores=method.scores(data),
        familiarity=data.familiarity(settings.seed),
        n_training=data.count,
        rows=data.rows if isinstance(data, RowsInMemory) else None,
    )


def _as_streamed(method: Method, stream: ExampleStream, groups: Any, detector: str) -> Any:
    """The stream, or all of it in memory where the buffer holds it."""
    if groups is not None:
        raise ConfigError("streamed examples have their groups in a column: name it in the roles of the table.")
    if stream.fits:
        return stream.read()
    if not method.streams:
        raise ConfigError(
            f"{detector} is fitted on examples in memory, and these are streamed. Let the buffer hold them all."
        )
    if method.settings.trimming is not None:
        raise ConfigError(
            Message(
                "`trimming` is for examples that fit into memory, and these are streamed. Leave it out, or let the "
                "buffer hold them all."
            )
        )
    return stream


def rows_in_memory(method: Method, examples: TrainingExamples, groups: Any, confirmed: int) -> RowsInMemory:
    """Examples in memory with their plan, those that look like anomalies left out of training."""
    settings, count = method.settings, len(examples)
    like_new = count - confirmed
    members = examples.given.group_names(groups)
    within = examples.machines if settings.smallest_group is None else needed_groups(members)
    plan = settings.calibration_for(like_new, examples.shape).plan(
        like_new, method.draws, settings.seed, None if within is None else within[:like_new]
    )
    method.check_plan(plan)
    plan = plan.with_added(like_new, confirmed)
    if settings.trimming is not None:
        halves = settings.trimming.halves(plan, like_new, settings.seed)
        plan = settings.trimming.trained(plan, halves, judged(method, examples, halves))
    return RowsInMemory.of(settings, examples, plan, groups=members, confirmed=confirmed)


def judged(method: Method, examples: TrainingExamples, plan: Plan) -> Float[np.ndarray, "draws examples"]:
    """Scores of all rows by what is fitted by a plan to judge them: bad ones must not stretch their own scale."""
    judge = method.judge
    data, scaling = RowsInMemory.of(judge.settings, examples, plan), judge.settings.scaling
    return judge.nll(data if scaling is None or scaling.bounded else data.clipped(FARTHEST))


def scores_by_others(method: Method, examples: TrainingExamples) -> Float[np.ndarray, " examples"]:
    """The mean score of every training example by draws that have not seen it."""
    count = len(examples)
    plan = CrossFit(folds=SUSPECT_FOLDS).plan(count, max(SUSPECT_FOLDS, method.draws), method.settings.seed)
    left = np.setdiff1d(np.arange(count), np.concatenate([fold.calibrated for fold in plan.folds]))
    first = replace(
        plan.folds[0],
        trained=np.setdiff1d(plan.folds[0].trained, left),
        calibrated=np.sort(np.concatenate([plan.folds[0].calibrated, left])),
    )
    plan = replace(plan, folds=(first, *plan.folds[1:]))
    scores = np.empty(count)
    for fold, own in zip(plan.folds, held_out_scores(plan, judged(method, examples, plan)), strict=True):
        scores[fold.calibrated] = own
    return scores


def chain_of(
    method: Method,
    preparation: Preparation,
    *,
    drift_reference: DriftReference,
    scores: TrainingScores,
    familiarity: Familiarity,
    n_training: int,
    rows: Float[np.ndarray, "examples ..."] | None = None,
) -> Chain:
    """What follows from the scores of what calibrates.

    Args:
        method: that scored.
        preparation: what is done to every example before it is scored.
        drift_reference: the distributions that new data is compared with.
        scores: of what calibrates.
        familiarity: what is familiar.
        n_training: how many examples there are.
        rows: all of them, prepared, where they are in memory.
    """
    settings, nll, plan, groups = method.settings, scores.nll, scores.plan, scores.groups
    rule = settings.referral
    if settings.trimming is not None:
        plan = settings.trimming.calibrated(plan, nll)
    if settings.smallest_group is not None:
        refuse_ranks(rule)
    calibrated = Calibrated.fit(nll, plan, settings, groups=groups, origin=scores.origin)
    good = calibrated.reference_uncertainty(nll, plan, groups, remembered=method.remembers)
    unseen = good if method.remembers else calibrated.reference_uncertainty(nll, plan, groups, remembered=True)
    if rule.by == "disagreement":
        reference_rows = np.sort(np.concatenate([fold.calibrated for fold in plan.folds]))
        good = replace(good, disagreement=disagreement(nll[:, reference_rows]))
    threshold = rule.anomaly_threshold(settings.anomaly_threshold)
    reference = calibrated.reference
    return Chain(
        preparation=preparation.calibrated(
            predictions(good.probability, threshold),
            usual_alarms(settings.conversion, threshold, settings.false_alarms),
            examples=n_training,
            smallest_p=1 / (reference.fewest + 1) if reference.unseen else None,
        ),
        scorer=scores.scorer,
        calibrated=calibrated,
        decider=Decider(
            rule=rule,
            referral_threshold=rule.fit(good),
            anomaly_threshold=threshold,
            reference=reference,
            n_reference=calibrated.n_reference,
            novelty_limit=settings.novelty_limit,
        ),
        familiarity=familiarity,
        good=good,
        drift_reference=drift_reference.with_scores(reference.fewest_at_once),
        n_training=n_training,
        held_out=None if rows is None else _held_out(rows, scores, plan, unseen.probability),
    )


def _held_out(
    rows: Float[np.ndarray, "examples ..."],
    scores: TrainingScores,
    plan: Plan,
    probability: Float[np.ndarray, " calibrated"],
) -> HeldOutRows:
    """What is said of the training rows; `probability` is of those that calibrate, in their order."""
    seen = plan.seen(scores.nll.shape[1]) if scores.seen is None else scores.seen
    calibrated = np.unique(np.concatenate([fold.calibrated for fold in plan.folds]))
    return HeldOutRows.of(rows, unseen_scores(scores.nll, seen), calibrated, probability)
