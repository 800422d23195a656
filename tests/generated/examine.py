"""What must hold of every model file: it is refused with a reason, or it is built and keeps all promises.

    it has the parameters that its text states; its written text is the same model; it is explained and drawn
    it trains: gradients are numbers, and are how the loss changes with the parameters; it evaluates twice alike
    it is causal, decoded step by step as in one pass (rows reordered on the way, too), and blind to padding and to
    other rows
    it is saved, loaded, copied: the same numbers
    (where asked) it is compiled in one graph

Any other error than InputError, with a text that says what is wrong, is a bug.
"""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import normalize
from torch.overrides import TorchFunctionMode

from transformula.analysis.accounting import summary
from transformula.analysis.analysis import analyze
from transformula.analysis.canonical import at_wiring_depth, formula_hash, wiring_key
from transformula.diagram.text import draw_text
from transformula.errors import InputError
from transformula.interop.folder import load_model, save_model
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text
from transformula.model import build
from transformula.words import vocabulary

VOCABULARY = vocabulary()
LENGTH, ROWS = 6, 3
FLOATS = {"image": (3, 4, 6), "audio": (20,), "series": (LENGTH, 3)}
SHORTER = {"audio": (8, 14)}
"""How long the rows beside the longest are, where not 2 and 4."""
MARK = 7
"""The id in whose places `masked_scatter` puts another sequence."""
TOLERANCE = 1e-9
KERNEL_HOLDS = 1e9
"""Up to numbers of this size attention's fused kernel has gradients. Its backward pass takes exp(score - log of the
sum), where the score is computed once more: two scores of 1e18 that differ in their last digit give infinity. Beyond,
the gradients are those of attention by its equation."""

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
        model = randomize(build(architecture, seed=0, dtype=torch.float64)).eval()
        given = inputs_of(model)
        with torch.no_grad():
            whole = model(**given)
    except InputError as refusal:
        assert len(str(refusal)) > 20, f"a refusal says what is wrong: {refusal!r}"
        return REFUSED
    assert sum(p.numel() for p in model.parameters()) == summary(architecture).totals.parameters
    with torch.no_grad():
        assert torch.equal(model(**given).nan_to_num(), whole.nan_to_num()), "it evaluates twice alike"
        if compiled:
            same_compiled(model, given, whole)
        rows_alone(model, given, whole)
        if architecture.main.causal and {"tokens", "series"} & given.keys():
            causal(model, given, whole)
            stepwise(model, given, whole)
            if "source" in given:
                decoded_beside(model, given)
            if model.carry:
                segments(model, given, whole)
        padding(model, given, whole)
        if files:
            again(model, given, whole)
    trains(model, given, "stop_gradient(" not in text)
    return BUILT


def said_of(architecture: Architecture) -> None:
    """What is said of the text alone: nothing of it fails, and the text as it is written is the same model."""
    repr(analyze(architecture, VOCABULARY))
    repr(summary(architecture))
    draw_text(architecture)
    wiring_key(at_wiring_depth(architecture, VOCABULARY))
    written = check(read_text(write_text(architecture.text)), VOCABULARY)
    assert formula_hash(written) == formula_hash(architecture), "the written text is another model"


@torch.no_grad()
def randomize(model: nn.Module) -> nn.Module:
    """Every parameter drawn, so that nothing is 0 by its beginning."""
    generator = torch.Generator().manual_seed(1)
    for _, parameter in sorted(model.named_parameters()):
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(drawn * (parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.3) + (parameter.dim() < 2))
    return model


def inputs_of(model: nn.Module) -> dict[str, Tensor]:
    """Random ids, of each row the first two and no other those of `SCATTERED`; `source` is longer than the tokens; an
    image of six patches, a sound of 20 samples, a series of three channels."""
    generator = torch.Generator().manual_seed(2)
    vocab = int(model.architecture.numbers["vocab"])
    made: dict[str, Tensor] = {}
    for name in model.inputs:
        if name in FLOATS:
            made[name] = torch.randn(ROWS, *FLOATS[name], dtype=torch.float64, generator=generator)
        else:
            size = (ROWS, LENGTH + 2 * (name == "source"), 4)
            made[name] = torch.randint(vocab, size[: 3 if name == "characters" else 2], generator=generator)
    for name in {"tokens", "source"} & made.keys() if scatters(model) else ():
        made[name] = without_marks(made[name])
        made[name][:, :2] = MARK
    return made


def scatters(model: nn.Module) -> bool:
    """Whether its text calls `masked_scatter`, which asks for as many ids as there are positions to place."""
    calls = (v for section in model.architecture.sections() for v in section.calls())
    return any(v.call and v.call.word.name == "masked_scatter" for v in calls)


