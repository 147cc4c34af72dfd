"""Scoring and what comes after: rows to scores, scores to probabilities and uncertainties, the rejection curve."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmarks.measuring import Timing, flops_per_second, interleaved, machine_works, timed
from benchmarks.nets import Size, operations_per_row
from benchmarks.report import Section, milliseconds, ratio
from indubio import Detector
from indubio.evaluation import accuracy_rejection_curve
from indubio.judging import Ecdf, FittedConversion, quantify
from indubio.networks import Training
from indubio.numerics import streams
from indubio.posteriors import AnchoredEnsemble
from tests.reference.plain_loop import load

SIZE = Size("16 features", (16,), 1000, 100)
CHUNKS = (256, 1024, 4096, 100_000)  # rows at a time that the plain loop may choose from
MANY = 100_000
DRAWS, PROBABILITIES, EXAMPLES = 10, 10_000_000, 1_000_000


@dataclass(frozen=True)
class ScoreTimes:
    """Scores of some rows under all draws.

    Args:
        rows: how many.
        plain: a loop over torch modules, with its best chunks.
        ours: our draws.
        limit: seconds at the rate of the fastest product.
        torch_limit: the same at that of torch.mm.
    """

    rows: int
    plain: Timing
    ours: Timing
    limit: float
    torch_limit: float


def measured_scoring(repeats: int) -> list[ScoreTimes]:
    """1, 100 and 100,000 rows: our draws against the plain loop."""
    autoencoder = SIZE.autoencoder()
    draws = AnchoredEnsemble(members=DRAWS).fit(autoencoder, SIZE.data(), training=SIZE.training(0), seed=0)
    modules = [load(SIZE.plain(), autoencoder.initial(own)) for own in streams(0, DRAWS)]
    all_times = []
    for count, times in ((1, 200), (100, 100), (MANY, 1)):
        given = np.random.default_rng(1).random((count, *SIZE.shape), dtype=np.float32)
        loops = {
            f"plain {size}": timed(partial(plain_nll, modules, torch.from_numpy(given), size), times)
            for size in CHUNKS
            if size <= count
        } or {"plain": timed(partial(plain_nll, modules, torch.from_numpy(given), count), times)}
        found = interleaved({"ours": timed(partial(draws.nll, given), times), **loops, **machine_works()}, repeats)
        plain = min((found[name] for name in loops), key=lambda timing: timing.cpu).per(times)
        operations = DRAWS * count * operations_per_row(autoencoder)
        all_times.append(
            ScoreTimes(
                rows=count,
                plain=plain,
                ours=found["ours"].per(times),
                limit=operations / flops_per_second(found),
                torch_limit=operations / flops_per_second(found, "torch.mm"),
            )
        )
    return all_times


def scoring_section(found: Mapping[str, list[ScoreTimes]]) -> Section:
    """The times under every instruction set."""
    return Section(
        key="scoring",
        title=f"Scoring rows of 16 features under {DRAWS} draws",
        headers=[
            "rows",
            "instructions",
            "plain, CPU",
            "ours, CPU",
            "plain, wall",
            "ours, wall",
            "limit",
            "plain / ours",
            "ours / limit",
            "ours / torch.mm",
        ],
        rows=[
            [
                f"{one.rows:,}",
                instructions,
                *(milliseconds(t) for t in (one.plain.cpu, one.ours.cpu, one.plain.wall, one.ours.wall, one.limit)),
                ratio(one.plain.cpu / one.ours.cpu),
                ratio(one.ours.cpu / one.limit),
                ratio(one.ours.cpu / one.torch_limit),
            ]
            for same_rows in zip(*found.values(), strict=True)
            for instructions, one in zip(found, same_rows, strict=True)
        ],
        note="Milliseconds, instruction sets and limit as above. The plain loop takes the best of its chunk sizes "
        f"{', '.join(map(str, CHUNKS))}.",
    )


def plain_nll(modules: list[nn.Module], rows: Tensor, size: int) -> Tensor:
    """Scores of a loop over members and chunks of rows."""
    with torch.inference_mode():
        return torch.stack(
            [torch.cat([((part - module(part)) ** 2).mean(1) / 2 for part in rows.split(size)]) for module in modules]
        )


def fitted_detector() -> Detector:
    """With the default calibration, so that p-values are part of an assessment."""
    data = np.random.default_rng(0).random((2000, *SIZE.shape))
    return Detector(posterior=AnchoredEnsemble(members=10), training=Training(epochs=1)).fit(data)


def few_rows(repeats: int, times: int = 200) -> Section:
    """What `Detector.assess` of one row, or of as few as a server gathers, costs beyond the network."""
    detector = fitted_detector()
    rows = []
    for count in (1, 10, 100):
        given = np.random.default_rng(1).random((count, *SIZE.shape))
        scaled = given.astype(np.float32)
        found = interleaved(
            {
                "assess": timed(partial(detector.assess, given), times),
                "network": timed(partial(detector.draws_.nll, scaled), times),
            },
            repeats,
        )
        whole, network = found["assess"].per(times), found["network"].per(times)
        shown = (whole.cpu, network.cpu, whole.cpu - network.cpu, whole.wall, whole.wall - network.wall)
        rows.append([str(count), *map(milliseconds, shown)])
    return Section(
        key="few_rows",
        title="Few rows through `Detector.assess`, 16 features, 10 draws",
        headers=["rows", "whole, CPU", "network alone, CPU", "the rest, CPU", "whole, wall", "the rest, wall"],
        rows=rows,
        note="Milliseconds a call: checks, scaling, network, probabilities, uncertainties, p-values and verdicts.",
    )


def after_the_network(repeats: int) -> Section:
    """The stages that are numpy: conversion, uncertainty, rejection curve."""
    found = interleaved(
        {"conversion": timed(conversion()), "uncertainty": timed(uncertainties()), "curve": timed(rejection_curve())},
        repeats,
    )
    names = {
        "conversion": f"conversion, {PROBABILITIES:,} scores to probabilities",
        "uncertainty": f"uncertainties of {PROBABILITIES:,} probabilities",
        "curve": f"accuracy-rejection curve of {EXAMPLES:,} examples",
    }
    return Section(
        key="after",
        title="After the network",
        headers=["work", "CPU", "wall"],
        rows=[[names[key], milliseconds(t.cpu), milliseconds(t.wall)] for key, t in found.items()],
        note=f"Milliseconds; {DRAWS} draws, the conversion fitted on 1,324 training scores.",
    )


def conversion() -> Callable[[], Float[np.ndarray, "draws examples"]]:
    """Scores to probabilities; nothing is converted before it is called, or its peak memory would not be seen."""
    fitted, nll = _scores()
    return partial(fitted.probability, nll)


def uncertainties() -> Callable[[], object]:
    """Probabilities to uncertainties; the conversion before it is preparation."""
    fitted, nll = _scores()
    return partial(quantify, fitted.probability(nll), nll, 0.9, 1324)


def _scores() -> tuple[FittedConversion, Float[np.ndarray, "draws examples"]]:
    random = np.random.default_rng(0)
    fitted = Ecdf().fit(random.random((DRAWS, 1324), dtype=np.float32))
    return fitted, random.random((DRAWS, PROBABILITIES // DRAWS), dtype=np.float32)


def rejection_curve() -> Callable[[], object]:
    random = np.random.default_rng(0)
    labels, predictions = (random.random((2, EXAMPLES)) < 0.1).astype(int)
    return partial(accuracy_rejection_curve, labels, predictions, random.random(EXAMPLES))
