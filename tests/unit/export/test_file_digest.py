"""An exported file has a digest of itself; a model in use can be pinned by the checksum of its manifest."""

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from indubio import Detector
from indubio.cli.app import app
from indubio.errors import ConfigError, ModelFileError
from indubio.judge import Judge
from indubio.storage import save
from indubio_server.store import ServerStore
from tests.served import good_rows, serving, table_model

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
from indubio.export import OnnxModel, export_onnx  # noqa: E402 - needs the extra


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "press.onnx"
    export_onnx(Detector().fit(good_rows(60)), path)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_file_without_its_digest_is_refused(exported: Path) -> None:
    model = onnx.load(exported)
    about = {entry.key: entry.value for entry in model.metadata_props if entry.key != "indubio_sha256"}
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, about)
    with pytest.raises(ModelFileError, match="has no digest"):
        OnnxModel(model.SerializeToString())


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
    OnnxModel(model.SerializeToString())
    del model.graph.output[-1]
    with pytest.raises(ModelFileError, match="does not match its digest"):
        OnnxModel(model.SerializeToString())


def test_a_pinned_folder_must_be_that_one(tmp_path: Path) -> None:
    table_model(tmp_path / "press")
    good_rows(5).to_csv(tmp_path / "rows.csv", index=False)
    told = json.loads(run("inspect", tmp_path / "press", "--json").stdout)
    asked = ("assess", tmp_path / "rows.csv", "--model", tmp_path / "press", "--out", tmp_path / "out.csv", "--sha256")
    assert run(*asked, told["checksum"]).exit_code == 0
    assert isinstance(run(*asked, "0" * 64).exception, ModelFileError)


def test_the_server_takes_no_other_model_than_the_pinned_one(sqlite_store: ServerStore, tmp_path: Path) -> None:
    source = tmp_path / "press"
    table_model(source)
    pinned = {"press": Judge.load(source).digest}
    with serving(sqlite_store, {"press": source}, tmp_path / "state", pinned=pinned) as (service, _):
        save(Detector().fit(good_rows(60)), source, overwrite=True)
        with pytest.raises(ModelFileError, match="another model"):
            service.registry.reload("press")
    refused = run("serve", "--model", f"press={source}", "--state", tmp_path / "s", "--sha256", f"press={'0' * 64}")
    assert isinstance(refused.exception, ModelFileError)
    assert run("serve", "--model", f"press={source}", "--state", tmp_path / "s", "--sha256", "x=1").exit_code == 2
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        Judge.load(source, sha256="abc")