def without_marks(tokens: Tensor) -> Tensor:
    return torch.where(tokens == MARK, MARK - 1, tokens)


def alike(model: nn.Module, given: Mapping[str, Any], one: Tensor, other: Tensor, what: str) -> None:
    """Equal up to rounding: as far as rounding is felt in this model on what it is given, which changes of all weights
    in their last digits show. What is no number in one is none in the other, unless numbers grow without bound."""
    assert one.shape == other.shape, f"{what}: {tuple(one.shape)} and {tuple(other.shape)}"
    if not one.numel():
        return
    known = torch.isfinite(one) & torch.isfinite(other)
    most = float(torch.where(known, other.abs(), 0).max()) if known.any() else 0.0
    strange = int((torch.isfinite(one) != torch.isfinite(other)).sum())
    assert not strange or most > 1e100, f"{what}: {strange} numbers are none, the largest number is {most:.3g}"
    off = float(torch.where(known, (one - other).abs(), 0).max())
    if off <= TOLERANCE * max(most, 1e-30):
        return
    shaken, generator = copy.deepcopy(model), torch.Generator().manual_seed(4)
    for parameter in shaken.parameters():
        parameter.mul_(1 + 1e-14 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
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
    name = "tokens" if "tokens" in given else "series"
    changed = given[name].clone()
    changed[:, -1] += 1
    if name == "tokens":
        changed[:, -1] = (changed[:, -1] + torch.tensor([0, 3, 6])) % vocab
    if scatters(model):
        changed[:, 2:] = without_marks(changed[:, 2:])
    other = model(**{**given, name: changed})
    alike(model, given, other[:, :-1], whole[:, :-1], "another last position, before it")


def stepwise(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    """Single steps, chunks, rows in another order, and prompts of different lengths."""
    for sizes in ([1] * LENGTH, [3, 1, 2]):
        try:
            decoding = model.start(ROWS, LENGTH, **fixed(model, given))
        except InputError as refusal:
            assert "step" in str(refusal), refusal
            return
        made = [model.step(decoding=decoding, **piece(model, given, *ends)) for ends in bounds(sizes)]
        alike(model, given, torch.cat(made, 1), whole, f"decoded in chunks of {sizes}")
    decoding = model.start(ROWS, LENGTH, **fixed(model, given))
    model.step(decoding=decoding, **piece(model, given, 0, 4))
    rows = torch.tensor([2, 0, 0, 1])
    decoding.select(rows)
    following = {key: value[rows] for key, value in piece(model, given, 4, LENGTH).items()}
    alike(model, given, model.step(decoding=decoding, **following), whole[rows, 4:], "decoded on in other rows")
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
    sequences = {"tokens", "source", "series", "audio"} & given.keys()
    lengths = {key: torch.tensor([given[key].shape[1], *SHORTER.get(key, (2, 4))]) for key in sequences}
    try:
        together = model(**given, lengths=lengths)
    except InputError as refusal:
        assert len(str(refusal)) > 20
        return
    for row in range(ROWS):
        short = {}
        for key, value in given.items():
            whose = lengths.get("tokens" if key in ("types", "document", "characters") else key)
            short[key] = value[row : row + 1] if whose is None else value[row : row + 1, : whose[row]]
        try:
            one = model(**short)
        except InputError as refusal:
            short = "grid" in str(refusal) or "at least as many positions" in str(refusal)
            assert short, "a row that stands beside longer ones is refused alone"
            continue
        padded = {**given, "lengths": lengths}
        alike(model, padded, together[row, : one.shape[1]], one[0], f"row {row} of {lengths} beside the others")


def segments(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    """A text read in segments of two, where `carry` reaches all before: as in one pass. What is carried stays as it
    is."""
    carried, made = None, []
    for begin, end in bounds([2, 2, 2]):
        one, following = model.segment(carried=carried, **piece(model, given, begin, end))
        again, _ = model.segment(carried=carried, **piece(model, given, begin, end))
        alike(model, given, again, one, f"positions {begin} to {end} read again as a segment")
        made.append(one)
        carried = following
    alike(model, given, made[0], whole[:, :2], "the first segment")
    if model.carry >= LENGTH:
        alike(model, given, torch.cat(made, 1), whole, "read in segments")


def decoded_beside(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """Decoding that starts with padded inputs gives what the whole pass gives."""
    lengths = {"source": torch.tensor([given["source"].shape[1], 2, 4])}
    try:
        together = model(**given, lengths=lengths)
        decoding = model.start(ROWS, LENGTH, **fixed(model, given), lengths=lengths)
    except InputError as refusal:
        assert len(str(refusal)) > 20
        return
    made = [model.step(decoding=decoding, **piece(model, given, *ends)) for ends in bounds([2, 1, 3])]
    alike(model, {**given, "lengths": lengths}, torch.cat(made, 1), together, "decoded beside padded sources")


def again(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    """Copied, and saved and loaded: bit for bit."""
    assert torch.equal(copy.deepcopy(model)(**given).nan_to_num(), whole.nan_to_num()), "copied"
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder) / "model", copy.deepcopy(model).float())  # a folder holds float32
        loaded, architecture = load_model(Path(folder) / "model")
        assert formula_hash(architecture) == formula_hash(model.architecture)
        assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in model.named_parameters()]
        made = loaded.to(torch.float64)(**given)
        assert torch.equal(made.nan_to_num(), model.float().to(torch.float64)(**given).nan_to_num()), "loaded"


def same_compiled(model: nn.Module, given: Mapping[str, Tensor], whole: Tensor) -> None:
    torch._dynamo.reset()
    try:
        made = torch.compile(model, fullgraph=True, backend="aot_eager")(**given)
    finally:
        torch._dynamo.reset()
    alike(model, given, made, whole, "compiled")


def largest(model: nn.Module, given: Mapping[str, Tensor]) -> float:
    """The largest number that a module of the model gives: gradients of what grows without bound may be none."""
    found = [0.0]

    def note(module: nn.Module, inputs: Any, result: Any) -> None:
        if isinstance(result, Tensor) and result.is_floating_point():
            found.append(float(result.detach().abs().nan_to_num().max()))

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    model(**given)
    for hook in hooks:
        hook.remove()
    return max(found)


class ZerosNormalized(TorchFunctionMode):
    """Notes within it whether a vector of zeros is brought to length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.any = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is normalize:
            self.any |= bool((args[0] == 0).all(-1).any())
        return function(*args, **(kwargs or {}))


def normalizes_zeros(model: nn.Module, given: Mapping[str, Tensor]) -> bool:
    with torch.no_grad(), ZerosNormalized() as zeros:
        model(**given)
    return zeros.any


def trains(model: nn.Module, given: Mapping[str, Tensor], slopes: bool = True) -> None:
    """Passes in training and back: gradients are numbers, and in a random direction they are the slope of the loss, as
    its differences over two small steps show. Where these two are apart (a kink lies there), or where gradients consist
    of rounding (changes of the weights in their last digits, and another factor of the loss, turn them), they show
    nothing, nor where gradients are stopped (`slopes=False`), or vectors of zeros are brought to length 1: gradients of
    1e12 for each cancel there, and with them the digits of all others."""
    model.train()
    generator = torch.Generator().manual_seed(3)
    begun = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    way, last = (
        {name: torch.randn(p.shape, generator=generator, dtype=p.dtype) for name, p in begun.items()} for _ in range(2)
    )

    def loss(change: Mapping[str, Tensor]) -> Tensor:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(begun[name] + change[name])
        torch.manual_seed(0)
        return model(**given).tanh().square().mean() + sum(model.named_losses().values(), torch.zeros(()))

    def moved(by: float) -> float:
        return float(loss({name: by * one for name, one in way.items()}).detach())

    def gradients(change: Mapping[str, Tensor], factor: float) -> dict[str, Tensor] | None:
        model.zero_grad()
        made = loss(change)
        if not made.requires_grad or not torch.isfinite(made):
            return None
        (factor * made).backward()
        return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

    def broken(found: Mapping[str, Tensor]) -> list[str]:
        return [name for name, gradient in found.items() if not torch.isfinite(gradient).all()]

    def slope(change: Mapping[str, Tensor], factor: float = 1) -> float | None:
        """By gradients of so many times the loss; None where it does not depend on parameters, or is no number."""
        found = gradients(change, factor)
        if found is None:
            return None
        if broken(found) and largest(model, given) > KERNEL_HOLDS:
            with sdpa_kernel(SDPBackend.MATH):
                found = gradients(change, factor) or {}
        strange = broken(found)
        assert not strange or largest(model, given) > 1e40, f"{strange[0]} has a gradient that is no number"
        total = sum(float((gradient * way[name]).sum()) for name, gradient in found.items()) / factor
        return total if math.isfinite(total) else None

    said = slope({name: torch.zeros_like(one) for name, one in begun.items()})
    if said is None or not slopes or normalizes_zeros(model, given):
        return
    first, second = ((moved(step) - moved(-step)) / (2 * step) for step in (1e-6, 1e-7))
    size = max(abs(first), abs(second))
    if abs(first - second) > 1e-4 * size + 1e-7 or abs(said - first) <= 1e-2 * size + 1e-6:
        return
    again = slope({name: 1e-14 * begun[name] * one for name, one in last.items()}, 1.37)
    turned = again is None or abs(again - said) > 1e-4 * abs(said - first)
    assert turned, f"the loss changes by {first:.6g}, gradients say {said:.6g}"
