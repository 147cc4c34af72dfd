"""Damaged and hostile model files: each is refused by name, without long work on it, and nothing in it is executed."""

import contextlib
import hashlib
import json
import os
import pickle
import random
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as unpacked
from safetensors.numpy import save as packed

from indubio import MCDropout, load, save
from indubio.errors import ModelFileError
from indubio.storage import FORMAT
from tests.stored_models import ROWS, assert_same, data_file, fitted, put_data, reseal, trained

ROLES = ("weights", "arrays")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    save(fitted(), folder)
    return folder


@pytest.fixture
def model(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


@contextlib.contextmanager
def refused(match: str | None = None) -> Iterator[None]:
    """Refused, with this message, and without the minutes of computing that reading in quadratic time would take."""
    started = time.process_time()
    with pytest.raises(ModelFileError, match=match) as caught:
        yield
    assert time.process_time() - started < 60
    assert "model" in str(caught.value)  # the folder's name


# ----- accidents


def test_a_thousand_flipped_bits(saved, model):
    random_bits = random.Random(0)
    files = sorted(path.name for path in model.iterdir())
    whole = {name: (saved / name).read_bytes() for name in files}
    sizes = [len(whole[name]) for name in files]
    harmless = 0
    for name in random_bits.choices(files, sizes, k=1000):
        flipped = bytearray(whole[name])
        flipped[random_bits.randrange(len(flipped))] ^= 1 << random_bits.randrange(8)
        (model / name).write_bytes(flipped)
        if name == "README.md":  # for people; nothing reads it
            harmless += 1
            if harmless == 1:
                assert_same(load(saved), load(model), ROWS)
        else:
            with refused():
                load(model)
        (model / name).write_bytes(whole[name])
    assert 0 < harmless < 400


def test_no_bit_of_the_manifest_is_harmless(saved, model):
    whole = (saved / "manifest.json").read_bytes()
    for place in range(0, len(whole), 23):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            (model / "manifest.json").write_bytes(flipped)
            with pytest.raises(ModelFileError):
                load(model)


@pytest.mark.parametrize("role", [*ROLES, "manifest"])
def test_a_file_cut_short_or_grown(role, model):
    path = model / "manifest.json" if role == "manifest" else data_file(model, role)
    whole = path.read_bytes()
    lengths = {0, 1, 7, 8, 9, len(whole) - 1, *np.linspace(0, len(whole) - 1, 60).astype(int).tolist()}
    for length in sorted(lengths):
        path.write_bytes(whole[:length])
        with refused(path.name.split("-")[0]):
            load(model)
    for more in (b"\0", b" ", b"\n", whole):
        path.write_bytes(whole + more)
        with refused(path.name.split("-")[0]):
            load(model)


@pytest.mark.parametrize("role", ROLES)
def test_a_missing_file(role, model):
    path = data_file(model, role)
    path.unlink()
    with refused(f"{path.name} is missing. Get a fresh copy"):
        load(model)


def test_a_missing_manifest(model):
    (model / "manifest.json").unlink()
    with refused("manifest.json is missing"):
        load(model)


@pytest.mark.parametrize("name", ["setup.py", "weights.pkl", "weights.safetensors", ".git", "weights-xyz.safetensors"])
def test_an_extra_file(name, model):
    (model / name).write_text("import os")
    with refused(rf'files that belong to no model: "{name}"'):
        load(model)


def test_an_extra_folder(model):
    (model / "more").mkdir()
    with refused("more is not a plain file"):
        load(model)


def test_a_folder_with_very_many_files(model):
    for number in range(1100):
        (model / f"weights-{number:016x}.safetensors").touch()
    with refused("more than 1000 files"):
        load(model)


def test_files_swapped_within_a_model(model):
    weights, arrays = data_file(model, "weights"), data_file(model, "arrays")
    weights.rename(model / "aside")
    arrays.rename(weights)
    (model / "aside").rename(arrays)
    with refused("does not match its checksum|more than the"):
        load(model)


@pytest.mark.parametrize("role", ROLES)
def test_files_swapped_between_models(role, model, tmp_path):
    save(fitted(seed=1), tmp_path / "other")
    ours = data_file(model, role)
    shutil.copy(data_file(tmp_path / "other", role), ours)
    with refused(f"{ours.name} does not match its checksum: the file is damaged or was changed"):
        load(model)


def test_the_manifest_of_another_model(model, tmp_path):
    save(fitted(seed=1), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "manifest.json", model)
    with refused(r"weights-.* is missing"):
        load(model)


# ----- attacks on names and places


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "..", "", "weights/../../secret", "C:\\secret", "README.md", None, 3, ["a"]]
)
@pytest.mark.parametrize("role", ROLES)
def test_a_name_that_leads_elsewhere(name, role, model):
    (model.parent / "secret").write_text("secret")
    reseal(model, lambda plain: plain["files"][role].update(name=name))
    with refused(f"for the {role}, which is no name of a file of this model"):
        load(model)


