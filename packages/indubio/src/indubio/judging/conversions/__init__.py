"""Scores to anomaly probabilities: nll (draws, examples) -> probability (draws, examples). A file a conversion."""
