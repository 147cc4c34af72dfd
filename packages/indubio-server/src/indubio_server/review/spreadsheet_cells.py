"""Texts as cells of a CSV that people open in a spreadsheet, which would compute some of them.

A spreadsheet takes a cell for a formula by its first character: = + - @, also as a full-width character, and some look
for it behind white space or control characters. An apostrophe in front makes it text. A text that begins with an
apostrophe gets another, so that reading a file back gives what was written.
"""

import unicodedata

SIGNS = "=+-@"
MARK = "'"


def safe_cell(text: str) -> str:
    """The text, with an apostrophe before what a spreadsheet would compute.

    Example:
        >>> safe_cell("=1+1"), safe_cell(" ＝1+1"), safe_cell("a-1")
        ("'=1+1", "' ＝1+1", 'a-1')
    """
    return MARK + text if _is_marked(text) else text


def original_text(cell: str) -> str:
    """The text that `safe_cell` made a cell of; a cell that was written by hand stays as it is.

    Example:
        >>> original_text("'=1+1"), original_text("'tis good")
        ('=1+1', "'tis good")
    """
    return cell[1:] if cell.startswith(MARK) and _is_marked(cell[1:]) else cell


def _is_marked(text: str) -> bool:
    if text.startswith((MARK, "\t", "\r", "\n")):
        return True
    first = next((letter for letter in text if not _is_blank(letter)), "")
    return unicodedata.normalize("NFKC", first)[:1] in tuple(SIGNS)


def _is_blank(letter: str) -> bool:
    """White space, control and format characters: nothing that is seen."""
    return letter.isspace() or unicodedata.category(letter)[0] in "ZC"
