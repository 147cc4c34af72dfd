"""The anomalies of a whole batch at a false-discovery rate: what is known only when all examples are assessed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from indubio.chain import Assessment
from indubio.judging import fewest_selected, select_anomalies


class Selecting:
    """Tables of results, held until all are there.

    Args:
        fdr: of the anomalies that are selected, at most this share is false, on average.
    """

    def __init__(self, fdr: float) -> None:
        self._fdr = fdr
        self._tables: list[pa.Table] = []
        self._p_values: list[np.ndarray] = []
        self._smallest: list[np.ndarray] = []
        self._selected = np.zeros(0, dtype=bool)

    def hold(self, table: pa.Table, found: Assessment) -> None:
        """Keep a table with its verdicts until all p-values are there."""
        self._tables.append(table)
        self._p_values.append(found.p_value)
        self._smallest.append(found.smallest_p)

    def selected(self) -> Iterator[pa.Table]:
        """The tables that were held, with a column that says which examples are selected."""
        if not self._tables:
            return
        smallest = np.concatenate(self._smallest)
        self._selected = select_anomalies(np.concatenate(self._p_values), self._fdr, smallest_p=smallest)
        start = 0
        for table in self._tables:
            chosen = self._selected[start : start + table.num_rows]
            start += table.num_rows
            yield table.append_column("selected", pa.array(chosen))

    def summary(self) -> dict[str, Any]:
        """How many are selected, for machines."""
        chosen = int(np.count_nonzero(self._selected))
        return {"fdr": self._fdr, "selected": chosen, "smallest_p": self._smallest_p()}

    def words(self, *, drifted: bool) -> Iterator[str]:
        """What was selected and what that promises, for people.

        Args:
            drifted: whether drift was found; nothing is promised then.
        """
        chosen, examples = int(np.count_nonzero(self._selected)), len(self._selected)
        promised = f"at most {100 * self._fdr:g} % are expected to be false"
        if drifted:
            yield (
                f"{chosen} selected as anomalies. That {promised} is not to be relied on here: it needs good examples "
                "to be like the training ones, and drift was found."
            )
        else:
            yield f"{chosen} selected as anomalies, of which {promised}."
        fewest = fewest_selected(examples, self._fdr, self._smallest_p())
        if not chosen and fewest > 1:
            yield (
                f"None could be, unless {fewest} of the {examples} had the smallest p-value there is "
                f"({self._smallest_p():.2g}): more calibration examples, or smaller batches, would tell them apart."
            )

    def _smallest_p(self) -> float:
        return float(np.max(np.concatenate(self._smallest))) if self._smallest else float("nan")
