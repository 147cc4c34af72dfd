"""One setting of a protocol changed at a time, or several together ("norm+no-margin"): what does a result hang on?"""

from collections.abc import Callable
from typing import Any

from indubio.errors import ConfigError, quoted
from indubio.inputs import MinMax

Change = Callable[[dict[str, Any]], dict[str, Any]]


def _training(**changes: Any) -> Change:
    return lambda settings: {"training": settings["training"].replaced(**changes)}


def _rate(**changes: Any) -> Change:
    def change(settings: dict[str, Any]) -> dict[str, Any]:
        training = settings["training"]
        return {"training": training.replaced(learning_rate=training.learning_rate.replaced(**changes))}

    return change


def _architecture(**changes: Any) -> Change:
    return lambda settings: {"architecture": settings["architecture"].replaced(**changes)}


AS_THE_PROTOCOL = "-"
VARIANTS: dict[str, Change] = {
    AS_THE_PROTOCOL: lambda _: {},
    "norm": _architecture(layer_norm=True),
    "no-norm": _architecture(layer_norm=False),
    "no-skips": _architecture(skips=False),
    "bias": _architecture(bias=True),
    "100-epochs": _training(epochs=100),
    "300-epochs": _training(epochs=300),
    "fixed-rate": _rate(use="fixed"),
    "cycle": _rate(use="triangular"),
    "no-margin": _rate(margin=1.0),
    "no-clipping": lambda _: {"scaling": MinMax(clip=False)},
}


def changed(settings: dict[str, Any], variant: str) -> dict[str, Any]:
    """The settings with the changes of a variant, one after the other where it names several."""
    for name in variant.split("+"):
        settings = settings | VARIANTS[name](settings)
    return settings


def check_variant(variant: str) -> None:
    """Refuse what is not made of known changes."""
    for name in variant.split("+"):
        if name not in VARIANTS:
            raise ConfigError(f"there is no variant {name!r}; there are {quoted(VARIANTS)}, and several joined by +.")
