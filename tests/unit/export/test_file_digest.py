"""An exported file has a digest of itself, and can be pinned by the sha256 of all of it."""

import hashlib
import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from indubio import Detector
from indubio.cli.app import app
from indubio.errors import ConfigError, ModelFileError
from indubio.server.store import ServerStore
from tests.served import good_rows, serving, table_model

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
from indubio.export import OnnxModel, export_onnx  # noqa: E402 - needs the extra


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "press.onnx"
    export_onnx(Detector().fit(good_rows(60)), path)
    return path


@pytest.fixture
def without_digest(exported: Path, tmp_path: Path) -> Path:
    """As an earlier version exported it."""
    model = onnx.load(exported)
    about = json.loads(model.metadata_props[0].value)
    del about["digest"], model.metadata_props[:]
    onnx.helper.set_model_props(model, {"indubio": json.dumps(about)})
    onnx.save(model, tmp_path / "old.onnx")
    return tmp_path / "old.onnx"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_file_as_it_was_exported_matches(exported: Path) -> None:
    model = OnnxModel(exported)
    assert (model.has_digest, model.sha256) == (True, hashlib.sha256(exported.read_bytes()).hexdigest())


def test_any_changed_byte_is_refused(exported: Path) -> None:
    content, chance = exported.read_bytes(), random.Random(0)
    digest = content.index(b"indubio_sha256\x12")  # where the digest is; the metadata name the key too
    places = [*range(digest - 4, digest + 82), *(chance.randrange(len(content)) for _ in range(100))]
    for place in (place for place in places if place < len(content)):
        changed = content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]
        with pytest.raises(ModelFileError):
            OnnxModel(changed)


def test_a_graph_that_somebody_edited_and_saved_is_refused(exported: Path) -> None:
    model = onnx.load(exported)
    model.graph.initializer[0].name = model.graph.initializer[0].name  # nothing in the graph changed
    assert OnnxModel(model.SerializeToString()).has_digest
    del model.graph.output[-1]
    with pytest.raises(ModelFileError, match="does not match its digest"):
        OnnxModel(model.SerializeToString())


def test_a_file_of_an_earlier_version_loads_and_inspect_says_so(exported: Path, without_digest: Path) -> None:
    assert not OnnxModel(without_digest).has_digest
    assert json.loads(run("inspect", without_digest, "--json").stdout)["digest"].startswith("none")
    told = json.loads(run("inspect", exported, "--json").stdout)
    assert (told["digest"], told["sha256"]) == ("matches", OnnxModel(exported).sha256)
    assert told["sha256"][:20] in run("inspect", exported).stdout


def test_a_pinned_file_must_be_that_one(exported: Path, without_digest: Path, tmp_path: Path) -> None:
    rows, sha256 = tmp_path / "rows.csv", OnnxModel(exported).sha256
    good_rows(5).to_csv(rows, index=False)
    out = ("--out", tmp_path / "out.csv")
    assert run("assess", rows, "--model", exported, "--sha256", sha256.upper(), *out).exit_code == 0
    other = run("assess", rows, "--model", without_digest, "--sha256", sha256, *out)
    assert isinstance(other.exception, ModelFileError)
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        OnnxModel(exported, sha256="abc")
    workers = ("--workers", 1, "--out", tmp_path / "out")
    assert isinstance(
        run("assess", rows, "--model", without_digest, "--sha256", sha256, *workers).exception, ModelFileError
    )


def test_a_pinned_folder_must_be_that_one(tmp_path: Path) -> None:
    table_model(tmp_path / "press")
    good_rows(5).to_csv(tmp_path / "rows.csv", index=False)
    told = json.loads(run("inspect", tmp_path / "press", "--json").stdout)
    asked = ("assess", tmp_path / "rows.csv", "--model", tmp_path / "press", "--out", tmp_path / "out.csv", "--sha256")
    assert run(*asked, told["checksum"]).exit_code == 0
    assert isinstance(run(*asked, "0" * 64).exception, ModelFileError)


def test_the_server_takes_no_other_file_than_the_pinned_one(
    exported: Path, without_digest: Path, sqlite_store: ServerStore, tmp_path: Path
) -> None:
    source = tmp_path / "press.onnx"
    source.write_bytes(exported.read_bytes())
    pinned = {"press": OnnxModel(exported).sha256}
    with serving(sqlite_store, {"press": source}, tmp_path / "state", pinned=pinned) as (service, _):
        source.write_bytes(without_digest.read_bytes())
        with pytest.raises(ModelFileError, match="another model"):
            service.registry.reload("press")
    refused = run("serve", "--model", f"press={source}", "--state", tmp_path / "s", "--sha256", f"press={'0' * 64}")
    assert isinstance(refused.exception, ModelFileError)
    assert run("serve", "--model", f"press={source}", "--state", tmp_path / "s", "--sha256", "x=1").exit_code == 2
