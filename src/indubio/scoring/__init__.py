"""What every detector shares: the intake of examples, and all that follows from their scores.

`parameters`: settings as scikit-learn's parameters. `taking`: examples in any form become prepared rows. `model`: from
scores to probabilities, uncertainties and verdicts.
"""

from indubio.scoring.model import ScoringModel, ScoringSettings, Watch

__all__ = ["ScoringModel", "ScoringSettings", "Watch"]
