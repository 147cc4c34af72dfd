"""What the fit of a posterior tells of itself, as a model file keeps it."""

from dataclasses import dataclass

from indubio.message import Message


@dataclass(frozen=True, kw_only=True)
class KeptFact:
    """One of the facts of draws: a number and what it is, which a page tells in its language."""

    name: Message
    value: float
