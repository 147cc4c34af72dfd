"""Scores to probabilities to uncertainties, as ONNX nodes."""

import numpy as np
from onnx import TensorProto
from scipy.special import gammainc, gammainccinv, gammaln

from indubio.chain import Familiarity
from indubio.errors import ConfigError
from indubio.export.graph import Graph
from indubio.judging import (
    EVEN,
    FACTOR,
    FALSE_ALARMS,
    FARTHEST,
    FULL_LEVEL,
    HALF,
    LARGEST_TOTAL,
    LARGEST_VARIANCE,
    SUREST,
    SUREST_ODDS,
    TIE_TOLERANCE,
    TOLERANCE,
    Correction,
    Ecdf,
    Exponential,
    FittedConversion,
    Gamma,
    Gaussian,
    LocationScale,
    LogNormal,
    Odds,
    Reference,
    Shaped,
    Uniform,
)
from indubio.judging import upper_tie as reference_ties

LEFT_OUT = 1e-15  # of a gamma distribution's probability


def upper_tie(graph: Graph, score: str) -> str:
    """The largest score that counts as equal to x: x + 1e-5 |x|."""
    return graph.add("Add", score, graph.add("Mul", graph.add("Abs", score), graph.constant(TIE_TOLERANCE)))


def lower_tie(graph: Graph, score: str) -> str:
    """The smallest score that counts as equal to x: x - 1e-5 |x|."""
    return graph.add("Sub", score, graph.add("Mul", graph.add("Abs", score), graph.constant(TIE_TOLERANCE)))


def probability(graph: Graph, fitted: FittedConversion, nll: str) -> str:
    """Anomaly probabilities (draws, examples) of float64 scores (draws, examples)."""
    conversion, parameters = fitted.conversion, fitted.parameters
    if isinstance(conversion, Odds):
        return _odds(graph, conversion, parameters, nll)
    if isinstance(conversion, Ecdf):
        cdf = _ecdf(graph, parameters["scores"], nll)
    elif isinstance(conversion, LocationScale | Shaped):
        cdf = _parametric(graph, conversion, parameters, nll)
    else:
        raise ConfigError(f"{type(conversion).__name__} cannot be exported.")
    if not conversion.is_scaled:
        return cdf
    return _scaled(graph, cdf, nll, parameters["scaling_level"], parameters["training_mean"])


def _odds(graph: Graph, conversion: Odds, parameters: dict[str, np.ndarray], nll: str) -> str:
    """The odds of the rarity against the rate of false alarms."""
    scores, one = parameters["scores"], graph.constant(1.0)
    count, least, rate = scores.shape[1], lower_tie(graph, nll), conversion.false_alarms or FALSE_ALARMS
    itself = HALF * (1 + max(0.0, 1 - rate * (count + 1)))
    below = graph.cast(_counted(graph, scores, least, "Less"), TensorProto.DOUBLE)
    reached = graph.add("Div", graph.add("Sub", graph.constant(count + itself), below), graph.constant(count + 1.0))
    over = graph.add("Sub", least, graph.constant(scores[:, -1:].astype(np.float64)))
    beyond = graph.add(
        "Div", graph.add("Max", over, graph.constant(0.0)), graph.constant(parameters["excess"][:, None])
    )
    rarity = graph.add("Div", reached, graph.add("Add", beyond, one))
    odds = graph.add("Div", rarity, graph.constant(rate))
    if conversion.steepness != 1:
        odds = graph.add("Pow", odds, graph.constant(conversion.steepness))
    return graph.add("Min", graph.add("Div", one, graph.add("Add", odds, one)), graph.constant(SUREST_ODDS))


def _ecdf(graph: Graph, scores: np.ndarray, nll: str) -> str:
    """Share of the training scores up to the tie with each score."""
    counted = graph.cast(_counted(graph, scores, upper_tie(graph, nll), "LessOrEqual"), TensorProto.DOUBLE)
    return graph.add("Div", counted, graph.constant(float(scores.shape[1])))


