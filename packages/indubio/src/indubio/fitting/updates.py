"""A detector that also learns from examples that a person found to be good: fitted anew, or by sums that it kept."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from indubio.chain import AutoencoderScorer, Chain, KeptRows, needed_groups
from indubio.data import Examples, ExampleStream, examples_of
from indubio.errors import ConfigError, DataWarning
from indubio.fitting.fit_settings import DetectorSettings
from indubio.fitting.fitted_chain import chain_of, fit_chain
from indubio.fitting.folds import orders_of
from indubio.fitting.on_workers import joined as joined_draws
from indubio.fitting.posterior_fit import PosteriorFit
from indubio.fitting.training_data import TrainingScores
from indubio.judging import scored_by
from indubio.message import Message
from indubio.networks import FitContext, Report
from indubio.posteriors import AddsUp, Draws


def updated_chain(
    settings: DetectorSettings,
    chain: Chain,
    confirmed: Any,
    *,
    training_data: Any,
    groups: Any,
    epochs: int | None,
    report: Report,
) -> Chain:
    """The chain that has also learned from confirmed examples.

    Args:
        settings: of the detector.
        chain: of the detector.
        confirmed: good examples, in the form of the training data.
        training_data: what it was fitted on; None adds to the sums that it kept.
        groups: of the training data, where it is given, and then of the confirmed examples.
        epochs: passes over the rows where it starts warm; None is the setting.
        report: told after every epoch.
    """
    if training_data is None:
        if epochs is not None:
            raise ConfigError(
                Message("`epochs` is for an update that trains, and this one adds to sums: leave it out.")
            )
        return _with_added(settings, chain, confirmed, groups, report)
    if isinstance(training_data, ExampleStream) or isinstance(confirmed, ExampleStream):
        raise ConfigError(
            "a stream cannot be put together with other examples. Write the confirmed ones to a file beside the "
            "training files, and fit again on all of them."
        )
    _tell_other_count(chain.n_training, len(training_data), len(confirmed))
    start = autoencoder_scorer(chain).draws
    method = PosteriorFit(settings=settings, report=report, start=start, epochs=epochs)
    detector = chain.preparation.detector
    examples = Examples.joined([examples_of(one, detector) for one in (training_data, confirmed)])
    return fit_chain(method, examples, groups, detector, confirmed=len(confirmed))


def autoencoder_scorer(chain: Chain) -> AutoencoderScorer:
    """What scores in the chain of a `Detector`."""
    assert isinstance(chain.scorer, AutoencoderScorer)
    return chain.scorer


def _tell_other_count(fitted: int, training: int, confirmed: int) -> None:
    """Warn of training data that cannot be what `fit` was given.

    A detector that was updated counts those that were confirmed before, which are among the confirmed ones again.
    """
    if training > fitted or training + confirmed < fitted:
        warnings.warn(
            f"`training_data` is not what the detector was fitted on, {fitted} examples with those that were "
            f"confirmed before: got {training} and {confirmed} confirmed ones. The new detector knows only these.",
            DataWarning,
            stacklevel=4,  # of `update`
        )


def _with_added(settings: DetectorSettings, chain: Chain, confirmed: Any, groups: Any, report: Report) -> Chain:
    """The chain after examples were added to the sums of its draws; nothing else of it is learned again."""
    posterior, scorer = settings.posterior, autoencoder_scorer(chain)
    kept = scorer.kept
    if kept is None or not isinstance(posterior, AddsUp):
        raise ConfigError(
            Message(
                "this detector keeps nothing that examples could be added to: pass `training_data`, or fit with "
                "`posterior=NormalWishart(keep_sums=True)` or `posterior=RandomFeatures(keep_sums=True)`."
            )
        )
    if isinstance(confirmed, ExampleStream):
        raise ConfigError("examples that are added must be in memory. Read the stream, and add block after block.")
    examples = chain.preparation.examples(confirmed)
    rows = chain.preparation.rows(examples)
    if rows.unseen is not None and (rows.unseen != "").any():
        raise ConfigError(
            f"{np.count_nonzero(rows.unseen)} of {len(rows)} examples hold categories that the model does not "
            "know, which need columns of their own: pass `training_data`."
        )
    members = examples.group_names(groups)
    if settings.smallest_group is not None:
        members = needed_groups(members)
    added = chain.preparation.prepared(rows).values
    kept = kept.with_trained(added, members, posterior.measured_rows)
    draws = _extended(settings, kept, scorer.draws, added, report)
    score = scored_by(settings.anomaly_score, draws, kept.plan.draws)
    scorer, nll = AutoencoderScorer(scores=score, typical=None, kept=kept).with_typical(kept.values)
    return chain_of(
        PosteriorFit(settings=settings),
        chain.preparation,
        drift_reference=chain.drift_reference,
        scores=TrainingScores(scorer=scorer, nll=nll, plan=settings.plan_of_scores(kept.plan), groups=kept.group_names),
        familiarity=chain.familiarity,
        n_training=chain.n_training + len(rows),
    )


def _extended(
    settings: DetectorSettings, kept: KeptRows, draws: Draws, added: Float[np.ndarray, "n ..."], report: Report
) -> Draws:
    """The draws after rows were added to their sums; the kept rows have what is needed of them already."""
    plan, posterior, parts = kept.plan, settings.posterior, []
    assert isinstance(posterior, AddsUp)
    for order, (which, fold) in zip(orders_of(posterior, plan, settings.seed), plan.slices(), strict=True):
        context = FitContext(
            autoencoder=draws.autoencoder, rows=added, training=settings.training, seed=order.seed, report=report
        )
        first = kept.values[fold.trained[: posterior.measured_rows]]
        parts.append(posterior.extended(draws.some(which), context, first))
    return joined_draws(parts)
