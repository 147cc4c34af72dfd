"""Training on examples that are read from files in every epoch."""

import json
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from scipy import stats

from indubio import AnchoredEnsemble, CrossFit, Detector, ExampleStream, HoldOut, Training, TrainScores, load, save
from indubio.data import Reading, Roles, Table, Wide, Windowing, drawn, read_table
from indubio.errors import ConfigError, DataError, DataWarning
from indubio.fitting.streams import REFERENCE, ScaledRows, Split, StreamedData
from indubio.networks import Autoencoder, Dense, EarlyStopping, GaussianLikelihood
from indubio.prepare import MinMax, Preparation, Robust, TrainingExamples, ZScore
from tests.end_to_end.test_commands import run
from tests.small_examples import SMALL_NETWORK

NAMES = ("a", "b", "c", "d")
QUICK = Training(epochs=3, batch_size=64)


def made(rows: int, seed: int = 0) -> pa.Table:
    """Four columns that move together; sorted by the first, which is the worst order for a stream."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 2)) @ [[1, 2, -1, 0.5], [0.5, -1, 1, 2]] + 0.1 * random.normal(size=(rows, 4))
    return pa.table(dict(zip(NAMES, values[np.argsort(values[:, 0])].T, strict=True)))


def written(folder: Path, table: pa.Table, row_group: int = 300) -> Path:
    """The table in two files of several row groups."""
    folder.mkdir()
    middle = table.num_rows * 2 // 3
    parquet.write_table(table.slice(0, middle), folder / "first.parquet", row_group_size=row_group)
    parquet.write_table(table.slice(middle), folder / "second.parquet", row_group_size=row_group)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("streamed") / "parts", made(4000))


def small(**settings) -> Detector:
    return Detector(**({"posterior": AnchoredEnsemble(members=3), "training": QUICK} | settings))


def first_column(stream: ExampleStream, random=None) -> np.ndarray:
    return np.concatenate([block.data.features.column("a").to_numpy() for block in stream.blocks(random)])


def test_a_pass_reads_every_row_once_in_an_order_that_the_seed_decides(files):
    stream = ExampleStream(files)
    expected = made(4000)["a"].to_numpy()
    one, same, other = (first_column(stream, np.random.default_rng(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first_column(stream), expected)
    np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(np.sort(one), expected)
    np.testing.assert_array_equal(np.sort(other), expected)
    assert (one != other).any()


def test_a_place_does_not_depend_on_the_order_of_reading(files):
    stream = ExampleStream(files)
    random = np.random.default_rng(3)
    places, mixed = (np.concatenate([block.places for block in stream.blocks(r)]) for r in (None, random))
    order = np.argsort(mixed)
    np.testing.assert_array_equal(mixed[order], places)
    np.testing.assert_array_equal(first_column(stream, np.random.default_rng(3))[order], first_column(stream))


def test_the_numbers_of_places_are_uniform_and_independent_of_each_other():
    places = np.arange(20_000, dtype=np.uint64)
    first, second = drawn(places, 1), drawn(places, 2)
    # Fixed keys; a good generator fails each of these once in a thousand keys.
    assert stats.kstest(first, "uniform").pvalue > 1e-3
    assert stats.pearsonr(first, second).pvalue > 1e-3
    assert stats.pearsonr(first[1:], first[:-1]).pvalue > 1e-3


def streamed_rows(files: Path, buffer: int, calibration=None) -> ScaledRows:
    settings = Detector(calibration=calibration or TrainScores()).settings_in_use()
    return StreamedData.of(settings, ExampleStream(files, buffer=buffer), 1, "Detector", lambda _: None).rows


def test_stretches_are_whole_batches_and_hold_every_training_row_once(files):
    rows = streamed_rows(files, 1000)
    stretches = list(rows.stretches(0, 64))
    assert [len(stretch) for stretch in stretches] == [960, 960, 960, 960, 160]
    expected = np.concatenate(list(streamed_rows(files, 4000).stretches(0, 64)))
    found, again, next_epoch = (np.concatenate(list(rows.stretches(epoch, 64))) for epoch in (0, 0, 1))
    assert np.array_equal(found, again)
    assert not np.array_equal(found, next_epoch)
    for mixed in (found, next_epoch):
        assert np.array_equal(mixed[np.lexsort(mixed.T)], expected[np.lexsort(expected.T)])


def test_a_stretch_mixes_rows_that_are_far_apart_in_the_files(files):
    # The files are sorted by the first column; a stretch without mixing would span a quarter of it.
    first = next(streamed_rows(files, 1000).stretches(0, 64))[:, 0]
    whole = np.concatenate(list(streamed_rows(files, 4000).stretches(0, 64)))[:, 0]
    ranks = np.searchsorted(np.sort(whole), first) / len(whole)
    assert float(ranks.std()) > 0.2  # all rows: 0.29; a quarter side by side: 0.07


def test_a_buffer_that_holds_all_gives_the_model_that_memory_gives(files):
    in_memory = small().fit(read_table(files))
    streamed = small().fit(ExampleStream(files))
    rows = Table(features=made(100, seed=1))
    np.testing.assert_array_equal(in_memory.nll(rows), streamed.nll(rows))
    np.testing.assert_array_equal(in_memory.assess(rows).p_value, streamed.assess(rows).p_value)


def test_what_is_odd_about_a_stream_is_found_too(tmp_path):
    odd = made(4000).append_column("mode", [np.full(4000, 7.0)]).append_column("part id", [np.arange(4000.0)])
    far = np.where(np.arange(4000) == 3999, 1e6, made(4000, seed=1)["d"].to_numpy())
    with pytest.warns(DataWarning):
        detector = small().fit(ExampleStream(written(tmp_path / "odd", odd.append_column("far", [far])), buffer=1000))
    assert {one.kind: one.columns for one in detector.findings_} == {
        "id": ("part id",),
        "constant": ("mode",),
        "extreme": ("far",),
    }


def test_rows_in_one_stretch_give_the_weights_that_an_array_gives(files):
    rows = streamed_rows(files, 4000)
    (array,) = rows.stretches(0, 64)
    autoencoder = Autoencoder(Dense().build((4,)), GaussianLikelihood())
    streamed, in_memory = (
        AnchoredEnsemble(members=2).fit(autoencoder, given, training=QUICK, seed=0) for given in (rows, array)
    )
    for name, weight in in_memory.weights.items():
        assert np.array_equal(streamed.weights[name], weight)


@pytest.mark.parametrize("scaling", [MinMax(), ZScore(), Robust()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("missing", ["error", "median"])
def test_a_stream_is_prepared_as_the_same_rows_in_memory_are(scaling, missing, tmp_path):
    """Of so few examples the sample is all of them."""
    table = made(900)
    if missing == "median":
        table = table.set_column(1, "b", [np.where(np.arange(900) % 7, table["b"].to_numpy(), np.nan)])
    files = written(tmp_path / "parts", table)
    settings = Detector(calibration=TrainScores(), scaling=scaling, missing=missing).settings_in_use()
    streamed = StreamedData.of(settings, ExampleStream(files, buffer=100), 1, "Detector", lambda _: None).preparation
    examples = TrainingExamples.of(read_table(files), "Detector")
    in_memory = Preparation.fit(examples, settings.preparation_for(examples.shape), "Detector")
    rows = Table(features=made(50, seed=1))
    np.testing.assert_allclose(streamed.prepared(rows).values, in_memory.prepared(rows).values, rtol=1e-6, atol=1e-6)
    assert [one.kind for one in streamed.findings] == [one.kind for one in in_memory.findings]
    if missing == "median":
        np.testing.assert_array_equal(streamed.medians, in_memory.medians)


def test_a_small_buffer_gives_a_model_as_good(files):
    training = Training(epochs=20, batch_size=64)
    in_memory = small(training=training).fit(read_table(files))
    streamed = small(training=training).fit(ExampleStream(files, buffer=500))
    new = Table(features=made(2000, seed=1))
    ours, theirs = (float(np.median(detector.nll(new))) for detector in (streamed, in_memory))
    assert 0.6 < ours / theirs < 1.6  # two seeds in memory differ by up to 1.3
    # 1000 rows that calibrate and 2000 new ones: their p-values are off uniform by 0.05 with a probability of 7 %
    # by chance alone; this is a fixed seed.
    assert stats.kstest(streamed.assess(new).p_value, "uniform").statistic < 0.05
    broken = Table(features=made(50).set_column(0, "a", [np.full(50, 9.0)]))
    assert (streamed.assess(broken).p_value < 0.01).all()


def test_no_row_that_calibrates_or_stops_is_trained_on(files):
    for calibration in (HoldOut(), HoldOut(rows="last", share=0.1)):
        split = streamed_rows(files, 500, calibration).held_out(0.2)[0].split
        places = np.concatenate([block.places for block in ExampleStream(files).blocks()])
        trained, stops, reference = (of(places) for of in (split.is_trained, split.is_stopping, split.is_reference))
        assert not (trained & reference).any()
        assert (trained.astype(int) + stops + reference == 1).all()
        # Shares of 4000 rows, within three standard deviations.
        assert abs(reference.mean() - calibration.share) < 0.021
        assert abs(stops.mean() / (1 - reference.mean()) - 0.2) < 0.022
    assert reference[-400:].all()
    assert not reference[:-400].any()


def test_no_more_rows_are_held_out_than_are_needed_to_calibrate():
    assert Split.of(HoldOut(), ExampleStream("unread"), 10**9, 0).held * 10**9 == REFERENCE


def test_the_distribution_of_the_reference_scores_is_within_its_bound_of_that_of_all(tmp_path, monkeypatch):
    monkeypatch.setattr("indubio.fitting.streams.REFERENCE", 1000)
    table = made(12_000)
    detector = small().fit(ExampleStream(written(tmp_path / "parts", table, 1000), buffer=3000))
    known = detector.reference_.scores[0]
    assert 800 < len(known) < 1200  # by random numbers: within six standard deviations
    whole = np.sort(detector.nll(Table(features=table)).mean(axis=0))
    bound = np.sqrt(np.log(2 / 1e-6) / (2 * len(known)))
    assert stats.ks_2samp(known, whole).statistic <= bound


def test_everything_a_table_may_have_goes_through_a_stream(tmp_path):
    rows = 3000
    random = np.random.default_rng(5)
    table = made(rows).append_column("machine", [random.choice(["x", "y"], rows)])
    table = table.append_column("colour", [np.where(np.arange(rows) < 2900, "red", "blue")])
    table = table.append_column("bad", [np.arange(rows) % 10 == 0])
    holes = table["b"].to_numpy().copy()
    holes[::7] = np.nan
    table = table.set_column(1, "b", [holes])
    reading = Reading(table=Roles(group="machine", label="bad", categorical=("colour",)))
    detector = small(missing="refer").fit(ExampleStream(written(tmp_path / "parts", table), reading, buffer=400))
    assert detector.n_training_ == 2700
    assert detector.schema_.encoded_names == (*NAMES, "colour=blue", "colour=red")
    assert detector.reference_.groups == ("x", "y")
    known = holes[(np.arange(rows) % 10 != 0) & ~np.isnan(holes)]
    share_below = float((known < detector.preparation_.medians[1]).mean())
    assert abs(share_below - 0.5) < 0.03  # the training rows are three quarters of these, at random
    save(detector, tmp_path / "model")
    found = load(tmp_path / "model").assess(reading.read(tmp_path / "parts"))
    assert np.isfinite(found.p_value).all()


def test_windows_of_a_recording_are_streamed(tmp_path):
    random = np.random.default_rng(2)
    signal = np.sin(np.arange(24_000) / 5)[:, None] + 0.1 * random.normal(size=(24_000, 2))
    parquet.write_table(pa.table({"p": signal[:, 0], "q": signal[:, 1]}), tmp_path / "run.parquet")
    reading = Reading(layout=Wide(), windowing=Windowing(length=20, step=10))
    stream = ExampleStream(tmp_path / "run.parquet", reading, buffer=300)
    detector = small(architecture=SMALL_NETWORK, training=Training(epochs=1)).fit(stream)
    assert detector.input_shape_ == (20, 2)
    assert detector.n_training_ == stream.outline.examples == 2399
    assert np.isfinite(detector.assess(reading.read(tmp_path / "run.parquet")).p_value).all()


def test_remote_files_are_streamed(files):
    memory = fsspec.filesystem("memory")
    memory.put(str(files / "second.parquet"), "/streamed/second.parquet")
    detector, here = (
        small(calibration=HoldOut(), training=Training(epochs=1)).fit(ExampleStream(source, buffer=300))
        for source in ("memory://streamed", files / "second.parquet")
    )
    rows = Table(features=made(10))
    np.testing.assert_array_equal(detector.nll(rows), here.nll(rows))


def test_early_stopping_works_on_a_stream(files):
    training = Training(epochs=3, batch_size=64, early_stopping=EarlyStopping(patience=1))
    detector = small(training=training).fit(ExampleStream(files, buffer=500))
    assert np.isfinite(detector.nll(Table(features=made(10)))).all()


def test_progress_is_told_while_files_are_read_and_within_an_epoch(files):
    told = []
    small().fit(ExampleStream(files, buffer=500), progress=told.append)
    assert {one.stage for one in told} == {"reading", "training", "calibrating"}
    training = [one.done for one in told if one.stage == "training"]
    assert training == sorted(training)
    assert len(training) > 3
    assert training[-1] == 3


def test_a_bad_value_is_named_by_its_file_and_rows(tmp_path):
    table = made(2000)
    broken = table["c"].to_numpy().copy()
    broken[1500] = np.inf
    stream = ExampleStream(written(tmp_path / "parts", table.set_column(2, "c", [broken])), buffer=100)
    with pytest.raises(DataError, match=r'second\.parquet: row 0 and what follows: .*infinity.*column "c"'):
        small().fit(stream)


def test_what_a_stream_cannot_do_is_refused(files):
    stream = ExampleStream(files, buffer=500)
    with pytest.raises(ConfigError, match="cross-fitting"):
        small(calibration=CrossFit()).fit(stream)
    with pytest.raises(ConfigError, match="name it in the roles"):
        small().fit(stream, groups=["x"] * 4000)
    with pytest.raises(ConfigError, match="cannot be put together"):
        small(training=Training(epochs=0)).fit(read_table(files)).update(made(10), training_data=stream)
    with pytest.raises(ConfigError, match="buffer"):
        ExampleStream(files, buffer=0)


def test_the_command_streams_when_it_is_told_to(files, tmp_path):
    common = ("fit", files, "--set", "posterior.draws=2", "--json", "-o")
    told = [
        json.loads(run(*common, tmp_path / name, *flags).stdout)
        for name, flags in (
            ("small", ()),
            (
                "whole",
                (
                    "--set",
                    "stream=true",
                ),
            ),
            ("parts", ("--set", "buffer=500")),
        )
    ]
    assert [one["streamed"] for one in told] == [False, False, True]
    assert told[0]["referral_threshold"] == told[1]["referral_threshold"]
    assert [load(tmp_path / name).calibration for name in ("small", "parts")] == [CrossFit(), HoldOut()]
    assert ExampleStream(files).value_count() == 16_000


CHILD = """
import sys
from pathlib import Path
from indubio import Detector, Deterministic, ExampleStream, Training
for path in sys.argv[1:]:
    training = Training(epochs=1, batch_size=4096, threads=1)
    Detector(posterior=Deterministic(), training=training).fit(ExampleStream(path, buffer=50_000))
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(line.split()[1]) * 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_files(tmp_path):
    random, sizes = np.random.default_rng(0), (250_000, 750_000)
    columns = {f"x{place}": random.random(sizes[1], dtype=np.float32) for place in range(20)}
    paths = [tmp_path / f"{rows}.parquet" for rows in sizes]
    for rows, path in zip(sizes, paths, strict=True):
        parquet.write_table(pa.table(columns).slice(0, rows), path, row_group_size=50_000)
    # The small one first, in the same process: it has what does not depend on the files, such as the libraries.
    done = subprocess.run([sys.executable, "-c", CHILD, *map(str, paths)], check=True, capture_output=True, text=True)
    small_files, large_files = map(int, done.stdout.split())
    assert large_files - small_files < (sizes[1] - sizes[0]) * 20 * 8 / 2  # half of what memory would hold: 40 MB
