"""Tensors of the Open Inference Protocol v2, in JSON and in its binary extension.

A binary request is its JSON followed by the tensors' bytes, little-endian and row by row, in the order of the inputs;
the header Inference-Header-Content-Length says where the JSON ends. Text (BYTES) has four bytes of length before each.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Annotated, Any

import msgspec
import numpy as np

from indubio.errors import DataError, quoted
from indubio_server.models import ExampleBatch, ModelInput, Name, refuse_doubles

KINDS: dict[str, np.dtype[Any]] = {
    "FP64": np.dtype("<f8"),
    "FP32": np.dtype("<f4"),
    "FP16": np.dtype("<f2"),
    **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
}
NUMBERS = ("probability", "epistemic", "aleatoric", "total", "exceed", "var_nll", "nll", "novelty", "p_value")
TEXTS = ("verdict", "reason", "notes", "case")
OUTPUTS = {"verdict": "BYTES", "reason": "BYTES", "prediction": "BOOL"} | dict.fromkeys(NUMBERS, "FP64")
OUTPUTS |= {"notes": "BYTES", "case": "BYTES"}
ROWS = "rows"

MOST_PARAMETERS = 64
MOST_OUTPUTS = 100
Parameters = Annotated[dict[str, bool | int | float | str], msgspec.Meta(max_length=MOST_PARAMETERS)]
Dimension = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class InputTensor(msgspec.Struct, forbid_unknown_fields=True):
    """One input tensor of a request."""

    name: Name
    shape: Annotated[list[Dimension], msgspec.Meta(min_length=1, max_length=8)]
    datatype: str
    parameters: Parameters = {}
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class WantedOutput(msgspec.Struct, forbid_unknown_fields=True):
    """One output that a request asks for."""

    name: str
    parameters: Parameters = {}


class InferRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON of a request for inference."""

    inputs: Annotated[list[InputTensor], msgspec.Meta(min_length=1, max_length=100_000)]
    id: Name = ""
    model_name: Name = ""  # KServe's client repeats what the URL says
    parameters: Parameters = {}
    outputs: Annotated[list[WantedOutput], msgspec.Meta(max_length=MOST_OUTPUTS)] = []


_decoder = msgspec.json.Decoder(InferRequest)


def decode(body: bytes, json_size: int | None) -> tuple[InferRequest, memoryview]:
    """Decode a request; also the bytes of its binary tensors."""
    if json_size is not None and not 0 <= json_size <= len(body):
        raise DataError(f"Inference-Header-Content-Length is {json_size}, and the body has {len(body)} bytes.")
    text = body if json_size is None else body[:json_size]
    request = _decoder.decode(text)
    if text.count(b":") != _names(request):
        refuse_doubles(text)
    return request, memoryview(body)[len(text) :]


def _names(request: InferRequest) -> int:
    """How many names the JSON must have at least: one that has more may name something twice."""
    tensors = sum(3 + (t.data is not msgspec.UNSET) + bool(t.parameters) + len(t.parameters) for t in request.inputs)
    wanted = sum(1 + bool(o.parameters) + len(o.parameters) for o in request.outputs)
    own = (
        1
        + bool(request.id)
        + bool(request.model_name)
        + bool(request.parameters)
        + len(request.parameters)
        + bool(request.outputs)
    )
    return tensors + wanted + own


def described(model: ModelInput) -> list[dict[str, Any]]:
    """Describe a model's inputs: one matrix, or a tensor per column where some are categories."""
    if model.numeric:
        return [{"name": ROWS, "datatype": "FP64", "shape": [-1, *model.input_shape]}]
    kinds = {"number": "FP64", "category": "BYTES"}
    return [{"name": column.name, "datatype": kinds[column.kind], "shape": [-1, 1]} for column in model.schema.columns]


