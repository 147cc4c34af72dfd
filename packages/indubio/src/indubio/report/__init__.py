"""Stage 8, what a person sees: figures on matplotlib axes, and the HTML report made of them.

```
html_report                 everything below on one page
plot_distribution           probability or an uncertainty over all examples
plot_rejection_curves       how good the predictions are that an uncertainty lets through
plot_right_and_wrong        an uncertainty of right and of wrong predictions
plot_confusion              verdicts against labels, before and after referral
plot_contributions          what made the score of one example
plot_signal                 a sensor's signal and what the draws take it for
plot_score_over_time        when in a window the score was made
plot_image                  the pixels of an image
plot_heat                   what each of them adds to the score
plane_figure                probability and uncertainties over a plane of two features
```

Every function draws on the axes it is given and leaves matplotlib's global state alone.
"""

from indubio.report.confusion import plot_confusion
from indubio.report.contributions import plot_contributions
from indubio.report.distributions import plot_distribution, plot_right_and_wrong
from indubio.report.html import html_report
from indubio.report.pictures import plot_heat, plot_image
from indubio.report.plane import plane_figure
from indubio.report.rejection_plots import plot_rejection_curves
from indubio.report.signals import plot_score_over_time, plot_signal
from indubio.report.style import COLOURS

__all__ = [
    "COLOURS",
    "html_report",
    "plane_figure",
    "plot_confusion",
    "plot_contributions",
    "plot_distribution",
    "plot_heat",
    "plot_image",
    "plot_rejection_curves",
    "plot_right_and_wrong",
    "plot_score_over_time",
    "plot_signal",
]
