"""From rows to trained weights: the rows, the loop, learning rates, networks side by side, mixing, priors."""
