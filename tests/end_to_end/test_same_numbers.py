"""One model gives one answer: library, server, command and batch agree to the last bit, for any batch of rows."""

import csv
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
from sklearn.datasets import load_breast_cancer

from indubio import AnchoredEnsemble, Assessment, Detector, load, save
from indubio.networks import Training
from indubio_server.store import ServerStore
from tests.engines import CORE
from tests.served import serving

pytestmark = pytest.mark.skipif(CORE is None, reason="the core was not built, and torch promises no bits")

NUMBERS = ("probability", "epistemic", "aleatoric", "total", "exceed", "var_nll", "nll", "p_value")
PROGRAM = [sys.executable, "-c", "from indubio.cli import main; main()"]
GOOD = 250  # examples to learn from; all others are assessed
CLIENTS = 16
SIZES = (1, 2, 3, 5, 8, 13, 21, 34)  # rows a request

Answer = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    folder: Path
    detector: Detector
    rows: pd.DataFrame
    expected: Assessment


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A model on disk, examples that it has not seen, and what the detector that was saved says of all at once."""
    folder = tmp_path_factory.mktemp("same")
    frame = load_breast_cancer(as_frame=True).frame
    benign = frame.pop("target") == 1
    good, rows = frame[benign][:GOOD], pd.concat([frame[benign][GOOD:], frame[~benign]], ignore_index=True)
    detector = Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=5)).fit(good)
    save(detector, folder / "model")
    rows.to_csv(folder / "rows.csv", index=False)
    return Case(folder, detector, rows, detector.assess(rows))


@pytest.fixture(scope="module")
def client(case: Case) -> Iterator[httpx.Client]:
    with (
        ServerStore(f"sqlite:///{case.folder / 'store.sqlite'}") as store,
        serving(store, {"m": case.folder / "model"}, case.folder / "state") as (_, client),
    ):
        yield client


def require_same(found: Mapping[str, Sequence[Any]], expected: Assessment) -> None:
    """Every number to the last bit, and every word."""
    apart = {}
    for name in NUMBERS:
        given, known = np.array(found[name], dtype=np.float64), getattr(expected, name)
        assert given.shape == known.shape
        differ = ~((given == known) | (np.isnan(given) & np.isnan(known)))
        if differ.any():
            largest = np.nanmax(np.abs(given - known) / np.abs(known))
            apart[name] = f"{np.count_nonzero(differ)} of {len(known)}, by up to {largest:.1e} of their size"
    assert apart == {}
    for name in ("verdict", "reason"):
        assert ["" if word is None else word for word in found[name]] == getattr(expected, name).tolist()


def columns(answer: Answer) -> dict[str, list[Any]]:
    return {name: [row[name] for row in answer] for name in (*NUMBERS, "verdict", "reason")}


def test_what_is_compared_holds_all_verdicts_and_p_values(case: Case) -> None:
    assert set(case.expected.verdict) == {"INLIER", "ANOMALY", "REFER"}
    assert not np.isnan(case.expected.p_value).any()


@pytest.mark.parametrize("size", [1, 2, 7, 16, 33, 100])
def test_the_library_gives_the_same_for_any_batch(case: Case, size: int) -> None:
    detector = load(case.folder / "model")
    parts = [detector.assess(case.rows[start : start + size]) for start in range(0, len(case.rows), size)]
    require_same({name: np.concatenate([getattr(part, name) for part in parts]) for name in columns([])}, case.expected)


def test_the_library_gives_the_same_to_threads_that_share_a_detector(case: Case) -> None:
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(case.detector.assess, [case.rows] * 12):
            require_same(found.to_dict(), case.expected)


def assessed(client: httpx.Client, rows: pd.DataFrame, **more: Any) -> Answer:
    """By column name."""
    answer = client.post("/assess", json={"rows": rows.to_dict("records"), **more})
    assert answer.status_code == 200, answer.text
    results: Answer = answer.json()["results"]
    return results


def unexplained(client: httpx.Client, rows: pd.DataFrame) -> Answer:
    """The same, without reasons."""
    return assessed(client, rows, top=0)


def inferred(client: httpx.Client, rows: pd.DataFrame) -> Answer:
    """By the Open Inference Protocol, in JSON."""
    tensor = {"name": "rows", "shape": rows.shape, "datatype": "FP64", "data": rows.to_numpy().ravel().tolist()}
    answer = client.post("/v2/models/m/infer", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text
    found = {output["name"]: output["data"] for output in answer.json()["outputs"]}
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def inferred_in_binary(client: httpx.Client, rows: pd.DataFrame) -> Answer:
    """The same, in binary both ways."""
    import tritonclient.http as triton

    given = triton.InferInput("rows", list(rows.shape), "FP64")
    given.set_data_from_numpy(rows.to_numpy())
    with triton.InferenceServerClient(str(client.base_url).removeprefix("http://").rstrip("/")) as other:
        answer = other.infer("m", [given])
    found = {name: answer.as_numpy(name) for name in columns([])}
    found |= {name: [word.decode() for word in found[name]] for name in ("verdict", "reason")}
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


WAYS = [assessed, unexplained, inferred, inferred_in_binary]


@pytest.mark.parametrize("way", WAYS)
def test_the_server_gives_the_same_for_all_rows_at_once(
    case: Case, client: httpx.Client, way: Callable[[httpx.Client, pd.DataFrame], Answer]
) -> None:
    require_same(columns(way(client, case.rows)), case.expected)


@pytest.mark.parametrize("way", WAYS)
def test_the_server_gives_the_same_for_single_rows_that_come_one_by_one(
    case: Case, client: httpx.Client, way: Callable[[httpx.Client, pd.DataFrame], Answer]
) -> None:
    rows = [way(client, case.rows[place : place + 1]) for place in range(len(case.rows))]
    require_same(columns(list(chain.from_iterable(rows))), case.expected)


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_the_server_gives_the_reasons_of_the_library(case: Case, client: httpx.Client, size: int) -> None:
    why = case.detector.assess(case.rows, explain=True).why
    assert why is not None
    top = why.top(3)
    expected: list[Any] = [None] * len(case.rows)
    for place, names, shares in zip(why.places, top.names.tolist(), top.shares.tolist(), strict=True):
        expected[place] = [{"name": name, "share": share} for name, share in zip(names, shares, strict=True)]
    parts = [assessed(client, case.rows[start : start + size], top=3) for start in range(0, len(case.rows), size)]
    assert [row["top_features"] for row in chain.from_iterable(parts)] == expected


def batches(client: httpx.Client) -> tuple[int, int]:
    """How many batches were scored, and how many of them were of one row."""
    text = client.get("/metrics").text
    counted = (
        re.search(rf'^indubio_batch_rows_{what}model="m"}} ([\d.]+)$', text, re.MULTILINE)
        for what in ("count{", 'bucket{le="1.0",')
    )
    found = [int(float(match[1])) for match in counted if match]
    return (found[0], found[1]) if found else (0, 0)


def test_the_server_gives_the_same_for_single_rows_that_are_scored_together(case: Case, client: httpx.Client) -> None:
    before, until = batches(client), time.monotonic() + 60
    with ThreadPoolExecutor(CLIENTS) as pool:
        while True:
            rows = pool.map(lambda place: assessed(client, case.rows[place : place + 1]), range(len(case.rows)))
            require_same(columns(list(chain.from_iterable(rows))), case.expected)
            after = batches(client)
            if after[0] - before[0] > after[1] - before[1]:  # some were of more than one
                return
            assert time.monotonic() < until, "no two rows were ever scored together"


def test_the_server_gives_the_same_to_all_who_ask_at_the_same_time(case: Case, client: httpx.Client) -> None:
    cuts, turn = [0], 0
    while cuts[-1] < len(case.rows):
        cuts.append(cuts[-1] + SIZES[turn % len(SIZES)])
        turn += 1
    requests = [(way, start, stop) for way in WAYS for start, stop in pairwise(cuts)]
    requests.sort(key=lambda request: request[1])  # all ways at once
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(lambda request: request[0](client, case.rows[request[1] : request[2]]), requests))
    for way in WAYS:
        rows = [answer for request, answer in zip(requests, answers, strict=True) if request[0] is way]
        require_same(columns(list(chain.from_iterable(rows))), case.expected)


def run(*arguments: str | Path) -> None:
    done = subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("out", ["found.csv", "found.parquet", "found.jsonl"])
def test_the_command_gives_the_same(case: Case, out: str) -> None:
    path = case.folder / out
    more = ["--top", "0"] if out == "found.parquet" else ["--full"]
    run("assess", case.folder / "rows.csv", "--model", case.folder / "model", "--out", path, *more)
    readers: dict[str, Callable[[Path], Mapping[str, Any]]] = {
        ".csv": lambda path: columns(list(csv.DictReader(path.read_text().splitlines()))),
        ".parquet": lambda path: parquet.read_table(path).to_pydict(),
        ".jsonl": lambda path: columns([json.loads(line) for line in path.read_text().splitlines()]),
    }
    require_same(readers[path.suffix](path), case.expected)


def test_a_batch_over_workers_gives_the_same(case: Case) -> None:
    source, out = case.folder / "in", case.folder / "out"
    source.mkdir()
    case.rows.to_parquet(source / "rows.parquet", row_group_size=10)
    options = ["--workers", "1", "--set", "shard_rows=40"]
    run("assess", source, "--model", case.folder / "model", "--out", out, *options)
    parts = sorted(out.glob("*.parquet"))
    assert len(parts) > 1
    found = pd.concat([pd.read_parquet(part) for part in parts])
    require_same(found, case.expected)
