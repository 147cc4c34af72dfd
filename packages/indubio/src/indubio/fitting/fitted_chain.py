"""One fit: from good examples to a chain, wherever they are held and whatever scores them.

    plan        which examples train which draws, and which calibrate them
    suspects    those outside of the bulk are left out of training              with `trimming` only
    data        surveyed: what is done to every example before it is scored     RowsInMemory, StreamedData
    scores      of what calibrates, by a scorer that was fitted on the data     Method
    chain       what follows from the scores

Rows in memory are one block, which is scored whole; a stream is read again in every pass. A `Method` is what scores:
draws of a posterior (`PosteriorFit`), or other people's detectors (`EnsembleDetector`).
"""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Shaped

from indubio.calibration import INDEPENDENT, Dependence, Plan, TrainScores
from indubio.chain import (
    Calibrated,
    Chain,
    Decider,
    Familiarity,
    HeldOutRows,
    needed_groups,
    refuse_ranks,
    usual_alarms,
)
from indubio.data import ExampleStream, Table
from indubio.decision import predictions
from indubio.drift import DriftReference
from indubio.errors import ConfigError
from indubio.fitting.fit_settings import FitSettings
from indubio.fitting.streams import StreamedData, TrainingData
from indubio.fitting.training_data import RowsInMemory, TrainingScores, prepared_rows
from indubio.fitting.trimming import FARTHEST, strangeness
from indubio.fitting.unseen_scores import unseen_scores
from indubio.judging import disagreement
from indubio.message import Message
from indubio.networks import Report, silent
from indubio.prepare import DependenceFacts, Preparation, Robust, TrainingExamples


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

    def check_plan(self, plan: Plan) -> None:
        """Refuse folds of too few draws."""

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
        dependence=data.dependence,
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
    each = members if within is None and isinstance(examples.given, Table) else within  # new rows are of these again
    dependence = Dependence.of(
        examples.rows.values[:like_new], _first(examples.given.runs, like_new), _first(each, like_new)
    )
    within = each if dependence.in_stretches else within
    plan = settings.calibration_for(like_new, examples.shape, in_stretches=dependence.in_stretches).plan(
        like_new, method.draws, settings.seed, _first(within, like_new), dependence
    )
    method.check_plan(plan)
    plan = plan.with_added(like_new, confirmed)
    if settings.trimming is not None:
        plan = settings.trimming.trained(plan, unstretched(settings, examples, plan), like_new, settings.seed)
    return RowsInMemory.of(settings, examples, plan, groups=members, confirmed=confirmed, dependence=dependence)


def _first(names: Shaped[np.ndarray, " examples"] | None, count: int) -> Shaped[np.ndarray, " count"] | None:
    return None if names is None else names[:count]


def suspicion(settings: FitSettings, examples: TrainingExamples) -> Float[np.ndarray, " examples"]:
    """How far every training example lies outside of the bulk of them; see `trimming`."""
    every = TrainScores().plan(len(examples), 1, settings.seed)
    return strangeness(unstretched(settings, examples, every), settings.seed)


def unstretched(settings: FitSettings, examples: TrainingExamples, plan: Plan) -> Float[np.ndarray, "rows values"]:
    """All rows on a scale that bad ones among them cannot stretch: by quantiles, and cut."""
    by_quantiles = settings.preparation_for(examples.shape).replaced(scaling=Robust())
    rows = prepared_rows(settings, by_quantiles, examples, plan)[1]
    return np.asarray(np.clip(rows.reshape(len(rows), -1), -FARTHEST, FARTHEST))


def chain_of(
    method: Method,
    preparation: Preparation,
    *,
    drift_reference: DriftReference,
    scores: TrainingScores,
    familiarity: Familiarity,
    n_training: int,
    rows: Float[np.ndarray, "examples ..."] | None = None,
    dependence: Dependence = INDEPENDENT,
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
        dependence: what was found of how they depend on each other.
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
            dependence=DependenceFacts(
                likeness=dependence.likeness,
                gap=dependence.gap,
                lasting=dependence.lasting,
                runs=dependence.runs,
                copies=dependence.copied,
                in_stretches=plan.in_stretches,
                unseen=plan.unseen,
                alarms=tuple(calibrated.alarms_on_unseen(threshold).tolist()),
            ),
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
