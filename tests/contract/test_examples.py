"""What every kind of examples keeps: nobody who uses them asks which kind they are."""

import numpy as np
import pandas as pd
import pytest

from indubio.data import Examples, Images, Rows, examples_of
from indubio.errors import DataError, ShapeError
from tests.small_examples import SIGNALS, table, windows

NUMBERS = np.random.default_rng(0).normal(size=(9, 4))


def images(values: np.ndarray) -> Images:
    origin = table(np.zeros((len(values), 4)), ids={"file": [f"{i}.png" for i in range(len(values))]}).passed
    return Images(values=values, channels=("grey",), origin=origin)


KINDS = {
    "array": lambda: examples_of(NUMBERS),
    "frame": lambda: examples_of(pd.DataFrame(NUMBERS, columns=list("abcd"))),
    "table": lambda: table(NUMBERS, ids={"id": [f"{i}" for i in range(9)]}),
    "windows": lambda: windows(SIGNALS[:9]),
    "images": lambda: images(NUMBERS.reshape(9, 2, 2, 1)),
}


@pytest.fixture(params=KINDS)
def examples(request) -> Examples:
    return KINDS[request.param]()


def values(examples: Examples) -> np.ndarray:
    return examples.rows(examples.training_schema()).values


def test_some_are_selected_by_mask_or_by_number_in_any_order(examples):
    whole, mask = values(examples), np.arange(9) % 3 == 0
    np.testing.assert_array_equal(values(examples.select(mask)), whole[mask])
    np.testing.assert_array_equal(values(examples.select([7, 2, -1])), whole[[7, 2, -1]])
    assert len(examples.select([])) == 0
    with pytest.raises(ShapeError, match="one value for each of the 9"):
        examples.select(mask[:3])
    with pytest.raises(IndexError):
        examples.select([9])


def test_what_is_beside_them_goes_with_them(examples):
    if examples.beside is not None:
        assert examples.select([7, 2]).beside.to_pylist() == [examples.beside.to_pylist()[place] for place in (7, 2)]


def test_parts_are_joined_end_to_end(examples):
    parts = [examples.select(np.arange(4)), examples.select(np.arange(4, 7)), examples.select([7, 8])]
    joined = Examples.joined(parts)
    assert type(joined) is type(examples)
    np.testing.assert_array_equal(values(joined), values(examples))
    np.testing.assert_array_equal(values(Examples.joined([examples])), values(examples))


@pytest.mark.parametrize("other", KINDS)
def test_kinds_are_not_joined_with_others(examples, other):
    other = KINDS[other]()
    if type(other) is not type(examples):
        with pytest.raises(DataError, match="of one kind"):
            Examples.joined([examples, other])


def test_they_become_rows_and_rows_stay_themselves(examples):
    schema = examples.training_schema()
    rows = examples.rows(schema)
    assert isinstance(rows, Rows)
    assert rows.rows(schema) is rows
    assert len(rows) == len(examples) == 9


def test_what_a_kind_does_not_know_is_none(examples):
    for name in ("labels", "unlabelled", "groups", "days", "machines", "rate"):
        assert getattr(examples, name) is None, name
    assert examples.inliers() is examples
    assert examples.group_names() is None
    assert not examples.missing


def test_groups_are_text_and_one_for_each(examples):
    assert examples.group_names(range(9)).tolist() == [str(number) for number in range(9)]
    with pytest.raises(ShapeError, match="one name per example"):
        examples.group_names(["a", "b"])


def test_bare_ones_of_a_file_and_of_a_store_can_be_joined(examples):
    assert len(Examples.joined([examples.bare(), examples.without_labels().bare()])) == 18


def test_columns_of_frames_are_matched_by_name():
    frame = pd.DataFrame(NUMBERS, columns=list("abcd"))
    joined = Examples.joined([examples_of(frame), examples_of(frame[list("dcba")])])
    np.testing.assert_array_equal(joined.values, np.concatenate([NUMBERS, NUMBERS]))
    with pytest.raises(DataError, match='columns "a", "b", "c", "d" and "a", "b", "c", "e"'):
        Examples.joined([examples_of(frame), examples_of(frame.rename(columns={"d": "e"}))])
    with pytest.raises(ShapeError, match="cannot be joined"):
        Examples.joined([examples_of(NUMBERS), examples_of(NUMBERS[:, :2])])
