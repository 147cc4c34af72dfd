"""A detector made of methods that are in no list: the skeletons, as a user's own file would have them."""

import numpy as np
import pytest

from indubio import Detector, Training, save
from indubio.errors import ConfigError
from tests.skeletons import LogCoshLikelihood, Logistic, Margin, NoisyWeights

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(100, 1)) + 0.1 * RNG.normal(size=(100, 4))
OWN = {
    "posterior": NoisyWeights(draws=5),
    "conversion": Logistic(),
    "referral": Margin(),
    "likelihood": LogCoshLikelihood(),
}


def quick(**settings) -> Detector:
    training = Training(epochs=20) if "posterior" in settings else None
    return Detector(training=training, **settings)


@pytest.mark.parametrize("chosen", [[name] for name in OWN] + [list(OWN)], ids=" and ".join)
def test_a_detector_with_own_methods_tells_good_examples_from_bad(chosen):
    detector = quick(**{name: OWN[name] for name in chosen}).fit(ROWS)
    good, bad = detector.assess(ROWS), detector.assess(RNG.normal(scale=3, size=(100, 4)))
    assert bad.probability.mean() > good.probability.mean() + 0.3


def test_its_rule_refers_what_it_says():
    worse_and_worse = [ROWS + noise * RNG.normal(size=ROWS.shape) for noise in (0.05, 0.1, 0.15, 0.2)]
    assessed = quick(referral=OWN["referral"]).fit(ROWS).assess(np.concatenate(worse_and_worse))
    near = abs(assessed.probability - 0.5) < OWN["referral"].margin
    assert near.any()
    np.testing.assert_array_equal(assessed.verdict == "REFER", near)


@pytest.mark.parametrize("name", OWN)
def test_what_is_in_no_list_cannot_be_stored_and_that_is_said(name, tmp_path):
    with pytest.raises(ConfigError, match=f"{type(OWN[name]).__name__} is in none of the lists of settings"):
        save(quick(**{name: OWN[name]}).fit(ROWS), tmp_path / "model")
