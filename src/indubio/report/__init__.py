"""Stage 8, what a person sees: figures on matplotlib axes."""

from indubio.report.plane import plane_figure
from indubio.report.rejection import plot_rejection_curves

__all__ = ["plane_figure", "plot_rejection_curves"]