def examples(request: InferRequest, binary: memoryview, model: ModelInput, most_rows: int) -> ExampleBatch:
    """Turn a request's tensors into examples; what does not fit the model is refused before its data is read."""
    wanted = [ROWS] if model.numeric else list(model.schema.names)
    names = {tensor.name for tensor in request.inputs}
    if names != set(wanted) or len(names) != len(request.inputs):
        raise DataError(f"the inputs must be {quoted(wanted)}, got {quoted(t.name for t in request.inputs)}.")
    counts = {tensor.shape[0] for tensor in request.inputs}
    if len(counts) > 1:
        raise DataError(f"the inputs have different numbers of rows: {quoted(map(str, sorted(counts)))}.")
    for place, tensor in enumerate(request.inputs):
        _require_fitting_head(tensor, f"$.inputs[{place}]", most_rows)
        if model.numeric:
            _require_shape(tensor, [model.input_shape])
            if tensor.datatype == "BYTES":
                raise DataError(f'inputs "{ROWS}": this model takes numbers, got BYTES.')
        else:
            _require_shape(tensor, [(1,), ()])
            kind = model.kinds[tensor.name]
            if (tensor.datatype == "BYTES") != (kind == "category"):
                raise DataError(f'inputs "{tensor.name}" is a {kind}: {tensor.datatype} does not fit.')
    tensors = dict(_tensors(request, binary, missing=model.missing != "error"))
    if model.numeric:
        return model.from_values(tensors[ROWS].astype(np.float64))
    return model.from_columns([_column(tensors[column.name]) for column in model.schema.columns])


def _require_fitting_head(tensor: InputTensor, where: str, most_rows: int) -> None:
    if not 1 <= tensor.shape[0] <= most_rows:
        raise DataError(f"{where}.shape: a request has 1 to {most_rows} rows, got {tensor.shape[0]}.")
    if tensor.datatype not in KINDS and tensor.datatype != "BYTES":
        raise DataError(f"{where}.datatype: must be one of {', '.join(KINDS)} or BYTES, got {tensor.datatype[:40]!r}.")


def _require_shape(tensor: InputTensor, inner: Sequence[tuple[int, ...]]) -> None:
    if tuple(tensor.shape[1:]) not in inner:
        raise DataError(f'inputs "{tensor.name}": the shape must be {[-1, *inner[0]]}, got {tensor.shape}.')


def _column(values: np.ndarray) -> list[Any]:
    plain: list[Any] = values.reshape(-1).tolist()
    return [None if value != value else value for value in plain]


def _tensors(request: InferRequest, binary: memoryview, *, missing: bool) -> Iterator[tuple[str, np.ndarray]]:
    at = 0
    for place, tensor in enumerate(request.inputs):
        where = f"$.inputs[{place}]"
        size = tensor.parameters.get("binary_data_size")
        if (size is None) == (tensor.data is msgspec.UNSET):
            raise DataError(f"{where}: give `data`, or `binary_data_size` and the bytes after the JSON.")
        if size is None:
            yield tensor.name, _from_json(tensor, where, missing)
            continue
        if type(size) is not int or size < 0 or at + size > len(binary):
            raise DataError(f"{where}: binary_data_size is {size!r}, and {len(binary) - at} bytes are left.")
        yield tensor.name, _from_bytes(tensor, binary[at : at + size], where)
        at += size
    if at != len(binary):
        raise DataError(f"{len(binary) - at} bytes are left after the last tensor.")


def _from_json(tensor: InputTensor, where: str, missing: bool) -> np.ndarray:
    raw = bytes(tensor.data)  # type: ignore[arg-type]
    nested = raw[1:].lstrip()[:1] == b"["
    one = "text" if tensor.datatype == "BYTES" else "fraction" if tensor.datatype.startswith("FP") else "whole"
    try:
        plain = _data_decoder(one, missing, tuple(tensor.shape[1:]) if nested else ()).decode(raw)
    except msgspec.DecodeError as error:
        raise DataError(str(error).replace("`$", f"`{where}.data")) from None
    if tensor.datatype == "BYTES":
        values = np.array(plain, dtype=object)
    elif missing or tensor.datatype.startswith("FP"):
        values = np.array(plain, dtype=np.float64)
        if tensor.datatype != "FP64" and not missing:
            _require_fitting(values, KINDS[tensor.datatype], where)
    else:
        try:
            values = np.array(plain, dtype=KINDS[tensor.datatype])
        except OverflowError as error:
            raise DataError(f"{where}.data: {error}.") from None
    if values.size != prod(tensor.shape):
        raise DataError(f"{where}.data: the shape {tensor.shape} has {prod(tensor.shape)} values, got {values.size}.")
    return values.reshape(tensor.shape)


