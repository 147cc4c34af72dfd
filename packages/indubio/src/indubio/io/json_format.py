"""JSON as this package writes it."""

import json
from typing import Any


def json_text(value: Any, *, compact: bool = False) -> str:
    """JSON on one line; what is not a number (NaN) becomes null, since JSON has no word for it."""
    separators = (",", ":") if compact else None
    return json.dumps(_without_nan(value), default=str, allow_nan=False, separators=separators)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value
