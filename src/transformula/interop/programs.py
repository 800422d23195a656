"""A model as programs for others to run, traced by `torch.export` for every batch and every length.

    model   tokens, fixed, state -> logits, next state; of a model that is not decoded: inputs, lengths -> outputs
    start   inputs of other sequences -> fixed, where there are such: an encoder, run once

What these are `model/stateless.py` says. A folder of them says in `programs.json` what they take and give.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.fx import Node

from ..errors import CheckpointError, TransformulaError, shortened
from ..language.word_calls import SEVERAL_IDS
from ..model import stateless
from ..model.dataflow import DECODED, channels_of_inputs, grid_made, input_sequences, makers
from ..model.model_code import IDS
from ..model.stateless import LENGTHS, NEXT, POSITIONS, Named
from ..model.transformer import Transformer, evaluating
from ..tokenizers.base import load as load_tokenizer
from .exchange import TEXT, text_of

Shape = tuple[int | str, ...]
"""Sizes of dimensions: a number, or the name of what is free, such as `batch`, or a formula of such (`new + past`)."""
Run = Callable[[str, Named], Named]
"""Runs the program of a name on tensors by name, and gives its outputs by name."""
Function = Callable[..., Sequence[Tensor]]
"""A written program: tensors in the order of its inputs -> tensors in that of its outputs."""

FREE = {"batch": 2, "new": 3, "past": 5}  # dimensions that are free in every model, with a size to trace with
OTHERS = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41)  # sizes of others; no two are equal, or they would be taken for one
SQUARES = 6  # of a picture to trace with, unless a model has learned fewer positions: then 4, the only ones it can have
MOST_PIXELS = 1024  # of a side of a picture to trace with
NO_PICTURE = (-1, -1)  # rows and columns of positions that are made of no picture
FEW = 4  # positions, where a model has learned fewer than the first of these
SAMPLES = 2720  # of sound: some windows, of whose number the same holds
SYMBOL = re.compile(r"\bs\d+\b")  # torch's name of a free size
FUNCTIONS = {"TruncToInt(": "int(", "ToFloat(": "float(", "FloatPow(": "pow("}
"""Functions in torch's formulas of sizes, as Python calls them: the side of a square grid is a root."""
ABOUT = "programs.json"
CHECKED_POSITIONS = 6  # positions that are compared
TOLERANCE = 1e-3  # of the largest number, between a program and the model; some 1e-6 are usual in float32


@dataclass(frozen=True)
class Port:
    """A tensor that a program takes or gives."""

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True)
class Program:
    """`exported` takes the tensors of `inputs`, one after the other, and gives those of `outputs` as a tuple. `sizes`:
    what free dimensions were while it was traced."""

    model: Transformer
    exported: ExportedProgram
    inputs: list[Port]
    outputs: list[Port]
    sizes: dict[str, int]


