"""From rows to trained weights: the rows, the loop, learning rates, and networks side by side."""
