"""Tables: roles of columns, the schema, categories, and matching by name."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from indubio import Detector, Deterministic, Training, Verdict
from indubio.data import Roles, Schema, Table, read_table, stream_tables
from indubio.errors import ConfigError, DataError, ShapeError

RNG = np.random.default_rng(0)
PARTS = pd.DataFrame(
    {
        "serial": [f"P{i:03}" for i in range(50)],
        "when": pd.date_range("2024-01-01", periods=50, freq="h"),
        "pressure": RNG.normal(10, 1, 50),
        "machine": RNG.choice(["A", "B", "C"], 50),
        "flow": RNG.normal(5, 2, 50),
        "defect": [0] * 45 + [1] * 5,
    }
)
ROLES = {"ids": ("serial",), "time": "when", "label": "defect", "categorical": ("machine",)}


def quick(**settings) -> Detector:
    return Detector(posterior=Deterministic(), training=Training(epochs=5), **settings)


# ----- roles


@pytest.mark.parametrize("frame", [PARTS, pl.from_pandas(PARTS), pa.Table.from_pandas(PARTS, preserve_index=False)])
def test_a_frame_is_parted_by_the_roles_of_its_columns(frame):
    table = read_table(frame, **ROLES)
    assert table.features.column_names == ["pressure", "machine", "flow"]
    assert table.passed.column_names == ["serial", "when"]
    assert table.labels.sum() == 5
    assert len(table.inliers()) == 45
    assert table.inliers().passed.num_rows == 45


def test_chosen_columns_keep_their_order():
    table = read_table(PARTS, columns=["flow", "pressure"])
    assert table.features.column_names == ["flow", "pressure"]
    assert table.passed is None
    assert table.labels is None


def test_a_column_that_is_not_there_is_refused_with_the_ones_that_are():
    with pytest.raises(DataError, match=r'no column "colour"; there are "serial", "when"'):
        read_table(PARTS, columns=["colour"])


def test_a_table_without_features_is_refused():
    with pytest.raises(ConfigError, match="no feature columns are left"):
        read_table(pa.table({"a": [1, 2]}), ids=["a"])


@pytest.mark.parametrize(
    "labels", [[0, 1, 0], [False, True, False], [0.0, 1.0, 0.0], ["0", "1", "0"], ["False", "TRUE", "false"]]
)
def test_labels_may_be_numbers_or_booleans(labels):
    table = read_table(pa.table({"x": [1, 2, 3], "y": labels}), label="y")
    np.testing.assert_array_equal(table.labels, [False, True, False])


def test_other_labels_need_to_be_told_what_means_anomaly():
    frame = pa.table({"x": [1, 2, 3], "y": ["OK", "NOK", "scrap"]})
    with pytest.raises(DataError, match=r'must hold 0 and 1.*"OK".*anomaly_values'):
        read_table(frame, label="y")
    table = read_table(frame, label="y", anomaly_values=["NOK", "scrap"])
    np.testing.assert_array_equal(table.labels, [False, True, True])


def test_a_gap_in_the_labels_is_refused_with_its_row():
    with pytest.raises(DataError, match=r'row 2: label column "y" is empty \(1 rows are\)'):
        read_table(pa.table({"x": [1, 2, 3], "y": [0, 1, None]}), label="y")


def test_what_is_no_table_is_refused():
    with pytest.raises(DataError, match="cannot read list"):
        read_table([1, 2])


# ----- schema and encoding


def test_the_schema_keeps_names_kinds_ranges_and_categories():
    table = read_table(PARTS, **ROLES).inliers()
    pressure, machine, flow = Schema.of(table.features, table.categorical).columns
    assert (pressure.name, pressure.kind) == ("pressure", "number")
    assert (pressure.smallest, pressure.largest) == (PARTS.pressure[:45].min(), PARTS.pressure[:45].max())
    assert machine.categories == ("A", "B", "C")
    assert flow.encoded == ("flow",)
    assert machine.encoded == ("machine=A", "machine=B", "machine=C")


def test_categories_become_one_column_each():
    table = pa.table({"x": [1.5, 2.5, 3.5], "colour": ["red", "blue", "red"]})
    encoded = Schema.of(table, {"colour": None}).encode(table)
    expected = pd.get_dummies(pd.DataFrame({"x": [1.5, 2.5, 3.5], "colour": ["red", "blue", "red"]}), dtype=float)
    np.testing.assert_array_equal(encoded.values, expected[["x", "colour_blue", "colour_red"]])


def test_the_list_of_categories_can_be_given():
    table = pa.table({"colour": ["red", "blue"]})
    schema = Schema.of(table, {"colour": ("red", "green", "blue")})
    np.testing.assert_array_equal(schema.encode(table).values, [[1, 0, 0], [0, 0, 1]])
    with pytest.raises(DataError, match=r'holds "blue", not among the categories given: "red"'):
        Schema.of(table, {"colour": ("red",)})


def test_numbers_can_be_categories_and_pandas_categories_are_read():
    for values in ([1, 2, 1], pd.Categorical(["1", "2", "1"])):
        table = pa.Table.from_pandas(pd.DataFrame({"station": values}))
        np.testing.assert_array_equal(
            Schema.of(table, {"station": None}).encode(table).values, [[1, 0], [0, 1], [1, 0]]
        )


def test_a_new_category_is_all_zeros_and_named():
    schema = Schema.of(pa.table({"a": ["x", "y"], "b": ["u", "v"]}), {"a": None, "b": None})
    encoded = schema.encode(pa.table({"a": ["z", "x"], "b": ["w", "v"]}))
    np.testing.assert_array_equal(encoded.values, [[0, 0, 0, 0], [1, 0, 0, 1]])
    assert list(encoded.unseen) == ["a=z, b=w", ""]


def test_a_missing_category_is_a_missing_value():
    schema = Schema.of(pa.table({"a": ["x", "y"]}), {"a": None})
    np.testing.assert_array_equal(schema.encode(pa.table({"a": [None, "x"]})).values, [[np.nan, np.nan], [1, 0]])


def test_text_that_no_role_explains_is_refused_with_the_ways_out():
    with pytest.raises(DataError, match=r'"serial", "when".*categorical.*ids'):
        Schema.of(pa.Table.from_pandas(PARTS[["serial", "when", "flow"]], preserve_index=False), {})


def test_booleans_and_integers_are_numbers():
    table = pa.table({"on": [True, False], "count": [3, 4]})
    np.testing.assert_array_equal(Schema.of(table, {}).encode(table).values, [[1, 3], [0, 4]])


# ----- files


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_many_files_and_a_folder_give_the_same_as_the_frame(tmp_path, ending):
    def written(frame: pd.DataFrame, name: str):
        path = tmp_path / f"{name}.{ending}"
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path, index=False)
        return path

    halves = [written(PARTS[:20], "run2"), written(PARTS[20:], "run10")]
    expected = read_table(PARTS, **ROLES)
    for source in (halves, tmp_path, f"{tmp_path}/*.{ending}"):
        table = read_table(source, **ROLES)
        assert table.features.to_pydict() == expected.features.to_pydict()
        assert table.passed["serial"].to_pylist() == list(PARTS.serial)
        np.testing.assert_array_equal(table.labels, expected.labels)


def test_ids_in_csv_files_keep_their_zeros_and_whole_numbers_may_get_digits_later(tmp_path):
    path = tmp_path / "parts.csv"
    rows = "".join(f"{i:05},{i}\n" for i in range(200_000))  # more than one block of the reader
    path.write_text(f"id,x\n{rows}200000,0.5\n")
    table = read_table(path, ids=["id"])
    assert table.passed["id"][0].as_py() == "00000"
    assert table.features["x"][-1].as_py() == 0.5


def test_a_file_is_streamed_in_parts_that_add_up(tmp_path):
    path = tmp_path / "parts.parquet"
    PARTS.to_parquet(path, row_group_size=10)
    parts = list(stream_tables(path, Roles(**ROLES), rows_at_once=20))
    assert len(parts) > 1
    assert Table.joined(parts).features.to_pydict() == read_table(path, **ROLES).features.to_pydict()


def test_text_among_numbers_in_a_csv_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "parts.csv"
    path.write_text("a,b\n" + "1.5,2\n" * 300_000 + "oops,2\n")
    with pytest.raises(DataError, match=r"parts\.csv: line 300002, column \"a\": 'oops' is not a number"):
        read_table(path)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match=r"empty\.csv: the file is empty"):
        read_table(tmp_path / "empty.csv")
    (tmp_path / "header.csv").write_text("a,b\n")
    with pytest.raises(DataError, match=r"header\.csv: there are no rows"):
        read_table(tmp_path / "header.csv")


# ----- in a detector


def test_columns_in_another_order_are_matched_by_name():
    table = read_table(PARTS, **ROLES).inliers()
    detector = quick().fit(table)
    shuffled = read_table(PARTS[["flow", "defect", "machine", "when", "pressure", "serial"]], **ROLES)
    np.testing.assert_array_equal(detector.assess(shuffled).total, detector.assess(read_table(PARTS, **ROLES)).total)


def test_missing_extra_and_changed_columns_are_listed():
    detector = quick().fit(read_table(PARTS, **ROLES).inliers())
    changed = PARTS.drop(columns="pressure").assign(speed=1.0, flow=PARTS.flow.astype(str))
    with pytest.raises(
        ShapeError, match=r'missing: "pressure"; not in the training data: "speed" .*; "flow" was a number'
    ):
        detector.assess(read_table(changed, **ROLES))


def test_ids_and_times_come_out_beside_the_verdicts():
    detector = quick().fit(read_table(PARTS, **ROLES).inliers())
    frame = detector.assess(read_table(PARTS, **ROLES)).to_pandas()
    assert list(frame.columns[:3]) == ["serial", "when", "verdict"]
    assert list(frame.serial) == list(PARTS.serial)


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of few rows
def test_a_passed_column_with_a_name_of_ours_is_refused():
    table = read_table(pa.table({"x": [1.0, 2.0], "total": [1, 2]}), ids=["total"])
    with pytest.raises(DataError, match='"total" of the input have names of the output'):
        quick().fit(table).assess(table).to_arrow()


def test_training_on_labelled_anomalies_is_refused_with_the_way_out():
    with pytest.raises(DataError, match=r"5 rows labelled as anomalies.*table\.inliers\(\)"):
        quick().fit(read_table(PARTS, **ROLES))


def test_a_new_category_is_referred_as_bad_input():
    detector = quick().fit(read_table(PARTS, **ROLES).inliers())
    new = PARTS.copy()
    new.loc[7, "machine"] = "Z"
    found = detector.assess(read_table(new, **ROLES))
    assert found.verdict[7] == Verdict.REFER
    assert found.reason[7] == "bad_input"
    assert found.notes[7] == "unseen: machine=Z"
    assert np.count_nonzero(found.reason == "bad_input") == 1


def test_a_new_category_is_an_error_when_asked():
    detector = quick(unseen="error").fit(read_table(PARTS, **ROLES).inliers())
    new = PARTS.assign(machine="Z")
    with pytest.raises(DataError, match=r"50 of 50 rows hold a category.*first: row 0, machine=Z"):
        detector.assess(read_table(new, **ROLES))


def test_a_missing_value_in_a_table_is_named_by_row_and_column():
    detector = quick().fit(read_table(PARTS, **ROLES).inliers())
    new = PARTS.copy()
    new.loc[3, "flow"] = np.nan
    with pytest.raises(DataError, match='row 3, column "flow"'):
        detector.assess(read_table(new, **ROLES))


def test_an_empty_table_is_refused():
    with pytest.raises(DataError, match="no rows"):
        quick().fit(read_table(PARTS[:0], **ROLES))
