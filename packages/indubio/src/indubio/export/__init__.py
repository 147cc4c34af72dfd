"""A detector as one ONNX graph (`export_onnx`), and a runner of it that says what the detector says (`OnnxModel`)."""

from typing import TYPE_CHECKING, Any

from indubio.export.onnx_export import export_onnx
from indubio.export.onnx_model import OnnxModel

__all__ = ["OnnxModel", "export_onnx"]

if TYPE_CHECKING:
    from indubio.export.onnx_export import export_onnx
    from indubio.export.onnx_model import OnnxModel


def __getattr__(name: str) -> Any:
    # Exporting needs onnx and the detector, scoring must not import them.
    if name == "export_onnx":
        from indubio.export.onnx_export import export_onnx

        return export_onnx
    if name == "OnnxModel":
        from indubio.export.onnx_model import OnnxModel

        return OnnxModel
    raise AttributeError(f"module 'indubio.export' has no attribute {name!r}")
