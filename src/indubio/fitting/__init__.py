"""Whole fits: the folds of a calibration, over workers, and from streams that are larger than memory."""