def _counted(graph: Graph, scores: np.ndarray, reached: str, compared: str) -> str:
    """How many of a draw's scores are below, or up to, each value, by a binary search that is written out."""
    draws, count = scores.shape
    bits = int(count).bit_length()
    padded = np.full((draws, 2**bits), np.inf, dtype=scores.dtype)  # infinity is never counted
    padded[:, :count] = scores
    table = graph.cast(graph.constant(padded), TensorProto.DOUBLE)
    place = graph.add("Expand", graph.constant(0, np.int64), graph.add("Shape", reached))
    for bit in reversed(range(bits)):
        further = graph.add("Add", place, graph.constant(2**bit, np.int64))
        last = graph.add("Sub", further, graph.constant(1, np.int64))
        value = graph.add("GatherElements", table, last, axis=1)
        place = graph.add("Where", graph.add(compared, value, reached), further, place)
    return graph.add("Min", place, graph.constant(count, np.int64))


def _parametric(graph: Graph, conversion: LocationScale | Shaped, parameters: dict[str, np.ndarray], nll: str) -> str:
    scale, at = parameters["scale"], graph.constant(parameters["location"][:, None])
    spread = graph.constant(np.where(scale == 0, 1.0, scale)[:, None])
    z = graph.add("Div", graph.add("Sub", nll, at), spread)
    cdf = _standard_cdf(graph, conversion, z, parameters.get("shape"))
    if (scale > 0).all():
        return cdf
    zero, one, middle = (graph.constant(value) for value in (0.0, 1.0, conversion.AT_THE_STEP))
    above = graph.add("Where", graph.add("Greater", nll, upper_tie(graph, at)), one, middle)
    step = graph.add("Where", graph.add("Less", upper_tie(graph, nll), at), zero, above)
    return graph.add("Where", graph.constant(scale[:, None] == 0), step, cdf)


def _standard_cdf(graph: Graph, conversion: LocationScale | Shaped, z: str, shape: np.ndarray | None) -> str:
    zero, one = graph.constant(0.0), graph.constant(1.0)
    match conversion:
        case Gaussian():
            return _normal_cdf(graph, z)
        case Exponential():
            return graph.add("Sub", one, graph.add("Exp", graph.add("Neg", graph.add("Max", z, zero))))
        case Uniform():
            return graph.add("Min", graph.add("Max", z, zero), one)
        case LogNormal() if shape is not None:
            logs = graph.add("Log", graph.add("Max", z, graph.constant(np.finfo(np.float64).tiny)))
            return _normal_cdf(graph, graph.add("Div", logs, graph.constant(shape[:, None])))
        case Gamma() if shape is not None:
            return _gamma_cdf(graph, z, shape)
        case _:
            raise ConfigError(f"{type(conversion).__name__} cannot be exported.")


def _normal_cdf(graph: Graph, z: str) -> str:
    # Erf is only there in float32, whose seven digits are enough for a probability.
    root = graph.cast(graph.add("Mul", z, graph.constant(np.sqrt(0.5))), TensorProto.FLOAT)
    erf = graph.cast(graph.add("Erf", root), TensorProto.DOUBLE)
    return graph.add("Mul", graph.add("Add", erf, graph.constant(1.0)), graph.constant(0.5))


def _gamma_cdf(graph: Graph, z: str, shape: np.ndarray) -> str:
    """The series of the incomplete gamma function: the sum over n of exp((shape + n) log z - z) / Gamma(shape + n + 1).

    All terms are positive. Beyond `farthest` next to no probability is left, and z need not be larger; the terms from
    n on sum to P(shape + n, z), which says how many are needed.
    """
    farthest, terms = gammainccinv(shape, LEFT_OUT), 1
    while (gammainc(shape + terms, farthest) > LEFT_OUT).any():
        terms += 1
    powers = shape[:, None, None] + np.arange(terms)
    low, high = graph.constant(np.finfo(np.float64).tiny), graph.constant(farthest[:, None])
    within = graph.add("Unsqueeze", graph.add("Min", graph.add("Max", z, low), high), graph.constant([2], np.int64))
    logs = graph.add("Mul", graph.add("Log", within), graph.constant(powers))
    logs = graph.add("Sub", graph.add("Sub", logs, within), graph.constant(gammaln(powers + 1)))
    total = graph.add("ReduceSum", graph.add("Exp", logs), graph.constant([2], np.int64), keepdims=0)
    return graph.add("Min", total, graph.constant(1.0))


