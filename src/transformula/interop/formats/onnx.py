"""`onnx`: the programs of a model for ONNX Runtime, and whatever else reads ONNX, with decoding by a cache."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from ...errors import CheckpointError
from ..exchange import condition, exporter
from ..programs import Function, Program, check_traced, line_of, names_of, reason, write_programs

condition("onnx")(check_traced)


@exporter("onnx", needs=["onnx", "onnxscript", "onnxruntime"])
def write_onnx(model: nn.Module, folder: Path) -> None:
    """`model.onnx`, `start.onnx` and `programs.json`, as `interop/programs.py` says, in float32.

    Raises CheckpointError for what torch.export or ONNX cannot express, with its place."""
    write_programs(model, folder, "onnx", save, load)


def save(program: Program, path: Path) -> None:
    """One file; numbers beyond the 2 GB of an ONNX file stand in another beside it."""
    try:
        with torch.no_grad():
            written = torch.onnx.export(
                program.exported,
                dynamo=True,
                verbose=False,
                input_names=names_of(program.inputs),
                output_names=names_of(program.outputs),
            )
    except torch.onnx.OnnxExporterError as error:
        what = f"ONNX cannot express the model{line_of(program.model, error)}: {reason(error)}"
        raise CheckpointError(f"{what}; nothing was written. --to torch-export may do") from error
    assert written is not None
    graph = written.model.graph
    for values, ports in ((graph.inputs, program.inputs), (graph.outputs, program.outputs)):
        for value, port in zip(values, ports, strict=True):
            shape: type = type(value.shape)
            value.shape = shape(port.shape)  # torch names free dimensions by symbols of its own
    written.save(path)


def load(path: Path, program: Program) -> Function:
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(path)
    except Exception as error:  # of many kinds, which its module hides
        raise CheckpointError(
            f"ONNX Runtime does not take the program: {reason(error)}; nothing was written"
        ) from error
    inputs, outputs = names_of(program.inputs), names_of(program.outputs)

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        feed = {name: tensor.numpy() for name, tensor in zip(inputs, tensors, strict=True)}
        return tuple(map(torch.from_numpy, session.run(outputs, feed)))

    return run
