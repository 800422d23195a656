"""What must hold of every model file: it is refused with a reason, or it is built and keeps all promises.

    it has the parameters that its text states; its written text is the same model; it is explained and drawn
    it trains: forward and backward; it evaluates twice alike
    it is causal, decoded step by step as in one pass, and blind to padding and to other rows
    it is saved, loaded, copied: the same numbers
    (where asked) it is compiled in one graph

Any other error than InputError, with a text that says what is wrong, is a bug.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from transformula.errors import InputError
from transformula.interop.folder import load_model, save_model
from transformula.language.accounting import summary
from transformula.language.analysis import analyse
from transformula.language.canonical import formula_hash, wiring_key_of
from transformula.language.check import check
from transformula.language.diagram import draw_text
from transformula.language.graph import Architecture
from transformula.language.model_file import read_text, write_text
from transformula.model import build
from transformula.words import vocabulary

VOCABULARY = vocabulary()
LENGTH, ROWS = 6, 3
TOLERANCE = 1e-9

BUILT, REFUSED = "built", "refused"


def examine(text: str, compiled: bool = False, whole_text: bool = True, files: bool = True) -> str:
    """BUILT or REFUSED; fails for a model that breaks a promise.

    compiled    it is compiled in one graph, too
    whole_text  what is said of the text is looked at
    files       it is saved and loaded
    """
    try:
        architecture = check(read_text(text), VOCABULARY)
        if whole_text:
            said_of(architecture)
        model = randomise(build(architecture, seed=0, dtype=torch.float64)).eval()
        given = inputs_of(model)
        with torch.no_grad():
            whole = model(**given)
    except InputError as refusal:
        assert len(str(refusal)) > 20, f"a refusal says what is wrong: {refusal!r}"
        return REFUSED
    assert sum(p.numel() for p in model.parameters()) == summary(architecture).totals.parameters
    with torch.no_grad():
        alike(model, given, model(**given), whole, "twice")
        if compiled:
            same_compiled(model, given, whole)
        rows_alone(model, given, whole)
        if architecture.main.causal and "tokens" in given:
            causal(model, given, whole)
            stepwise(model, given, whole)
        padding(model, given, whole)
        if files:
            again(model, given, whole)
    trains(model, given)
    return BUILT


def said_of(architecture: Architecture) -> None:
    """What is said of the text alone: nothing of it fails, and the text as it is written is the same model."""
    repr(analyse(architecture, VOCABULARY))
    repr(summary(architecture))
    draw_text(architecture)
    wiring_key_of(architecture.text, VOCABULARY)
    written = check(read_text(write_text(architecture.text)), VOCABULARY)
    assert formula_hash(written) == formula_hash(architecture), "the written text is another model"


@torch.no_grad()
def randomise(model: nn.Module) -> nn.Module:
    """Every parameter drawn, so that nothing is 0 by its beginning."""
    generator = torch.Generator().manual_seed(1)
    for _, parameter in sorted(model.named_parameters()):
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(drawn * (parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.3) + (parameter.dim() < 2))
    return model


def inputs_of(model: nn.Module) -> dict[str, Tensor]:
    """Random ids; `source` is longer than the tokens; an image of six patches."""
    generator = torch.Generator().manual_seed(2)
    vocab = int(model.architecture.numbers["vocab"])
    made: dict[str, Tensor] = {}
    for name in model.inputs:
        if name == "image":
            made[name] = torch.randn(ROWS, 3, 4, 6, dtype=torch.float64, generator=generator)
        else:
            made[name] = torch.randint(vocab, (ROWS, LENGTH + 2 * (name == "source")), generator=generator)
    return made


def alike(model: nn.Module, given: Mapping[str, Tensor], one: Tensor, other: Tensor, what: str) -> None:
    """Equal up to rounding: as far as rounding is felt in this model, which a change of the weights in the last digits
    shows. Numbers that are not finite are not compared."""
    known = torch.isfinite(one) & torch.isfinite(other)
    most = float(torch.where(known, other.abs(), 0).max()) if known.any() else 0.0
    off = float(torch.where(known, (one - other).abs(), 0).max())
    if off <= TOLERANCE * max(most, 1e-30):
        return
    shaken = copy.deepcopy(model)
    for number, parameter in enumerate(shaken.parameters()):
        parameter.mul_(1 + 1e-14 * (-1) ** number)
    moved = model(**given) - shaken(**given)
    felt = float(moved.abs().max())
    assert not felt < 1e-4 * off, f"{what}: differs by {off:.3g}, the largest number is {most:.3g}, rounding {felt:.3g}"


def piece(model: nn.Module, given: Mapping[str, Tensor], begin: int, end: int) -> dict[str, Tensor]:
    """Positions of the inputs that decoding is given step by step."""
    return {key: value[:, begin:end] for key, value in given.items() if key not in model.given_at_start}


def fixed(model: nn.Module, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inputs that decoding is given at its start."""
    return {key: given[key] for key in model.given_at_start}


