"""HTTP: the process, its connections, the gate, request bodies, answers, errors, logs and metrics."""

from indubio_server.http.answers import Answer
from indubio_server.http.connection_table import RESERVED, ConnectionTable
from indubio_server.http.connections import LimitedProtocol, limited
from indubio_server.http.error_answers import BusyError, RefusalError, decoded, refusal_of
from indubio_server.http.gate import (
    CALLBACK,
    COOKIE,
    PROVIDER,
    Actor,
    Gate,
    cookie_value,
    is_loopback,
    require,
    require_everywhere,
)
from indubio_server.http.logs import log_to_stderr
from indubio_server.http.metrics import Metrics
from indubio_server.http.request_bodies import JSON_TYPE, RequestHeaders, read_body, read_form, without_blocking
from indubio_server.http.request_numbers import is_whole_number, whole_number
from indubio_server.http.tls_connections import with_tls

__all__ = [
    "CALLBACK",
    "COOKIE",
    "JSON_TYPE",
    "PROVIDER",
    "RESERVED",
    "Actor",
    "Answer",
    "BusyError",
    "ConnectionTable",
    "Gate",
    "LimitedProtocol",
    "Metrics",
    "RefusalError",
    "RequestHeaders",
    "cookie_value",
    "decoded",
    "is_loopback",
    "is_whole_number",
    "limited",
    "log_to_stderr",
    "read_body",
    "read_form",
    "refusal_of",
    "require",
    "require_everywhere",
    "whole_number",
    "with_tls",
    "without_blocking",
]