class Examples(dict[str, Tensor]):
    """Tensors to trace with, by name, and their shapes in names."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[str, Shape] = {}
        self.sizes = dict(FREE)

    def add(self, name: str, shape: Shape, dtype: torch.dtype = torch.int64, value: int = 0) -> None:
        for size in shape:
            if isinstance(size, str):
                self.sizes.setdefault(size, next(n for n in OTHERS if n not in self.sizes.values()))
        self.shapes[name] = shape
        sizes = [size if isinstance(size, int) else self.sizes[size] for size in shape]
        self[name] = torch.full(sizes, value, dtype=dtype)


class Traced(nn.Module):
    """A function of a model and of tensors by name as a module, which takes and gives them in order."""

    def __init__(self, model: Transformer, names: list[str], run: Callable[[Transformer, Named], Named]) -> None:
        super().__init__()
        self.model, self.names, self.run = model, names, run

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.run(self.model, dict(zip(self.names, tensors, strict=True))).values())


def programs_of(model: Transformer) -> dict[str, Program]:
    """The programs of a model by name: `model`, and before it `start` where there are other sequences.

    Raises CheckpointError for what cannot be traced, with its line.
    """
    model = evaluating(model)
    if not stateless.is_decoded(model):
        return {"model": trace(model, stateless.whole, whole_inputs(model, model.inputs))}
    programs, examples = {}, Examples()
    several = channels_of_inputs(model.architecture)
    for name in stateless.growing_inputs(model):
        if name in several:
            examples.add(name, ("batch", "new", several[name]), torch.float32)
        else:
            examples.add(name, ("batch", "new", *["letters"] * (name in SEVERAL_IDS)))
    fixed = []
    if model.given_at_start:
        programs["start"] = trace(model, stateless.start, whole_inputs(model, model.given_at_start))
        fixed = programs["start"].outputs
        examples.sizes |= programs["start"].sizes
    for port in fixed:
        examples.add(port.name, port.shape, getattr(torch, port.dtype))
    examples.add(POSITIONS, ("batch",))
    grows = {}
    for name, (tensor, dimension) in stateless.state_of(model, {p.name: examples[p.name] for p in fixed}).items():
        sizes = ["past" if d == dimension else size for d, size in enumerate(tensor.shape)]
        examples.add(name, ("batch", *sizes[1:]), tensor.dtype)
        grows[name] = dimension
    programs["model"] = trace(model, partial(stateless.step, grows=grows), examples)
    return programs


def whole_inputs(model: Transformer, names: list[str]) -> Examples:
    """Examples of inputs that are given whole, and of how many of their positions are real."""
    examples, calls = Examples(), makers(model.architecture).values()
    sequence = {name: group[0] for group in input_sequences(model.architecture).values() for name in group}
    several = channels_of_inputs(model.architecture)
    squares = {call.args[0].name: call.called.options for call in calls if call.called.word.real == "patches"}
    for name in names:
        length = sequence.get(name, name)
        if name in squares:
            side, channels = int(squares[name]["size"]), int(squares[name]["channels"])
            wide = 2 if (model.positions_of(name) or SQUARES) < SQUARES else 3
            height, width = picture_of_grids(model) or (2 * side, wide * side)
            examples.sizes |= {"height": height, "width": width}
            examples.add(name, ("batch", channels, "height", "width"), torch.float32)
        elif name in several:
            examples.add(name, ("batch", length, several[name]), torch.float32)
        elif name in IDS:
            if (model.positions_of(name) or OTHERS[0]) < OTHERS[0]:
                examples.sizes.setdefault(length, FEW)
            examples.add(name, ("batch", length, *["letters"] * (name in SEVERAL_IDS)))
        else:
            examples.sizes[length] = SAMPLES
            examples.add(name, ("batch", length), torch.float32)
    for length in dict.fromkeys(sequence[name] for name in names if name in sequence):
        examples.add(f"{length}{LENGTHS}", ("batch",), value=examples.sizes[length])
    return examples


def picture_of_grids(model: Transformer) -> tuple[int, int] | None:
    """Height and width of the smallest square picture whose positions are what the model's words of grids take, with
    two rows and columns at least: of one, exported code would hold for one alone. None where it has no such words, or
    none of pictures."""
    described = [
        grid_made(value, model.architecture)
        for section in model.architecture.sections()
        for value in section.calls()
        if value.called.word.real in ("grid", "larger")
    ]
    described += [each[-1] for each in described if each[0] == "larger"]  # the smaller grid needs two rows as well
    grids = [each for each in described if grid_of(each, MOST_PIXELS, MOST_PIXELS) != NO_PICTURE]
    for side in range(1, MOST_PIXELS + 1) if grids else ():
        if all(min(grid_of(each, side, side)) > 1 for each in grids):
            return side, side
    return None


def grid_of(described: Any, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of a described sequence that is made of a picture; zeros where the picture makes no such grid,
    NO_PICTURE where it is made of none."""
    from ..words.grid import results

    what, *parts = described or ("",)
    if what == "image":
        _, *squares = parts
        return results(height, *squares), results(width, *squares)
    if what not in ("grid", "larger") or (what == "larger" and parts[1] == 1):
        return NO_PICTURE
    shape, columns = grid_of(parts[-1], height, width), parts[2] if what == "larger" else parts[0]
    if shape == NO_PICTURE or min(shape) < 1:
        return shape
    if shape[1] != (columns or shape[0]):
        return 0, 0
    if what == "larger":
        return parts[0] * shape[0], parts[0] * shape[1]
    _, side, stride, padding, dilation, _ = parts
    return results(shape[0], side, stride, padding, dilation), results(shape[1], side, stride, padding, dilation)


def trace(model: Transformer, run: Callable[[Transformer, Named], Named], examples: Examples) -> Program:
    results: list[str] = []

    def noting(model: Transformer, given: Named) -> Named:
        made = run(model, given)
        results[:] = made
        return made

    module = Traced(model, [*examples], noting).eval()
    free = {size: Dim(size) if size in FREE else Dim.AUTO for size in examples.sizes}
    dimensions = tuple({d: free[s] for d, s in enumerate(examples.shapes[n]) if isinstance(s, str)} for n in examples)
    try:
        with torch.no_grad():
            exported = export(module, tuple(examples.values()), dynamic_shapes=(dimensions,), strict=False)
    except TransformulaError:
        raise
    except Exception as error:
        what = f"torch.export cannot follow the model{line_of(model, error)}: {reason(error)}"
        raise CheckpointError(f"{what}; nothing was written") from error
    nodes = {node.name: node.meta["val"] for node in exported.graph.nodes if "val" in node.meta}
    signature = exported.graph_signature
    inputs = [nodes[str(name)] for name in signature.user_inputs]
    outputs = [nodes[str(name)] for name in signature.user_outputs]
    labels = Labels()
    for value, name in zip(inputs, examples, strict=True):
        for size, label in zip(value.shape, examples.shapes[name], strict=True):
            if isinstance(size, torch.SymInt):
                labels.symbols[str(size.node.expr)] = str(label)
            elif size != label:
                what = f"torch.export makes of the model a program for {label} = {size} alone"
                raise CheckpointError(f"{what}; nothing was written. This is a defect: report it with the model's text")
    ports = labels.ports(examples, inputs), labels.ports(results, outputs)
    return Program(model, exported, *ports, labels.sizes)


