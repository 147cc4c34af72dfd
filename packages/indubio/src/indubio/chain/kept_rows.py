"""Rows that a detector keeps beside the sums of its draws, to calibrate again when rows were added to the sums.

They are those that calibrate, the first that train (errors are measured on these), and with several folds all that
train, since each calibrates some draws. All are scaled already.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Shaped

from indubio.calibration import Fold, Plan


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptRows:
    """Rows, and what each is for.

    Args:
        values: as the network gets them.
        draws: of every fold.
        trained: which rows the draws of each fold were trained on.
        calibrated: which rows their scores are compared with, before any are trimmed.
        unseen: whether no draw was trained on the rows that calibrate it.
        groups: names of the groups; None without groups.
        group: which group each row belongs to; None without groups.
    """

    values: Float32[np.ndarray, "kept_rows ..."]
    draws: Int[np.ndarray, " folds"]
    trained: Bool[np.ndarray, "folds kept_rows"]
    calibrated: Bool[np.ndarray, "folds kept_rows"]
    unseen: bool
    groups: tuple[str, ...] | None = None
    group: Int[np.ndarray, " kept_rows"] | None = None

    @classmethod
    def of(
        cls, values: Float[np.ndarray, "n ..."], plan: Plan, groups: Shaped[np.ndarray, " n"] | None, measured: int
    ) -> "KeptRows":
        """Those of all rows that are needed, so many of the first that train among them."""
        most = measured if len(plan.folds) == 1 else len(values)
        needed = [np.concatenate([fold.calibrated, fold.trained[:most]]) for fold in plan.folds]
        kept = np.unique(np.concatenate(needed))
        names, group = (None, None) if groups is None else _numbered(groups[kept])
        return cls(
            values=values[kept],
            draws=np.array([fold.draws for fold in plan.folds]),
            trained=np.stack([np.isin(kept, fold.trained) for fold in plan.folds]),
            calibrated=np.stack([np.isin(kept, fold.calibrated) for fold in plan.folds]),
            unseen=plan.unseen,
            groups=names,
            group=group,
        )

    @property
    def plan(self) -> Plan:
        """Which of these rows are compared with which draws."""
        folds = [
            Fold(draws=int(draws), trained=np.flatnonzero(trained), calibrated=np.flatnonzero(calibrated))
            for draws, trained, calibrated in zip(self.draws, self.trained, self.calibrated, strict=True)
        ]
        return Plan(folds=tuple(folds), unseen=self.unseen)

    @property
    def group_names(self) -> Shaped[np.ndarray, " kept_rows"] | None:
        """The name of each row's group; None where there are no groups."""
        return None if self.groups is None or self.group is None else np.array(self.groups, dtype=object)[self.group]

    def with_trained(
        self, values: Float[np.ndarray, "n ..."], groups: Shaped[np.ndarray, " n"] | None, measured: int
    ) -> "KeptRows":
        """These and rows that train all draws and calibrate none, as many of them as are needed."""
        if len(self.draws) == 1:
            values = values[: max(0, measured - int(np.count_nonzero(self.trained)))]
        new, names = (len(self.draws), len(values)), self.group_names
        known = None if names is None else np.full(len(values), "", dtype=object)
        if known is not None and groups is not None:
            known[:] = groups[: len(values)]
        numbered = (None, None) if names is None or known is None else _numbered(np.concatenate([names, known]))
        return replace(
            self,
            values=np.concatenate([self.values, values]),
            trained=np.concatenate([self.trained, np.ones(new, dtype=bool)], axis=1),
            calibrated=np.concatenate([self.calibrated, np.zeros(new, dtype=bool)], axis=1),
            groups=numbered[0],
            group=numbered[1],
        )


def _numbered(groups: Shaped[np.ndarray, " n"]) -> tuple[tuple[str, ...], Int[np.ndarray, " n"]]:
    names, group = np.unique(groups.astype(str), return_inverse=True)
    return tuple(names.tolist()), group
