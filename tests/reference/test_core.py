"""The core's arithmetic against independent sources: exact fractions, SciPy, and published numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special, stats

from indubio.networks.engine.compiled import ACTIVATIONS
from indubio.numerics import GROUP
from indubio.numerics.compiled_core import RandomStream
from indubio.numerics.random import CoreStream
from tests.engines import CORE, instruction_sets

pytestmark = pytest.mark.skipif(CORE is None, reason="the core was not built: there is no compiler")

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
EXP, LOG, SOFTPLUS, LOG_GAMMA, DIGAMMA = (len(ACTIVATIONS) + place for place in range(5))
FUNCTIONS = {
    "cosine": (ACTIVATIONS["cosine"], np.cos, (-300, 300)),
    "exp": (EXP, np.exp, (-87, 88)),
    "log": (LOG, np.log, (1e-30, 1e30)),
    "softplus": (SOFTPLUS, lambda x: np.logaddexp(0, x), (-80, 80)),
    "sigmoid": (ACTIVATIONS["sigmoid"], special.expit, (-80, 80)),
    "tanh": (ACTIVATIONS["tanh"], np.tanh, (-20, 20)),
    "elu": (ACTIVATIONS["elu"], lambda x: np.where(x > 0, x, np.expm1(x)), (-50, 50)),
    "selu": (
        ACTIVATIONS["selu"],
        lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
        (-50, 50),
    ),
    "gelu": (ACTIVATIONS["gelu"], lambda x: x * special.ndtr(x), (-5, 30)),
}


@pytest.fixture(params=instruction_sets())
def core(request):
    before = CORE.instructions
    CORE.use(request.param)
    yield CORE
    CORE.use(before)


# ----- sums


def nearest_float32(exact: Fraction) -> np.float32:
    """The number itself, rounded once to single precision; ties to the even one."""
    close = np.float32(float(exact))
    around = [np.nextafter(close, np.float32(-np.inf)), close, np.nextafter(close, np.float32(np.inf))]
    distances = [abs(Fraction(float(one)) - exact) for one in around]
    nearest = [one for one, far in zip(around, distances, strict=True) if far == min(distances)]
    return min(nearest, key=lambda one: int(one.view(np.uint32)) & 1)


def in_order(a: np.ndarray, b: np.ndarray) -> np.float32:
    total = np.float32(0)
    for x, y in zip(a, b, strict=True):
        total = nearest_float32(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(total)))
    return total


@pytest.mark.parametrize("shape", [(1, 5, 1), (7, 9, 33), (13, 30, 50), (17, 3, 16)], ids=str)
def test_a_value_of_a_product_is_summed_in_order_and_rounded_once_a_term(core, shape):
    rows, depth, columns = shape
    rng = np.random.default_rng(0)
    a = rng.normal(size=(rows, depth)).astype(np.float32)
    b = rng.normal(size=(depth, columns)).astype(np.float32)
    found = core.product(a, b)
    for r in range(rows):
        for v in range(columns):
            assert found[r, v] == in_order(a[r], b[:, v]), (r, v)


floats = st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60, allow_subnormal=False)


@given(a=floats, b=floats, c=floats)
def test_a_multiply_add_is_rounded_once_whatever_its_sizes(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assume(exact == 0 or abs(exact) > Fraction(2) ** -120)
    left, right = np.array([[c, a]], np.float32), np.array([[1], [b]], np.float32)
    for name in instruction_sets():
        CORE.use(name)
        assert CORE.product(left, right)[0, 0] == nearest_float32(exact), name
    CORE.use(instruction_sets()[0])


@pytest.mark.parametrize("above", [1, -1])
def test_halfway_cases_are_not_rounded_twice(core, above):
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 lies halfway between two floats, and what is added to it decides, though it is
    # too small for a double beside it.
    halfway = np.array([[above * 2.0**-30, 1.0 + 2.0**-12]], np.float32)
    square = np.array([[2.0**-30], [1.0 + 2.0**-12]], np.float32)
    exact = (1 + Fraction(2) ** -12) ** 2 + above * Fraction(2) ** -60
    assert core.product(halfway, square)[0, 0] == nearest_float32(exact)


SHAPES = [(1, 700, 300), (5, 40, 1000), (16, 2000, 64), (300, 300, 112), (400, 70, 17), (64, 256, 1), (200, 513, 48)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_and_tiles_change_nothing(core, shape, turned, dtype):
    rows, depth, columns = shape
    rng = np.random.default_rng(1)
    a = rng.normal(size=(depth, rows)).astype(dtype).T if turned else rng.normal(size=(rows, depth)).astype(dtype)
    b = rng.normal(size=(depth, columns)).astype(dtype)
    found = core.product(a, b)
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=0, atol=depth * np.finfo(dtype).eps * 4)
    for r, v in [(0, 0), (rows - 1, columns - 1), (rows // 2, columns // 3)]:  # alone, in the smallest of tiles
        alone = core.product(np.ascontiguousarray(a[r : r + 1]), b[:, v : v + 1])
        assert found[r, v] == alone[0, 0]


# ----- functions


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])
def test_functions_are_those_of_scipy(core, name, dtype):
    which, expected, (low, high) = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x = np.geomspace(low, high, 4001) if name == "log" else rng.uniform(low, high, 4001)
    if name != "log":
        x = np.concatenate([x, rng.normal(size=1000) * 1e-3, rng.normal(size=1000), [0.0]])
    x = x.astype(dtype)
    found, there = core.function(which, x), expected(x.astype(np.float64))
    # A few units in the last place; gelu's far left is the difference of nearly equal numbers in SciPy as well.
    np.testing.assert_allclose(found, there, rtol=8 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).tiny)


@pytest.mark.parametrize(("which", "expected"), [(LOG_GAMMA, special.gammaln), (DIGAMMA, special.psi)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])
def test_log_gamma_and_its_derivative_are_those_of_scipy(core, which, expected, dtype):
    x = np.concatenate([np.geomspace(1e-6, 1e15, 4001), np.linspace(0.5, 3, 1001)]).astype(dtype)
    # Both pass through 0 between 1 and 2, where only the absolute error is small: the sum has parts of about 10.
    precision = np.finfo(dtype).eps
    np.testing.assert_allclose(core.function(which, x), expected(x.astype(np.float64)), rtol=8 * precision, atol=2e-14)


@pytest.mark.parametrize("name", ["leaky_relu", "relu", "elu", "selu", "gelu", "tanh", "sigmoid"])
def test_what_is_not_a_number_stays_so(core, name):
    assert np.isnan(core.function(ACTIVATIONS[name], np.array([np.nan], np.float32))).all()


# ----- random numbers

# The known answers that come with Philox 4x32-10 (Salmon et al. 2011, Random123).
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_random_words_are_the_published_ones(core, counter, key, expected):
    stream = RandomStream(key=key[0] | key[1] << 32, part=counter[2], purpose=counter[3])
    assert tuple(core.words(stream, counter[0] | counter[1] << 32)) == expected


def words_of(core, key: int, numbers: int) -> np.ndarray:
    """The words of a stream in the order of its numbers: word by word of 16 counters."""
    counters = -(-numbers // GROUP) * 16
    each = np.array([core.words(RandomStream(key=key), counter) for counter in range(counters)])
    return each.reshape(-1, 16, 4).transpose(0, 2, 1).ravel()


def test_random_numbers_follow_from_the_words(core):
    words = words_of(core, 7, 150).astype(np.float64)
    uniform = CoreStream(core, 7).uniform((150,), 0.25)
    np.testing.assert_array_equal(uniform, 0.25 * (np.floor(words[:150] / 256) - 2**23) / 2**23)
    masks = CoreStream(core, 7).bernoulli((150,), 0.3)
    np.testing.assert_array_equal(masks, words[:150] < 0.3 * 2**32)
    first, second = words.reshape(-1, 2, 2, 16).transpose(2, 0, 1, 3)
    radius = np.sqrt(-2 * np.log((np.floor(first / 512) + 0.5) / 2**23))
    angle = 2 * np.pi * np.floor(second / 256) / 2**24
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    np.testing.assert_allclose(CoreStream(core, 7).normal((150,)), pairs.ravel()[:150], rtol=3e-6, atol=1e-6)


def test_an_order_is_made_by_exchanges_from_the_end(core):
    expected = list(range(100))
    for left, word in zip(range(100, 1, -1), words_of(core, 3, 100).tolist(), strict=False):
        chosen = word * left >> 32
        expected[left - 1], expected[chosen] = expected[chosen], expected[left - 1]
    assert CoreStream(core, 3).permutation(100).tolist() == expected


def test_a_stream_gives_no_number_twice():
    stream = CoreStream(CORE, 5)
    first, second = stream.uniform((70,), 1.0), stream.uniform((70,), 1.0)
    assert not np.isin(first, second).any()


def test_normal_numbers_are_normal():
    numbers = CoreStream(CORE, 11).normal((200_000,))
    assert stats.kstest(numbers, "norm").pvalue > 0.001
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4 / np.sqrt(len(numbers))
    assert np.abs(numbers).max() > 4
