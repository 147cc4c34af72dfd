"""What the default costs beside the paper's ensemble, in one run, into docs/default.md.

python -m benchmarks.defaults
"""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measuring import Timing, interleaved, timed
from benchmarks.processor import processor
from experiments.results_file import markdown, put_into
from indubio import AnchoredEnsemble, Detector, save
from indubio.judging import Ecdf
from indubio.posteriors import RandomFeatures

MAKES: dict[str, Callable[[], Detector]] = {
    "default": Detector,
    "random features": partial(Detector, posterior=RandomFeatures()),
    "anchored ensemble": partial(Detector, posterior=AnchoredEnsemble(), conversion=Ecdf()),
}
REPEATS = 5


def rows(count: int, values: int, seed: int) -> np.ndarray:
    """Values that depend on each other, with noise."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(count, max(2, values // 4))) @ np.random.default_rng(0).normal(
        size=(max(2, values // 4), values)
    )
    return hidden + 0.1 * random.normal(size=hidden.shape)


def megabytes(detector: Detector) -> float:
    with tempfile.TemporaryDirectory() as folder:
        save(detector, Path(folder) / "model")
        return sum(path.stat().st_size for path in (Path(folder) / "model").iterdir()) / 1e6


def tables(values: int) -> list[list[str]]:
    """Fit of 2,000 rows, scores of 20,000 and of one."""
    good, new = rows(2000, values, 1), rows(20_000, values, 2)
    fitted = {name: make().fit(good) for name, make in MAKES.items()}
    fits = interleaved({name: timed(partial(make().fit, good)) for name, make in MAKES.items()}, 3)
    many = interleaved({name: timed(partial(one.assess, new)) for name, one in fitted.items()}, REPEATS)
    single = interleaved({name: timed(partial(one.assess, new[:1]), 200) for name, one in fitted.items()}, REPEATS)

    def line(name: str) -> list[str]:
        last = "anchored ensemble"

        def ratio(times: dict[str, Timing]) -> str:
            return f"{times[name].cpu / times[last].cpu:.2f}"

        return [
            f"{name}, 2,000 x {values}",
            f"{fits[name].cpu:.2f}",
            ratio(fits),
            ratio(many),
            ratio(single),
            f"{1e3 * single[name].per(200).cpu:.2f}",
            f"{megabytes(fitted[name]):.1f}",
        ]

    return [line(name) for name in MAKES]


def windows() -> list[str]:
    """Fit of 1,026 windows of 1024 x 3 by the default."""
    given = np.random.default_rng(0).normal(size=(1026, 1024, 3)).cumsum(axis=1)
    (found,) = interleaved({"": timed(lambda: Detector().fit(given))}, 3).values()
    return [
        "default, 1,026 windows of 1024 x 3",
        f"{found.cpu:.2f}",
        "",
        "",
        "",
        "",
        f"{megabytes(Detector().fit(given)):.1f}",
    ]


def main() -> None:
    before = os.getloadavg()[0]
    headers = ["", "fit, CPU s", "fit, ratio", "20,000 rows, ratio", "one row, ratio", "one row, ms", "MB"]
    made = markdown(headers, [*tables(20), *tables(6), *tables(64), windows()])
    put_into(
        "default.md", f"{processor()}; load average {before:.1f} before. Ratios are to the anchored ensemble.\n\n{made}"
    )


main()
