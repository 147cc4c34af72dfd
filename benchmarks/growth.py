"""Growth: time against rows, members, features and epochs, with the slope on log-log axes."""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.measuring import interleaved
from benchmarks.nets import Size, engine_steps
from benchmarks.report import Section, milliseconds

BASE = Size("growth", (16,), 1000, 100)
SERIES: dict[str, list[int]] = {
    "rows": [500, 1000, 2000, 4000, 8000],
    "members": [1, 4, 16, 64, 256],
    "features": [4, 8, 16, 32, 64, 128],
    "epochs": [1, 2, 4, 8, 16],
}


@dataclass(frozen=True)
class Growth:
    """CPU seconds at every value of one thing that grows, and the slope of their logarithms."""

    name: str
    values: list[int]
    seconds: list[float]

    @property
    def slope(self) -> float:
        """Of a line fitted to all values."""
        return float(np.polyfit(np.log(self.values), np.log(self.seconds), 1)[0])

    @property
    def last_slope(self) -> float:
        """Between the two largest values."""
        return float(np.diff(np.log(self.seconds[-2:]))[0] / np.diff(np.log(self.values[-2:]))[0])


def growth(repeats: int) -> list[Growth]:
    found = []
    for name, values in SERIES.items():
        sizes = {str(value): _grown(name, value) for value in values}
        times = interleaved({key: engine_steps(size) for key, size in sizes.items()}, repeats)
        found.append(Growth(name, values, [times[key].cpu for key in sizes]))
    return found


def _grown(name: str, value: int) -> Size:
    if name == "features":
        return replace(BASE, shape=(value,))
    return replace(BASE, **{name: value})


def growth_section(found: list[Growth]) -> Section:
    return Section(
        key="growth",
        title="Growth: CPU time of training",
        headers=["what grows", "from", "to", "time from", "time to", "slope", "slope at the end"],
        rows=[
            [
                g.name,
                str(g.values[0]),
                str(g.values[-1]),
                milliseconds(g.seconds[0]),
                milliseconds(g.seconds[-1]),
                f"{g.slope:.2f}",
                f"{g.last_slope:.2f}",
            ]
            for g in found
        ],
        note="Milliseconds; the rest stays at 1,000 rows, 16 features, 10 members, one epoch, batch 100. The slope is "
        "that of a line fitted to the logarithms: 1 is proportional. Weights grow with the square of the features.",
    )
