"""What the detector is and was trained on, as rows of a table."""

import dataclasses
from typing import Any

import numpy as np

from indubio.calibration import TrainScores
from indubio.chain import ChainEstimator
from indubio.decision import Budget, NoReferral, UncertaintyThreshold
from indubio.detector import Detector, EnsembleDetector
from indubio.judging import name_of
from indubio.report.subject import Subject
from indubio.report.words import count, number, percent
from indubio.settings import Settings
from indubio.texts import _, gettext, marked, told, written

COLUMNS_LISTED = 60
TREATED = {
    "error": marked("refused"),
    "median": marked("filled in by the median"),
    "refer": marked("referred to a person"),
}


def model_in_short(subject: Subject) -> str:
    """One line: what judged these examples."""
    detector = subject.detector
    return _(
        "{kind} with {draws}, trained on {examples} of {shape}.",
        kind=_kind(detector),
        draws=count(detector.conversion_.draws, "draw"),
        examples=count(detector.n_training_, "good example"),
        shape=_example_shape(subject),
    )


def model_rows(subject: Subject) -> list[tuple[str, str]]:
    """Name and value of everything that makes the detector what it is."""
    detector = subject.detector
    limit = detector.fitted_chain.decider.novelty_limit
    return [
        *(_network_rows(detector) if isinstance(detector, Detector) else _ensemble_rows(detector)),
        (_("Trained on"), _trained_on(subject)),
        *_spectra_rows(detector),
        (_("Conversion to probability"), _in_words(detector.conversion_.conversion)),
        (_("Calibration"), _calibration(detector)),
        (_("P-values"), told(subject.found.promise)),
        *_special_rows(detector),
        *_rate_rows(detector),
        (_("Anomaly"), _("probability of {threshold} or more", threshold=number(detector.decision_threshold))),
        (_("Referral"), _referral(subject)),
        *([] if limit is None else [(_("Unfamiliar"), _("referred, novelty above {limit}", limit=number(limit)))]),
        (
            _("Missing values"),
            _(
                "{missing}; new categories: {unseen}",
                missing=gettext(TREATED[detector.preparation_.missing]),
                unseen=gettext(TREATED[detector.preparation_.unseen]),
            ),
        ),
        (_("Seed"), str(detector.seed)),
    ]


def _trained_on(subject: Subject) -> str:
    examples = count(subject.detector.n_training_, "good example")
    return _("{examples} of {shape}", examples=examples, shape=_example_shape(subject))


def _rate_rows(detector: ChainEstimator) -> list[tuple[str, str]]:
    rate = detector.fitted_chain.calibrated.false_alarms
    unseen = detector.unseen_alarms_
    if unseen is None:
        return [(_("Rate of false alarms"), _("{share} of good examples", share=percent(rate)))]
    of_unseen = _(
        "{share} of good examples; of stretches that it had not seen {mean} (best {best}, worst {worst})",
        share=percent(rate),
        mean=percent(float(unseen.mean())),
        best=percent(float(unseen.min())),
        worst=percent(float(unseen.max())),
    )
    return [(_("Rate of false alarms"), of_unseen)]


def _spectra_rows(detector: ChainEstimator) -> list[tuple[str, str]]:
    spectra = detector.preparation_.spectra
    if spectra is None:
        return []
    return [(_("Features of a window"), f"{count(spectra.count)}; {_in_words(spectra.spectra)}")]


def _special_rows(detector: ChainEstimator) -> list[tuple[str, str]]:
    """What only some detectors have: probabilities by group, and what labels taught."""
    rows = []
    own, learned = detector.group_conversions_, detector.correction_
    if own is not None:
        rows.append(
            (
                _("Probabilities by group"),
                _(
                    "{groups}; {smallest} examples a draw or more",
                    groups=", ".join(own.names) or _("none"),
                    smallest=count(own.smallest),
                ),
            )
        )
    if learned is not None:
        anomalies = count(learned.anomalies, "anomaly", "anomalies")
        labels = _("{labels}, {anomalies} among them", labels=count(learned.reviewed, "label"), anomalies=anomalies)
        rows.append((_("Corrected by"), labels))
    return rows