def reason(error: BaseException) -> str:
    """What an error of torch's says first of its cause, and no more."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).replace('For more information, run with TORCH_LOGS="+dynamic"', "")
    lines = [line.strip(" .") for line in text.splitlines()]
    return shortened(" ".join([line for line in lines if line][:2]) or type(error).__name__, 200)


class Labels:
    """The names of free sizes: `symbols` from those that torch gave them, `sizes` to what they were."""

    def __init__(self) -> None:
        self.symbols: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    def ports(self, names: Iterable[str], tensors: list[Tensor]) -> list[Port]:
        each = zip(names, tensors, strict=True)
        return [Port(n, str(t.dtype).removeprefix("torch."), tuple(map(self.label_of, t.shape))) for n, t in each]

    def label_of(self, size: int | torch.SymInt) -> int | str:
        if isinstance(size, int):
            return size
        label = SYMBOL.sub(lambda match: self.symbols.get(match[0], match[0]), str(size))
        for theirs, name in FUNCTIONS.items():
            label = label.replace(theirs, name)
        self.sizes[label] = size.node.hint
        return label


def line_of(model: Transformer, error: BaseException) -> str:
    """Where in the formula the module stands that torch followed or translated when it failed, as ' at layer 1, line 2:
    ...'; "" where that is not known."""
    paths = {id(module): path for path, module in model.named_modules() if path}
    line = ""
    one: BaseException | None = error
    while one is not None:
        trace = one.__traceback__
        while trace is not None:
            seen = trace.tb_frame.f_locals
            path, node = paths.get(id(seen.get("self")), ""), seen.get("node")
            if isinstance(node, Node):
                stack = [*node.meta.get("nn_module_stack", {}).values()]
                path = stack[-1][0].partition("model.")[2] if stack else ""
            line = (model.line_of(path) if path in paths.values() else "") or line
            trace = trace.tb_next
        one = one.__cause__
    return f" at {line}" if line else ""


def write_programs(
    model: nn.Module, folder: Path, suffix: str, save: Callable[[Program, Path], None],
    load: Callable[[Path, Program], Function],
) -> None:  # fmt: skip
    """Write a model's text, its programs, and what they take and give; run them as they were written, and compare with
    the model.

    save  writes a program into a file NAME.suffix
    load  makes a function of such a file

    Raises CheckpointError for what cannot be expressed, and where the comparison fails.
    """
    model = with_formula(model)
    if any(t.device.type != "cpu" or (t.is_floating_point() and t.dtype != torch.float32) for t in model.parameters()):
        model = copy.deepcopy(model).to("cpu", torch.float32)
    functions: dict[str, Function] = {}
    with quiet():
        programs = programs_of(model)
        for name, program in programs.items():
            path = folder / f"{name}.{suffix}"
            save(program, path)
            functions[name] = load(path, program)
    (folder / TEXT).write_text(text_of(model), encoding="utf-8")
    (folder / ABOUT).write_text(json.dumps(description_of(model, programs, suffix, folder), indent=1), encoding="utf-8")

    def run(name: str, given: Named) -> Named:
        made = functions[name](*(given[port] for port in names_of(programs[name].inputs)))
        return dict(zip(names_of(programs[name].outputs), made, strict=True))

    check(model, programs, run)


def with_formula(model: nn.Module) -> Transformer:
    """The model itself. Raises CheckpointError for one that has none."""
    if not isinstance(model, Transformer):
        raise CheckpointError(f"a {type(model).__name__} has no formula, and so no program; export a model of ours")
    return model


