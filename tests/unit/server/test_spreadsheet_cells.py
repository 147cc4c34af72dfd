"""Cells that no spreadsheet computes, and that come back as they were."""

import csv
import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio_server.review.spreadsheet_cells import original_text, safe_cell

texts = st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("=+-@'＝＋－＠ \t\r\n\u3000\u200b\x00"))


@given(texts)
def test_a_text_comes_back_from_a_file_as_it_was(text):
    file = io.StringIO(newline="")
    csv.writer(file).writerow([safe_cell(text), "end"])
    (cell, _), *rest = csv.reader(io.StringIO(file.getvalue(), newline=""), strict=True)
    assert (original_text(cell), rest) == (text, [])


@given(texts)
def test_no_cell_begins_with_what_a_spreadsheet_computes(text):
    shown = "".join(one for one in safe_cell(text) if not unicodedata.category(one).startswith(("Z", "C")))
    assert not unicodedata.normalize("NFKC", shown[:1]).startswith(("=", "+", "-", "@"))


@pytest.mark.parametrize("blank", ["", " ", "\t", "\r\n", "\u00a0", "\u3000", "\ufeff", "\u200b", "\x00", " \t \x1f"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "＝", "＋", "－", "＠", "﹣"])
def test_a_formula_is_text_whatever_stands_before_it(blank, sign):
    assert safe_cell(f"{blank}{sign}1+1") == f"'{blank}{sign}1+1"


@pytest.mark.parametrize("text", ["", "part 7", "a=1", "7-1", "'tis good", "…"])
def test_what_was_written_by_hand_is_taken_as_it_stands(text):
    assert original_text(text) == text