def _scaled(graph: Graph, cdf: str, nll: str, level: np.ndarray, mean: np.ndarray) -> str:
    full = level >= FULL_LEVEL
    start, rest = level[:, None], np.where(full, 1.0, 1 - level)[:, None]
    raised = graph.add("Div", graph.add("Sub", cdf, graph.constant(start)), graph.constant(rest))
    scaled = graph.add("Max", raised, graph.constant(0.0))
    if not full.any():
        return scaled
    above = graph.add("Greater", nll, upper_tie(graph, graph.constant(mean[:, None])))
    return graph.add("Where", graph.constant(full[:, None]), graph.cast(above, TensorProto.DOUBLE), scaled)


def agreeing(graph: Graph, p: str, part_nll: str, reference: Reference, rate: float) -> str:
    """The probabilities, held back where they contradict the p-value: see `judging.agreeing`."""
    ties = reference_ties(reference.scores)
    count = float(reference.examples)
    below = graph.cast(_counted(graph, ties, part_nll, "Less"), TensorProto.DOUBLE)
    fewer = graph.add("ReduceSum", below, graph.constant(np.array([0]), np.int64), keepdims=0)
    p_value = graph.add("Div", graph.add("Sub", graph.constant(count + 1), fewer), graph.constant(count + 1))
    bound = max(FACTOR * rate, 1 / (count + 1)) * TOLERANCE
    one = graph.constant(1.0)
    highest = graph.add("Div", one, graph.add("Add", one, graph.add("Div", p_value, graph.constant(FACTOR * rate))))
    common = graph.add("Greater", p_value, graph.constant(bound))
    rare = graph.add("LessOrEqual", p_value, graph.constant(rate / FACTOR))
    held = graph.add("Where", common, graph.add("Min", p, highest), p)
    return graph.add("Where", rare, graph.add("Max", held, graph.constant(EVEN)), held)


def log_odds_variance(graph: Graph, fitted: FittedConversion, p: str) -> str | None:
    """How unsure the log-odds of the probabilities are; None where the conversion does not know."""
    conversion = fitted.conversion
    if not isinstance(conversion, Odds):
        return None
    one, reference = graph.constant(1.0), fitted.parameters["scores"].shape[1]
    odds = graph.add("Div", graph.add("Sub", one, p), p)
    if conversion.steepness != 1:
        odds = graph.add("Pow", odds, graph.constant(1 / conversion.steepness))
    s = graph.add("Min", graph.add("Mul", odds, graph.constant(conversion.false_alarms or FALSE_ALARMS)), one)
    s = graph.add("Max", s, graph.constant(np.finfo(np.float64).tiny))
    variance = graph.add("Div", graph.add("Sub", one, s), graph.add("Mul", s, graph.constant(reference + 2.0)))
    bounded = graph.add("Min", variance, graph.constant(LARGEST_VARIANCE))
    return graph.add("Mul", bounded, graph.constant(conversion.steepness**2))


def corrected(graph: Graph, correction: Correction, p: str, ranges: str, values: int) -> str:
    """What labels make of the probabilities (draws, examples), given values in training ranges (float64)."""
    flat = graph.reshape(ranges, [-1, values])
    quarters = graph.add("Mul", graph.add("Sub", flat, graph.constant(0.5)), graph.constant(4.0))
    near = graph.add("Min", graph.add("Max", quarters, graph.constant(-FARTHEST)), graph.constant(FARTHEST))
    moved = graph.add("MatMul", near, graph.constant(correction.weights / np.sqrt(values)))
    moved = graph.add("Add", moved, graph.constant(correction.constant))
    believed = graph.add("Min", graph.add("Max", p, graph.constant(1 - SUREST)), graph.constant(SUREST))
    odds = graph.add("Div", believed, graph.add("Sub", graph.constant(1.0), believed))
    return graph.add("Sigmoid", graph.add("Add", graph.add("Log", odds), moved))


