"""`indubio mcp` as an assistant uses it: the real client of the protocol, over stdio."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from sqlalchemy import text

from indubio import load
from indubio.errors import ConfigError, DataError, StoreError
from indubio_server.mcp import ExampleFiles, ReadOnlyModels
from indubio_server.store import Database, ServerStore, cases_waiting, count_waiting, review
from tests.served import good_rows, mixed_model, row, table_model, window_model
from tests.stored_cases import assessed, stored

Conversation = Callable[[Client], Awaitable[Any]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    table_model(folder / "press")
    mixed_model(folder / "parts")
    window_model(folder / "axis")
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    good_rows(30, seed=3).to_csv(folder / "new.csv", index=False)
    good_rows(30, seed=3).to_csv(tmp_path / "secret.csv", index=False)
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    return folder


@pytest.fixture
def looking(models: Path, files: Path) -> ReadOnlyModels:
    sources = {name: models / name for name in ("press", "parts", "axis")}
    return ReadOnlyModels(sources, ExampleFiles(files, 10**6), 100, None)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def asked(*options: object, talk: Conversation) -> Any:
    """What a conversation with the command gives."""
    command = ["-c", "from indubio.cli import main; main()", "mcp", *map(str, options)]
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    server = StdioServerParameters(command=sys.executable, args=command, env=environment)

    async def conversation() -> Any:
        async with Client(server, read_timeout_seconds=60) as client:
            return await talk(client)

    return asyncio.run(conversation())


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of a server that is stopped, with two cases that wait."""
    folder = tmp_path / "state"
    folder.mkdir()
    with ServerStore(f"sqlite:///{folder / 'indubio.sqlite'}") as store:
        stored(store, [assessed(), assessed()])
    return folder


def test_an_assistant_inspects_assesses_explains_and_reads_the_queue(
    models: Path, files: Path, state: Path, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)

    async def talk(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {"inspect", "assess", "explain", "queue"}
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
        about = (await client.call_tool("inspect", {})).structured_content
        assert [column["name"] for column in about["columns"]] == ["pressure", "flow", "heat", "noise"]
        (resource,) = (await client.list_resources()).resources
        (card,) = (await client.read_resource(resource.uri)).contents
        assert card.text == about["card"] == (models / "press" / "README.md").read_text()
        rows = [row(), row(pressure=1e3)]
        found = (await client.call_tool("assess", {"rows": rows, "top": 2})).structured_content
        assert found["examples"] == sum(found["verdicts"].values()) == 2
        assert found["results"][1]["verdict"] != "INLIER"
        assert found["results"][1]["top_features"][0]["name"] == "pressure"
        of_file = (await client.call_tool("assess", {"file": "new.csv", "show": "flagged"})).structured_content
        assert of_file["examples"] == 30
        assert all(one["verdict"] != "INLIER" for one in of_file["results"])
        why = (await client.call_tool("explain", {"rows": rows, "top": 1})).structured_content
        assert [one["name"] for one in why["rows"][1]] == ["pressure"]
        waiting = (await client.call_tool("queue", {"order": "uncertainty"})).structured_content
        assert (waiting["waiting"], len(waiting["cases"])) == (2, 2)
        for bad, said in (
            ({"rows": [{"pressure": 1}]}, "missing required field `flow`"),
            ({"rows": [row(pressure="high")]}, "pressure"),
            ({"file": "../secret.csv"}, "outside"),
            ({}, "either `rows` or `file`"),
            ({"model": "oven", "rows": rows}, "there are press"),
        ):
            refused = await client.call_tool("assess", bad)
            assert refused.is_error, bad
            assert said in refused.content[0].text

    asked("--model", f"press={models / 'press'}", "--folder", files, "--state", state, talk=talk)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../secret.csv", "outside"),
        ("link.csv", "outside"),
        ("/etc/passwd", "relative"),
        ("new.csv/../../secret.csv", "outside"),
        ("a\0.csv", "relative"),
        ("new.txt", "neither CSV nor Parquet"),
        ("none.csv", "there is no file"),
    ],
)
def test_no_file_outside_of_the_folder_is_read(files: Path, name: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        ExampleFiles(files, 10**6).path(name)


def test_files_and_rows_are_bounded(models: Path, files: Path) -> None:
    with pytest.raises(DataError, match="no files are allowed"):
        ExampleFiles(None, 10**6).path("new.csv")
    with pytest.raises(DataError, match="more than 10 bytes"):
        ExampleFiles(files, 10).path("new.csv")
    few = ReadOnlyModels({"press": models / "press"}, ExampleFiles(files, 10**6), 20, None)
    with pytest.raises(DataError, match="30 examples, and 20 are allowed"):
        few.assess(None, None, "new.csv")
    with pytest.raises(DataError, match="length <= 20"):
        few.assess(None, [row()] * 21, None)


def test_verdicts_are_those_of_the_library(looking: ReadOnlyModels, models: Path) -> None:
    frame = good_rows(12, seed=9)
    expected = load(models / "press").assess(frame)
    found = looking.assess("press", frame.to_dict("records"), None)["results"]
    assert [one["nll"] for one in found] == expected.nll.tolist()
    assert [one["verdict"] for one in found] == expected.verdict.tolist()


def test_categories_missing_values_and_windows_are_assessed(looking: ReadOnlyModels, models: Path) -> None:
    (missing,) = looking.assess("parts", [{"weight": None, "colour": "red"}], None)["results"]
    assert (missing["verdict"], missing["reason"]) == ("REFER", "bad_input")
    (window,) = looking.assess("axis", [{"x0": [0.0] * 16, "x1": [0.0] * 16}], None)["results"]
    assert window["verdict"] in ("INLIER", "ANOMALY", "REFER")
    assert {one["name"] for one in looking.explain("axis", [{"x0": [0.0] * 16, "x1": [9.0] * 16}], 2)["rows"][0]}
    with pytest.raises(ConfigError, match="--state"):
        looking.queue("age", None, None, 5)


def test_the_queue_of_a_running_server_is_read_and_nothing_can_be_written(database_url: str) -> None:
    with ServerStore(database_url) as store:
        stored(store, [assessed()])
        database = Database(database_url, read_only=True)
        database.require_current()
        assert database.read(count_waiting) == 1
        (case,) = database.read(cases_waiting)
        stored(store, [assessed()])
        assert database.read(count_waiting) == 2
        with pytest.raises(StoreError, match=r"readonly|read-only"), database.writing() as connection:
            review(connection, case.id, "ada", "A")
        assert store.read(count_waiting) == 2
        database.close()


def test_a_database_of_other_tables_is_refused_and_none_is_made(state: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        Database(f"sqlite:///{tmp_path / 'none' / 'indubio.sqlite'}", read_only=True)
    assert not (tmp_path / "none").exists()
    url = f"sqlite:///{state / 'indubio.sqlite'}"
    with ServerStore(url) as store:
        store.write(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(StoreError, match=r"another version of indubio \(9999\)"):
        Database(url, read_only=True).require_current()
