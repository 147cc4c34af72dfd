"""From rows to trained weights: the loop, learning rates, folds, workers, and streams larger than memory."""
