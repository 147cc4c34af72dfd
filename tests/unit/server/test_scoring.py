"""Scoring over HTTP, asked through real sockets: what is answered, what is refused and where, what is kept."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton

from indubio import Budget, Detector
from indubio_server.service import Service
from indubio_server.store import ServerStore, cases_waiting, input_values, verify
from indubio_server.store.audit_trail import entries
from tests.served import NAMES, good_rows, image_model, mixed_model, row, serving, table_model, window_model

NUMBERS = ("probability", "epistemic", "aleatoric", "total", "exceed", "var_nll", "nll", "novelty")


@dataclass
class Served:
    service: Service
    client: httpx.Client
    press: Detector
    parts: Detector
    shaker: Detector
    camera: Detector

    @property
    def address(self) -> str:
        return str(self.client.base_url).removeprefix("http://").rstrip("/")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    models = {"press": table_model, "parts": mixed_model, "shaker": window_model, "camera": image_model}
    detectors = {name: make(folder / name) for name, make in models.items()}
    with (
        ServerStore(f"sqlite:///{folder / 'store.sqlite'}") as store,
        serving(store, {name: folder / name for name in models}, folder / "state", most_rows=500) as (service, client),
    ):
        yield Served(service, client, **detectors)


def post(served: Served, path: str, content: Any, **headers: str) -> httpx.Response:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return served.client.post(path, content=body, headers={"content-type": "application/json"} | headers)


def assess(served: Served, content: Any, model: str = "press") -> httpx.Response:
    return post(served, f"/models/{model}/assess", content)


def infer(served: Served, content: Any, model: str = "press", **headers: str) -> httpx.Response:
    return post(served, f"/v2/models/{model}/infer", content, **headers)


def tensor(data: Any, shape: Any = (1, 4), datatype: str = "FP64", **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "rows", "shape": list(shape), "datatype": datatype, "data": data, **more}]}


def test_rows_by_name_get_what_the_detector_says(served: Served) -> None:
    rows = good_rows(40, seed=3) * 1.5
    answer = assess(served, {"rows": rows.to_dict("records"), "ids": [f"part {n}" for n in range(40)]}).json()
    found = served.press.assess(rows)
    for name in ("verdict", "reason", "prediction", "notes"):
        assert [result[name] for result in answer["results"]] == getattr(found, name).tolist()
    for name in NUMBERS:
        assert [result[name] for result in answer["results"]] == getattr(found, name).tolist()
    assert answer["results"][7]["id"] == "part 7"
    assert {"name": "press", "version": 1}.items() <= answer["model"].items()


def test_anomalies_come_with_their_top_features_and_inliers_without(served: Served) -> None:
    far, near = assess(served, {"rows": [row(heat=40), row()], "top": 2}).json()["results"]
    assert far["verdict"] == "ANOMALY"
    assert far["top_features"][0]["name"] == "heat"
    assert len(far["top_features"]) == 2
    assert near["top_features"] is None


def test_the_order_of_columns_does_not_matter(served: Served) -> None:
    turned = dict(reversed(row(flow=0.7).items()))
    first, second = (assess(served, {"rows": [one]}).json()["results"][0] for one in (row(flow=0.7), turned))
    assert first == second


def test_missing_values_and_new_categories_are_referred_where_the_model_refers_them(served: Served) -> None:
    rows = [{"weight": None, "colour": "red"}, {"weight": 0.1, "colour": "green"}, {"weight": 0.1, "colour": "red"}]
    missing, unseen, good = assess(served, {"rows": rows}, "parts").json()["results"]
    assert (missing["verdict"], missing["reason"], missing["notes"]) == ("REFER", "bad_input", "missing: weight")
    assert (unseen["verdict"], unseen["reason"], unseen["notes"]) == ("REFER", "bad_input", "unseen: colour=green")
    assert good["reason"] != "bad_input"


def test_images_are_given_by_channel(served: Served) -> None:
    images = np.random.default_rng(5).normal(size=(3, 7, 6, 2))
    rows = [{"x0": one[..., 0].tolist(), "x1": one[..., 1].tolist()} for one in images]
    answer = assess(served, {"rows": rows, "top": 1}, "camera").json()
    expected = served.camera.assess(images)
    assert [result["nll"] for result in answer["results"]] == expected.nll.tolist()
    whole = infer(served, tensor(images.ravel().tolist(), images.shape), "camera").json()["outputs"]
    assert next(one["data"] for one in whole if one["name"] == "nll") == expected.nll.tolist()
    short = [{"x0": np.zeros((7, 5)).tolist(), "x1": np.zeros((7, 6)).tolist()}]
    assert assess(served, {"rows": short}, "camera").json()["place"].startswith("$.rows[0].x0")
    huge = np.zeros((2, 7, 6))
    huge[1, 4, 3] = 1e39
    refused = assess(served, {"rows": [{"x0": huge[0].tolist(), "x1": huge[1].tolist()}]}, "camera")
    assert refused.json()["place"] == "$.rows[0].x1[4][3]"


def test_windows_are_given_by_sensor(served: Served) -> None:
    windows = np.random.default_rng(5).normal(size=(3, 16, 2))
    rows = [{"x0": one[:, 0].tolist(), "x1": one[:, 1].tolist()} for one in windows]
    answer = assess(served, {"rows": rows}, "shaker").json()
    expected = served.shaker.assess(windows)
    assert [result["nll"] for result in answer["results"]] == expected.nll.tolist()
    short = assess(served, {"rows": [{"x0": [0.0] * 15, "x1": [0.0] * 16}]}, "shaker")
    assert (short.status_code, short.json()["place"]) == (400, "$.rows[0].x0")
    huge = [{"x0": [0.0] * 16, "x1": [0.0] * 7 + [1e39] + [0.0] * 8}]
    assert assess(served, {"rows": huge}, "shaker").json()["place"] == "$.rows[0].x1[7]"


BAD_ROWS = {
    "NaN": (b'{"rows":[{"pressure":NaN,"flow":1,"heat":1,"noise":1}]}', "byte 21"),
    "Infinity": (b'{"rows":[{"pressure":-Infinity,"flow":1,"heat":1,"noise":1}]}', "byte"),
    "1e39": ({"rows": [row(), row(heat=1e39)]}, "$.rows[1].heat"),
    "1e999": (b'{"rows":[{"pressure":1e999,"flow":1,"heat":1,"noise":1}]}', "$.rows[0].pressure"),
    "null": ({"rows": [row(flow=None)]}, "$.rows[0].flow"),
    "text": ({"rows": [row(flow="1.5")]}, "$.rows[0].flow"),
    "a boolean": ({"rows": [row(flow=True)]}, "$.rows[0].flow"),
    "a list": ({"rows": [row(flow=[1])]}, "$.rows[0].flow"),
    "a column missing": ({"rows": [{"pressure": 1, "flow": 1, "heat": 1}]}, "noise"),
    "an unknown column": ({"rows": [row(torque=1)]}, "torque"),
    "a column twice": (b'{"rows":[{"pressure":1,"pressure":2,"flow":1,"heat":1,"noise":1}]}', "twice"),
    "a list instead of an object": ({"rows": [[1, 2, 3, 4]]}, "$.rows[0]"),
    "no rows": ({"rows": []}, "$.rows"),
    "too many rows": ({"rows": [row()] * 501}, "$.rows"),
    "nothing": (b"", "empty"),
    "half": (b'{"rows":[', "ends too early"),
    "no JSON": (b"rows", "byte 0"),
    "another thing": ({"row": [row()]}, "row"),
    "ids too few": ({"rows": [row(), row()], "ids": ["a"]}, "ids"),
    "machines too many": ({"rows": [row()], "machine": ["a", "b"]}, "machine"),
    "a machine with a control character": ({"rows": [row()], "machine": "a\x00"}, "$.machine"),
    "a machine with a long name": ({"rows": [row()], "machine": "a" * 201}, "$.machine"),
    "too deep": (b'{"rows":' + b"[" * 200_000, "$.rows"),
    "too deep, elsewhere": (b'{"rows":[],"x":' + b"[" * 200_000, "$.rows"),
    "bad UTF-8": (b'{"rows":[{"press\xffure":1,"flow":1,"heat":1,"noise":1}]}', "UTF-8"),
}


@pytest.mark.parametrize("what", BAD_ROWS)
def test_bad_rows_are_refused_with_their_place(served: Served, what: str) -> None:
    content, place = BAD_ROWS[what]
    answer = assess(served, content)
    assert answer.status_code == 400
    assert place in answer.json()["error"]


BAD_TENSORS = {
    "NaN": (b'{"inputs":[{"name":"rows","shape":[1,4],"datatype":"FP64","data":[NaN,1,1,1]}]}', "byte"),
    "1e39": (tensor([1, 1, 1e39, 1]), "$.rows[0].heat"),
    "too large for its type": (tensor([1, 1, 1e39, 1], datatype="FP32"), "does not fit"),
    "null": (tensor([1, None, 1, 1]), "$.inputs[0].data[1]"),
    "text": (tensor([1, "1", 1, 1]), "$.inputs[0].data[1]"),
    "a boolean": (tensor([[1, True, 1, 1]]), "$.inputs[0].data[0][1]"),
    "ragged": (tensor([[1, 1, 1, 1], [1, 1, 1]], (2, 4)), "$.inputs[0].data[1]"),
    "too few": (tensor([1, 1, 1]), "4 values, got 3"),
    "too wide": (tensor([1] * 5, (1, 5)), "[-1, 4]"),
    "of another rank": (tensor([1] * 4, (4,)), "[-1, 4]"),
    "no rows": (tensor([], (0, 4)), "1 to 500"),
    "too many rows": (tensor([], (501, 4)), "1 to 500"),
    "fractions of whole numbers": (tensor([1.5, 1, 1, 1], datatype="INT32"), "$.inputs[0].data[0]"),
    "a whole number too large": (tensor([300, 1, 1, 1], datatype="INT8"), "inputs[0]"),
    "an unknown type": (tensor([1] * 4, datatype="FP8"), "datatype"),
    "booleans": (tensor([True] * 4, datatype="BOOL"), "datatype"),
    "text tensors": (tensor(["1"] * 4, datatype="BYTES"), "BYTES"),
    "another name": ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP64", "data": [1] * 4}]}, '"rows"'),
    "two inputs": ({"inputs": tensor([1] * 4)["inputs"] * 2}, '"rows"'),
    "no inputs": ({"inputs": []}, "$.inputs"),
    "no data": ({"inputs": [{"name": "rows", "shape": [1, 4], "datatype": "FP64"}]}, "give `data`"),
    "an unknown output": (tensor([1] * 4) | {"outputs": [{"name": "mood"}]}, '"mood"'),
    "a negative shape": (tensor([1] * 4, (-1, 4)), "shape"),
    "a name twice": (
        b'{"inputs":[{"name":"rows","shape":[1,4],"shape":[1,4],"datatype":"FP64","data":[1,1,1,1]}]}',
        "twice",
    ),
    "too deep": (b'{"inputs":[{"name":"rows","shape":[1,4],"datatype":"FP64","data":' + b"[" * 200_000, "deep"),
    "a machine that is no text": (tensor([1] * 4) | {"parameters": {"machine": 3}}, "str"),
}


@pytest.mark.parametrize("what", BAD_TENSORS)
def test_bad_tensors_are_refused_with_their_place(served: Served, what: str) -> None:
    content, place = BAD_TENSORS[what]
    answer = infer(served, content)
    assert answer.status_code == 400
    assert place in answer.json()["error"]


def binary(
    values: Any, datatype: str = "FP64", shape: Any = (1, 4), cut: int = 0, more: bytes = b""
) -> tuple[bytes, int]:
    blob = np.asarray(values).tobytes()
    blob = blob[: len(blob) - cut]
    one = {"name": "rows", "shape": list(shape), "datatype": datatype, "parameters": {"binary_data_size": len(blob)}}
    head = json.dumps({"inputs": [one]}).encode()
    return head + blob + more, len(head)


BAD_BINARIES = {
    "NaN": (binary([1.0, np.nan, 1.0, 1.0]), "$.rows[0].flow"),
    "infinity": (binary([1.0, np.inf, 1.0, 1.0]), "$.rows[0].flow"),
    "too large": (binary([1.0, 1e39, 1.0, 1.0]), "$.rows[0].flow"),
    "cut off": (binary([1.0] * 4, cut=8), "32 bytes"),
    "too long": (binary([1.0] * 4, more=b"12345678"), "8 bytes are left"),
    "a wrong size of the JSON": ((b"{}", 3), "Inference-Header-Content-Length"),
}


@pytest.mark.parametrize("what", BAD_BINARIES)
def test_bad_binary_tensors_are_refused_with_their_place(served: Served, what: str) -> None:
    (body, size), place = BAD_BINARIES[what]
    answer = infer(served, body, **{"inference-header-content-length": str(size)})
    assert answer.status_code == 400
    assert place in answer.json()["error"]


def test_other_refusals_have_their_own_status(served: Served) -> None:
    body = json.dumps({"rows": [row()]}).encode()
    path = "/models/press/assess"
    assert served.client.post(path, content=body, headers={"content-type": "text/csv"}).status_code == 415
    assert served.client.post(path, content=body).status_code == 415
    assert post(served, path, body, **{"content-encoding": "gzip"}).status_code == 415
    assert post(served, path, b" " * (16 * 2**20 + 1)).status_code == 413
    chunks = (b" " * 2**20 for _ in range(17))
    slow = served.client.post(path, content=chunks, headers={"content-type": "application/json"})
    assert slow.status_code == 413
    assert served.client.get("/assess").status_code == 405
    assert served.client.get("/nothing/here").json() == {"error": "Not Found"}
    assert post(served, "/assess", body).status_code == 404  # which of the four?
    for path in ("/models/lathe/assess", "/models/press/versions/9/assess", "/models/press/versions/x/assess"):
        assert post(served, path, body).status_code == 404
    assert post(served, "/assess?model=press", body).status_code == 200


def test_every_answer_carries_the_security_headers_and_no_trace(served: Served) -> None:
    for answer in (served.client.get("/v2"), served.client.get("/nothing"), assess(served, b"x")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
        assert "Traceback" not in answer.text


def test_the_real_client_of_the_protocol_works_unchanged(served: Served) -> None:
    with triton.InferenceServerClient(served.address) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("press")
        assert client.is_model_ready("press", "1")
        assert not client.is_model_ready("lathe")
        assert client.get_server_metadata()["name"] == "indubio"
        about = client.get_model_metadata("press")
        assert about["inputs"] == [{"name": "rows", "datatype": "FP64", "shape": [-1, 4]}]
        assert {one["name"] for one in client.get_model_repository_index()} == {"press", "parts", "shaker", "camera"}
        client.load_model("press")
        with pytest.raises(triton.InferenceServerException, match="no model 'lathe'"):
            client.get_model_metadata("lathe")


@pytest.mark.parametrize("sent_binary", [True, False])
@pytest.mark.parametrize("got_binary", [True, False, None])
@pytest.mark.parametrize("kind", ["FP64", "FP32"])
def test_the_real_client_gets_what_the_detector_says(
    served: Served, sent_binary: bool, got_binary: bool | None, kind: str
) -> None:
    rows = good_rows(9, seed=4).to_numpy().astype({"FP64": np.float64, "FP32": np.float32}[kind])
    given = triton.InferInput("rows", list(rows.shape), kind)
    given.set_data_from_numpy(rows, binary_data=sent_binary)
    names = ("verdict", "probability", "prediction", "nll")
    outputs = None if got_binary is None else [triton.InferRequestedOutput(n, binary_data=got_binary) for n in names]
    with triton.InferenceServerClient(served.address) as client:
        answer = client.infer("press", [given], outputs=outputs, request_id="7")
    found = served.press.assess(good_rows(9, seed=4) if kind == "FP64" else good_rows(9, seed=4).astype(np.float32))
    verdicts = [one.decode() if isinstance(one, bytes) else one for one in answer.as_numpy("verdict")]
    assert verdicts == found.verdict.tolist()
    assert answer.as_numpy("prediction").tolist() == found.prediction.tolist()
    assert answer.as_numpy("nll").tolist() == found.nll.tolist()
    assert answer.get_response()["id"] == "7"
    assert (answer.as_numpy("case") is None) == (outputs is not None)


def test_the_real_client_sends_categories_as_text(served: Served) -> None:
    weight = triton.InferInput("weight", [2, 1], "FP64")
    weight.set_data_from_numpy(np.array([[0.1], [0.2]]))
    colour = triton.InferInput("colour", [2, 1], "BYTES")
    colour.set_data_from_numpy(np.array([["red"], ["pink"]], dtype=object))
    with triton.InferenceServerClient(served.address) as client:
        answer = client.infer("parts", [weight, colour], parameters={"machine": "scale 4"})
    assert answer.as_numpy("notes").tolist() == [b"", b"unseen: colour=pink"]
    reference = answer.as_numpy("case").tolist()[1].decode()
    assert served.client.get(f"/cases/{reference}").json()["verdict"] == "REFER"


@pytest.mark.parametrize("binary", [True, False])
def test_requests_as_the_client_of_kserve_writes_them_are_answered(served: Served, binary: bool) -> None:
    rows = good_rows(2, seed=4).to_numpy()
    given = {"name": "rows", "shape": [2, 4], "datatype": "FP64"}
    given |= {"parameters": {"binary_data_size": rows.nbytes}} if binary else {"data": rows.ravel().tolist()}
    text = json.dumps({"id": "a1", "model_name": "press", "inputs": [given]}).encode()
    headers = {"inference-header-content-length": str(len(text)), "content-type": "application/octet-stream"}
    answer = infer(served, text + rows.tobytes(), **headers) if binary else infer(served, text)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["id"], answer.json()["model_name"]) == ("a1", "press")
    verdict = next(one["data"] for one in answer.json()["outputs"] if one["name"] == "verdict")
    assert verdict == served.press.assess(good_rows(2, seed=4)).verdict.tolist()


def test_a_body_that_names_another_model_than_the_url_is_refused(served: Served) -> None:
    answer = infer(served, tensor([0.1] * 4) | {"model_name": "parts"})
    assert (answer.status_code, answer.json()["place"]) == (400, "$.model_name")


def test_a_row_is_scored_alike_alone_and_among_many(served: Served) -> None:
    rows = (good_rows(48, seed=6) * 1.2).to_dict("records")
    alone = [assess(served, {"rows": [one]}).json()["results"][0] for one in rows]
    with ThreadPoolExecutor(16) as pool:
        among = list(pool.map(lambda one: assess(served, {"rows": [one]}).json()["results"][0], rows))
    for one, other in zip(alone, among, strict=True):
        assert one["verdict"] == other["verdict"]
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-9)


def test_referrals_are_kept_with_their_input_and_the_rest_leaves_its_trace(served: Served) -> None:
    rows = [{"weight": None, "colour": "red"}, {"weight": 0.0, "colour": "blue"}]
    served.service.store.write(lambda _: None)  # comes after the traces of earlier answers
    before = served.service.store.read(verify)
    answer = assess(served, {"rows": rows, "machine": ["scale 1", "scale 2"], "ids": ["a", "b"]}, "parts").json()
    reference = answer["results"][0]["case"]
    (case,) = (
        one for one in served.service.store.read(lambda c: cases_waiting(c, limit=10_000)) if one.reference == reference
    )
    assert (case.machine, case.external_id, case.model, case.version) == ("scale 1", "a", "parts", 1)
    assert input_values(case) == rows[0]
    assert case.sha256 == answer["model"]["sha256"]
    after = served.service.store.read(verify)
    assert after.whole
    assert after.verdicts == before.verdicts + 2
    last = [entry for entry in served.service.store.read(lambda c: list(entries(c))) if entry.kind == "verdicts"][-1]
    assert [record["machine"] for record in last.content["records"]] == ["scale 1", "scale 2"]
    assert last.content["sha256"] == answer["model"]["sha256"]


def test_the_description_names_the_columns(served: Served) -> None:
    described = served.client.get("/openapi.json").json()
    body = described["paths"]["/models/press/assess"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]["rows"]["items"]["properties"]) == set(NAMES)


def test_metrics_tell_requests_verdicts_and_batches(served: Served) -> None:
    assess(served, {"rows": [row()]})
    text = served.client.get("/metrics").text
    for name in (
        'indubio_requests_total{route="/models/{name}/assess",status="200"}',
        'indubio_verdicts_total{model="press",reason="",verdict="INLIER"}',
        'indubio_batch_rows_bucket{le="1.0",model="press"}',
        'indubio_referral_share{model="press"}',
        "indubio_oldest_case_seconds",
        "indubio_database_up 1.0",
    ):
        assert name in text


def test_when_too_much_waits_requests_are_refused_and_the_others_answered(
    tmp_path: Path, sqlite_store: ServerStore
) -> None:
    table_model(tmp_path / "press")
    with serving(sqlite_store, {"press": tmp_path / "press"}, tmp_path, most_waiting=4, answer_after="all") as (
        _,
        client,
    ):
        gate = threading.Event()
        sqlite_store.submit(lambda connection: gate.wait(30))  # as slow as a disk can be
        with ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(client.post, "/assess", json={"rows": [row()] * 2}) for _ in range(8)]
            while sum(one.done() for one in waiting) < 6:
                pass
            refused = [one.result() for one in waiting if one.done()]
            gate.set()
            answers = [one.result() for one in waiting]
        assert [one.status_code for one in refused] == [503] * 6
        assert all(one.headers["retry-after"] == "1" for one in refused)
        assert sorted(one.status_code for one in answers) == [200] * 2 + [503] * 6


def test_a_chosen_share_is_kept_for_control(tmp_path: Path, sqlite_store: ServerStore) -> None:
    table_model(tmp_path / "press")
    with serving(sqlite_store, {"press": tmp_path / "press"}, tmp_path, control_share=1.0) as (_, client):
        results = client.post("/assess", json={"rows": [row(), row(heat=30)]}).json()["results"]
    assert all(result["case"] for result in results)
    kept = {case.reference: case.verdict for case in sqlite_store.read(cases_waiting)}
    assert kept == {result["case"]: result["verdict"] for result in results}


@pytest.mark.parametrize(("settings", "least", "most"), [({}, 5, 40), ({"control_share": 0.0}, 0, 0)])
def test_about_one_in_fifty_is_kept_unless_that_is_switched_off(
    tmp_path: Path, sqlite_store: ServerStore, settings: dict[str, float], least: int, most: int
) -> None:
    table_model(tmp_path / "press")
    with serving(sqlite_store, {"press": tmp_path / "press"}, tmp_path, **settings) as (_, client):
        rows = [row(heat=place / 10_000) for place in range(1000)]
        results = client.post("/assess", json={"rows": rows}).json()["results"]
    others = [one for one in results if one["verdict"] != "REFER"]
    assert len(others) > 500
    assert least <= sum(bool(one["case"]) for one in others) <= most  # of 1000 binomial draws: 20 expected


def test_each_request_gets_as_many_top_features_as_it_asks_for(served: Served) -> None:
    far = {"rows": [row(heat=40, flow=-20)]}
    with ThreadPoolExecutor(8) as pool:  # some of them are scored together
        wanted = [0, 1, 2, 4, 9, 0, 1, 2] * 4
        answers = list(pool.map(lambda top: assess(served, far | {"top": top}).json()["results"][0], wanted))
    why = [explained["name"] for explained in answers[3]["top_features"]]
    for top, answer in zip(wanted, answers, strict=True):
        given = answer["top_features"]
        assert (None if given is None else [one["name"] for one in given]) == (why[:top] if top else None)


def test_what_a_model_takes_can_be_forgotten() -> None:
    """A pattern of msgspec within a union is freed too often, and the process dies of it: there must be none."""
    import subprocess
    import sys

    code = """
import gc
from indubio.data import Column, Schema
from indubio_server.models.model_inputs import ModelInput
for _ in range(30):
    ModelInput(Schema((Column(name="a"), Column(name="b", kind="category"))), (2,), "refer", 10)
    gc.collect()
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_rule_by_disagreement_answers_with_it_and_keeps_its_cases(tmp_path: Path) -> None:
    detector = table_model(tmp_path / "press", referral=Budget(share=0.2, by="disagreement"))
    rows = good_rows(40, seed=3) * 2
    found = detector.assess(rows)
    assert 0 < (found.verdict == "REFER").sum() < 40
    with (
        ServerStore(f"sqlite:///{tmp_path / 'store.sqlite'}") as store,
        serving(store, {"press": tmp_path / "press"}, tmp_path / "state") as (_, client),
    ):
        answer = client.post("/models/press/assess", json={"rows": rows.to_dict("records")}).json()
        assert [one["disagreement"] for one in answer["results"]] == found.disagreement.tolist()
        assert [one["verdict"] for one in answer["results"]] == found.verdict.tolist()
        assert len(store.read(lambda c: cases_waiting(c, limit=100))) == (found.verdict == "REFER").sum()
