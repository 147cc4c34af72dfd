r"""Training on examples that are larger than memory: what `fit` learns, in passes over a stream.

    pass 1      schema, number of examples (`ExampleStream.outline`)
    pass 2      ranges, means and deviations of the training examples; a sample of them
    pass 3      with spectra only: ranges, means and deviations of the features
    epochs      batches, mixed within a buffer (`ScaledRows`)
    last pass   scores of the reference examples

What needs more than that comes from samples of examples, chosen by random numbers of their places:

* At most `REFERENCE` examples calibrate; the others all train. Whatever follows from their scores is exact for them: a
  p-value keeps its promise, P(p <= a) <= a, which a sketch of the scores of more examples would break. As an estimate
  of the distribution F of all scores, their ECDF has |ECDF - F| <= sqrt(log(2 / d) / 2n) everywhere with probability
  1 - d (Dvoretzky, Kiefer & Wolfowitz 1956; Massart 1990): 0.0053 for n = 2^18 and d = 10^-6.
* Medians for missing values, the quantiles of `Robust`, the floors of spectra, the shares of frozen and saturated
  windows, the reference of drift and the typical scores of explanations are those of about `SAMPLE` training examples,
  or as many as have
  `SAMPLE_VALUES` values. By the same bound a median is a quantile between 0.4895 and 0.5105 for n = 2^16; the promise
  about drift holds as it is, with the sample for a reference.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from jaxtyping import Bool, Float, Shaped, UInt64

from indubio.calibration import INDEPENDENT, SPLIT, Calibration, CrossFit, Dependence, Fold, HoldOut, Plan
from indubio.chain import AutoencoderScorer, Familiarity, KeptRows
from indubio.data import ExampleStream, Rows, Schema, StreamBlock, drawn, named_errors, require_finite
from indubio.drift import DriftReference
from indubio.errors import ConfigError, DataError
from indubio.fitting.fit_settings import FitSettings
from indubio.fitting.training_data import RowsInMemory, TrainingScores, familiarity_of
from indubio.message import Message
from indubio.networks import Progress, Report, StreamedRows, first_rows
from indubio.prepare import ColumnSummary, Preparation, QualityLimits, fit_quality, medians
from indubio.texts import english

REFERENCE = 2**18
SAMPLE = 2**16
SAMPLE_VALUES = 2**22  # 32 MB
ORDER = 9  # marks the random streams of the order of reading; 7 is the split's, 8 that of the parts of the draws
CALIBRATING, STOPPING, SAMPLED = range(3)  # the random numbers of a place


@dataclass(frozen=True, kw_only=True)
class Split:
    """What every example is for, by its place.

    Args:
        seed: of the random numbers.
        held: share of the examples that are held out, at random.
        stretches: places from where to where all are held out; None where they are held out at random.
        around: the same with what is too near to them to train.
        reference: share of the examples to calibrate with, among those held out, or among all where none are.
        stopping: share of the others that say when to stop, and are not trained on either.
    """

    seed: int
    held: float = 0.0
    stretches: tuple[tuple[int, int], ...] | None = None
    around: tuple[tuple[int, int], ...] = ()
    reference: float = 1.0
    stopping: float = 0.0

    @classmethod
    def of(
        cls,
        calibration: Calibration,
        stream: ExampleStream,
        examples: int,
        seed: int,
        dependence: Dependence = INDEPENDENT,
    ) -> "Split":
        """The split that a calibration asks for, with no more reference examples than are needed."""
        most = min(1.0, REFERENCE / examples)
        if isinstance(calibration, CrossFit):
            raise ConfigError(
                'cross-fitting is for few examples, and these are streamed. Calibrate with HoldOut() ("holdout") or '
                'TrainScores() ("train"), or let the buffer hold them all.'
            )
        if not isinstance(calibration, HoldOut):
            return cls(seed=seed, reference=most)
        if calibration.rows == "random":
            return cls(seed=seed, held=min(calibration.share, most))
        bounds, gap = calibration.places(examples), dependence.gap
        held = sum(stop - start for start, stop in bounds)
        if held < 1 or held >= examples:
            raise _no_examples(f"a share of {calibration.share} of {examples}")
        wide = [(max(0, start - gap), min(examples, stop + gap)) for start, stop in bounds]
        numbers = sorted({number for bound in (*bounds, *wide) for number in bound})
        places = dict(zip(numbers, stream.places_of(numbers), strict=True))
        return cls(
            seed=seed,
            stretches=tuple((places[start], places[stop]) for start, stop in bounds),
            around=tuple((places[start], places[stop]) for start, stop in wide),
            reference=min(1.0, REFERENCE / held),
        )

    @property
    def unseen(self) -> bool:
        """Whether no draw is trained on the reference examples."""
        return self.held > 0 or self.stretches is not None

    def number(self, places: UInt64[np.ndarray, " examples"], purpose: int) -> Float[np.ndarray, " examples"]:
        """The random number of every place for this purpose."""
        key = np.random.SeedSequence(self.seed, spawn_key=(SPLIT, purpose)).generate_state(1, np.uint64)[0]
        return drawn(places, int(key))

    def _held(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        if self.stretches is not None:
            return _within(places, self.stretches)
        return np.asarray(self.number(places, CALIBRATING) < self.held)

    def _kept_out(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        return self._held(places) if self.stretches is None else _within(places, self.around)

    def is_reference(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        """Which examples the scores of new ones are compared with."""
        if self.held:
            return self._held(places)
        chosen = np.asarray(self.number(places, CALIBRATING) < self.reference)
        return chosen & self._held(places) if self.unseen else chosen

    def is_stopping(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        """Which examples are held out to say when training stops."""
        return np.asarray(~self._kept_out(places) & (self.number(places, STOPPING) < self.stopping))

    def is_trained(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        """Which examples the networks are trained on: those held out neither for calibration nor for stopping."""
        return np.asarray(~self._kept_out(places) & (self.number(places, STOPPING) >= self.stopping))


def _within(
    places: UInt64[np.ndarray, " examples"], stretches: Sequence[tuple[int, int]]
) -> Bool[np.ndarray, " examples"]:
    """Which places lie in any of the stretches."""
    found = np.zeros(len(places), dtype=bool)
    for start, stop in stretches:
        found |= (places >= np.uint64(start)) & (places < np.uint64(stop))
    return found


def noticed(stream: ExampleStream) -> Dependence:
    """How the first examples of a stream depend on each other."""
    first = next(stream.blocks(), None)
    return INDEPENDENT if first is None else Dependence.of(first.data.rows(stream.outline.schema).values)


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamSurvey:
    """What the second pass finds, and a third where windows become features.

    Args:
        stream: the examples.
        split: what they are for.
        sample: some training examples, as they came in.
        summed: ranges, means and deviations of all of them.
        trained: how many examples train.
        report: told which file is read.
    """

    stream: ExampleStream
    split: Split
    sample: Float[np.ndarray, "sampled ..."]
    summed: ColumnSummary
    trained: int
    report: Report
    machines: None = None

    @classmethod
    def of(cls, stream: ExampleStream, split: Split, report: Report, *, missing_allowed: bool) -> "StreamSurvey":
        """The second pass; a value that is not allowed is refused here."""
        outline = stream.outline
        share = min(SAMPLE, max(1, SAMPLE_VALUES // prod(outline.shape))) / outline.examples
        summed = ColumnSummary.of(np.empty((0, *outline.shape)))
        sample, trained = [], 0
        for block in told_blocks(stream, report, english("reading")):
            with named_errors(block):
                rows = block.data.rows(outline.schema)
                require_finite(rows.values, rows.names, missing_allowed=missing_allowed, place=rows.place)
            training = split.is_trained(block.places)
            trained += int(np.count_nonzero(training))
            sample.append(rows.values[training & (split.number(block.places, SAMPLED) < share)])
            summed = summed.joined(ColumnSummary.of(rows.values[training]))
        sampled = np.concatenate(sample)
        if not len(sampled):
            raise _no_examples("what is left to train on")
        return cls(stream=stream, split=split, sample=sampled, summed=summed, trained=trained, report=report)

    @property
    def rate(self) -> float | None:
        """Samples per second of windows, where it is known."""
        windowing = self.stream.reading.windowing
        return None if windowing is None else windowing.rate

    @property
    def schema(self) -> Schema:
        """Names, kinds, ranges and categories of the columns."""
        return self.stream.outline.schema

    @property
    def named(self) -> bool:
        """Columns of files have names."""
        return True

    @property
    def examples(self) -> int:
        """How many there are, of which the sample is a part."""
        return self.stream.outline.examples

    def medians(self) -> Float[np.ndarray, " columns"]:
        """The medians of the sample, which stand for missing values."""
        sample, columns = self.sample, self.schema.encoded_columns
        absent = np.isnan(sample).reshape(-1, sample.shape[-1]).all(axis=0) & ~np.isnan(self.summed.smallest)
        if absent.any():
            name = columns[int(np.argmax(absent))]
            raise DataError(
                f'column "{name}" is missing from nearly all examples: none '
                f"of {len(sample)} chosen at random has it, so its median is not known. Leave the column out."
            )
        return medians(sample, columns)

    def quality(self) -> QualityLimits | None:
        """What the sensors of windows do: ranges of all, shares of the sample."""
        if self.sample.ndim != 3:
            return None
        return replace(fit_quality(self.sample), smallest=self.summed.smallest, largest=self.summed.largest)

    def summary(
        self, features: Callable[[np.ndarray], np.ndarray] | None
    ) -> tuple[ColumnSummary, Float[np.ndarray, "sampled ..."]]:
        """Ranges, means and deviations of the features of all training examples, and the features of the sample."""
        if features is None:
            return self.summed, self.sample
        summary: ColumnSummary | None = None
        for block in told_blocks(self.stream, self.report, english("reading")):
            values = features(block.data.rows(self.schema).values[self.split.is_trained(block.places)])
            summary = summary or ColumnSummary.of(np.empty((0, *values.shape[1:])))
            summary = summary.joined(ColumnSummary.of(values))
        assert summary is not None
        return summary, features(self.sample)


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedData:
    """Streamed examples that were surveyed.

    Args:
        survey: what was found of them.
        preparation: what is done to every example before it is scored.
        plan: how many draws there are; all are trained on the same rows.
        rows: the training examples, as they are scored.
        dependence: what was found of how they depend on each other.
    """

    survey: StreamSurvey
    preparation: Preparation
    plan: Plan
    rows: "ScaledRows"
    dependence: Dependence = INDEPENDENT

    @classmethod
    def of(
        cls, settings: FitSettings, stream: ExampleStream, draws: int, detector: str, report: Report
    ) -> "StreamedData":
        """The second pass.

        Args:
            settings: of the fit.
            stream: the examples.
            draws: M.
            detector: whose, for messages.
            report: told which file is read.
        """
        outline = stream.outline
        dependence = noticed(stream)
        calibration = settings.calibration_for(
            outline.examples, outline.shape, one_fold=True, in_stretches=dependence.in_stretches
        )
        split = Split.of(calibration, stream, outline.examples, settings.seed, dependence)
        survey = StreamSurvey.of(stream, split, report, missing_allowed=settings.missing != "error")
        preparation = Preparation.fit(survey, settings.preparation_for(outline.shape), detector)
        none = np.arange(0)
        return cls(
            survey=survey,
            preparation=preparation,
            plan=Plan(
                folds=(Fold(draws=draws, trained=none, calibrated=none),),
                unseen=split.unseen,
                in_stretches=split.stretches is not None and dependence.in_stretches,
            ),
            rows=ScaledRows(stream, split, preparation, survey.trained, settings.seed),
            dependence=dependence,
        )

    @property
    def count(self) -> int:
        """How many examples there are."""
        return self.survey.examples

    @property
    def rows_per_draw(self) -> int:
        """All rows train every draw."""
        return len(self.rows)

    def drift_reference(self, seed: int) -> DriftReference:
        """The distributions of the sample."""
        followed = self.preparation.followed(Rows(values=self.survey.sample))
        return DriftReference.fit(followed, self.preparation.value_schema.encoded_names, seed=seed)

    def familiarity(self, seed: int) -> Familiarity:
        """What is familiar of the sample."""
        return familiarity_of(self.preparation, self._sample, seed)

    def scores(self, scorer: AutoencoderScorer) -> TrainingScores:
        """The scores of the reference examples, and the scorer, knowing what the sample usually scores."""
        scorer, _ = scorer.with_typical(self._sample)
        scores: list[np.ndarray] = []
        groups: list[np.ndarray] = []
        for values, group in self._reference():
            scores.append(scorer.scores.nll(values))
            if group is not None:
                groups.append(group)
        if not scores:
            raise _no_examples("the share to calibrate with")
        nll = np.concatenate(scores, axis=1)
        fold = replace(self.plan.folds[0], calibrated=np.arange(nll.shape[1]))
        return TrainingScores(
            scorer=scorer,
            nll=nll,
            plan=replace(self.plan, folds=(fold,)),
            groups=np.concatenate(groups) if groups else None,
        )

    def kept(self, groups: Shaped[np.ndarray, " examples"] | None, measured: int) -> KeptRows:
        """The reference examples, and the first training examples."""
        first, others = first_rows(self.rows, measured), np.concatenate([values for values, _ in self._reference()])
        places, trained = np.arange(len(first) + len(others)), len(first)
        fold = replace(self.plan.folds[0], trained=places[:trained], calibrated=places[trained:])
        return KeptRows.of(
            np.concatenate([first.reshape(trained, *others.shape[1:]), others]),
            replace(self.plan, folds=(fold,)),
            None if groups is None else np.concatenate([np.full(trained, "", dtype=object), groups]),
            measured,
        )

    @property
    def _sample(self) -> Float[np.ndarray, "sampled ..."]:
        return self.preparation.scaled(self.survey.sample)

    def _reference(self) -> Iterator[tuple[Float[np.ndarray, "chosen ..."], Shaped[np.ndarray, " chosen"] | None]]:
        """The reference examples as the network gets them, and their groups, block by block."""
        survey = self.survey
        for block in told_blocks(survey.stream, survey.report, english("calibrating")):
            chosen = survey.split.is_reference(block.places)
            if chosen.any():
                group = block.data.groups
                yield self.rows.scaled(block, chosen), None if group is None else group[chosen]


TrainingData = RowsInMemory | StreamedData  # good examples that were surveyed


def told_blocks(stream: ExampleStream, report: Report, stage: str) -> Iterator[StreamBlock]:
    """The blocks in order, telling which unit is being read."""
    for block in stream.blocks():
        report(Progress(block.unit, len(stream.units), np.nan, stage))
        yield block
    report(Progress(len(stream.units), len(stream.units), np.nan, stage))


class ScaledRows(StreamedRows):
    """The training examples of a stream as the network gets them, mixed anew in every epoch.

    An epoch reads the units in a random order, several at a time, and fills the buffer; what is in it is one stretch.
    Within a stretch examples go by their place: a buffer that holds them all gives what an array would.
    """

    def __init__(self, stream: ExampleStream, split: Split, preparation: Preparation, trained: int, seed: int) -> None:
        self._stream, self.split, self._preparation = stream, split, preparation
        self._trained, self._seed = trained, seed
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self._trained

    def scaled(self, block: StreamBlock, chosen: Bool[np.ndarray, " examples"]) -> Float[np.ndarray, "chosen ..."]:
        """The chosen examples of a block as the network gets them."""
        return self._preparation.scaled(block.data.rows(self._stream.outline.schema).values[chosen])

    def stretches(self, epoch: int, batch: int) -> Iterator[Float[np.ndarray, "n ..."]]:
        """All training examples, a buffer at a time."""
        buffer = self._stream.buffered(self._stream.outline.shape)
        size = len(self) if len(self) <= buffer else max(1, buffer // batch) * batch
        random = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(ORDER, epoch)))
        waiting: list[tuple[int, np.ndarray]] = []
        room = size
        for block in self._stream.blocks(random):
            chosen = self.split.is_trained(block.places)
            places, values = block.places[chosen], self.scaled(block, chosen)
            while len(values):
                waiting.append((int(places[0]), values[:room]))
                places, values = places[room:], values[room:]
                room -= len(waiting[-1][1])
                if not room:
                    yield self._stretch(waiting)
                    waiting, room = [], size
        if waiting:
            yield self._stretch(waiting)

    def held_out(self, share: float) -> tuple["ScaledRows", Float[np.ndarray, "n2 ..."]]:
        """The rows without some of them, by which it is decided when to stop."""
        most = min(SAMPLE, max(1, SAMPLE_VALUES // prod(self._stream.outline.shape)))
        split = replace(self.split, stopping=min(share, most / self._trained))
        stopping = [self.scaled(block, split.is_stopping(block.places)) for block in self._stream.blocks()]
        held = np.concatenate(stopping)
        if not 0 < len(held) < self._trained:
            raise _no_examples(Message("`held_out` {share} of {trained}", share=share, trained=self._trained))
        return ScaledRows(self._stream, split, self._preparation, self._trained - len(held), self._seed), held

    def _stretch(self, pieces: list[tuple[int, np.ndarray]]) -> Float[np.ndarray, "n ..."]:
        pieces.sort(key=lambda piece: piece[0])
        return np.concatenate([values for _, values in pieces])


def _no_examples(what: str) -> ConfigError:
    return ConfigError("{what} examples is none. Give more examples, or let the buffer hold them all.", what=what)