def novelty(graph: Graph, familiarity: Familiarity, ranges: str, values: int) -> str:
    """The distance to the nearest centre (examples,), given values in training ranges (float64)."""
    flat, centres = graph.reshape(ranges, [-1, values]), familiarity.centres.astype(np.float64)
    last = graph.constant(np.array([1]), np.int64)
    own = graph.add("ReduceSum", graph.add("Mul", flat, flat), last, keepdims=1)
    across = graph.add("Mul", graph.add("MatMul", flat, graph.constant(centres.T)), graph.constant(2.0))
    squares = graph.add("Add", graph.add("Sub", own, across), graph.constant((centres**2).sum(axis=1)))
    nearest = graph.add("ReduceMin", squares, last, keepdims=0)
    apart = graph.add("Sqrt", graph.add("Max", nearest, graph.constant(0.0)))
    return graph.add("Div", apart, graph.constant(familiarity.usual))


def uncertainties(
    graph: Graph,
    p: str,
    nll: str,
    largest_reference_nll: float,
    reference_examples: int,
    unsure: str | None,
) -> dict[str, str]:
    """Mean probability, the five uncertainties and the mean score, each (examples,)."""
    one = graph.constant(1.0)
    probability_mean, nll_mean = graph.mean(p, [0]), graph.mean(nll, [0])
    epistemic = _variance(graph, p, probability_mean)
    coin = graph.add("Mul", p, graph.add("Sub", one, p))
    aleatoric = graph.mean(coin, [0])
    if unsure is not None:
        spread = graph.add("Mul", coin, unsure)
        share = graph.add("Div", spread, graph.add("Add", one, spread))
        more = graph.mean(graph.add("Mul", coin, share), [0])
        epistemic, aleatoric = graph.add("Add", epistemic, more), graph.add("Sub", aleatoric, more)
    total = graph.add("Min", graph.add("Add", epistemic, aleatoric), graph.constant(LARGEST_TOTAL))
    power = graph.add(
        "Exp", graph.add("Mul", graph.add("Log", probability_mean), graph.constant(float(reference_examples)))
    )
    below = graph.add("Less", upper_tie(graph, nll_mean), graph.constant(largest_reference_nll))
    return {
        "probability": probability_mean,
        "epistemic": epistemic,
        "aleatoric": aleatoric,
        "total": total,
        "exceed": graph.add("Where", below, power, graph.add("Sub", one, power)),
        "var_nll": _variance(graph, nll, nll_mean),
        "nll": nll_mean,
    }


def disagreement(graph: Graph, nll: str) -> str:
    """1 - ESS / M, (examples,), as `indubio.judging.uncertainty.disagreement`."""
    lowest = graph.add("ReduceMin", nll, graph.constant(np.array([0]), np.int64), keepdims=1)
    likely = graph.add("Exp", graph.add("Sub", lowest, nll))
    mean, squares = graph.mean(likely, [0]), graph.mean(graph.add("Mul", likely, likely), [0])
    effective = graph.add("Div", graph.add("Mul", mean, mean), squares)
    return graph.add("Max", graph.add("Sub", graph.constant(1.0), effective), graph.constant(0.0))


def _variance(graph: Graph, values: str, mean: str) -> str:
    deviation = graph.add("Sub", values, mean)
    return graph.mean(graph.add("Mul", deviation, deviation), [0])


def part_means(graph: Graph, nll: str, part: np.ndarray) -> str:
    """Mean score over the draws of each part, (parts, examples): what p-values compare."""
    shares = (part == np.arange(part.max() + 1)[:, None]) / np.bincount(part)[:, None]
    return graph.add("MatMul", graph.constant(shares.astype(np.float64)), nll)
