"""Names that other libraries have for what a detector has under its own: who uses one is told ours."""

from collections.abc import Mapping

from indubio.errors import ConfigError
from indubio.message import Message

FALSE_ALARMS = Message("`false_alarms`, the share of good examples that may be called anomalies")
WINDOWS = Message("windows (N, L, K) given to `fit`: read_windows(frame, Wide(), Windowing(length=60)) cuts them")


def _training(example: str) -> Message:
    """How training is set, by an example."""
    return Message("`training`, such as {example}, of a posterior that is trained", example=example)


PARAMETERS: Mapping[str, str] = {
    "contamination": Message(
        "{ours}; it is fitted on good examples only, and `trimming` is for rows that are not all good",
        ours=FALSE_ALARMS,
    ),
    "nu": FALSE_ALARMS,
    "threshold": Message("`anomaly_threshold`, a probability; or {ours}", ours=FALSE_ALARMS),
    "random_state": Message("`seed`"),
    "random_seed": Message("`seed`"),
    "n_jobs": "fit(X, workers=Workers(processes=2))",
    "n_estimators": Message("`posterior`, such as Prototypes(draws=10)"),
    "epochs": _training("Training(epochs=100)"),
    "batch_size": _training("Training(batch_size=64)"),
    "learning_rate": _training("Training(learning_rate=0.01)"),
    "hidden_neurons": Message("`architecture`, such as Dense(), of a posterior that is trained"),
    **dict.fromkeys(("window", "window_size", "window_length", "seq_len"), WINDOWS),
    "categorical": "fit(read_table(frame, categorical=['colour'])), or a frame's columns of the type category",
}
ATTRIBUTES: Mapping[str, str] = {
    "save": 'save(detector, "model"), with `from indubio.storage import save`',
    "explain": "assess(X, explain=True).why, or contributions(X)",
    "predict_proba": "assess(X).probability",
    "predict_confidence": "assess(X).total_percent, which is doubt",
    "decision_scores_": "training_scores_",
    "threshold_": "decision_threshold",
}


def refuse_other_parameters(detector: str, given: Mapping[str, object], own: frozenset[str]) -> None:
    """Refuse parameters that are called otherwise here; what nobody knows is left to Python.

    Args:
        detector: whose, for the message.
        given: the parameters by name.
        own: the names that the detector has.
    """
    for name in given:
        if name in PARAMETERS and name not in own:
            raise ConfigError(
                "{detector} has no parameter {name!r}: in indubio that is {ours}.",
                detector=detector,
                name=name,
                ours=PARAMETERS[name],
            )


def no_attribute(detector: str, name: str) -> AttributeError:
    """What to raise where there is no such attribute."""
    more = f": in indubio that is {ATTRIBUTES[name]}." if name in ATTRIBUTES else "."
    return AttributeError(f"{detector} has no attribute {name!r}{more}")
