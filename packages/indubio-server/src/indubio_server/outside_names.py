"""Names that come from outside: of machines, examples, sensors and groups. One rule, before anything else sees them.

A name is one to 200 characters in Unicode's composed form (NFC), without what cannot be seen, turns the direction of
writing, or may not be exchanged: control characters (C0, C1), separators of lines, signs of direction, zero width, and
noncharacters. A broker drops the connection over some of them, databases and logs stumble over others, and two names
that look the same would be two machines.
"""

import re
import unicodedata

LONGEST_NAME = 200
_UNSEEN = (
    r"\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufdd0-\ufdef\ufeff"
    r"\ufff9-\ufffb\ufffe\uffff"
)
PRINTABLE = rf"^[^{_UNSEEN}]*$"  # what the OpenAPI description says; `fault` knows the noncharacters beyond it too
_BEYOND = "".join(chr(plane * 0x10000 + last) for plane in range(1, 17) for last in (0xFFFE, 0xFFFF))
_unseen = re.compile(f"[{_UNSEEN}{_BEYOND}]").search


def fault(name: str) -> str | None:
    """What is wrong with a name, as the end of a sentence; None where it may be used."""
    if name.isascii() and name.isprintable():
        return None if len(name) <= LONGEST_NAME else f"must have at most {LONGEST_NAME} characters"
    if (bad := unseen(name)) is not None:
        return bad
    if not unicodedata.is_normalized("NFC", name):
        return "must be in the composed form of Unicode, NFC"
    return None if len(name) <= LONGEST_NAME else f"must have at most {LONGEST_NAME} characters"


def unseen(text: str) -> str | None:
    """What is wrong with a text that only must be seen as it is; None where nothing is."""
    bad = _unseen(text)
    return None if bad is None else f"must have no control characters or other unseen ones (U+{ord(bad[0]):04X})"
