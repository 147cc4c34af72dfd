"""Drift: found while the server scores, told, and remembered over a restart."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

from indubio.data import read_table
from indubio.storage import load
from indubio_server.service import Service
from indubio_server.store import ServerStore, drift_state
from indubio_server.store.audit_trail import entries
from tests.served import NAMES, good_rows, serving, table_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    table_model(tmp_path / "parts")
    return tmp_path / "parts"


def rows(count: int, seed: int, shift: float = 0.0) -> list[dict[str, float]]:
    values = good_rows(count, seed) + np.array([shift, 0, 0, 0])
    plain: list[dict[str, float]] = values.to_dict("records")
    return plain


def gauge(client: httpx.Client, statistic: str) -> float:
    name = f'indubio_drift{{model="parts",statistic="{statistic}",version="1"}} '
    return float(client.get("/metrics").text.split(name)[1].split("\n")[0])


@contextmanager
def looked(store: ServerStore, model: Path, state: Path) -> Iterator[tuple[Service, httpx.Client]]:
    """A server whose drift is looked at when the test says so."""
    with serving(store, {"parts": model}, state, control_share=0.0) as (service, client):
        yield service, client


def test_drift_is_found_told_and_kept_in_the_audit_trail(store: ServerStore, model: Path, tmp_path: Path) -> None:
    with looked(store, model, tmp_path / "state") as (service, client):
        client.post("/assess", json={"rows": rows(300, 1), "top": 0}).raise_for_status()
        service.drift.look()
        assert (gauge(client, "alarm"), gauge(client, "examples")) == (0, 300)
        assert client.get("/alarms").json()["drift"][0]["alarm"] is False
        assert "no change found in 300 examples" in client.get("/review/status").text
        client.post("/assess", json={"rows": rows(300, 2, shift=3.0), "top": 0}).raise_for_status()
        service.drift.look()
        service.drift.keep()
        assert (gauge(client, "alarm"), gauge(client, "examples")) == (1, 600)
        assert gauge(client, "evidence") >= 1
        told = client.get("/alarms").json()["drift"][0]
        assert (told["model"], told["alarm"], told["changed"][0]["name"]) == ("parts", True, NAMES[0])
        assert "the data has changed" in client.get("/review/status").text
        service.drift.keep()
        trail = [entry.content for entry in store.read(lambda c: list(entries(c))) if entry.kind == "drift alarm"]
        assert [(one["name"], one["version"]) for one in trail] == [("parts", 1)]


def test_a_monitor_goes_on_after_a_restart_as_if_there_had_been_none(
    sqlite_store: ServerStore, model: Path, tmp_path: Path
) -> None:
    parts = rows(60, 1), rows(80, 2, shift=0.5)
    for part in parts:
        with looked(sqlite_store, model, tmp_path / "state") as (_, client):
            client.post("/assess", json={"rows": part, "top": 0}).raise_for_status()
    state = sqlite_store.read(lambda c: drift_state(c, "parts", 1))
    assert state is not None
    detector = load(model)
    table = read_table(pd.DataFrame([row for part in parts for row in part]))
    whole = detector.monitored(table, detector.assess(table).p_value)
    assert whole is not None
    assert state["seen"] == 140
    np.testing.assert_allclose(state["largest"], whole.largest, rtol=1e-6)


def test_versions_are_watched_apart(sqlite_store: ServerStore, model: Path, tmp_path: Path) -> None:
    with looked(sqlite_store, model, tmp_path / "state") as (service, client):
        client.post("/assess", json={"rows": rows(10, 1), "top": 0}).raise_for_status()
        table_model(model, seed=1)
        client.post("/v2/repository/models/parts/load").raise_for_status()
        client.post("/assess", json={"rows": rows(20, 2), "top": 0}).raise_for_status()
        service.drift.look()
        seen = {one.loaded.version: one.drift.examples for one in service.drift.watched()}
    assert seen == {1: 10, 2: 20}
    assert [sqlite_store.read(lambda c, v=v: drift_state(c, "parts", v))["seen"] for v in (1, 2)] == [10, 20]