def check_traced(model: nn.Module, folder: Path | None) -> None:
    """Whether torch.export follows a model, which takes seconds: one without memory is not tried. Raises
    CheckpointError."""
    model = with_formula(model)
    if not any(tensor.is_meta for tensor in model.parameters()):
        with quiet():
            programs_of(model)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what torch prints, logs and warns of on its way."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def description_of(model: Transformer, programs: Mapping[str, Program], suffix: str, folder: Path) -> dict[str, Any]:
    """What a folder of programs says of them, as plain data.

    programs  by name their file, inputs and outputs, each with name, dtype and shape
    state     inputs of `model` that are zeros at first, of no positions (`past` is 0); what they are behind a chunk is
              the output of the same name with `next.` before it
    fixed     inputs of `model` that `start` gives, once
    vocab, context, end  how many ids there are, the longest text (null: any), the ids that end one
    """
    numbers = model.architecture.numbers
    return {
        "format": 1,
        "programs": {
            name: {"file": f"{name}.{suffix}", "inputs": [*map(asdict, p.inputs)], "outputs": [*map(asdict, p.outputs)]}
            for name, p in programs.items()
        },
        "state": state_names(programs["model"]),
        "fixed": names_of(programs["start"].outputs) if "start" in programs else [],
        "vocab": int(numbers["vocab"]) if "vocab" in numbers else None,
        "context": model.context_limit,
        "end": ends_of(folder),
    }


def ends_of(folder: Path) -> list[int]:
    """The ids that end a text, as the tokenizer of a folder says; none where there is no tokenizer that is known."""
    try:
        return sorted(load_tokenizer(folder).ends)
    except CheckpointError:
        return []


def names_of(ports: Iterable[Port]) -> list[str]:
    return [port.name for port in ports]


def state_names(program: Program) -> list[str]:
    outputs = names_of(program.outputs)
    return [name for name in names_of(program.inputs) if NEXT + name in outputs]


def check(model: Transformer, programs: Mapping[str, Program], run: Run) -> None:
    """Run programs as they were written, in chunks, and compare with one pass of the model on random inputs. Raises
    CheckpointError where they differ by more than rounding."""
    model = evaluating(model)
    decoded = POSITIONS in names_of(programs["model"].inputs)
    given: Named = dict(whole_inputs(model, model.given_at_start if decoded else model.inputs))
    length = min(CHECKED_POSITIONS, model.context_limit or CHECKED_POSITIONS)
    given |= stateless.chunk(model, FREE["batch"], length) if decoded else {}
    generator = torch.Generator().manual_seed(0)
    for name, zeros in given.items():
        if zeros.is_floating_point():
            given[name] = torch.randn(zeros.shape, generator=generator)
        elif name.endswith(LENGTHS):
            given[name] = zeros - torch.arange(len(zeros))  # the second row ends in padding
        else:
            most = int(model.architecture.numbers.get("vocab", 1)) if name == DECODED else 1
            given[name] = without_marks(model, torch.randint(most, zeros.shape, generator=generator), most)
    with torch.no_grad():
        expected = stateless.whole(model, given)
        made = decode(programs, run, given, [n for n in (1, length - 2, 1) if n > 0])
    for name, one in expected.items():
        off, largest = float((one - made[name]).abs().max()), float(one.abs().max())
        if not off <= TOLERANCE * largest:
            what = f"the written program gives other {name} than the model: {off:.2g} beside a largest {largest:.2g}"
            raise CheckpointError(f"{what}; nothing was written. This is a defect: report it with the model's text")


def without_marks(model: Transformer, ids: Tensor, most: int) -> Tensor:
    """Ids below `most` without those in whose places another sequence stands: of these there must be as many as it has
    positions, or none."""
    calls = [value.called for section in model.architecture.sections() for value in section.calls()]
    for mark in {call.options["id"] for call in calls if call.word.reach == "past" and "id" in call.options}:
        ids = ids.masked_fill(ids == mark, (mark + 1) % most)
    return ids


def decode(programs: Mapping[str, Program], run: Run, given: Named, chunks: Iterable[int]) -> Named:
    """The outputs for all positions, made in chunks; of a model that is not decoded, at once."""
    ports = {port.name: port for port in programs["model"].inputs}
    if POSITIONS not in ports:
        return run("model", given)
    growing = [name for name, port in ports.items() if "new" in port.shape]
    begin, batch, made = 0, given[growing[0]].shape[0], []
    fixed = run("start", given) if "start" in programs else {}
    state = {name: zeros(ports[name], batch=batch, past=0) for name in state_names(programs["model"])}
    for length in chunks:
        chunk = {name: given[name][:, begin : begin + length] for name in growing}
        outputs = run("model", {**chunk, **fixed, **state})
        state = {name: outputs.pop(NEXT + name) for name in state}
        begin += length
        made.append(outputs)
    return {name: torch.cat([outputs[name] for outputs in made], 1) for name in made[0]}


def zeros(port: Port, **free: int) -> Tensor:
    sizes = [size if isinstance(size, int) else free[size] for size in port.shape]
    return torch.zeros(sizes, dtype=getattr(torch, port.dtype))
