"""What is odd about training data is found, and nothing else is: data with one defect gives one finding."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from indubio import AnchoredEnsemble, Detector, HoldOut, Training, Trimming
from indubio.cli.by_flags import by_flags
from indubio.data import Schema, Table, Windows
from indubio.errors import DataWarning
from indubio.prepare import DataFinding, MinMax, Robust, ZScore, data_findings, fit_quality
from indubio.prepare.finding_rules import named, own_anomalies
from tests.small_examples import windows

NAMES = ("speed", "flow", "pressure", "heat")


def clean(rows: int = 200, columns: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def found(values: np.ndarray, names: tuple[str, ...] = NAMES, **options) -> list[DataFinding]:
    quality = fit_quality(values) if values.ndim == 3 else None
    given = {"by_range": True, "quality": quality} | options
    return list(data_findings(values, Schema.of_values(values, names), **given))


def kinds(values: np.ndarray, names: tuple[str, ...] = NAMES, **options) -> dict[str, tuple[str, ...]]:
    return {finding.kind: finding.columns for finding in found(values, names, **options)}


def with_column(column, place: int = 1, rows: int = 200) -> np.ndarray:
    values = clean(rows)
    values[:, place] = column
    return values


def signals(count: int = 40) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 50, 3)).cumsum(axis=1)


RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    "values",
    [
        clean(),
        clean(20),
        clean(5000),
        np.exp(2 * clean(3000)),  # heavy tails
        clean().round(1),
        (clean() > 1).astype(float),  # flags
        RNG.integers(0, 50, size=(200, 4)).astype(float),  # counts, ages
        np.where(clean(1000) > [2.5, 2.5, -9, -9], clean(1000), 0),  # mostly at rest
        clean()[np.argsort(clean()[:, 0])],  # sorted by a measurement
        clean(200) + np.arange(200)[:, None] / 50,  # drifting
    ],
)
def test_ordinary_data_has_no_findings(values):
    assert found(values) == []


def test_ordinary_windows_have_no_findings():
    assert found(signals(), NAMES[:3]) == []
    steps = np.repeat(RNG.integers(0, 3, size=(40, 5)).astype(float), 10, axis=1)
    assert found(np.dstack([signals()[..., :2], steps]), NAMES[:3]) == []  # a set point may stand still


@pytest.mark.parametrize(
    ("rows", "settings", "told"),
    [
        (2, {}, "no p-values and nothing is promised"),
        (4, {}, "no p-values and nothing is promised"),
        (5, {}, "no p-value is below 0.17"),
        (15, {}, "no p-value is below 0.062"),
        (12, {"calibration": HoldOut(share=0.25)}, "no p-value is below 0.25"),
        (19, {"posterior": AnchoredEnsemble(members=2), "training": Training(epochs=1)}, "nothing is promised"),
    ],
)
def test_few_examples_are_told_with_the_smallest_p_value_there_can_be(rows, settings, told):
    with pytest.warns(DataWarning, match=f"There are only {rows} training examples"):
        detector = Detector(**settings).fit(clean(rows))
    first = detector.findings_[0]
    assert first.kind == "few examples"
    assert told in first.follows
    [smallest] = detector.assess(np.full((1, 4), 99.0)).p_value
    assert np.isnan(smallest) if "nothing" in told else told.endswith(f"{smallest:.2g}")


def test_twenty_examples_are_not_few():
    assert Detector().fit(clean(20)).findings_ == ()


def test_a_column_that_never_changes():
    assert kinds(with_column(7)) == {"constant": ("flow",)}
    missing = with_column(7)
    missing[::3, 1] = np.nan
    assert kinds(missing) == {"constant": ("flow",)}


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(200),
        1000 - np.arange(200),
        1.7e9 + 60.5 * np.arange(200),  # a time
        RNG.permutation(200) + 5000,  # in another order
        RNG.choice(300, size=200, replace=False),  # with gaps
    ],
)
def test_a_column_that_counts_the_rows(ids):
    assert kinds(with_column(ids)) == {"id": ("flow",)}


@pytest.mark.parametrize("name", ["Operating hours", "unix_time", "partId"])
def test_what_rises_by_uneven_steps_is_one_that_counts_if_its_name_says_so(name):
    rising = np.cumsum(RNG.exponential(size=200))
    assert found(with_column(rising)) == []
    assert kinds(with_column(rising), ("speed", name, "pressure", "heat")) == {"id": (name,)}


def test_what_rises_but_for_one_row_among_many_is_no_id():
    rising = np.linspace(0, 1, 20_000)
    rising[777] = 0.5
    assert found(with_column(rising, rows=20_000)) == []


def test_a_column_that_repeats_another():
    values = clean()
    for repeat in (values[:, 0], 1.8 * values[:, 0] + 32, -values[:, 0], (1.8 * values[:, 0] + 32).round(6)):
        values[:, 2] = repeat
        [finding] = found(values)
        assert (finding.kind, finding.columns) == ("repeated", ("pressure",))
        assert '"pressure" repeats "speed"' in finding.what
    values[:, 2] = values[:, 0] + 0.01 * clean()[:, 3]
    assert found(values) == []


def test_repeats_are_found_among_thousands_of_columns():
    values = clean(100, 3000)
    values[:, 2500], values[:, 2700], values[:, 17] = 3 * values[:, 11], values[:, 11], -values[:, 4]
    names = tuple(f"c{place}" for place in range(3000))
    assert kinds(values, names) == {"repeated": ("c17", "c2500", "c2700")}


def test_flags_that_agree_in_a_few_rows_do_not_repeat_each_other():
    values = clean()
    values[:, :2] = 0
    values[5, :2] = 1
    assert found(values) == []


def test_a_column_whose_range_is_that_of_a_few_values():
    values = clean()
    values[3, 1] = 1e4
    assert kinds(values) == {"extreme": ("flow",)}
    assert found(values, by_range=False) == []
    assert [scaling.by_range for scaling in (MinMax(), ZScore(), Robust())] == [True, True, False]


@pytest.mark.parametrize("name", ["label", "is_anomaly", "Machine failure", "isFaulty", "TARGET", "part_nok", "y"])
@pytest.mark.parametrize("values", [0.0, (np.arange(200) % 50 == 0).astype(float), np.where(np.arange(200) % 9, 1, -1)])
def test_a_label_among_the_features(name, values):
    assert kinds(with_column(values), ("speed", name, "pressure", "heat")) == {"label": (name,)}


@pytest.mark.parametrize("name", ["target", "class"])
def test_a_label_of_several_classes(name):
    assert kinds(with_column(np.arange(200) % 3), ("speed", name, "pressure", "heat")) == {"label": (name,)}


@pytest.mark.parametrize("name", ["target_speed", "label_width", "open", "fault_code", "defects", "y", "failure"])
def test_a_measurement_is_no_label_for_its_name(name):
    column = np.arange(200) % 2 if name == "open" else RNG.poisson(3, size=200)
    assert found(with_column(column), ("speed", name, "pressure", "heat")) == []


def named_table(**columns) -> Table:
    features = {name: clean()[:, place] for place, name in enumerate(NAMES)} | columns
    return Table(features=pa.table(features), categorical=dict.fromkeys(columns))


def table_kinds(table: Table) -> dict[str, tuple[str, ...]]:
    schema = Schema.of(table.features, table.categorical)
    return {one.kind: one.columns for one in data_findings(schema.encode(table.features).values, schema, by_range=True)}


def test_categories_that_mostly_come_once():
    assert table_kinds(named_table(serial=[f"S{place}" for place in range(200)])) == {"categories": ("serial",)}


def test_categories_that_come_often_are_no_finding():
    assert table_kinds(named_table(machine=["A", "B", "C", "D"] * 50, side=["left", "right"] * 100)) == {}


def test_categories_that_say_good_and_bad_are_a_label():
    assert table_kinds(named_table(checked=["good"] * 199 + ["bad"])) == {"label": ("checked",)}
    assert table_kinds(named_table(weather=["good", "fair"] * 100)) == {}


def test_one_category_never_changes():
    assert table_kinds(named_table(machine=["A"] * 200)) == {"constant": ("machine",)}


def test_one_example_and_equal_ones():
    assert list(kinds(clean(1))) == ["one example"]
    assert list(kinds(np.ones((50, 4)))) == ["all equal"]


def test_rows_that_were_copied():
    assert list(kinds(np.concatenate([clean(50)] * 4))) == ["copies"]
    mostly = clean()
    mostly[20:150] = 0
    assert list(kinds(mostly)) == ["copies"]


def test_rows_of_few_values_are_equal_without_having_been_copied():
    assert found(RNG.integers(0, 3, size=(500, 4)).astype(float)) == []


def test_sensors_of_windows():
    constant, repeated, stuck, clock = (signals() for _ in range(4))
    constant[..., 1] = 3
    repeated[..., 2] = 2 * repeated[..., 0] - 1
    stuck[:4, :, 1] = stuck[:4, :1, 1]
    clock[..., 1] = np.arange(40)[:, None] * 25 + np.arange(50)  # windows overlap
    assert kinds(constant, NAMES[:3]) == {"constant": ("flow",)}
    assert kinds(repeated, NAMES[:3]) == {"repeated": ("pressure",)}
    assert kinds(stuck, NAMES[:3]) == {"frozen": ("flow",)}
    assert kinds(clock, NAMES[:3]) == {"id": ("flow",)}
    for finding in found(constant, NAMES[:3]) + found(repeated, NAMES[:3]):
        assert "--exclude" in by_flags(finding.way_out)


def test_of_few_rows_nothing_is_said_of_columns():
    assert found(with_column(7, rows=10)) == []


def test_a_sample_is_judged_by_the_ranges_of_all():
    values = clean()
    wide = Schema(tuple(dataclasses.replace(c, largest=1e6) for c in Schema.of_values(values, NAMES).columns[:1]))
    schema = Schema((*wide.columns, *Schema.of_values(values, NAMES).columns[1:]))
    [finding] = data_findings(values, schema, by_range=True, examples=10**6)
    assert (finding.kind, finding.columns) == ("extreme", ("speed",))


def test_many_columns_are_named_by_the_first():
    values = np.concatenate([clean(), np.ones((200, 15))], axis=1)
    [finding] = found(values, (*NAMES, *(f"unused {place}" for place in range(15))))
    assert len(finding.columns) == 15
    assert '"unused 0", "unused 1", "unused 2" and 12 more never change.' in finding.what
    assert "--id 'unused 0' --id 'unused 1' --id 'unused 2' ..." in by_flags(finding.way_out)
    assert "`ids=['unused 0', 'unused 1', 'unused 2']` ..." in finding.way_out
    assert named(["a"]) == '"a"'


@pytest.mark.parametrize(("called", "told"), [(5, False), (13, False), (14, True)])
def test_anomalies_among_its_own_examples_are_a_finding_where_they_are_far_too_many(called, told):
    assert (own_anomalies(called, 100, 0.05) is not None) == told
    assert own_anomalies(called, 1000, 0.05) is None
    assert own_anomalies(called, 15, 0.05) is None


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 40), st.integers(1, 4)),
        elements=st.floats(-8e307, 8e307) | st.sampled_from([0.0, 1.0, np.nan]),
    )
)
def test_no_numbers_are_too_odd_to_look_at(values):
    columns = values.shape[1]
    for finding in found(values, NAMES[:columns]) + found(np.stack([values] * 3, axis=1), NAMES[:columns]):
        assert finding.what
        assert finding.follows
        assert finding.way_out


# ----- fitted detectors


def test_fit_warns_once_and_keeps_the_findings():
    values = with_column(7)
    values[:, 3] = np.arange(200)
    with pytest.warns(DataWarning, match="never changes") as told:
        detector = Detector().fit(values)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert [finding.kind for finding in detector.findings_] == ["id", "constant"]
    assert Detector().fit(clean()).findings_ == ()


@pytest.mark.parametrize("rows", [clean(1), np.ones((50, 4))])
def test_a_fit_of_next_to_nothing_works_and_warns(rows):
    with pytest.warns(DataWarning):
        detector = Detector().fit(rows)
    assert len(detector.assess(rows)) == len(rows)


def test_the_way_out_of_extreme_values_leads_out():
    values = clean()
    values[3, 1] = 1e4
    with pytest.warns(DataWarning, match=r"`scaling=Robust\(\)`, or `trimming=Trimming\(\)`"):
        Detector().fit(values)
    assert Detector(scaling=Robust()).fit(values).findings_ == ()
    assert Detector(trimming=Trimming()).fit(values).findings_ == ()


def test_windows_are_looked_at_by_sensor():
    values = signals()[..., :2].copy()
    values[..., 0] = 4
    data: Windows = windows(values)
    with pytest.warns(DataWarning):
        detector = Detector().fit(data)
    assert [(one.kind, one.columns) for one in detector.findings_] == [("constant", ("force [kN]",))]
