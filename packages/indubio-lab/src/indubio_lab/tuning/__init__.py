"""Search for an architecture and a learning rate, without labels: see `criterion` for what is good here, and why."""

from indubio_lab.tuning.criterion import SettingsQuality, judged
from indubio_lab.tuning.sample import Sample, sampled
from indubio_lab.tuning.settings_search import Found, Search, SearchConfiguration, Step, best_so_far, search

__all__ = [
    "Found",
    "Sample",
    "Search",
    "SearchConfiguration",
    "SettingsQuality",
    "Step",
    "best_so_far",
    "judged",
    "sampled",
    "search",
]
