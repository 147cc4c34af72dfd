r"""A CDF for every group: machines that score higher or scatter more by nature are each compared with themselves.

    p_m(x) = CDF_{m, group(x)}(nll_m(x)),    CDF_{m, g} fitted on the calibration examples of group g

The counterpart, for probabilities and verdicts, of p-values by group. A CDF of a handful of scores would be wrong
rather than coarse, so a group needs so many calibration examples for every draw; the others, and groups that were never
seen, are compared with all examples, and each of their examples has a note that says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from indubio.errors import DataError, ShapeError
from indubio.judging.conversions.conversion import Conversion, FittedConversion
from indubio.message import Message
from indubio.texts import english


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupConversions:
    """The conversions of those groups that have enough calibration examples.

    Args:
        names: of these groups.
        conversions: theirs, in the same order.
        smallest: calibration examples that a group needs for every draw.
    """

    names: tuple[str, ...]
    conversions: tuple[FittedConversion, ...]
    smallest: int

    def __post_init__(self) -> None:
        if len(self.names) != len(self.conversions) or len(set(self.names)) != len(self.names):
            raise ShapeError(f"{len(self.conversions)} conversions must be of as many groups, got {self.names}.")

    @classmethod
    def fit(
        cls,
        conversion: Conversion,
        scores: Sequence[Float[np.ndarray, "draws examples"]],
        groups: Sequence[Shaped[np.ndarray, " examples"]],
        smallest: int,
    ) -> "GroupConversions":
        """Fit every group that is large enough.

        Args:
            conversion: its settings.
            scores: of each part of the draws, of the examples that these are compared with.
            groups: of these examples; a group has as many in every part (see `calibration`).
            smallest: how many it needs there.
        """
        fitted = {}
        for name in sorted({str(name) for part in groups for name in np.unique(part.astype(str))}):
            members = [part.astype(str) == name for part in groups]
            if min(int(member.sum()) for member in members) >= smallest:
                own = [part[:, member] for part, member in zip(scores, members, strict=True)]
                fitted[name] = conversion.fit(np.concatenate(own))
        return cls(names=tuple(fitted), conversions=tuple(fitted.values()), smallest=smallest)

    def put_into(
        self,
        p: Float[np.ndarray, "draws examples"],
        nll: Float[np.ndarray, "draws examples"],
        groups: Shaped[np.ndarray, " examples"] | None,
    ) -> Float[np.ndarray, "draws examples"]:
        """The probabilities p, which are of all groups together, with those of the groups that have their own."""
        if groups is None:
            raise DataError(
                Message(
                    "this detector has probabilities by group, so each example needs its group: pass `groups` to "
                    "`assess`, or a table whose roles name the `group` column."
                )
            )
        if groups.shape != p.shape[1:]:
            raise ShapeError(
                "`groups` must have one name per example ({examples}), got the shape {shape}.",
                examples=p.shape[1],
                shape=groups.shape,
            )
        names = groups.astype(str)
        for name, conversion in zip(self.names, self.conversions, strict=True):
            members = names == name
            if members.any():
                p[:, members] = conversion.probability(nll[:, members])
        return p

    def notes(self, groups: Shaped[np.ndarray, " examples"]) -> Shaped[np.ndarray, " examples"]:
        """Which examples are judged by all groups together, for want of calibration examples of their own."""
        names = groups.astype(str)
        note = english("judged by all groups: fewer than {smallest:d} calibration examples a draw for group {group}")
        return np.array(
            ["" if name in self.names else english(note, smallest=self.smallest, group=name) for name in names],
            dtype=object,
        )
