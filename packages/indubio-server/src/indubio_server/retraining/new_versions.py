"""A new version of a model from people's labels: in a process of its own, so that scoring does not wait for training.

It reads one JSON object from standard input (see `VersionOrder`), writes its progress to standard output as one JSON
object a line, and ends with {"result": ...} or {"error": ...}. When the server is gone, the next line cannot be written
and the process ends too.

A third of the reviewed cases, chosen by their references, never teaches (`indubio.detector`): both versions are
compared on those, and after new training also on the anomalies, which are never trained on.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from jaxtyping import Shaped

from indubio.data import Examples, opened_for, reading_for
from indubio.decision import REFERRALS, Budget, Reason, Referral
from indubio.detector import HELD_OUT, Detector, LabelledExamples, held_out
from indubio.errors import ConfigError, DataError, IndubioError, data_warnings_told_otherwise
from indubio.message import Message
from indubio.networks import Progress
from indubio.storage import load, save
from indubio.texts import english
from indubio_server.models import ModelInput, chosen_for_control
from indubio_server.store import Case, Database, Filters, chosen_cases, final_labels

VersionKind = Literal["recalibrate", "learn", "retrain"]
ReportProgress = Callable[[float, str], None]
EVERY = 0.3  # seconds between two lines
POLITE = 5  # niceness: scoring comes first


class VersionOrder(msgspec.Struct, kw_only=True, frozen=True):
    """The order to make a new version of a model.

    Args:
        url: of the store.
        kind: a new referral rule, a correction learned from labels, or new training.
        name: of the model.
        path: files of the version to start from.
        out: folder for the new one.
        rule: name of the new rule in `REFERRALS`. settings: of it.
        control_share: share of all verdicts that are kept for control.
        training: file with the training data, for new training.
        memory: bytes that the process may have; 0 for any number.
    """

    url: str
    kind: VersionKind
    name: str
    path: str
    out: str
    rule: str | None = None
    settings: dict[str, Any] = {}
    control_share: float = 0.0
    training: str | None = None
    memory: int = 0


def make_version(order: VersionOrder, told: ReportProgress) -> dict[str, Any]:
    """Make and save the new version; returns what was measured of both."""
    told(0.0, english("reading the model and the reviews"))
    present = load(order.path)
    reviewed = reviewed_cases(order, present)
    if order.kind == "retrain":
        new, trained_on = _retrained(order, present, reviewed, told)
        learned = new.correction_ is not None
        compared_on = None if reviewed is None else reviewed.held_out | (reviewed.anomaly & (not learned))
    elif order.kind == "learn":
        new, trained_on = _learned(present, reviewed, order.control_share), 0
        compared_on = None if reviewed is None else reviewed.held_out
    else:
        new, trained_on = recalibrated(order, present, reviewed), 0
        taught = present.correction_ is not None
        compared_on = None if reviewed is None else reviewed.held_out | (not taught)
    told(0.93, english("comparing both versions on the reviewed cases"))
    measured = {} if reviewed is None or compared_on is None else reviewed.compared(present, new, compared_on)
    told(0.97, english("saving"))
    Path(order.out).parent.mkdir(parents=True, exist_ok=True)
    save(new, order.out)
    return {"confirmed": trained_on, **measured}


def recalibrated(order: VersionOrder, detector: Detector, reviewed: LabelledExamples | None) -> Detector:
    """The detector with the rule of the order, fitted on the reviewed cases where the rule learns from labels."""
    if order.rule is None:
        raise ConfigError(english("a new rule needs `rule`."))
    rule = REFERRALS[order.rule](**order.settings)
    return _labelled(detector, rule, reviewed, order.control_share) if rule.takes_labels else detector.refer_by(rule)


def _labelled(detector: Detector, rule: Referral, reviewed: LabelledExamples | None, share: float) -> Detector:
    """Fit a rule that says something about examples as they come, on cases that are as they come.

    One that promises something about errors sees none that may have taught this version or one before.
    """
    name, way_out = type(rule).__name__, "" if rule.NEEDS_LABELS else english(" Or say the prevalence.")
    if not share:
        raise ConfigError(
            english(
                "{name} is fitted on verdicts as they come, and only referrals are kept. Start the server without "
                "--control-share 0, and have those cases reviewed too.{way_out}",
                name=name,
                way_out=way_out,
            )
        )
    if reviewed is None or not reviewed.as_they_come.any():
        raise ConfigError(
            english(
                "no reviewed case was chosen for control yet: {name} has nothing to be fitted on.{way_out}",
                name=name,
                way_out=way_out,
            )
        )
    on = reviewed.as_they_come & reviewed.held_out if rule.NEEDS_LABELS else reviewed.as_they_come
    if on.sum() < rule.fewest:
        raise DataError(
            english(
                "{name} as it is set needs at least {fewest:d} reviewed cases that were kept for control and never "
                "teach the model, and there are {there:d}: of {control:d} reviewed ones that were kept for control, "
                "about one in {held_out:d} never teaches. Have more of them reviewed, or ask for less.",
                name=name,
                fewest=rule.fewest,
                there=int(on.sum()),
                control=int(reviewed.as_they_come.sum()),
                held_out=HELD_OUT,
            )
        )
    return detector.refer_by(rule, reviewed.data.select(on), reviewed.anomaly[on], groups=reviewed.groups[on])


def _learned(detector: Detector, reviewed: LabelledExamples | None, share: float) -> Detector:
    """The detector corrected by the labels that are not held out; its rule is fitted again on cases as they come."""
    if reviewed is None or not share or not reviewed.as_they_come.any():
        raise ConfigError(
            english(
                "what is learned from labels changes all uncertainties, and the referral rule is fitted again on "
                "verdicts as they come: start the server without --control-share 0, and have such cases reviewed too."
            )
        )
    rule = detector.settings_in_use().referral
    if rule.NEEDS_LABELS:  # it is fitted afterwards, on cases that taught nothing
        detector = detector.refer_by(Budget(by=rule.by))
    learned = reviewed.teach(detector)
    return _labelled(learned, rule, reviewed, share) if rule.NEEDS_LABELS else learned


def training_data(detector: Detector, path: str) -> Examples:
    """The good examples of a file, read as the model's own training file was."""
    files = opened_for(detector.reading_, path)
    return reading_for(detector.reading_, detector.schema_, files, ()).read(files).inliers()


