"""From rows to trained weights: the rows, the loop, learning rates, networks side by side, and what chains and data say."""
