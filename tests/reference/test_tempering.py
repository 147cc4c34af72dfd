"""Parallel tempering, against posteriors that are known and rules that are computed again."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from indubio import Detector, TrainScores, load, save
from indubio.errors import ConfigError
from indubio.networks import Autoencoder, Dense, GaussianLikelihood, Training
from indubio.networks.training.mixing import effective_size
from indubio.numerics import streams
from indubio_lab.posteriors import ParallelTempering
from indubio_lab.posteriors.parallel_tempering import CHAIN_NUMBERS, chosen_rows
from indubio_lab.posteriors.tempering import LANGEVIN_RATE, WALK_RATE, Ladder, Moves, Place, Rung, happens, temperatures
from tests.contract.test_posteriors import InStretches
from tests.end_to_end.test_commands import run
from tests.reference.test_mixing import linear

STEP, WALK = 0.35, 0.5  # so large that many moves are refused


class Bowl:
    """(theta - centre)^T A (theta - centre) / 2."""

    def __init__(self, curvature: np.ndarray, centre: np.ndarray) -> None:
        self.curvature, self.centre = curvature, centre

    def loss(self, values: np.ndarray) -> float:
        off = values - self.centre
        return float(off @ self.curvature @ off) / 2

    def gradient(self, values: np.ndarray) -> np.ndarray:
        return self.curvature @ (values - self.centre)


class TwoWells:
    """(theta^2 - 1)^2: wells at -1 and 1, and a hill of 1 between them."""

    def loss(self, values: np.ndarray) -> float:
        return float((values[0] ** 2 - 1) ** 2)

    def gradient(self, values: np.ndarray) -> np.ndarray:
        return 4 * values * (values**2 - 1)


BOWL = Bowl(np.array([[2.0, 0.8], [0.8, 1.0]]), np.array([3.0, -1.0]))


class Fixed:
    """A stream of these numbers."""

    key = 0

    def __init__(self, uniforms: list[float], normals: list[float] = ()) -> None:
        self._uniforms, self._normals = list(uniforms), np.array(normals, np.float32)

    def uniform(self, shape, bound):
        return np.array([self._uniforms.pop(0) - 0.5 for _ in range(shape[0])])

    def normal(self, shape):
        return self._normals.reshape(shape)


def ladder_of(target, begin, coldness, *, share=0.25, step=STEP, walk=WALK, seed=0) -> Ladder:
    """Chains at these coldnesses, with fixed steps."""
    place, numbers = Place(target, np.array(begin, np.float64)), streams(seed, len(coldness) + 1, CHAIN_NUMBERS)
    rungs = [
        Rung(place, cold, own, Moves(step, LANGEVIN_RATE), Moves(walk, WALK_RATE), share)
        for cold, own in zip(coldness, numbers, strict=False)
    ]
    return Ladder(rungs, numbers[-1])


def visited(ladder: Ladder, moves: int, *, burn_in: int = 200) -> np.ndarray:
    """Where the chains are after every move, with swaps after every second one: (chains, moves, values)."""
    places = []
    for move in range(burn_in + moves):
        ladder.move()
        if move % 2:
            ladder.swap()
        if move >= burn_in:
            places.append([rung.place.values for rung in ladder.rungs])
    return np.array(places).swapaxes(0, 1)


# ----- the rules


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0], ids=["walks", "both", "langevin"])
def test_every_chain_settles_to_the_distribution_of_its_temperature(share):
    coldness = [4.0, 2.0, 1.0]
    for cold, draws in zip(coldness, visited(ladder_of(BOWL, [0, 0], coldness, share=share), 4000), strict=True):
        exact, size = np.linalg.inv(BOWL.curvature) / cold, effective_size(draws[None])
        assert size > 100
        # Means are known to sd / sqrt(size), variances to sqrt(2 / size); 4 of these, for 3 chains of 2 values.
        error = np.sqrt(np.diag(exact) / size)
        assert (np.abs(draws.mean(axis=0) - BOWL.centre) < 4 * error).all()
        np.testing.assert_allclose(np.cov(draws.T), exact, atol=4 * math.sqrt(2 / size) * exact.max())


def test_a_hill_is_crossed_with_tempering_and_not_without():
    cold, alone = 14.0, {"walk": 0.1, "step": 0.1}
    (stuck,) = visited(ladder_of(TwoWells(), [1], [cold], **alone), 3000)
    assert (stuck > 0).all()
    ladder = ladder_of(TwoWells(), [1], [cold / factor for factor in temperatures(6, 14)], **alone)
    draws = visited(ladder, 3000)[0, :, 0]
    # Half of them are in either well; crossings are rare, so the share is known to about 0.1.
    assert (draws < 0).mean() == pytest.approx(0.5, abs=0.3)
    assert np.count_nonzero(np.diff(np.sign(draws))) > 10


@given(st.floats(0.1, 20), st.floats(0.1, 20), st.floats(-2, 2), st.floats(-2, 2), st.floats(0, 1, exclude_max=True))
def test_a_swap_is_accepted_by_the_ratio_of_the_two_chains_joint_densities(cold, hot, one, other, chance):
    target = TwoWells()
    ladder = ladder_of(target, [one], [cold, hot])
    ladder.rungs[1].place = Place(target, np.array([other]))
    ladder._stream = Fixed([chance])
    before = [rung.place for rung in ladder.rungs]

    def log_density(first: float, second: float) -> float:
        return -cold * target.loss(np.array([first])) - hot * target.loss(np.array([second]))

    # Detailed balance: of the two ways, the one to the less likely places is taken by the ratio of the densities.
    probability = math.exp(min(0.0, log_density(other, one) - log_density(one, other)))
    assume(abs(probability - chance) > 1e-9)
    ladder.swap()
    swapped = ladder.rungs[0].place is before[1]
    assert swapped == (chance < probability)
    assert [rung.place for rung in ladder.rungs] == (before[::-1] if swapped else before)


@given(
    st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    st.floats(0.01, 1.5),
    st.floats(0.2, 20),
    st.booleans(),
    st.floats(0, 1, exclude_max=True),
)
def test_a_move_is_accepted_by_the_densities_of_both_ways(numbers, step, cold, langevin, chance):
    begin, kick = np.array(numbers[:2]), np.array(numbers[2:], np.float32).astype(np.float64)
    own = Fixed([0.0, chance], kick.tolist())
    rung = Rung(Place(BOWL, begin), cold, own, Moves(step, 0.5), Moves(step, 0.5), float(langevin))
    variance = 2 * step / cold

    def mean(values: np.ndarray) -> np.ndarray:
        return values - langevin * step * BOWL.gradient(values)

    def log_proposal(there: np.ndarray, here: np.ndarray) -> float:
        return float(stats.norm.logpdf(there, mean(here), math.sqrt(variance)).sum())

    proposed = mean(begin) + math.sqrt(variance) * kick
    log_ratio = cold * (BOWL.loss(begin) - BOWL.loss(proposed))
    log_ratio += log_proposal(begin, proposed) - log_proposal(proposed, begin)
    assume(abs(math.exp(min(0.0, log_ratio)) - chance) > 1e-7)
    rung.move(tuning=False)
    expected = proposed if chance < math.exp(min(0.0, log_ratio)) else begin
    np.testing.assert_allclose(rung.place.values, expected, rtol=1e-9, atol=1e-12)


def test_what_is_not_a_number_is_refused_and_what_is_certain_is_not():
    assert not happens(math.nan, 0.0)
    assert not happens(-math.inf, 0.0)
    assert happens(0.0, 0.999999)
    assert happens(math.inf, 0.999999)


def test_chains_stay_away_from_where_the_loss_is_not_a_number():
    class Cliff(TwoWells):
        def loss(self, values: np.ndarray) -> float:
            return math.nan if values[0] > 1.2 else super().loss(values)

    draws = visited(ladder_of(Cliff(), [1], [2.0, 1.0]), 300)
    assert draws.max() <= 1.2
    assert len(np.unique(draws)) > 100


def test_temperatures_rise_by_equal_factors():
    for chains, highest in ((8, 2.0), (3, 100.0), (2, 5.0), (5, 1.0)):
        np.testing.assert_allclose(temperatures(chains, highest), np.geomspace(1, highest, chains), rtol=1e-12)
    assert temperatures(1, 7.0) == [1.0]


def test_step_sizes_are_tuned_to_what_is_best_and_then_stay():
    many = Bowl(np.diag(np.linspace(1, 4, 30)), np.zeros(30))
    ladder = ladder_of(many, np.zeros(30), [50.0, 25.0], share=0.5, step=5.0, walk=1e-4)
    for _ in range(1500):
        ladder.move(tuning=True)
    steps = [(rung.langevin.step, rung.walk.step) for rung in ladder.rungs]
    assert all(rung.langevin.proposed == rung.walk.proposed == 0 for rung in ladder.rungs)
    for _ in range(1500):
        ladder.move()
    assert [(rung.langevin.step, rung.walk.step) for rung in ladder.rungs] == steps
    facts = ladder.facts()
    assert facts["accepted Langevin moves"] == pytest.approx(LANGEVIN_RATE, abs=0.1)
    assert facts["accepted random moves"] == pytest.approx(WALK_RATE, abs=0.1)


# ----- the posterior


def test_on_a_linear_model_the_draws_have_the_mean_and_spread_of_the_exact_posterior():
    rows = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32) @ np.array([[1, 0.5], [0, 1]], np.float32)
    temperature, prior_scale, draws = 0.02, 0.2, 120
    fitted = ParallelTempering(
        draws=draws, chains=2, burn_in=150, thinning=10, temperature=temperature, prior_scale=prior_scale
    ).fit(linear(2), rows, training=Training(epochs=50, batch_size=40), seed=0)
    # N / T (||x - W x||^2 / 2D + lambda ||W||^2): the same precision for every row of W.
    gram = rows.T @ rows / len(rows) / 2
    precision = len(rows) / temperature * (gram + 2 * prior_scale * np.eye(2))
    mean = np.linalg.solve(gram + 2 * prior_scale * np.eye(2), gram).T
    _, weight = fitted.weights.values()
    size = effective_size(weight.reshape(1, draws, -1).astype(np.float64))
    exact = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert size > 50
    assert (np.abs(weight.mean(axis=0) - mean) < 4 * exact / math.sqrt(size)).all()
    assert weight.std(axis=0).mean(axis=0) == pytest.approx(exact, rel=4 / math.sqrt(4 * size))
    assert fitted.mixing.mixed


SMALL = ParallelTempering(draws=5, chains=3, burn_in=15, thinning=8)
ROWS = np.random.default_rng(0).random((40, 3), dtype=np.float32)
QUICK = Training(epochs=2)


def autoencoder() -> Autoencoder:
    return Autoencoder(Dense().build((3,)), GaussianLikelihood())


@pytest.mark.parametrize(("share", "fact"), [(1.0, "accepted Langevin moves"), (0.0, "accepted random moves")])
def test_the_facts_are_the_rates_after_burn_in(share, fact, monkeypatch):
    moved, swapped = [], []

    class Watched(Ladder):
        def move(self, *, tuning: bool = False) -> None:
            before = [rung.place for rung in self.rungs]
            super().move(tuning=tuning)
            if not tuning:
                moved.extend(rung.place is not place for rung, place in zip(self.rungs, before, strict=True))

        def swap(self, *, tuning: bool = False) -> None:
            before, first = [rung.place for rung in self.rungs], self._first
            super().swap(tuning=tuning)
            if not tuning:
                pairs = range(first, len(before) - 1, 2)
                assert len({id(place) for place in before}) == len(before)
                swapped.extend(self.rungs[pair].place is before[pair + 1] for pair in pairs)

    monkeypatch.setattr("indubio_lab.posteriors.parallel_tempering.Ladder", Watched)
    fitted = replace(SMALL, langevin_share=share, swap_every=3).fit(autoencoder(), ROWS, training=QUICK, seed=0)
    assert (len(moved), len(swapped)) == (3 * 5 * 8, 13)  # of moves 16 to 55 every third: 13 rounds of one pair
    assert fitted.facts[fact] == pytest.approx(np.mean(moved))
    assert fitted.facts["accepted swaps"] == pytest.approx(np.mean(swapped))
    assert 0 < np.mean(moved) < 1
    other = {"accepted Langevin moves", "accepted random moves"} - {fact}
    assert fitted.facts[other.pop()] == 0


def test_one_chain_has_nobody_to_swap_with():
    fitted = replace(SMALL, chains=1).fit(autoencoder(), ROWS, training=QUICK, seed=0)
    assert fitted.facts["accepted swaps"] == 0
    assert fitted.facts["accepted random moves"] > 0


def test_of_many_rows_the_chains_look_at_some_that_are_chosen_at_random():
    rows = np.arange(500, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(chosen_rows(rows, 500, seed=0), rows)
    some = chosen_rows(rows, 100, seed=0)
    assert len(np.unique(some)) == 100
    assert 200 < some.mean() < 300
    for size in (70, 500):
        np.testing.assert_array_equal(chosen_rows(InStretches(rows, size), 100, seed=0), some)
    assert not np.array_equal(chosen_rows(rows, 100, seed=1), some)
    few = replace(SMALL, most_rows=10).fit(autoencoder(), ROWS, training=QUICK, seed=0)
    assert np.isfinite(few.nll(ROWS)).all()


def test_colder_chains_stay_closer_to_where_they_began():
    spread = [
        float(
            np.mean(
                [
                    weight.std(axis=0).mean()
                    for weight in replace(SMALL, temperature=temperature)
                    .fit(autoencoder(), ROWS, training=QUICK, seed=0)
                    .weights.values()
                ]
            )
        )
        for temperature in (1e-6, 1e-4, 1e-2)
    ]
    assert spread == sorted(spread)


@pytest.mark.parametrize("setting", [{"highest": 0.5}, {"langevin_share": 1.5}, {"temperature": 0.0}, {"chains": 0}])
def test_settings_without_sense_are_refused(setting):
    with pytest.raises(ConfigError, match=f"`{next(iter(setting))}` must be"):
        ParallelTempering(**setting)


def test_a_saved_model_tells_how_much_was_accepted(tmp_path):
    detector = Detector(posterior=SMALL, training=QUICK, calibration=TrainScores())
    with pytest.warns(Warning, match="did not mix"):
        detector.fit(np.random.default_rng(0).normal(size=(60, 3)))
    save(detector, tmp_path / "model")
    assert load(tmp_path / "model").draws_.facts == detector.draws_.facts
    shown = " ".join(run("inspect", tmp_path / "model").stdout.split())
    for name, value in detector.draws_.facts.items():
        assert f"{name} {value:.4g}" in shown