def reviewed_cases(order: VersionOrder, detector: Detector) -> LabelledExamples | None:
    """Every case of the model that people decided; None where there is none. Bad input is left out."""
    database = Database(order.url)
    try:
        kept, said = database.read(lambda c: (chosen_cases(c, Filters(model=order.name)), final_labels(c)))
    finally:
        database.close()
    cases = [case for case in kept if case.id in said and case.reason != Reason.BAD_INPUT]
    if not cases:
        return None
    takes = ModelInput(detector.schema_, detector.input_shape_, detector.preparation_.missing, 1)
    windowing = None if detector.reading_ is None else detector.reading_.windowing
    rate = None if windowing is None else windowing.rate
    return LabelledExamples(
        data=Examples.joined([_example(takes, case, rate) for case in cases]),
        anomaly=np.array([said[case.id] == "A" for case in cases]),
        held_out=np.array([held_out(case.reference) for case in cases]),
        as_they_come=np.array([chosen_for_control(case.input_hash, order.control_share) for case in cases]),
        groups=np.array([case.machine for case in cases], dtype=object),
    )


def _retrained(
    order: VersionOrder, present: Detector, reviewed: LabelledExamples | None, told: ReportProgress
) -> tuple[Detector, int]:
    if order.training is None:
        raise ConfigError(
            english("new training needs the training data: name it when the server starts, or upload it.")
        )
    whole = training_data(present, order.training)
    training = whole.bare()
    confirmed = training.select(np.zeros(len(training), dtype=bool))
    if reviewed is not None:
        confirmed = reviewed.data.select(~reviewed.anomaly & ~reviewed.held_out).bare()
    base, rule = present, present.settings_in_use().referral
    if rule.NEEDS_LABELS:  # it is fitted on the reviewed cases again, afterwards
        base = present.refer_by(Budget())

    def report(progress: Progress) -> None:
        done = progress.done / max(1, progress.total)
        told(
            0.05 + 0.85 * done,
            english("{stage}, {done:d} of {total:d}", stage=progress.stage, done=progress.done, total=progress.total),
        )

    begins = english(
        "training on {good:d} good examples and {confirmed:d} confirmed ones",
        good=len(training),
        confirmed=len(confirmed),
    )
    told(0.05, begins)
    groups = _groups(present, whole, reviewed)
    with data_warnings_told_otherwise():
        new = base.update(confirmed, training_data=training, groups=groups, progress=report)
    if present.reading_ is not None:
        new = new.read_by(present.reading_)
    if present.correction_ is not None:  # labels that taught the present version teach the new one too
        new = _learned(new, reviewed, order.control_share)
    if rule.NEEDS_LABELS:
        new = _labelled(new, rule, reviewed, order.control_share)
    return new, len(confirmed)


def _groups(
    present: Detector, training: Examples, reviewed: LabelledExamples | None
) -> Shaped[np.ndarray, " examples"] | None:
    """Of the training data and the confirmed cases, where the model is calibrated by group."""
    if present.reference_.groups is None:
        return None
    known = training.groups
    if known is None:
        raise ConfigError(english("the model is calibrated by group, and the training data does not say the groups."))
    if reviewed is None:
        return known
    return np.concatenate([known, reviewed.groups[~reviewed.anomaly & ~reviewed.held_out]])


def _example(takes: ModelInput, case: Case, rate: float | None) -> Examples:
    try:
        return takes.detector_data(takes.from_input(case.input), rate)
    except (msgspec.DecodeError, DataError) as error:
        why = english(
            "case {case:d} was made for other columns than this model has: {error}", case=case.id, error=error
        )
        raise DataError(why) from None


def main() -> None:
    """Read the order from standard input, carry it out, and write progress and result."""
    os.nice(POLITE)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    last = 0.0

    def say(**line: Any) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    def told(share: float, message: str) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            say(progress=share, message=Message.of(message).plain())

    order = msgspec.json.decode(sys.stdin.buffer.read(), type=VersionOrder)
    _limit_memory(order.memory)
    try:
        say(result=make_version(order, told))
    except MemoryError:
        told_of = english("the job needs more memory than `job_memory` allows, {most:d} MB", most=order.memory // 2**20)
        say(error=told_of.plain())
    except (IndubioError, OSError) as error:
        say(error=Message.of(str(error)).plain())


def _limit_memory(most: int) -> None:
    if most and sys.platform != "win32":  # no such limit there
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
