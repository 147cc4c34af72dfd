"""One setting of a protocol changed at a time, or several together ("norm+no-margin"): what does a result hang on?"""

from typing import Any

from indubio.detector import Detector
from indubio.errors import ConfigError, quoted
from indubio.posteriors import RangeTest
from indubio.settings import Settings

AS_THE_PROTOCOL = "-"
VARIANTS: dict[str, dict[str, Any]] = {  # parameters of the detector, and fields of them after "__"
    AS_THE_PROTOCOL: {},
    "norm": {"architecture__layer_norm": True},
    "no-norm": {"architecture__layer_norm": False},
    "no-skips": {"architecture__skips": False},
    "bias": {"architecture__bias": True},
    "100-epochs": {"training__epochs": 100},
    "300-epochs": {"training__epochs": 300},
    "fixed-rate": {"training__learning_rate__use": "fixed"},
    "cycle": {"training__learning_rate__use": "triangular"},
    "no-margin": {"training__learning_rate__margin": 1.0},
    "linear-heads": {"architecture__code_heads": "linear"},
    "activated-heads": {"architecture__code_heads": "activated"},
    "leaky-relu": {"architecture__activation": "leaky_relu"},
    "selu": {"architecture__activation": "selu"},
    "our-rates": {"training__learning_rate": RangeTest(use="triangular")},
    "dropout-0.01": {"posterior__dropout": 0.01},
    "no-clipping": {"scaling__clip": False},
}


def changed(detector: Detector, variant: str) -> Detector:
    """The detector with the changes of a variant, one after the other where it names several."""
    for name in variant.split("+"):
        for place, value in VARIANTS[name].items():
            parameter, *fields = place.split("__")
            detector.set_params(**{parameter: _replaced(getattr(detector, parameter), fields, value)})
    return detector


def _replaced(settings: Settings, fields: list[str], value: Any) -> Settings:
    name, *inner = fields
    return settings.replaced(**{name: _replaced(getattr(settings, name), inner, value) if inner else value})


def check_variant(variant: str) -> None:
    """Refuse what is not made of known changes."""
    for name in variant.split("+"):
        if name not in VARIANTS:
            raise ConfigError(f"there is no variant {name!r}; there are {quoted(VARIANTS)}, and several joined by +.")
