"""Windows of sensor signals, from a recording to verdicts that can be traced back.

    python examples/windows.py

The recording is generated: three sensors of a machine that repeats a cycle, with a fault in one sensor of some later
cycles. Everything is written to the folder `windows-example`.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from indubio import Detector, Odds
from indubio.data import Wide, Windowing, read_windows, stream_windows
from indubio.report import html_report

folder = Path("windows-example")
folder.mkdir(exist_ok=True)
rng = np.random.default_rng(0)


def recording(cycles: int, faulty: tuple[int, ...] = ()) -> pa.Table:
    """So many cycles of 60 samples; in a faulty one the current rises too early."""
    step, cycle = np.tile(np.arange(60), cycles), np.repeat(np.arange(cycles), 60)
    late = np.where(np.isin(cycle, faulty), 18, 25)
    signals = {
        "pressure": np.clip(step - 10, 0, 15) / 15,
        "temperature": 40 + 5 * np.sin(step / 10),
        "current": 2 + 6 / (1 + np.exp(late - step)),
    }
    noisy = {name: signal + 0.03 * rng.normal(size=len(step)) for name, signal in signals.items()}
    return pa.table({"seconds": cycle * 100.0 + step, "cycle": cycle, **noisy})


parquet.write_table(recording(200), folder / "healthy.parquet")
parquet.write_table(recording(20, faulty=(4, 11)), folder / "later.parquet")

layout, windowing = Wide(time="seconds", group="cycle"), Windowing(length=60)
training = read_windows(folder / "healthy.parquet", layout, windowing)
print(training)
# By default a tenth of good examples may be called anomalies; a machine wants fewer alarms.
detector = Detector(conversion=Odds(false_alarms=0.01)).fit(training)

# Streamed: a recording may be larger than memory. Each verdict says which cycle it is of.
for part in stream_windows(folder / "later.parquet", layout, windowing, windows_at_once=10):
    found = detector.assess(part)
    suspicious = found.to_pandas().query("verdict != 'INLIER'")
    print(suspicious[["group", "start", "end", "verdict", "probability"]].to_string())
    blamed = detector.contributions(part).top(1).names[suspicious.index, 0]
    print("the sensor to look at, and what of it:", list(blamed))

later = read_windows(folder / "later.parquet", layout, windowing)
page = html_report(detector, later, remarks=("The recording is generated.",))
(folder / "report.html").write_text(page)
