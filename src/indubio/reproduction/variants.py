"""One setting of a protocol changed at a time, to find out what a result hangs on."""

from collections.abc import Callable
from typing import Any

from indubio.data import MinMax

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
    "100-epochs": _training(epochs=100),
    "300-epochs": _training(epochs=300),
    "fixed-rate": _rate(use="fixed"),
    "cycle": _rate(use="triangular"),
    "no-margin": _rate(margin=1.0),
    "no-clipping": lambda _: {"scaling": MinMax(clip=False)},
}
