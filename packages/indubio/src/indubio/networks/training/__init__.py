"""Epochs, batches, learning rates, early stopping, and what is solved in closed form."""
