"""Settings of a protocol that are changed, one or several together: what does a result hang on?

They are written as in a configuration file: "architecture.activation=selu+training.epochs=300".
"""

import json
from typing import Any

from indubio.configuration import detector_from_plain, detector_to_plain
from indubio.detector import Detector
from indubio.errors import ConfigError

AS_THE_PROTOCOL = "-"


def changed(detector: Detector, variant: str) -> Detector:
    """The detector with the changes of a variant."""
    if variant == AS_THE_PROTOCOL:
        return detector
    plain = detector_to_plain(detector)
    for change in variant.split("+"):
        setting, _, value = change.partition("=")
        *inside, name = setting.split(".")
        settings = plain
        for part in inside:
            settings = settings.get(part, {})
        if name not in settings:
            raise ConfigError(f"{variant!r} changes {setting!r}, which the protocol does not set.")
        settings[name] = _read(value)
    return detector_from_plain(plain)


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
