"""Whatever is sent, the server answers, never with 5xx, and never scores something else than what was sent.

The server is a real one, asked over real sockets. `make fuzz` sends more than 10,000 requests; the tests some hundreds.
"""

import json
import math
import os
import re
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from indubio.data import Column, Schema
from indubio.errors import DataError
from indubio_server.api import tensors
from indubio_server.http import decoded
from indubio_server.models import LARGEST, ModelInput
from indubio_server.store import ServerStore, hashed, verify
from tests.served import NAMES, mixed_model, serving, table_model

CASES = int(os.environ.get("INDUBIO_FUZZ", "240"))
OPERATIONS = 20  # that the description has, about
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
many = settings(
    max_examples=CASES, suppress_health_check=list(HealthCheck), derandomize="INDUBIO_FUZZ" not in os.environ
)
few = settings(many, max_examples=max(3, CASES // 4 // OPERATIONS))

TABLE = ModelInput(Schema(tuple(Column(name=name) for name in ("a", "b"))), (2,), "error", 5)
GAPS = ModelInput(Schema((Column(name="a"), Column(name="b", kind="category"))), (3,), "refer", 5)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("fuzzed")
    table_model(folder / "press")
    mixed_model(folder / "parts")
    sources = {name: folder / name for name in ("press", "parts")}
    with ServerStore(f"sqlite:///{folder / 'store.sqlite'}") as store:
        with serving(store, sources, folder / "state") as (_, opened):
            yield opened
            answered = statuses(opened)
        assert store.read(verify).whole
    assert not [status for status in answered if status >= "500"]
    if "INDUBIO_FUZZ_OUT" in os.environ:
        asked = sum(answered.values())
        assert asked >= 10_000
        lines = [f"{status}  {count:6,}" for status, count in sorted(answered.items())]
        raw = f"{sum(at_the_door.values()):,} more that were hardly HTTP, answered before they were requests with"
        lines += [raw, *(f"{status}  {count:6,}" for status, count in sorted(at_the_door.items()))]
        more = f"and {2 * CASES:,} bodies at most that were read without a server"
        text = "\n".join([f"{asked:,} requests to a running server, answered with", *lines, more, ""])
        Path(os.environ["INDUBIO_FUZZ_OUT"]).write_text(text)


at_the_door: Counter[str] = Counter()  # what connections answered by themselves


def statuses(client: httpx.Client) -> Counter[str]:
    """How many requests were answered with which status, by the server's own count."""
    found: Counter[str] = Counter()
    for labels, count in re.findall(
        r"^indubio_requests_total\{(.*)\} (\S+)$", client.get("/metrics").text, re.MULTILINE
    ):
        found[re.search(r'status="(\d+)"', labels)[1]] += int(float(count))  # type: ignore[index]
    return found


@pytest.fixture(scope="module")
def described(client: httpx.Client) -> Any:
    return schemathesis.openapi.from_url(f"{str(client.base_url).rstrip('/')}/openapi.json")


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_the_server_does_what_it_describes(described: Any, mode: Any) -> None:
    for found in described.get_all_operations():

        @few
        @given(case=found.ok().as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        try:
            check()
        except Unsatisfiable:
            assert mode is schemathesis.GenerationMode.NEGATIVE  # nothing can be wrong with a request that has no parts


numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([1e39, -1e39, 3.5e38, LARGEST, 1e308, 0.0, -0.0, 10**400, True, None, "1", "", [], {}, math.nan]),
)
names = st.sampled_from(["a", "b", "c", "", "rows"])
rows = st.one_of(
    st.fixed_dictionaries({"a": numbers, "b": numbers}),
    st.dictionaries(names, numbers, max_size=3),
    st.lists(numbers, max_size=3),
    numbers,
)
extra = st.dictionaries(st.sampled_from(["ids", "machine", "top", "row", "x"]), st.one_of(numbers, st.text(max_size=3)))
requests = st.builds(
    lambda found, more: {"rows": found, **more}, st.lists(rows, max_size=7), st.one_of(st.just({}), extra)
)


@st.composite
def texts(draw: Any) -> bytes:
    """JSON of a request, or nearly."""
    text = json.dumps(draw(requests), ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
    if draw(st.booleans()):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.binary(max_size=3)) + text[place + draw(st.integers(0, 3)) :]
    return text


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST


@many
@given(texts())
def test_what_is_scored_is_what_was_sent(body: bytes) -> None:
    for model in (TABLE, GAPS):
        try:
            asked = decoded(model.decode, body)
            examples = model.from_rows(asked.rows)
        except DataError:
            continue
        sent = json.loads(body)  # what a stricter reader took, a laxer one must take too
        assert 1 <= len(sent["rows"]) <= 5
        assert [json.loads(one) for one in examples.inputs] == [
            {name: float(value) if type(value) is int else value for name, value in row.items()} for row in sent["rows"]
        ]
        for row in sent["rows"]:
            if model is TABLE:
                assert row.keys() == {"a", "b"}
                assert is_number(row["a"])
                assert is_number(row["b"])
            else:
                assert row["a"] is None or is_number(row["a"])
                assert row["b"] is None or isinstance(row["b"], str)
        if model is TABLE:
            np.testing.assert_array_equal(examples.values, [[float(row["a"]), float(row["b"])] for row in sent["rows"]])


shapes = st.one_of(st.just([1, 2]), st.just([2, 2]), st.lists(st.integers(-1, 4), max_size=4))
tensor = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["rows", "rows", "rows", "x"]),
        "shape": shapes,
        "datatype": st.sampled_from([*tensors.KINDS, "BYTES", "BOOL", "FP64", "FP64"]),
    },
    optional={
        "data": st.one_of(
            st.lists(numbers, max_size=5), st.lists(st.lists(numbers, min_size=2, max_size=2), max_size=3)
        ),
        "parameters": st.dictionaries(
            st.sampled_from(["binary_data_size", "x"]), st.one_of(st.integers(-1, 40), numbers)
        ),
    },
)
inferences = st.fixed_dictionaries(
    {"inputs": st.lists(tensor, min_size=1, max_size=2)},
    optional={"id": st.text(max_size=3), "parameters": st.just({})},
)


