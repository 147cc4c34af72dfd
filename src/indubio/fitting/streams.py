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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from jaxtyping import Bool, Float, Shaped, UInt64

from indubio.calibration import Calibration, CrossFit, Fold, HoldOut, Plan
from indubio.calibration.calibration import SPLIT
from indubio.errors import ConfigError, DataError
from indubio.fitting.kept_rows import KeptRows
from indubio.inputs import Intake, Missing, Scaling, Spectra, Unseen
from indubio.inputs.checks import require_finite
from indubio.inputs.example_streams import ExampleStream, Outline, StreamBlock, drawn, named_errors
from indubio.inputs.missing import medians
from indubio.inputs.quality import fit_quality
from indubio.inputs.scaling import ColumnSummary
from indubio.posteriors import Draws
from indubio.posteriors.random_features import first_rows
from indubio.scores import DrawScore
from indubio.texts import english
from indubio.training.loop import Progress, Report
from indubio.training.rows import StreamedRows

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
        first_held: the place from which on all are held out; None where they are held out at random.
        reference: share of the examples to calibrate with, among those held out, or among all where none are.
        stopping: share of the others that say when to stop, and are not trained on either.
    """

    seed: int
    held: float = 0.0
    first_held: int | None = None
    reference: float = 1.0
    stopping: float = 0.0

    @classmethod
    def of(cls, calibration: Calibration, stream: ExampleStream, examples: int, seed: int) -> "Split":
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
        held = round(calibration.share * examples)
        if held < 1 or held >= examples:
            raise _no_examples(f"a share of {calibration.share} of {examples}")
        return cls(seed=seed, first_held=stream.place_of(examples - held), reference=min(1.0, REFERENCE / held))

    @property
    def unseen(self) -> bool:
        """Whether no draw is trained on the reference examples."""
        return self.held > 0 or self.first_held is not None

    def number(self, places: UInt64[np.ndarray, " examples"], purpose: int) -> Float[np.ndarray, " examples"]:
        """The random number of every place for this purpose."""
        key = np.random.SeedSequence(self.seed, spawn_key=(SPLIT, purpose)).generate_state(1, np.uint64)[0]
        return drawn(places, int(key))

    def _held(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        if self.first_held is not None:
            return np.asarray(places >= np.uint64(self.first_held))
        return np.asarray(self.number(places, CALIBRATING) < self.held)

    def is_reference(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        """Which examples the scores of new ones are compared with."""
        if self.held:
            return self._held(places)
        chosen = np.asarray(self.number(places, CALIBRATING) < self.reference)
        return chosen & self._held(places) if self.unseen else chosen

    def is_stopping(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        """Which examples are held out to say when training stops."""
        return np.asarray(~self._held(places) & (self.number(places, STOPPING) < self.stopping))

    def is_trained(self, places: UInt64[np.ndarray, " examples"]) -> Bool[np.ndarray, " examples"]:
        """Which examples the networks are trained on: those held out neither for calibration nor for stopping."""
        return np.asarray(~self._held(places) & (self.number(places, STOPPING) >= self.stopping))


@dataclass(frozen=True, kw_only=True, eq=False)
class Surveyed:
    """A stream, and what was learned of it before any network saw it.

    Args:
        stream: the examples.
        outline: names, number and shape.
        split: what they are for.
        intake: what is done to examples before the network.
        sample: some training examples, as they came in.
        trained: how many examples train.
    """

    stream: ExampleStream
    outline: Outline
    split: Split
    intake: Intake
    sample: Float[np.ndarray, "sampled ..."]
    trained: int

    def scaled(self, block: StreamBlock, chosen: Bool[np.ndarray, " examples"]) -> Float[np.ndarray, "chosen ..."]:
        """The chosen examples of a block as the network gets them."""
        return self.intake.scaled(block.data.rows(self.outline.schema).values[chosen])

    def reference_scores(
        self, scores_by: Draws | DrawScore, report: Report
    ) -> tuple[Float[np.ndarray, "draws examples"], Plan, Shaped[np.ndarray, " examples"] | None]:
        """Scores of the reference examples, the plan that compares with them, and their groups."""
        scores: list[np.ndarray] = []
        groups: list[np.ndarray] = []
        for values, group in self._reference(report):
            scores.append(scores_by.nll(values))
            if group is not None:
                groups.append(group)
        if not scores:
            raise _no_examples("the share to calibrate with")
        nll = np.concatenate(scores, axis=1)
        everything = np.arange(nll.shape[1])
        part = Fold(draws=scores_by.count, trained=everything[:0], calibrated=everything)
        plan = Plan(parts=(part,), unseen=self.split.unseen)
        return nll, plan, np.concatenate(groups) if groups else None

    def kept(
        self, rows: "ScaledRows", groups: Shaped[np.ndarray, " examples"] | None, draws: int, report: Report
    ) -> KeptRows:
        """The reference examples, and the first training examples, for a detector that keeps its sums.

        Args:
            rows: the training examples.
            groups: of the reference examples.
            draws: M.
            report: told of the pass over the stream.
        """
        first, others = first_rows(rows), np.concatenate([values for values, _ in self._reference(report)])
        places, trained = np.arange(len(first) + len(others)), len(first)
        part = Fold(draws=draws, trained=places[:trained], calibrated=places[trained:])
        return KeptRows.of(
            np.concatenate([first.reshape(trained, *others.shape[1:]), others]),
            Plan(parts=(part,), unseen=self.split.unseen),
            None if groups is None else np.concatenate([np.full(trained, "", dtype=object), groups]),
        )

    def _reference(
        self, report: Report
    ) -> Iterator[tuple[Float[np.ndarray, "chosen ..."], Shaped[np.ndarray, " chosen"] | None]]:
        """The reference examples as the network gets them, and their groups, block by block."""
        for block in told_blocks(self.stream, report, english("calibrating")):
            chosen = self.split.is_reference(block.places)
            if chosen.any():
                group = block.data.groups
                yield self.scaled(block, chosen), None if group is None else group[chosen]


def survey(
    stream: ExampleStream,
    outline: Outline,
    split: Split,
    *,
    scaling: Scaling,
    missing: Missing,
    unseen: Unseen,
    margin: float | None,
    report: Report,
    spectra: Spectra | None = None,
) -> Surveyed:
    """The second pass: ranges, means and deviations, and a sample."""
    share = min(SAMPLE, max(1, SAMPLE_VALUES // prod(outline.shape))) / outline.examples
    known = ColumnSummary.of(np.empty((0, *outline.shape)))
    sample, trained = [], 0
    for block in told_blocks(stream, report, english("reading")):
        with named_errors(block):
            rows = block.data.rows(outline.schema)
            values = rows.values
            require_finite(values, rows.names, missing_allowed=missing != "error", place=rows.place)
        training = split.is_trained(block.places)
        trained += int(np.count_nonzero(training))
        sample.append(values[training & (split.number(block.places, SAMPLED) < share)])
        known = known.joined(ColumnSummary.of(values[training]))
    sampled = np.concatenate(sample)
    if not len(sampled):
        raise _no_examples("what is left to train on")
    middles = None if missing == "error" else _sample_medians(sampled, known.smallest, outline)
    quality = fit_quality(sampled) if sampled.ndim == 3 else None
    intake = Intake(
        scaling=scaling.of_summary(known, sampled),
        medians=middles,
        missing=missing,
        unseen=unseen,
        quality=None if quality is None else replace(quality, smallest=known.smallest, largest=known.largest),
        margin=margin,
    )
    found = Surveyed(stream=stream, outline=outline, split=split, intake=intake, sample=sampled, trained=trained)
    return found if spectra is None else _with_spectra(found, spectra, scaling, report)


def _with_spectra(known: Surveyed, spectra: Spectra, scaling: Scaling, report: Report) -> Surveyed:
    """The same for features of windows: floors from the sample, ranges, means and deviations by one more pass."""
    windowing = known.stream.reading.windowing
    fitted = spectra.fit(known.intake.features(known.sample), None if windowing is None else windowing.rate)
    intake = replace(known.intake, spectra=fitted)
    summary = ColumnSummary.of(np.empty((0, fitted.count)))
    for block in told_blocks(known.stream, report, english("reading")):
        values = block.data.rows(known.outline.schema).values
        summary = summary.joined(ColumnSummary.of(intake.features(values[known.split.is_trained(block.places)])))
    fitted = replace(fitted, smallest=summary.smallest, largest=summary.largest)
    features = scaling.of_summary(summary, intake.features(known.sample))
    return replace(known, intake=replace(intake, spectra=fitted, scaling=features))


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

    def __init__(self, surveyed: Surveyed, seed: int) -> None:
        self._surveyed, self._seed = surveyed, seed
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self._surveyed.trained

    def stretches(self, epoch: int, batch: int) -> Iterator[Float[np.ndarray, "n ..."]]:
        """All training examples, a buffer at a time."""
        buffer = self._surveyed.stream.buffered(self._surveyed.outline.shape)
        size = len(self) if len(self) <= buffer else max(1, buffer // batch) * batch
        random = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(ORDER, epoch)))
        waiting: list[tuple[int, np.ndarray]] = []
        room = size
        for block in self._surveyed.stream.blocks(random):
            chosen = self._surveyed.split.is_trained(block.places)
            places, values = block.places[chosen], self._surveyed.scaled(block, chosen)
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
        known = self._surveyed
        most = min(SAMPLE, max(1, SAMPLE_VALUES // prod(known.outline.shape)))
        split = replace(known.split, stopping=min(share, most / known.trained))
        found = [known.scaled(block, split.is_stopping(block.places)) for block in known.stream.blocks()]
        held = np.concatenate(found)
        if not 0 < len(held) < known.trained:
            raise _no_examples(f"`held_out` {share} of {known.trained}")
        others = replace(known, split=split, trained=known.trained - len(held))
        return ScaledRows(others, self._seed), held

    def _stretch(self, pieces: list[tuple[int, np.ndarray]]) -> Float[np.ndarray, "n ..."]:
        pieces.sort(key=lambda piece: piece[0])
        return np.concatenate([values for _, values in pieces])


def _sample_medians(
    sample: Float[np.ndarray, "sampled ..."], smallest: Float[np.ndarray, " features"], outline: Outline
) -> Float[np.ndarray, " features"]:
    absent = np.isnan(sample).reshape(-1, sample.shape[-1]).all(axis=0) & ~np.isnan(smallest)
    if absent.any():
        name = outline.schema.encoded_columns[int(np.argmax(absent))]
        raise DataError(
            f'column "{name}" is missing from nearly all examples: none '
            f"of {len(sample)} chosen at random has it, so its median is not known. Leave the column out."
        )
    return medians(sample, outline.schema.encoded_columns)


def _no_examples(what: str) -> ConfigError:
    return ConfigError(f"{what} examples is none. Give more examples, or let the buffer hold them all.")
