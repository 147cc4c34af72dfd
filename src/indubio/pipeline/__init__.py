"""What every detector shares: the intake of examples, and all that follows from their scores.

`parameters`: settings as scikit-learn's parameters. `taking`: examples in any form become prepared rows. `judging`:
what their scores mean. `model`: verdicts, and rules and labels that change them.
"""

from indubio.pipeline.judging import ScoringSettings
from indubio.pipeline.model import ScoringModel, Watch

__all__ = ["ScoringModel", "ScoringSettings", "Watch"]
