"""Other people's detectors with our uncertainty, and ours in other people's programs.

```
EnsembleDetector       any detector of scikit-learn or PyOD, or any function that scores, as one of ours
distance_to_centre     the score of a clustering, for EnsembleDetector(KMeans(...), scored_by=distance_to_centre)
compat.pyod            our detectors as PyOD's: as_pyod(detector)
```
"""

from indubio.compat.ensemble import EnsembleDetector
from indubio.compat.scores import distance_to_centre

__all__ = ["EnsembleDetector", "distance_to_centre"]
