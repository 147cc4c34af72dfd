"""Detectors with scikit-learn's face: draws of autoencoders, and refits of anybody's detector.

detector            Detector
ensemble_detector   EnsembleDetector: the uncertainty of any detector, from `refits` of it
suspicious          training examples for a person to look at
labelled            what people's labels teach, and old and new compared on labels that taught nothing
"""

from indubio.detector.contained_randomness import own_randomness
from indubio.detector.detector import Detector
from indubio.detector.ensemble_detector import EnsembleDetector
from indubio.detector.labelled import HELD_OUT, LabelledExamples, held_out
from indubio.detector.member_scores import Score, distance_to_centre, score_of, scores
from indubio.detector.suspicious import found_bad, suspects, without_bad

__all__ = [
    "HELD_OUT",
    "Detector",
    "EnsembleDetector",
    "LabelledExamples",
    "Score",
    "distance_to_centre",
    "found_bad",
    "held_out",
    "own_randomness",
    "score_of",
    "scores",
    "suspects",
    "without_bad",
]