@pytest.mark.parametrize("file", ["manifest.json", *ROLES, "README.md"])
def test_a_link_in_place_of_a_file(file, model):
    path = data_file(model, file) if file in ROLES else model / file
    path.rename(model.parent / "elsewhere")
    path.symlink_to(model.parent / "elsewhere")
    with refused(f"{path.name} is not a plain file"):
        load(model)


def test_a_pipe_in_place_of_a_file(model):
    path = data_file(model, "weights")
    path.unlink()
    os.mkfifo(path)
    with refused("is not a plain file"):
        load(model)


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "model").write_text("{}")
    with refused("there is no model in .*model: it is no folder"):
        load(tmp_path / "model")


# ----- attacks on the contents, with every checksum put right


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_pickle_is_not_opened(role, sealed, model, tmp_path):
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    if sealed:
        put_data(model, role, bomb)
    else:
        data_file(model, role).write_bytes(bomb)
    with refused(r"is no safetensors file|does not match its checksum"):
        load(model)
    assert not (tmp_path / "exploded").exists()


def test_a_pickle_in_place_of_the_manifest(model, tmp_path):
    (model / "manifest.json").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    with refused("no manifest of indubio"):
        load(model)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers(role, value, model):
    arrays = unpacked(data_file(model, role).read_bytes())
    name = next(name for name, values in arrays.items() if values.dtype.kind == "f")
    arrays[name].flat[0] = value
    put_data(model, role, packed(arrays))
    with refused(f"`{name}` holds NaN or infinity"):
        load(model)


