"""Write bits.json: what the small models of test_same_bits.py come out as. Only when a change of them is meant."""

import json

from sklearn.datasets import load_breast_cancer

from indubio import Detector
from tests.contract.test_same_bits import GOLDEN, MANY_UNITS, SMALL, bits_of, small_detector


def main() -> None:
    """One model per posterior."""
    found = load_breast_cancer()
    good = found.data[found.target == 1]
    made = {name: bits_of(small_detector(name, epochs=5).fit(good), good) for name in SMALL}
    made |= {name: bits_of(Detector(posterior=posterior).fit(good), good) for name, posterior in MANY_UNITS.items()}
    GOLDEN.write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
