"""The manifest: what a model is, and the size and sha256 of its other files.

It covers itself too: `checksum` is the sha256 of the manifest with zeros in place of these 64 digits, so that no bit of
it can change unnoticed. `checksum` and `format` come first in every version: they are read before anything is parsed.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from indubio import __version__
from indubio.errors import ModelFileError

FORMAT = 1
MANIFEST = "manifest.json"
CARD = "README.md"
DATA = ("weights", "arrays")
LARGEST_MANIFEST = 4 * 2**20  # a table of 25,000 columns has one of this size
LARGEST_SETTINGS = 2**14  # characters; the longest there are have a tenth
LARGEST_FILE = 16 * 2**30
DEEPEST = 32  # lists and tables within each other; ours has less than ten
MOST_TABLES = 100_000  # and lists: two for a column

_UNKNOWN = "0" * 64
_HEAD = re.compile(rb'\{\s*"checksum": "([0-9a-f]{64})",\s*"format": ([1-9][0-9]{0,8}),')
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STRAY = re.compile(r"\..*\.tmp|(weights|arrays)-[0-9a-f]{16}\.safetensors", re.DOTALL)
_PASSED_OVER = {MANIFEST, CARD, ".lock", ".DS_Store", "Thumbs.db", "desktop.ini"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file that the manifest vouches for.

    Args:
        name: the role and the first digits of the sha256.
        size: in bytes.
        sha256: of its content.
    """

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, role: str, content: bytes) -> "DataFile":
        """The entry of this content."""
        sha256 = hashlib.sha256(content).hexdigest()
        return cls(name=data_name(role, sha256), size=len(content), sha256=sha256)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelManifest:
    """What a model's folder says it holds.

    Args:
        checksum: of the manifest itself, in hexadecimal digits.
        format: version of the format.
        indubio: version that wrote it.
        settings: of the detector, as plain data; every setting is there, so that later defaults cannot change it.
        draws: how many, and what each is made of.
        fitted: what was learned, as plain data; arrays are only named.
        files: the data files by role.
    """

    checksum: str = _UNKNOWN
    format: int = FORMAT
    indubio: str = __version__
    settings: dict[str, Any]
    draws: dict[str, Any]
    fitted: dict[str, Any]
    files: dict[str, DataFile]

    def rendered(self) -> bytes:
        """The file's content, with its checksum put in."""
        blank = dataclasses.asdict(self) | {"checksum": _UNKNOWN}
        content = json.dumps(blank, indent=1, allow_nan=False).encode()
        if len(content) > LARGEST_MANIFEST:
            raise ModelFileError(
                f"the manifest would have {len(content)} bytes, more than the {LARGEST_MANIFEST} it may have: there "
                "are too many columns or categories for a model file."
            )
        return content.replace(_UNKNOWN.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def is_stray(name: str) -> bool:
    """Whether a save that was killed may have left this file; no check of the folder minds it."""
    return _STRAY.fullmatch(name) is not None


def is_expected(name: str) -> bool:
    """Whether a file of this name may be in a model's folder."""
    return name in _PASSED_OVER or is_stray(name)


def data_name(role: str, sha256: str) -> str:
    """Name of the data file with this content."""
    return f"{role}-{sha256[:16]}.safetensors"


def parsed(content: bytes, where: str) -> ModelManifest:
    """The manifest of a file's content; whatever is not quite one is refused.

    Args:
        content: at most `LARGEST_MANIFEST` bytes.
        where: the file's path, for messages.
    """
    head = _HEAD.match(content)
    if head is None:
        raise ModelFileError(f"{where} is damaged or no manifest of indubio. Get a fresh copy of the model.")
    checksum, version = head[1], int(head[2])
    if version > FORMAT:
        raise ModelFileError(
            f"{where} is of format {version}. This is indubio {__version__}, which reads formats up to {FORMAT}. "
            "Update indubio to load it."
        )
    if hashlib.sha256(content.replace(checksum, _UNKNOWN.encode(), 1)).hexdigest().encode() != checksum:
        raise ModelFileError(
            f"{where} does not match its checksum: the file is damaged or was changed. Get a fresh copy of the model."
        )
    plain = _json(content, where)
    fields = {field.name for field in dataclasses.fields(ModelManifest)}
    if plain.keys() != fields or not isinstance(plain["files"], dict) or plain["files"].keys() != {*DATA}:
        raise ModelFileError(f"{where} must have the entries {sorted(fields)}, and files for {sorted(DATA)}.")
    for section in ("settings", "draws", "fitted"):
        if not isinstance(plain[section], dict):
            raise ModelFileError(f"{where}: `{section}` must be a table.")
    if len(json.dumps(plain["settings"])) > LARGEST_SETTINGS:
        raise ModelFileError(f"{where}: `settings` have more than {LARGEST_SETTINGS} characters.")
    files = {role: _data_file(role, entry, where) for role, entry in plain["files"].items()}
    return ModelManifest(**(plain | {"files": files}))


def _json(content: bytes, where: str) -> dict[str, Any]:
    brackets = np.frombuffer(_TEXT.sub(b"", content), np.uint8)
    opened = np.isin(brackets, np.frombuffer(b"[{", np.uint8)).astype(np.int32)
    closed = np.isin(brackets, np.frombuffer(b"]}", np.uint8)).astype(np.int32)
    if (opened - closed).cumsum().max(initial=0) > DEEPEST or opened.sum() > MOST_TABLES:
        raise ModelFileError(f"{where} is nested too deeply, or has too many parts, for a manifest of indubio.")
    try:
        plain = json.loads(content, object_pairs_hook=_without_doubles, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError too
        raise ModelFileError(f"{where} is not JSON ({error}). Get a fresh copy of the model.") from None
    return cast(dict[str, Any], plain)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name is there twice")
    return table


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _data_file(role: str, entry: object, where: str) -> DataFile:
    fields = {field.name for field in dataclasses.fields(DataFile)}
    if not isinstance(entry, Mapping) or entry.keys() != fields:
        raise ModelFileError(f"{where}: the entry of {role} must have {sorted(fields)}.")
    sha256, size, name = entry["sha256"], entry["size"], entry["name"]
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256) or name != data_name(role, sha256):
        raise ModelFileError(f"{where} names {name!r} for the {role}, which is no name of a file of this model.")
    if type(size) is not int or not 0 < size <= LARGEST_FILE:
        raise ModelFileError(f"{where}: {name} cannot have {size!r} bytes; it may have {LARGEST_FILE}.")
    return DataFile(name=name, size=size, sha256=sha256)
