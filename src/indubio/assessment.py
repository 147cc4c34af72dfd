"""Assessment: everything a detector says of some examples, one array per statement."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.decision import Verdict
from indubio.errors import IndubioError
from indubio.uncertainty import DISPLAY_FACTOR

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessment:
    """What the detector found; every field has one value per example.

    Attributes:
        verdict: INLIER, ANOMALY or REFER, as strings that equal the `Verdict` members. probability: mean anomaly
        probability over the draws, in [0, 1]. epistemic: variance of the draws' probabilities: not enough seen. In
        [0, 1/4]. aleatoric: mean of p(1 - p): ambiguous in itself. In [0, 1/4]. total: their sum. In [0, 1/4].
        exceed: U_exceed of Perini et al., in [0, 1]. var_nll: variance of the draws' scores. nll: mean score over the
        draws; high means anomalous. Use it to rank: it does not saturate as a probability does.
    """

    verdict: Shaped[np.ndarray, " examples"]
    prediction: Bool[np.ndarray, " examples"]
    probability: Float[np.ndarray, " examples"]
    epistemic: Float[np.ndarray, " examples"]
    aleatoric: Float[np.ndarray, " examples"]
    total: Float[np.ndarray, " examples"]
    exceed: Float[np.ndarray, " examples"]
    var_nll: Float[np.ndarray, " examples"]
    nll: Float[np.ndarray, " examples"]

    def __len__(self) -> int:
        return len(self.verdict)

    def __repr__(self) -> str:
        counts = ", ".join(f"{np.count_nonzero(self.verdict == verdict)} {verdict}" for verdict in Verdict)
        return f"Assessment({len(self)} examples: {counts})"

    @property
    def total_percent(self) -> Float[np.ndarray, " examples"]:
        """Total uncertainty from 0 to 100: the paper multiplies by 4 so that a fair coin reads as full doubt."""
        return self.total * (100 * DISPLAY_FACTOR)

    def to_dict(self) -> dict[str, np.ndarray]:
        """The arrays by name, in the order of the columns."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_arrow(self) -> "pa.Table":
        """An Arrow table, one row per example."""
        import pyarrow as pa

        return pa.table(self.to_dict())

    def to_frame(self, index: Any = None) -> "pd.DataFrame":
        """A pandas DataFrame, one row per example.

        Args:
            index: row labels, for example those of the frame that was assessed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise IndubioError("to_frame needs pandas: pip install pandas. to_arrow works without it.") from None
        return pd.DataFrame(self.to_dict(), index=index)
