"""What people's labels say of the detector: errors among what was referred and what was not, curves, other thresholds.

Only cases that were kept can be counted: every referral, and a known share of the other verdicts, chosen at random for
control. Each control case therefore stands for 1 / share verdicts, and estimates of all verdicts weigh it so.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import fisher_exact
from sqlalchemy import Connection, func, select, type_coerce
from sqlalchemy.types import NullType

from indubio.decision import REFER_ALL, Reason, Verdict
from indubio.evaluation import RejectionCurve, accuracy_rejection_curve
from indubio.judging import UncertaintyName
from indubio.texts import _
from indubio_server.store import EVERYTHING, Filters, cases, final_labels

SHOWN: tuple[UncertaintyName, ...] = ("total", "epistemic", "aleatoric")
OF_THE_DATA = (Reason.BAD_INPUT.value, Reason.OUT_OF_RANGE.value)  # no uncertainty decided on these
CLEAR = 0.05  # p-value of Fisher's exact test, below which two error rates are called different
COLUMNS = ("id", "verdict", "prediction", "epistemic", "aleatoric", "total", "exceed", "var_nll")


@dataclass(frozen=True, kw_only=True)
class LabelledErrors:
    """How often the detector alone would have been wrong, by people's labels.

    Args:
        labelled: cases that people decided.
        wrong: of them, where they say the opposite of the detector.
    """

    labelled: int
    wrong: int

    @property
    def share(self) -> float:
        """Share of the labelled cases; NaN where there are none."""
        return self.wrong / self.labelled if self.labelled else float("nan")


@dataclass(frozen=True, kw_only=True)
class OtherThreshold:
    """What a threshold refers, and which errors it catches and misses.

    Args:
        threshold: of the uncertainty; what is above is referred. None where it is not known.
        referred: verdicts that would have been referred.
        of: all verdicts.
        caught: labelled errors of the detector among them.
        missed: labelled errors that would have passed.
        right: labelled cases that would have been referred although the detector was right.
    """

    threshold: float | None
    referred: float
    of: float
    caught: float
    missed: float
    right: float


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelEvidence:
    """The kept cases of a model as arrays; those referred for their data are left out, no uncertainty decided on them.

    Args:
        labels: 1 anomaly, 0 inlier, NaN where nobody decided.
        predictions: True where the detector leans to anomaly.
        referred: whether it went to a person.
        uncertainties: by name.
        days: from the first to the last case.
        control_share: share of the verdicts other than referrals that was kept.
    """

    labels: Float[np.ndarray, " cases"]
    predictions: Bool[np.ndarray, " cases"]
    referred: Bool[np.ndarray, " cases"]
    uncertainties: dict[str, Float[np.ndarray, " cases"]]
    days: float
    control_share: float

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def labelled(self) -> Bool[np.ndarray, " cases"]:
        """Which cases people decided."""
        return np.asarray(~np.isnan(self.labels))

    @property
    def wrong(self) -> Bool[np.ndarray, " cases"]:
        """Labelled cases where the detector alone would have been wrong."""
        return np.asarray(self.labelled & (self.predictions != (self.labels == 1)))

    @property
    def has_control(self) -> bool:
        """Whether there is anything to compare referrals with."""
        return bool((~self.referred).any())

    @property
    def weight(self) -> Float[np.ndarray, " cases"]:
        """How many verdicts a case stands for."""
        return np.where(self.referred, 1.0, 1 / self.control_share if self.control_share else 1.0)

    def errors(self, *, referred: bool) -> LabelledErrors:
        """The errors among the referrals, or among the control cases."""
        some = self.labelled & (self.referred == referred)
        return LabelledErrors(labelled=int(some.sum()), wrong=int((some & self.wrong).sum()))

    def finding(self) -> str:
        """Whether referral pays, in a sentence; careful where the numbers are small."""
        sent, kept = self.errors(referred=True), self.errors(referred=False)
        if not sent.labelled:
            return _("Nobody has decided a referred case yet.")
        if not kept.labelled:
            return _(
                "To see whether referral pays, people must also label some verdicts that were not referred: let the "
                "server keep a share of them for control, or label those that wait."
            )
        table = np.array([[each.wrong, each.labelled - each.wrong] for each in (sent, kept)])
        if float(fisher_exact(table, alternative="two-sided").pvalue) >= CLEAR:
            return _("So far the labels do not show a clear difference between what was referred and what was not.")
        if sent.share > kept.share:
            return _("Referral pays: the detector is wrong clearly more often where it asked a person.")
        return _("Referral picks the wrong cases: the detector is wrong more often where it did not ask.")

    def curves(self) -> dict[str, RejectionCurve]:
        """Accuracy-rejection curves on the labelled cases, where enough are labelled for any point."""
        if not self.labelled.any():
            return {}
        curves = {
            name: accuracy_rejection_curve(
                self.labels[self.labelled].astype(bool),
                self.predictions[self.labelled],
                self.uncertainties[name][self.labelled],
            )
            for name in SHOWN
        }
        return {name: curve for name, curve in curves.items() if not np.isnan(curve.gain)}

    def at_share(self, share: float, by: str) -> OtherThreshold | None:
        """The smallest threshold that refers at most this share of all verdicts, and what it would have done.

        All of them is more than what lies above the smallest uncertainty that was seen: it is `REFER_ALL`.
        """
        if not len(self) or by not in self.uncertainties:  # one that is computed on demand is not kept with a case
            return None
        values, weight = self.uncertainties[by], self.weight
        if share >= 1:
            return self._done(values > REFER_ALL, REFER_ALL)
        candidates = np.unique(values)
        order = np.argsort(values, kind="stable")
        sums = np.concatenate([[0.0], np.cumsum(weight[order])])
        above = sums[-1] - sums[np.searchsorted(values[order], candidates, side="right")]
        fits = above <= share * sums[-1] * (1 + 1e-12)
        threshold = float(candidates[np.argmax(fits)])
        return self._done(values > threshold, threshold)

    def at_present(self, threshold: float | None) -> OtherThreshold:
        """What the present rule referred.

        Args:
            threshold: of the rule in use; None where it goes by more than one uncertainty.
        """
        return self._done(self.referred, threshold)

    def _done(self, sent: Bool[np.ndarray, " cases"], threshold: float | None) -> OtherThreshold:
        weight = self.weight

        def total(which: Bool[np.ndarray, " cases"]) -> float:
            return float(weight[which].sum())

        return OtherThreshold(
            threshold=threshold,
            referred=total(sent),
            of=float(weight.sum()),
            caught=total(sent & self.wrong),
            missed=total(~sent & self.wrong),
            right=total(sent & self.labelled & ~self.wrong),
        )


def evidence(
    connection: Connection,
    model: str,
    *,
    version: int | None,
    control_share: float,
    filters: Filters = EVERYTHING,
) -> LabelEvidence:
    """The kept cases of a model, or of one of its versions.

    Args:
        connection: to read with.
        model: its name.
        version: None for all.
        control_share: share of the verdicts other than referrals that is kept.
        filters: which of its cases.
    """
    chosen = replace(filters, model=model, version=version)
    conditions = [*chosen.conditions(), cases.c.reason.not_in(OF_THE_DATA)]
    wanted = select(*(type_coerce(cases.c[name], NullType()) for name in COLUMNS)).where(*conditions)
    rows = connection.execute(wanted.order_by(cases.c.id)).all()
    first, last = connection.execute(select(func.min(cases.c.at), func.max(cases.c.at)).where(*conditions)).one()
    said, number = final_labels(connection), {"A": 1.0, "I": 0.0}
    columns = dict(zip(COLUMNS, zip(*rows, strict=True) if rows else [()] * len(COLUMNS), strict=True))
    return LabelEvidence(
        labels=np.array([number.get(said.get(one, ""), np.nan) for one in columns["id"]], dtype=np.float64),
        predictions=np.array(columns["prediction"], dtype=bool),
        referred=np.array([verdict == Verdict.REFER for verdict in columns["verdict"]], dtype=bool),
        uncertainties={name: np.array(columns[name], dtype=np.float64) for name in COLUMNS[3:]},
        days=(last - first).total_seconds() / 86400 if rows else 0.0,
        control_share=control_share,
    )