def rows_alone(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    for row in range(ROWS):
        one = model(**{key: value[row : row + 1] for key, value in given.items()})
        alike(model, given, one, whole[row : row + 1], f"row {row} alone")


def causal(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    vocab = int(model.architecture.numbers["vocab"])
    tokens = given["tokens"].clone()
    tokens[:, -1] = (tokens[:, -1] + torch.tensor([1, 4, 7])) % vocab
    other = model(**{**given, "tokens": tokens})
    alike(model, given, other[:, :-1], whole[:, :-1], "another last token, before it")


def stepwise(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    """Single steps, chunks, and prompts of different lengths."""
    for sizes in ([1] * LENGTH, [3, 1, 2]):
        try:
            decoding = model.start(ROWS, LENGTH, **fixed(model, given))
        except InputError as refusal:
            assert "step" in str(refusal), refusal
            return
        made = [model.step(decoding=decoding, **piece(model, given, *ends)) for ends in bounds(sizes)]
        alike(model, given, torch.cat(made, 1), whole, f"decoded in chunks of {sizes}")
    lengths = torch.tensor([2, 4, 3])
    decoding = model.start(ROWS, LENGTH, **fixed(model, given))
    first = model.step(decoding=decoding, new=lengths, **piece(model, given, 0, 4))
    for row, length in enumerate(lengths.tolist()):
        alike(model, given, first[row, :length], whole[row, :length], "prompts of different lengths")
    following = {
        key: torch.stack([value[row, at : at + 1] for row, at in enumerate(lengths.tolist())])
        for key, value in piece(model, given, 0, LENGTH).items()
    }
    made = model.step(decoding=decoding, **following)
    for row, at in enumerate(lengths.tolist()):
        alike(model, given, made[row], whole[row, at : at + 1], "a step after prompts of different lengths")


def bounds(sizes: Iterable[int]) -> Iterable[tuple[int, int]]:
    begin = 0
    for size in sizes:
        yield begin, begin + size
        begin += size


def padding(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    """A row beside longer ones gives what it gives alone."""
    sequences = {"tokens", "source"} & given.keys()
    lengths = {key: torch.tensor([given[key].shape[1], 2, 4]) for key in sequences}
    try:
        together = model(**given, lengths=lengths)
    except InputError as refusal:
        assert len(str(refusal)) > 20
        return
    for row in range(ROWS):
        short = {}
        for key, value in given.items():
            whose = lengths.get("tokens" if key in ("types", "document") else key)
            short[key] = value[row : row + 1] if whose is None else value[row : row + 1, : whose[row]]
        one = model(**short)
        alike(model, given, together[row, : one.shape[1]], one[0], f"row {row} of {lengths} beside the others")


def again(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    """Copied, and saved and loaded: bit for bit."""
    assert torch.equal(copy.deepcopy(model)(**given), whole) or not torch.isfinite(whole).all()
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder) / "model", model)
        loaded, architecture = load_model(Path(folder) / "model")
        assert formula_hash(architecture) == formula_hash(model.architecture)
        assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in model.named_parameters()]
        made = loaded.to(torch.float64)(**given)
        assert torch.equal(made, model.float().to(torch.float64)(**given)) or not torch.isfinite(made).all()


def same_compiled(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    torch._dynamo.reset()
    try:
        made = torch.compile(model, fullgraph=True, backend="aot_eager")(**given)
    finally:
        torch._dynamo.reset()
    alike(model, given, made, whole, "compiled")


def trains(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """A pass in training and back: every parameter that can move the result gets a gradient of its shape."""
    torch.manual_seed(0)
    model.train()
    loss = model(**given).tanh().square().mean() + sum(model.named_losses().values(), torch.zeros(()))
    if loss.requires_grad:
        loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.shape == parameter.shape, name
