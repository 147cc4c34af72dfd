"""`EnsembleDetector`: the uncertainty of any detector, from refits of it.

`distance_to_centre` is the score of a clustering: `EnsembleDetector(KMeans(...), scored_by=distance_to_centre)`.
"""

from indubio.ensemble.ensemble_detector import EnsembleDetector
from indubio.ensemble.member_scores import distance_to_centre

__all__ = ["EnsembleDetector", "distance_to_centre"]
