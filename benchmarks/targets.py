"""What was aimed at, and what was found: met or missed is computed, never typed."""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.instructions import Found, vectors
from benchmarks.report import Section, ratio
from benchmarks.scoring import MANY, ScoreTimes
from benchmarks.steps import StepTimes
from benchmarks.training import PYOD_BATCH, PyodTimes

STEP_TO_LIMIT = {"thyroid": 3.0, "cardio": 2.0, "optdigits": 1.5, "ZeMA conv": 1.5, "STRATH conv": 1.5}
SCORING_TO_LIMIT = PLAIN_TO_SCORING = 1.5
SAMPLE_TO_NETWORK = 2.0
PYOD_TO_ENSEMBLE = 3.0


@dataclass(frozen=True)
class Target:
    """A ratio and its bound.

    Args:
        what: is measured.
        bound: of the ratio.
        found: the ratio under each instruction set that it was measured under.
        at_least: the bound is the smallest good value; else the largest.
    """

    what: str
    bound: float
    found: Mapping[str, float]
    at_least: bool = False

    @property
    def missed(self) -> list[str]:
        """Instruction sets under which it was."""
        good: Callable[[float, float], bool] = operator.ge if self.at_least else operator.le
        return [name for name, value in self.found.items() if not good(value, self.bound)]

    def row(self, sets: list[str]) -> list[str]:
        """Of the table."""
        bound = f"{'at least' if self.at_least else 'at most'} {self.bound:g}x"
        values = [ratio(self.found[name]) if name in self.found else "-" for name in sets]
        judged = "met"
        if missed := self.missed:
            judged = "missed" if len(missed) == len(self.found) else f"missed on {', '.join(missed)}"
        return [self.what, bound, *values, judged]


def targets(found: dict[str, Found], pyod: list[PyodTimes]) -> Iterator[Target]:
    """All of them, in the order of the page."""
    found = vectors(found)
    for name, limit in (("the limit", "limit"), ("the limit by torch.mm alone", "torch_limit")):
        yield from _step_targets(found, name, limit)
        yield _scoring_target(found, f"scoring {MANY:,} rows, to {name}", limit)
    many = {name: _many_rows(one) for name, one in found.items()}
    yield Target(
        f"scoring {MANY:,} rows, the plain loop to ours",
        PLAIN_TO_SCORING,
        {name: one.plain.cpu / one.ours.cpu for name, one in many.items()},
        at_least=True,
    )
    for posterior in ("MC dropout", "VAE", "Bayes by Backprop"):
        yield Target(
            f"{posterior}, a weight sample to a step of one network, the worst of four sizes",
            SAMPLE_TO_NETWORK,
            {
                name: max(times.ratio for times in one.posteriors if times.posterior == posterior)
                for name, one in found.items()
            },
        )
    for times in pyod:
        if times.theirs == "AutoEncoder" and times.size.batch == PYOD_BATCH:
            yield Target(
                f"{times.size.name}, batch {PYOD_BATCH}: one PyOD AutoEncoder to our ensemble of 10",
                PYOD_TO_ENSEMBLE,
                {next(iter(found)): times.ratio},
                at_least=True,
            )


def _step_targets(found: dict[str, Found], name: str, limit: str) -> Iterator[Target]:
    for size, bound in STEP_TO_LIMIT.items():
        times = {instructions: _step(one, size) for instructions, one in found.items()}
        ratios = {instructions: one.ours.cpu / getattr(one, limit) for instructions, one in times.items()}
        yield Target(f"training step, {size}, to {name}", bound, ratios)


def _scoring_target(found: dict[str, Found], what: str, limit: str) -> Target:
    times = {name: _many_rows(one) for name, one in found.items()}
    return Target(what, SCORING_TO_LIMIT, {name: one.ours.cpu / getattr(one, limit) for name, one in times.items()})


def _step(found: Found, size: str) -> StepTimes:
    return next(one for one in found.steps if one.size == size)


def _many_rows(found: Found) -> ScoreTimes:
    return next(one for one in found.scoring if one.rows == MANY)


def targets_section(found: dict[str, Found], pyod: list[PyodTimes]) -> Section:
    sets = list(vectors(found))
    return Section(
        key="targets",
        title="Targets",
        headers=["ratio of CPU times", "target", *sets, "met"],
        rows=[target.row(sets) for target in targets(found, pyod)],
        note="Each ratio is from one process, of works that took turns; the tables below say what they are. The limit "
        "is made of the fastest product of any library here; the one by torch.mm alone was the only one before. How "
        "long a new user waits has targets of its own, in the section *From the first second*.",
    )
