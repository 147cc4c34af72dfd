"""A small builder of ONNX graphs: nodes are added in order, and each gives the name of its result."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 18  # the first with axes as inputs of every reduction; onnxruntime has had it since 1.14


class Graph:
    """Nodes, constants, inputs and outputs of a graph under construction."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str], kind: int = TensorProto.DOUBLE) -> str:
        """An input of the graph; text in the shape is a free dimension."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, name: str, value: str, shape: Sequence[int | str], kind: int = TensorProto.DOUBLE) -> None:
        """Give a result out under this name."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))

    def constant(self, value: np.ndarray | float | Sequence[int], dtype: Any = None) -> str:
        """An array that is part of the model."""
        array = np.ascontiguousarray(value, dtype=dtype)
        if np.ndim(value) == 0:
            array = array.reshape(())
        name = f"constant_{len(self._constants)}"
        self._constants[name] = numpy_helper.from_array(array, name)
        return name

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """One node with one result."""
        name = f"{operation.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def largest(self, values: str, count: int) -> str:
        """So many of the largest along the last axis, the largest first."""
        name = f"topk_{len(self._nodes)}"
        inputs = [values, self.constant([count], np.int64)]
        self._nodes.append(helper.make_node("TopK", inputs, [name, f"{name}_places"], axis=-1, largest=1, sorted=1))
        return name

    def cast(self, value: str, kind: int) -> str:
        """The value in another precision."""
        return self.add("Cast", value, to=kind)

    def mean(self, value: str, axes: Sequence[int]) -> str:
        """Mean over axes, which are dropped."""
        return self.add("ReduceMean", value, self.constant(axes, np.int64), keepdims=0)

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """Another shape; 0 keeps an axis, -1 takes what is left."""
        return self.add("Reshape", value, self.constant(shape, np.int64))

    def model(self, name: str, metadata: dict[str, str]) -> onnx.ModelProto:
        """The finished model, checked."""
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, list(self._constants.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="indubio")
        model.ir_version = 8  # what runtimes of that opset read
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model)
        return model
