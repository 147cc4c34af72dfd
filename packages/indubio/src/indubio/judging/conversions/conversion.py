"""A conversion turns scores into anomaly probabilities, one CDF per draw.

p_m(x) = CDF_m(nll_m(x)),  CDF_m fitted on the training scores of draw m        paper, section 3.2 (i) and (ii)

A new conversion says two things about a single draw: which parameters its CDF has, and what the CDF is. Draws never
see each other, so the result of a draw does not depend on which others it was fitted with.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.judging.conversions.customised_scaling import Level, scaled_probability, scaling_level
from indubio.settings import Settings

LARGEST_TRAINING_SCORE = np.float64(
    1e150
)  # its square is still a float64, so that means and deviations cannot overflow
BLOCK = 4096  # examples; their scores under tens of draws stay in the cache
SCALING_PARAMETERS = {"training_mean": 1, "scaling_level": 1}


@dataclass(frozen=True, kw_only=True)
class Conversion(Settings, ABC):
    """Settings of a conversion; `fit` gives the conversion itself."""

    PARAMETERS: ClassVar[Mapping[str, int]]  # name of each fitted array -> its dimensions, draws first

    @property
    def is_scaled(self) -> bool:
        """Whether the customised scaling follows the CDF."""
        return False

    @property
    def own_rate(self) -> float | None:
        """The rate of false alarms that it was given itself; None where it was given none."""
        return None

    def at_rate(self, false_alarms: float) -> "Conversion":  # noqa: ARG002 - for those that know a rate
        """This conversion for a rate of false alarms, where it goes by one."""
        return self

    def log_odds_variance(
        self,
        p: Float[np.ndarray, "draws examples"],  # noqa: ARG002 - for those that know it
        reference: int,  # noqa: ARG002
    ) -> Float[np.ndarray, "draws examples"] | None:
        """How unsure the log-odds of each probability are, since so few reference scores tell it; None if not known."""
        return None

    @abstractmethod
    def fit_draw(self, nll: Float[np.ndarray, " examples"]) -> dict[str, np.ndarray]:
        """Parameters of the probability of one draw, from its training scores."""

    @abstractmethod
    def cdf(
        self, nll: Float[np.ndarray, " examples"], parameters: Mapping[str, np.ndarray]
    ) -> Float[np.ndarray, " examples"]:
        """Probability of one draw at these scores, before any scaling, given what `fit_draw` returned."""

    def cdfs(
        self, nll: Float[np.ndarray, "draws examples"], parameters: Sequence[Mapping[str, np.ndarray]]
    ) -> Float[np.ndarray, "draws examples"]:
        """The CDF of every draw at its own scores; what is alike for all draws can be done once here."""
        return np.array([self.cdf(scores, known) for scores, known in zip(nll, parameters, strict=True)])

    def own_cdfs(
        self, nll: Float[np.ndarray, "draws examples"], parameters: Sequence[Mapping[str, np.ndarray]]
    ) -> Float[np.ndarray, "draws examples"]:
        """Of the very scores that it was fitted on, as new ones of the kind would have them, where it knows how."""
        return self.cdfs(nll, parameters)

    def fit(self, nll: Float[np.ndarray, "draws examples"]) -> "FittedConversion":
        """The conversion fitted on training scores, every draw by itself."""
        scores = _scores(nll)
        if 0 in scores.shape:
            raise DataError(f"a conversion needs at least one training example and one draw, got {_shape(scores)}.")
        rule = f"training scores must be finite, and at most {LARGEST_TRAINING_SCORE:g} in size"
        _require(np.abs(scores) <= LARGEST_TRAINING_SCORE, scores, rule)
        draws = [self._fit_draw(draw) for draw in scores]
        names = parameter_dimensions(self)
        return FittedConversion(
            conversion=self, parameters={name: np.stack([draw[name] for draw in draws]) for name in names}
        )

    def _fit_draw(self, nll: Float[np.ndarray, " examples"]) -> dict[str, np.ndarray]:
        return self.fit_draw(nll)


@dataclass(frozen=True, kw_only=True)
class CdfConversion(Conversion, ABC):
    """The CDF of a distribution of scores, which the customised scaling may follow: the paper's conversions.

    Args:
        scaled: apply the customised scaling, so that an average training score has probability 0.
        level: where the scaling starts: `cdf_of_mean` is the paper's formula, `mean_of_cdf` what its authors ran.
    """

    scaled: bool = True
    level: Level = "cdf_of_mean"

    @property
    def is_scaled(self) -> bool:
        """Whether probabilities are scaled by the level of the mean score."""
        return self.scaled

    def _fit_draw(self, nll: Float[np.ndarray, " examples"]) -> dict[str, np.ndarray]:
        parameters = self.fit_draw(nll)
        if not self.scaled:
            return parameters
        in_double = np.ascontiguousarray(nll, dtype=np.float64)
        mean = float(in_double.mean())
        level = scaling_level(self.level, lambda scores: self.cdf(scores, parameters), in_double, mean)
        return parameters | {"training_mean": np.array(mean), "scaling_level": np.array(level)}


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedConversion:
    """A conversion and its fitted parameters: plain arrays, so that it can be stored and rebuilt.

    Args:
        conversion: the settings it was fitted with.
        parameters: what `fit` found, each array with the draws first.
    """

    conversion: Conversion
    parameters: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        expected = parameter_dimensions(self.conversion)
        if self.parameters.keys() != expected.keys():
            raise ConfigError(
                f"`parameters` of {type(self.conversion).__name__} must be {sorted(expected)}, "
                f"got {sorted(self.parameters)}."
            )
        for name, dimensions in expected.items():
            values = self.parameters[name]
            if values.ndim != dimensions or 0 in values.shape:
                raise ShapeError(
                    f"parameter `{name}` must have {dimensions} dimension(s), draws first, got {values.shape}."
                )
            if not np.isfinite(values).all():
                raise DataError(f"parameter `{name}` must be finite, got NaN or infinity.")
        draws = {name: len(values) for name, values in self.parameters.items()}
        if len(set(draws.values())) != 1:
            raise ShapeError(f"all parameters must be of the same draws, got {draws}.")

    @cached_property
    def draws(self) -> int:
        """Number of draws it was fitted on, M."""
        return len(next(iter(self.parameters.values())))

    def own_probability(self, nll: Float[np.ndarray, "draws own"]) -> Float[np.ndarray, "draws own"]:
        """Probabilities of the scores that it was fitted on, in any order: each is compared with the others."""
        scores = _scores(nll).astype(np.float64)
        return self._scaled(self.conversion.own_cdfs(scores, self._by_draw), scores)

    def probability(self, nll: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, "draws examples"]:
        """Anomaly probability of every example under every draw, in [0, 1]; an infinite score has 1."""
        scores = _scores(nll)
        if len(scores) != self.draws:
            raise ShapeError(f"this conversion was fitted on {self.draws} draws, got {_shape(scores)}.")
        # NaN fails this comparison too. A likelihood that is infinite is a broken model, not a very normal example.
        if not (scores > -np.inf).all():
            _require(scores > -np.inf, scores, "scores must be numbers or +infinity")
        if scores.shape[1] <= BLOCK:
            scores = scores.astype(np.float64, copy=False)
            return self._scaled(self.conversion.cdfs(scores, self._by_draw), scores)
        probability = np.empty(scores.shape)
        for start in range(0, scores.shape[1], BLOCK):
            block = scores[:, start : start + BLOCK].astype(np.float64)
            probability[:, start : start + BLOCK] = self._scaled(self.conversion.cdfs(block, self._by_draw), block)
        return probability

    @cached_property
    def _by_draw(self) -> list[dict[str, np.ndarray]]:
        # Made once: for a single example, taking the arrays apart costs as much as the CDFs do.
        return [{name: values[draw, ...] for name, values in self.parameters.items()} for draw in range(self.draws)]

    @cached_property
    def _level_and_mean(self) -> tuple[Float[np.ndarray, "draws 1"], Float[np.ndarray, "draws 1"]]:
        return self.parameters["scaling_level"][:, None], self.parameters["training_mean"][:, None]

    def _scaled(
        self, cdf: Float[np.ndarray, "draws block"], nll: Float[np.ndarray, "draws block"]
    ) -> Float[np.ndarray, "draws block"]:
        if "scaling_level" not in self.parameters:
            return cdf
        level, mean = self._level_and_mean
        return scaled_probability(cdf, nll, level=level, mean=mean)


def parameter_dimensions(conversion: Conversion) -> dict[str, int]:
    """Name of every array of the fitted conversion -> its dimensions."""
    return {**conversion.PARAMETERS, **(SCALING_PARAMETERS if conversion.is_scaled else {})}


def _scores(nll: np.ndarray) -> Float[np.ndarray, "draws examples"]:
    scores = np.asarray(nll)
    if scores.ndim != 2:
        raise ShapeError(f"`nll` must have the shape (draws, examples), got {scores.shape}.")
    if scores.dtype.kind not in "fiu":
        raise DataError(f"`nll` must hold real numbers, got {scores.dtype}.")
    return scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)


def _require(good: Bool[np.ndarray, "draws examples"], scores: np.ndarray, rule: str) -> None:
    if good.all():
        return
    draw, example = np.unravel_index(np.argmin(good), good.shape)
    raise DataError(
        f"{rule}: {np.count_nonzero(~good)} of {good.size} are not "
        f"(first: draw {draw}, example {example}: {scores[draw, example]})."
    )


def _shape(scores: np.ndarray) -> str:
    return f"{scores.shape[0]} draws of {scores.shape[1]} examples"
