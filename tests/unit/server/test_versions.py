"""Versions: swapped without dropping a request, rolled back, remembered over restarts; ONNX files without torch."""

import shutil
import threading
from pathlib import Path

import pytest

from indubio import load, save
from indubio.decision import NoReferral
from indubio.errors import ConfigError, ModelFileError, NotFoundError
from indubio_server.models import Registry
from indubio_server.store import ServerStore, activate, add_version, verify
from tests.served import row, serving, table_model


def test_versions_are_swapped_and_rolled_back_without_dropping_a_request(
    sqlite_store: ServerStore, tmp_path: Path
) -> None:
    table_model(tmp_path / "press")
    with serving(sqlite_store, {"press": tmp_path / "press"}, tmp_path / "state") as (_, client):
        statuses: list[int] = []
        versions: set[int] = set()
        ended = threading.Event()

        def ask() -> None:
            while not ended.is_set():
                answer = client.post("/assess", json={"rows": [row()]})
                statuses.append(answer.status_code)
                versions.add(answer.json()["model"]["version"])

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        table_model(tmp_path / "press", seed=1)  # the folder's content is replaced
        assert client.post("/v2/repository/models/press/load").json() == {"name": "press", "version": "2"}
        assert client.post("/models/press/activate", json={"version": 1, "note": "worse"}).json()["version"] == 1
        client.post("/models/press/activate", json={"version": 2})
        while versions != {1, 2}:
            pass
        ended.set()
        for thread in threads:
            thread.join()
        assert set(statuses) == {200}
        told = client.get("/models/press").json()
        assert [one["version"] for one in told["activations"]] == [1, 2, 1, 2]
        assert told["activations"][2]["note"] == "worse"
        old, new = (
            client.post(f"/models/press/versions/{n}/assess", json={"rows": [row()]}).json()["results"][0]["nll"]
            for n in (1, 2)
        )
        assert old != new
        assert client.post("/models/press/activate", json={"version": 3}).status_code == 404
        (tmp_path / "press" / "manifest.json").write_text("{}")
        assert client.post("/v2/repository/models/press/load").status_code == 409


def test_what_was_activated_stays_active_over_a_restart(sqlite_store: ServerStore, tmp_path: Path) -> None:
    folder, archive = tmp_path / "press", tmp_path / "archive"
    table_model(folder)
    first = Registry(sqlite_store, {"press": folder}, archive, most_rows=10)
    table_model(folder, seed=1)
    assert first.reload("press").version == 2
    first.activate("press", 1, by="ada")
    again = Registry(sqlite_store, {"press": folder}, archive, most_rows=10)
    assert again.model().version == 1
    assert again.model().sha256 == first.version("press", 1).sha256
    assert [known.version for known in again.known("press")] == [1, 2]


def test_versions_are_used_and_followed_on_machines_that_have_not_their_files(
    sqlite_store: ServerStore, tmp_path: Path
) -> None:
    """Two servers share a database and no folder."""
    folder = tmp_path / "press"
    table_model(folder)
    here, there = (
        Registry(sqlite_store, {"press": folder}, tmp_path / name, most_rows=10) for name in ("here", "there")
    )
    table_model(folder, seed=1)
    assert here.reload("press").version == 2
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "here", ignore_errors=True)
    assert there.model().version == 1
    there.follow()
    assert there.model().version == 2
    assert there.model().sha256 == here.model().sha256
    there.activate("press", 1, by="ada")
    here.follow()
    assert here.model().version == 1
    assert sqlite_store.read(lambda c: verify(c, files=True, archive=tmp_path / "there")).findings == ()


def test_an_activated_version_that_cannot_be_read_leaves_the_present_one(
    sqlite_store: ServerStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table_model(tmp_path / "press")
    registry = Registry(sqlite_store, {"press": tmp_path / "press"}, tmp_path / "archive", most_rows=10)
    sqlite_store.write(
        lambda c: add_version(c, "press", sha256="0" * 64, rule="r", rule_content={}, files=b"none", by="job")
    )
    sqlite_store.write(lambda c: activate(c, "press", 2, by="job"))
    for _ in range(3):
        registry.follow()
    assert registry.model().version == 1
    told = [one for one in caplog.records if "cannot be used" in one.message]
    assert len(told) == 1, "said once"
    (finding,) = sqlite_store.read(lambda c: verify(c, files=True)).findings
    assert finding.startswith("the files of version 2 of 'press': ")


def test_a_folder_of_a_version_that_was_changed_is_refused_and_found(sqlite_store: ServerStore, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    table_model(tmp_path / "press")
    registry = Registry(sqlite_store, {"press": tmp_path / "press"}, archive, most_rows=10)
    (known,) = registry.known("press")
    table_model(tmp_path / "other", seed=1)
    shutil.copytree(tmp_path / "other", registry.folder_of(known), dirs_exist_ok=True)
    with pytest.raises(NotFoundError, match="holds other files than those of version 1"):
        registry._read(known)
    assert sqlite_store.read(lambda c: verify(c, files=True)).findings == ()
    (finding,) = sqlite_store.read(lambda c: verify(c, files=True, archive=archive)).findings
    assert "holds another model now" in finding


def test_another_rule_is_another_version(sqlite_store: ServerStore, tmp_path: Path) -> None:
    folder = tmp_path / "press"
    table_model(folder)
    registry = Registry(sqlite_store, {"press": folder}, tmp_path / "archive", most_rows=10)
    save(load(folder).refer_by(NoReferral()), folder, overwrite=True)
    assert registry.reload("press").version == 2
    one, two = registry.known("press")
    assert one.rule != two.rule
    assert two.rule_content["referral_threshold"] == "inf"


def test_a_damaged_model_is_refused_and_the_old_one_goes_on(sqlite_store: ServerStore, tmp_path: Path) -> None:
    folder = tmp_path / "press"
    table_model(folder)
    registry = Registry(sqlite_store, {"press": folder}, tmp_path / "archive", most_rows=10)
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(ModelFileError):
        registry.reload("press")
    assert registry.model("press").version == 1
    with pytest.raises(ConfigError, match="no model to serve"):
        Registry(sqlite_store, {}, tmp_path, most_rows=10)


def test_what_is_read_again_unchanged_is_in_memory_once(sqlite_store: ServerStore, tmp_path: Path) -> None:
    table_model(tmp_path / "press")
    registry = Registry(sqlite_store, {"press": tmp_path / "press"}, tmp_path / "archive", most_rows=10)
    before = registry.model()
    assert registry.reload("press") is before
    assert registry.version("press", 1) is before