def header(entries: dict, data: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


HOSTILE_HEADERS = {
    "a length beyond the file": struct.pack("<Q", 2**63) + b"{}",
    "a length of all there is": struct.pack("<Q", 2**20 + 1) + b" " * (2**20 + 1),
    "300,000 tensors": header(
        {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(300_000)}
    ),
    "an absurd shape": header({"w": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}}, b"\0" * 4),
    "a negative shape": header({"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"\0" * 4),
    "offsets beyond the file": header({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}, b"\0" * 4),
    "overlapping tensors": header(
        {n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in ("a", "b")}, b"\0" * 4
    ),
    "a gap between tensors": header({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"\0" * 8),
    "a type that numpy does not have": header(
        {"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}, b"\0" * 4
    ),
    "a type that nobody has": header({"w": {"dtype": "PYOBJ", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4),
    "complex numbers": header({"w": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}, b"\0" * 8),
    "no tensors": header({}),
    "no object": struct.pack("<Q", 2) + b"[]",
    "deep nesting": struct.pack("<Q", 200_000) + b"[" * 200_000,
    "nothing": b"",
    "seven bytes": b"\0" * 7,
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("attack", HOSTILE_HEADERS)
def test_a_hostile_safetensors_file(attack, role, model):
    put_data(model, role, HOSTILE_HEADERS[attack])
    with refused():
        load(model)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("weights.encoder.0.weight"),
        lambda arrays: arrays.update({"weights.more": np.zeros(3, np.float32)}),
        lambda arrays: arrays.update({"weights.encoder.0.weight": np.zeros((2, 3, 5), np.float32)}),
        lambda arrays: arrays.update({"weights.encoder.0.weight": np.zeros((3, 4), np.float32)}),
        lambda arrays: arrays.update({"weights.encoder.0.weight": np.zeros((2, 3, 4), np.float64)}),
        lambda arrays: arrays.update({"weights.encoder.0.weight": np.zeros((2, 3, 4), np.int32)}),
        lambda arrays: arrays.update({"masks.0": np.zeros((2, 1, 4), np.float32)}),
        lambda arrays: arrays.update({"noise": np.zeros((2, 1, 1), np.float32)}),
    ],
)
def test_weights_that_do_not_fit_the_settings(change, model):
    arrays = unpacked(data_file(model, "weights").read_bytes())
    change(arrays)
    put_data(model, "weights", packed(arrays))
    with refused("the weights do not fit the settings"):
        load(model)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("preparation_.scaling.span"),
        lambda arrays: arrays.update(more=np.zeros(3)),
        lambda arrays: arrays.update({"preparation_.scaling.span": np.zeros(4)}),
        lambda arrays: arrays.update({"preparation_.scaling.span": np.zeros((3, 1))}),
        lambda arrays: arrays.update({"preparation_.scaling.span": np.zeros(3, np.float32)}),
        lambda arrays: arrays.update({"reference_uncertainty_.total": arrays["reference_uncertainty_.total"][1:]}),
        lambda arrays: arrays.update({"familiarity_.centres": np.zeros((2, 9), np.float32)}),
    ],
)
def test_arrays_that_do_not_fit_the_manifest(change, model):
    arrays = unpacked(data_file(model, "arrays").read_bytes())
    change(arrays)
    put_data(model, "arrays", packed(arrays))
    with refused("manifest.json does not describe a model that indubio could have saved"):
        load(model)


def test_an_array_of_another_shape_is_refused_even_if_the_manifest_agrees(model):
    arrays = unpacked(data_file(model, "arrays").read_bytes())
    for name in ("smallest", "span"):
        arrays[f"preparation_.scaling.{name}"] = np.ones(4)
    put_data(model, "arrays", packed(arrays))

    def changed(plain):
        for name in ("smallest", "span"):
            plain["fitted"]["preparation_"]["scaling"][name].update(array=[4])

    reseal(model, changed)
    with refused(r"has the shape \(4,\)"):
        load(model)


# ----- attacks on the manifest, with its checksum put right


@pytest.mark.parametrize(
    "change",
    [
        {"posterior": {"kind": "os.system"}},
        {"posterior": {"kind": "anchored_ensemble", "members": 10**30}},
        {"posterior": {"kind": "vae", "draws": 2}},
        {"posterior": {"kind": "mc_dropout", "draws": 2}},
        {"posterior": {"kind": "deterministic"}},
        {"architecture": {"kind": "dense", "widths": [10**9, 10**9]}},
        {"architecture": {"kind": "dense", "widths": [10**30]}},
        {"architecture": {"kind": "dense", "expansions": [1e308]}},
        {"architecture": {"kind": "dense", "latent_ratio": 1e308}},
        {"architecture": {"kind": "dense", "widths": [1] * 1_000_000}},
        {"architecture": {"kind": "conv1d"}},
        {"architecture": 3},
        {"likelihood": {"kind": "gaussian", "noise": "per_feature"}},
        {"anomaly_threshold": "0.5"},
        {"__class__": "os.system"},
        {"training": {"epochs": -1}},
    ],
)
def test_settings_that_a_trained_network_cannot_have(change, tmp_path):
    save(trained(), tmp_path / "model")
    reseal(tmp_path / "model", lambda plain: plain["settings"].update(change))
    with refused("manifest.json"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("settings", {"posterior": {"kind": "prototypes", "draws": 10**30}}),
        ("settings", {"posterior": {"kind": "random_features"}}),
        ("settings", {"architecture": {"kind": "attention", "units": 10**30}}),
        ("settings", {"architecture": {"kind": "dense"}}),
        ("settings", {"likelihood": {"kind": "gaussian", "noise": "unit"}}),
        ("settings", {"training": {"epochs": 3}}),
        ("draws", {"count": 10**30}),
        ("draws", {"count": 0}),
        ("draws", {"count": 2.0}),
        ("draws", {"count": True}),
        ("draws", {"shared": True}),
        ("draws", {"masks": True}),
        ("draws", {"noise": True}),
        ("draws", {"more": 1}),
        ("preparation", {"input_shape": [10**30]}),
        ("preparation", {"input_shape": [10**9]}),
        ("preparation", {"input_shape": [10**8, 3]}),
        ("preparation", {"input_shape": [-3]}),
        ("preparation", {"input_shape": []}),
        ("preparation", {"input_shape": [1, 1, 3]}),
        ("preparation", {"input_shape": 3}),
        ("preparation", {"named": 1}),
        ("preparation", {"in_units": True}),
        ("fitted", {"n_training_": 0}),
        ("fitted", {"n_training_": None}),
        ("fitted", {"largest_reference_nll_": "inf"}),
        ("fitted", {"largest_reference_nll_": 3}),
        ("fitted", {"referral_threshold_": "nan"}),
        ("fitted", {"referral_threshold_": "many"}),
        ("preparation", {"schema": {"class": "schema", "columns": []}}),
        ("preparation", {"schema": {"class": "os", "columns": []}}),
        ("preparation", {"schema": {"class": "schema", "columns": [{"class": "column"}] * 3}}),
        ("preparation", {"schema": None}),
        ("preparation", {"detector": "os; os"}),
        ("preparation", {"reading": 3}),
        ("fitted", {"conversion_": {"class": "conversion", "conversion": {"kind": "ecdf"}, "parameters": {}}}),
        ("fitted", {"assess": 3}),
        ("fitted", {"draws_": 3}),
    ],
)
def test_a_manifest_that_says_what_no_model_says(section, change, model):
    reseal(
        model,
        lambda plain: (plain["fitted"]["preparation_"] if section == "preparation" else plain[section]).update(change),
    )
    with refused("manifest.json"):
        load(model)


def test_masks_of_other_shapes(tmp_path):
    save(trained(posterior=MCDropout(draws=3, dropout=0.5)), tmp_path / "model")
    arrays = unpacked(data_file(tmp_path / "model", "weights").read_bytes())
    arrays["masks.0"] = arrays["masks.0"][:, :, :-1].copy()
    put_data(tmp_path / "model", "weights", packed(arrays))
    with refused(r"`masks.0` must be float32 \(3, 1, 4\)"):
        load(tmp_path / "model")


@pytest.mark.parametrize("section", ["settings", "draws", "fitted", "files", "indubio"])
def test_a_manifest_with_a_part_missing_or_of_another_kind(section, model):
    kept = (model / "manifest.json").read_bytes()
    reseal(model, lambda plain: plain.pop(section))
    with refused("must have the entries"):
        load(model)
    if section != "indubio":
        (model / "manifest.json").write_bytes(kept)
        reseal(model, lambda plain: plain.update({section: [1]}))
        with refused("manifest.json"):
            load(model)


@pytest.mark.parametrize("size", [0, -1, 10**30, 1.5, "5", None, 2**60])
def test_a_size_that_no_file_has(size, model):
    reseal(model, lambda plain: plain["files"]["weights"].update(size=size))
    with refused("cannot have"):
        load(model)


def test_a_size_that_this_file_has_not(model):
    reseal(model, lambda plain: plain["files"]["weights"].update(size=10**9))
    with refused("does not match its checksum"):
        load(model)
    reseal(model, lambda plain: plain["files"]["weights"].update(size=10))
    with refused("more than the 10 it may have"):
        load(model)


def test_a_newer_format_version(model):
    reseal(model, lambda plain: plain.update(format=FORMAT + 1))
    with refused(rf"is of format {FORMAT + 1}. This is indubio .* reads formats up to {FORMAT}. Update indubio"):
        load(model)


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, None, True, [1]])
def test_a_format_version_that_never_was(version, model):
    reseal(model, lambda plain: plain.update(format=version))
    with refused("no manifest of indubio"):
        load(model)


