# %% [markdown]
# # Vibrations of a machine
#
# A sensor on a gearbox gives thousands of values a second. Here a recording is cut into windows, each window becomes levels and frequency bands, and a
# bearing that begins to fail is found, with the band that tells.
#
# The signals are generated, so that this page needs no download: a shaft at 25 Hz and its harmonics, noise, and for the fault short knocks at 110 Hz that
# ring at 3 kHz, as a damaged outer race makes them.
#
# To run it yourself: `pip install --constraint constraints.txt . pandas`.

# %%
import numpy as np

RATE = 12_000  # samples per second
random = np.random.default_rng(0)


def recording(seconds: float, damage: float = 0.0) -> np.ndarray:
    """Two sensors, near the bearing and far from it."""
    time = np.arange(int(seconds * RATE)) / RATE
    shaft = sum(np.sin(2 * np.pi * 25 * k * time + k) / k for k in range(1, 5))
    since_knock = time % (1 / 110)
    knocks = np.exp(-since_knock * 900) * np.sin(2 * np.pi * 3000 * since_knock)
    near = shaft + damage * knocks + 0.4 * random.normal(size=len(time))
    far = 0.5 * shaft + 0.2 * damage * knocks + 0.4 * random.normal(size=len(time))
    return np.column_stack([near, far])


healthy, later = recording(20), recording(5)
failing = np.concatenate([recording(2.5, damage=level) for level in (0.7, 2.5)])
healthy.shape

# %% [markdown]
# ## Windows
# 1,024 samples are 85 milliseconds: two turns of the shaft. `read_windows` does the same with files, and `--window 1024` on the command line.

# %%
from indubio.data import Windowing, array_windows

windowing = Windowing(length=1024)
training = array_windows(healthy, windowing, sensors=["near", "far"])
training

# %% [markdown]
# ## Fit and assess
# Two windows of one vibration have hardly a value in common, for they begin at different phases. So each sensor gives block means, spread, kurtosis, bands
# of its spectrum and of its envelope. The sampling rate makes the bands readable.

# %%
from indubio import Detector, Spectra

detector = Detector(spectra=Spectra(rate=RATE), false_alarms=0.02).fit(training)
detector

# %%
new = array_windows([later, failing], windowing, sensors=["near", "far"])
found = detector.assess(new)
found

# %%
ax = found.plot.timeline("probability", at=range(len(found)))

# %% [markdown]
# The first half is healthy, then comes the slight damage, of which some windows are referred, then the larger one: an anomaly in every window.
#
# ## Which band?

# %%
from indubio.report import plots

ax = plots.contributions(detector, new, len(new) - 1)

# %% [markdown]
# The knocks ring at 3 kHz: the bands around it, of the sensor near the bearing, come first.
#
# ## A verdict for each run
# Windows of one run are judged together; they depend on each other, and the p-value of a run allows for that.

# %%
from indubio.chain import assess_runs

assess_runs(found).to_arrow().to_pandas()