def _network_rows(detector: Detector) -> list[tuple[str, str]]:
    settings = detector.settings_in_use()
    autoencoder = detector.draws_.autoencoder
    network = autoencoder.architecture or settings.architecture_for(detector.input_shape_, detector.n_training_)
    weights, score = autoencoder.weight_count(), name_of(detector.scores_)
    mixing, facts = detector.draws_.mixing, detector.draws_.facts or {}
    return [
        (_("Posterior"), _in_words(settings.posterior)),
        (_("Draws"), count(detector.draws_.count)),
        *(
            []
            if mixing is None
            else [(_("Chains") if mixing.chains > 1 else _("Chain"), f"{_capital(told(str(mixing)))}.")]
        ),
        *((_capital(told(name)), written(f"{value:.4g}")) for name, value in facts.items()),
        (
            _("Network"),
            _("{network}; {weights} per draw", network=_in_words(network), weights=count(weights, "weight")),
        ),
        (_("Scaling"), _in_words(settings.scaling)),
        (_("Likelihood"), _in_words(settings.likelihood)),
        *([] if score is None else [(_("Score"), score)]),
        *([(_("Training"), _in_words(settings.training))] if settings.posterior.TRAINED else []),
    ]


def _calibration(detector: ChainEstimator) -> str:
    reference = count(detector.n_reference_, "reference example")
    if isinstance(detector, Detector):
        used = detector.calibration_
        return f"{_in_words(used)}; {reference}"
    if isinstance(detector, EnsembleDetector):
        in_stretches = detector.preparation_.neighbours_alike
        settings, count_of = detector.settings_in_use(), detector.n_training_
        used = settings.calibration_for(count_of, detector.input_shape_, in_stretches=in_stretches)
    else:
        used = TrainScores()
    return f"{_in_words(used)}; {reference}"


def _ensemble_rows(detector: ChainEstimator) -> list[tuple[str, str]]:
    draws = count(detector.conversion_.draws)
    if not isinstance(detector, EnsembleDetector):
        return [(_("Detector"), type(detector).__name__), (_("Draws"), draws)]
    base = detector.base
    name = base.__name__ if hasattr(base, "__name__") else " ".join(repr(base).split())
    return [(_("Detector"), name), (_("Draws"), f"{draws}; {told(detector.resampling)}")]


def _kind(detector: ChainEstimator) -> str:
    if isinstance(detector, Detector):
        return type(detector.settings_in_use().posterior).__name__
    model = detector.base if isinstance(detector, EnsembleDetector) else detector
    return str(getattr(model, "__name__", type(model).__name__))


def column_rows(subject: Subject) -> tuple[list[tuple[str, str]], int]:
    """Name and training range or categories of each column, and how many are not listed."""
    columns = subject.detector.schema_.columns
    rows = []
    for column in columns[:COLUMNS_LISTED]:
        if column.kind == "category":
            rows.append((column.name, ", ".join(column.categories)))
        elif column.smallest is None or column.largest is None:
            rows.append((column.name, _("no values")))
        else:
            rows.append((column.name, _("{low} to {high}", low=number(column.smallest), high=number(column.largest))))
    return rows, max(0, len(columns) - COLUMNS_LISTED)


def _example_shape(subject: Subject) -> str:
    shape = subject.detector.input_shape_
    if subject.windows:
        return _("{steps} and {sensors}", steps=count(shape[0], "time step"), sensors=count(shape[1], "sensor"))
    if subject.images:
        return _(
            "{rows} x {columns} pixels and {channels}",
            rows=shape[0],
            columns=shape[1],
            channels=count(shape[2], "channel"),
        )
    return count(len(subject.detector.schema_.columns), "feature")


def _referral(subject: Subject) -> str:
    rule, threshold = subject.referral, subject.detector.referral_threshold_
    if isinstance(rule, NoReferral) or np.isinf(threshold):
        return _("nothing is referred for uncertainty")
    referred = rule.in_words(threshold)
    if referred is None:
        return _in_words(rule)
    match rule:
        case Budget():
            kind = _("at most {share} of the reference examples", share=percent(rule.share))
        case UncertaintyThreshold():
            kind = _("a fixed threshold")
        case _:
            kind = _in_words(rule)
    return f"{referred} ({kind})"


def _in_words(settings: Settings) -> str:
    """A settings object as text: its kind and the fields that are set, named as in a configuration."""
    given = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    fields = [f"{name} {_value(value)}" for name, value in given.items() if value is not None]
    return f"{type(settings).__name__} ({', '.join(fields)})" if fields else type(settings).__name__


def _value(value: Any) -> str:
    if isinstance(value, Settings):
        return _in_words(value)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, float):
        return written(f"{value:g}")
    if isinstance(value, tuple):
        between = _("and")
        return f" {between} ".join(map(_value, value)) or _("none")
    return str(value) if isinstance(value, str | int) else getattr(value, "__name__", type(value).__name__)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
