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

from indubio.report.case_cards import Value, cards
from indubio.report.confusion import plot_confusion
from indubio.report.contributions import plot_contributions
from indubio.report.distributions import plot_distribution, plot_right_and_wrong
from indubio.report.figures import POINTS, WIDTH, Drawing
from indubio.report.html import html_report
from indubio.report.notebook import assessment_html, detector_html
from indubio.report.pictures import plot_heat, plot_image
from indubio.report.plane import plane_figure
from indubio.report.plots.accessor import AssessmentPlots
from indubio.report.rejection_plots import NAMES, plot_rejection_curves
from indubio.report.sheets import PagePicture, Sheet, to_csv, to_html, to_markdown
from indubio.report.signals import plot_score_over_time, plot_signal
from indubio.report.style import (
    ANOMALOUS,
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    NORMAL,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    report_style,
)
from indubio.report.subject import Subject
from indubio.report.svg import with_short_numbers
from indubio.report.templates import page_templates
from indubio.report.words import (
    count,
    doubt_in_words,
    level_in_words,
    moment,
    novelty_in_words,
    number,
    percent,
    plain,
    verdict_in_words,
)

__all__ = [
    "ANOMALOUS",
    "BLACK",
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "NAMES",
    "NORMAL",
    "ORANGE",
    "POINTS",
    "PURPLE",
    "SKY",
    "VERMILLION",
    "WIDTH",
    "AssessmentPlots",
    "Drawing",
    "PagePicture",
    "Sheet",
    "Subject",
    "Value",
    "assessment_html",
    "cards",
    "count",
    "detector_html",
    "doubt_in_words",
    "html_report",
    "level_in_words",
    "moment",
    "novelty_in_words",
    "number",
    "page_templates",
    "percent",
    "plain",
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
    "report_style",
    "to_csv",
    "to_html",
    "to_markdown",
    "verdict_in_words",
    "with_short_numbers",
]