NOT_JSON = {
    "nothing": b"",
    "text": b"not json",
    "no text": b"\xff\xfe\x00",
    "a number": b"3",
    "an empty table": b"{}",
    "an open table": b'{"a": 1',
    "NaN": b'{"a": NaN}',
    "a name twice": b'{"a": 1, "a": 2}',
    "lists in lists": b"[" * 1000 + b"]" * 1000,
    "lists in lists without end": b"[" * 4_000_000,
    "tables in tables without end": b'{"a":' * 800_000,
    "very many lists": b"[" + b"[]," * 1_300_000 + b"[]]",
    "very many quotes": b'"' * 4_000_000,
    "very many backslashes": b'"' + b"\\" * 4_000_000,
    "a very long number": b"1" * 4_000_000,
    "too much of it": b" " * (4 * 2**20 + 1),
}


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_something_else_in_place_of_the_manifest(content, model):
    (model / "manifest.json").write_bytes(content)
    with refused("manifest.json"):
        load(model)


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_something_else_behind_the_checksum_of_the_manifest(content, model):
    blank = b'{"checksum": "' + b"0" * 64 + b'", "format": 1, "fitted": ' + content + b"}"
    checksum = hashlib.sha256(blank).hexdigest().encode()
    (model / "manifest.json").write_bytes(blank.replace(b"0" * 64, checksum, 1))
    with refused("manifest.json"):
        load(model)
