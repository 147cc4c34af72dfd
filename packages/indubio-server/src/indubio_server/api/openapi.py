"""The API described in OpenAPI 3.1, with the columns of the models that are served."""

from typing import Any

import msgspec

from indubio import __version__
from indubio.decision import Reason
from indubio_server.api import tensors
from indubio_server.models import Loaded, Registry
from indubio_server.outside_names import PRINTABLE
from indubio_server.server_settings import ServerSettings

REFUSALS = {
    "400": "What was sent cannot be used; the message says where and why.",
    "401": "A key is needed.",
    "403": "The key's role or its sites are not enough, or the request comes from elsewhere.",
    "404": "There is no such model, version, case or site.",
    "405": "There is no such method here.",
    "408": "The body came too slowly.",
    "409": "It does not go with what is there.",
    "413": "The body is too large.",
    "415": "The body is of a kind that is not accepted.",
    "429": "Too many requests.",
    "503": "Too much work waits, or the database is gone; Retry-After says when to come back.",
}
NUMBER, TEXT = {"type": "number"}, {"type": "string"}
RESULT = {
    "type": "object",
    "required": ["verdict", "reason", "prediction", *tensors.NUMBERS, "notes", "case", "top_features"],
    "properties": {
        "verdict": {"enum": ["INLIER", "ANOMALY", "REFER"]},
        "reason": {"enum": ["", *Reason], "description": "Why it is referred."},
        "prediction": {"type": "boolean", "description": "Whether it would be an anomaly if it were not referred."},
        **dict.fromkeys(tensors.NUMBERS, NUMBER),
        "novelty": {
            "type": ["number", "null"],
            "description": "How far it is from all that was seen in training; above 1 for one good example in a "
            "hundred. null where the model cannot tell.",
        },
        "p_value": {"type": ["number", "null"], "description": "Conformal p-value; null where the model has none."},
        "notes": {"type": "string", "description": "What was wrong with the data."},
        "case": {"type": ["string", "null"], "description": "What the review queue calls it; null: not kept."},
        "top_features": {
            "type": ["array", "null"],
            "items": {"type": "object", "properties": {"name": TEXT, "share": NUMBER}, "required": ["name", "share"]},
        },
        "id": TEXT,
    },
}
SITE = {
    "name": "site",
    "in": "query",
    "description": "Only machines of this site, or of this line: hamburg or hamburg/press.",
    "schema": TEXT,
}
MODEL = {
    "type": "object",
    "required": ["name", "version", "sha256", "rule"],
    "properties": {"name": TEXT, "version": {"type": "integer"}, "sha256": TEXT, "rule": TEXT},
}
ASSESSED = {
    "type": "object",
    "required": ["model", "kept", "results"],
    "properties": {
        "model": MODEL,
        "kept": {"type": "boolean", "description": "false: the database is gone, and nothing was kept."},
        "results": {"type": "array", "items": RESULT},
    },
}
INFER = {
    "type": "object",
    "required": ["inputs"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "maxLength": 200, "pattern": PRINTABLE},
        "parameters": {"type": "object"},
        "inputs": {"type": "array", "minItems": 1},
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {"name": {"enum": list(tensors.OUTPUTS)}, "parameters": {"type": "object"}},
            },
        },
    },
}


def document(registry: Registry, settings: ServerSettings) -> dict[str, Any]:
    """The OpenAPI document of a server, as plain data."""
    paths: dict[str, Any] = {
        "/v2": _get("The server.", open_to_all=True),
        "/v2/health/live": _get("The process answers.", open_to_all=True),
        "/v2/health/ready": _get("Requests are answered.", open_to_all=True),
        "/models": _get("The models and their active versions."),
        "/alarms": _get("The machines whose alarm rings, and the latest events.", query=SITE),
        "/metrics": _get("For Prometheus.", kind="text/plain"),
        "/cases/{reference}": _get("What became of an example that was kept.", "reference"),
        "/v2/repository/index": {"post": _operation("The models.", {"type": "array"}, None)},
    }
    for name in registry.names:
        paths |= _model_paths(registry.model(name))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "indubio",
            "version": __version__,
            "description": "Anomaly detection that knows when it is in doubt. At most "
            f"{settings.most_rows} rows and {settings.largest_body} bytes a request.",
        },
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}, {}],
    }


def _model_paths(loaded: Loaded) -> dict[str, Any]:
    (row,), components = msgspec.json.schema_components([loaded.model.input.Request], ref_template="{name}")
    asked = dict(components[row["$ref"]])
    asked["properties"] = asked["properties"] | {"rows": asked["properties"]["rows"] | {"items": components["Row"]}}
    name = loaded.name
    own = {"inputs": _inputs(loaded), "model_name": {"enum": [name, ""]}}
    infer = {**INFER, "properties": {**INFER["properties"], **own}}  # type: ignore[dict-item]
    return {
        f"/models/{name}": _get("Versions and who activated which."),
        f"/models/{name}/assess": {"post": _operation("Verdicts of rows by column name.", ASSESSED, asked)},
        f"/v2/models/{name}": _get("What the model takes and gives."),
        f"/v2/models/{name}/ready": _get("Whether the model can score."),
        f"/v2/models/{name}/infer": {"post": _operation("Open Inference Protocol v2.", {"type": "object"}, infer)},
    }


def _inputs(loaded: Loaded) -> dict[str, Any]:
    described = tensors.described(loaded.model.input)
    tensor = {
        "type": "object",
        "required": ["name", "shape", "datatype", "data"],
        "additionalProperties": False,
        "properties": {
            "name": {"enum": [one["name"] for one in described]},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1, "maxItems": 8},
            "datatype": {"enum": [*tensors.KINDS, "BYTES"]},
            "parameters": {"type": "object"},
            "data": {"type": "array"},
        },
    }
    return {"type": "array", "items": tensor, "minItems": len(described), "maxItems": len(described)}


def _get(
    summary: str,
    parameter: str | None = None,
    *,
    query: dict[str, Any] | None = None,
    kind: str = "application/json",
    open_to_all: bool = False,
) -> dict[str, Any]:
    operation = _operation(summary, {} if kind == "application/json" else TEXT, None, kind=kind)
    if parameter is not None:
        operation["parameters"] = [{"name": parameter, "in": "path", "required": True, "schema": TEXT}]
    if query is not None:
        operation["parameters"] = [query]
    if open_to_all:
        operation["security"] = []
    return {"get": operation}


def _operation(
    summary: str, answer: dict[str, Any], body: dict[str, Any] | None, *, kind: str = "application/json"
) -> dict[str, Any]:
    error = {"type": "object", "required": ["error"], "properties": {"error": TEXT, "place": TEXT}}
    refused = {"content": {"application/json": {"schema": error}}}
    responses = {code: {"description": words, **refused} for code, words in REFUSALS.items()}
    responses["200"] = {"description": summary, "content": {kind: {"schema": answer}}}
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation
