"""The routes for machines: /assess, the Open Inference Protocol, and what an operator needs."""

from indubio_server.api.routes import Api
from indubio_server.api.tensors import NUMBERS

__all__ = ["NUMBERS", "Api"]