@many
@given(inferences, st.binary(max_size=40), st.one_of(st.none(), st.integers(-1, 3)))
def test_tensors_are_scored_as_sent_or_refused(content: Any, blob: bytes, shift: int | None) -> None:
    text = json.dumps(content).encode()
    size = None if shift is None else len(text) + max(shift, -1) * (shift != 3)
    try:
        asked, binary = decoded(tensors.decode, text + (b"" if size is None else blob), size)
        examples = decoded(tensors.examples, asked, binary, TABLE, 5)
    except DataError:
        return
    (one,) = content["inputs"]
    assert examples.values is not None
    assert list(examples.values.shape) == one["shape"]
    assert np.isfinite(examples.values).all()
    if "data" in one:
        np.testing.assert_array_equal(examples.values.ravel(), np.array(one["data"], dtype=float).ravel())


@settings(many, max_examples=max(20, CASES // 3))
@given(texts())
def test_over_http_too_nothing_is_a_fault_of_the_server(client: httpx.Client, body: bytes) -> None:
    body = body.replace(b'"a"', f'"{NAMES[0]}"'.encode())
    for path in ("/models/press/assess", "/models/parts/assess", "/v2/models/press/infer"):
        answer = client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400)
        assert "results" in answer.json() or answer.json()["error"]


values = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["9" * 5000, "1" + "0" * 26, "-1", "1", "²", "nan", "1e400", "\0", "../..", "yes", "press", "I"]),
)
pages = st.sampled_from(
    [
        "/review",
        "/review/next",
        "/review/cases/{}",
        "/review/cases/{}/comment",
        "/review/insights",
        "/review/insights/budget",
        "/review/models/{}/recalibrate",
        "/review/models/press/recalibrate",
        "/review/models/press/activate",
        "/review/exchange",
        "/review/undo",
        "/cases/{}",
        "/static/{}",
        "/login",
    ]
)
FIELDS = ("from", "order", "machine", "since", "said", "taken", "version", "share", "rule", "label", "comment", "key")
fields = st.dictionaries(st.sampled_from([*FIELDS, "token"]), values, max_size=4)


@settings(many, max_examples=max(40, CASES // 6))
@given(pages, values, fields, fields, st.booleans())
def test_pages_and_forms_are_no_fault_of_the_server_either(
    client: httpx.Client, path: str, part: str, query: dict[str, str], form: dict[str, str], posted: bool
) -> None:
    path = path.format(quote(part, safe=""))
    if posted:
        client.cookies.set("indubio_visitor", "fuzz")
        answer = client.post(path, params=query, data={"token": hashed("form of fuzz")} | form)
    else:
        answer = client.get(path, params=query)
    assert answer.status_code < 500


PARTS = [
    *(b"GET / HTTP/1.1\r\n", b"POST /assess HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n", b"HEAD /v2 HTTP/1.0\r\n"),
    *(b"GET /v2/health/live HTTP/1.1\r\n", b"CONNECT a:1 HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n", b"GET //x HTTP/1.1\r\n"),
    *(
        b"Host: localhost\r\n",
        b"Host: evil\r\n",
        b"Content-Length: 2\r\n",
        b"Content-Length: 999999999999999999999\r\n",
    ),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Content-Type: application/json\r\n",
    ),
    *(
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
        b"Expect: 100-continue\r\n",
        b"X-API-Key: \xff\r\n",
        b"Cookie: =;;\r\n",
    ),
    *(
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\0",
        b"{}",
        b"2\r\n{}\r\n",
        b"0\r\n\r\n",
        b"ffffffffffffffffff\r\n",
        b" folded\r\n",
    ),
]
bytes_sent = st.lists(st.one_of(st.sampled_from(PARTS), st.binary(max_size=8)), min_size=1, max_size=12).map(b"".join)


@settings(many, max_examples=max(40, CASES // 6))
@given(bytes_sent)
def test_whatever_bytes_come_a_connection_answers_or_ends(client: httpx.Client, sent: bytes) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as connection:
        received = b""
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(65536):
                received += more
        except ConnectionError:
            pass
    for status in re.findall(rb"^HTTP/1\.1 (\d+) ", received, re.MULTILINE):
        assert status < b"500"
    if received and b"content-security-policy" not in received:
        at_the_door[received[9:12].decode()] += 1
    assert client.get("/v2/health/live").status_code == 200