@lru_cache(maxsize=64)
def _data_decoder(one: str, missing: bool, inner: tuple[int, ...]) -> msgspec.json.Decoder[Any]:
    """A decoder for the data of a tensor, flat or nested; making one costs more than using it."""
    value: Any = {"text": Name, "fraction": float, "whole": int}[one]
    value = value | None if missing else value
    kind: Any = list[value]
    for length in reversed(inner):
        kind = list[Annotated[kind, msgspec.Meta(min_length=length, max_length=length)]]
    return msgspec.json.Decoder(kind)


def _require_fitting(values: np.ndarray, kind: np.dtype[Any], where: str) -> None:
    bad = np.abs(values).ravel() > np.finfo(kind).max
    if bad.any():
        place = int(np.argmax(bad))
        raise DataError(f"{where}.data: value {place}, {values.ravel()[place]:g}, does not fit the datatype.")


def _from_bytes(tensor: InputTensor, data: memoryview, where: str) -> np.ndarray:
    count = prod(tensor.shape)
    if tensor.datatype == "BYTES":
        return np.array(list(_texts(data, count, where)), dtype=object).reshape(tensor.shape)
    kind = KINDS[tensor.datatype]
    if len(data) != count * kind.itemsize:
        raise DataError(
            f"{where}: the shape {tensor.shape} of {tensor.datatype} has {count * kind.itemsize} bytes, "
            f"and binary_data_size is {len(data)}."
        )
    return np.frombuffer(data, kind).reshape(tensor.shape)


def _texts(data: memoryview, count: int, where: str) -> Iterator[str]:
    at = 0
    for number in range(count):
        size = int.from_bytes(data[at : at + 4], "little")
        if at + 4 + size > len(data):
            raise DataError(f"{where}: the bytes end within text {number}.")
        try:
            text = bytes(data[at + 4 : at + 4 + size]).decode()
        except UnicodeDecodeError:
            raise DataError(f"{where}: text {number} is not UTF-8.") from None
        yield msgspec.convert(text, Name)
        at += 4 + size
    if at != len(data):
        raise DataError(f"{where}: {len(data) - at} bytes are left after text {count - 1}.")


def wanted_outputs(request: InferRequest) -> dict[str, bool]:
    """The outputs that are asked for, and which of them in binary."""
    binary = request.parameters.get("binary_data_output", False) is True
    if not request.outputs:
        return dict.fromkeys(OUTPUTS, binary)
    unknown = [output.name for output in request.outputs if output.name not in OUTPUTS]
    if unknown:
        raise DataError(f"there is no output {quoted(unknown)}; there are {quoted(OUTPUTS)}.")
    return {output.name: output.parameters.get("binary_data", binary) is True for output in request.outputs}


def answer(
    columns: Mapping[str, Sequence[Any]], wanted: Mapping[str, bool], head: Mapping[str, Any]
) -> tuple[bytes, int | None]:
    """The body of an answer, and the size of its JSON where bytes follow it.

    Args:
        columns: values by output.
        wanted: outputs, and which of them in binary.
        head: model and id.
    """
    outputs, blobs = [], []
    for name, binary in wanted.items():
        values = columns[name]
        tensor: dict[str, Any] = {"name": name, "datatype": OUTPUTS[name], "shape": [len(values)]}
        if binary:
            blobs.append(_encoded(values, OUTPUTS[name]))
            tensor["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            tensor["data"] = values
        outputs.append(tensor)
    text = msgspec.json.encode({**head, "outputs": outputs})
    return (b"".join([text, *blobs]), len(text)) if blobs else (text, None)


def _encoded(values: Sequence[Any], kind: str) -> bytes:
    if kind == "BYTES":
        texts = [text.encode() for text in values]
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    return np.array(values, dtype="<f8" if kind == "FP64" else bool).tobytes()
