"""G4: every edge of the formula is alive, every part of it is built, and every parameter learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from ...analysis.accounting import module_sizes
from ...errors import listing
from ...model.watched import GraphPlace, edges, watched
from ..gate import ArmTrial, Finding, gate, tensors_of

SOON, LATER = 2, 3  # by this step a parameter has a gradient; by the later one where some are 0 at first
MAX_FAULTS = 6  # that are told
Change = Callable[[Tensor], Tensor]
FACTOR = 4.0  # by which what a norm reads is multiplied


@gate("G4", "every edge of the formula is alive")
def living_edges(trial: ArmTrial) -> Finding:
    """With weights drawn at random, an edge that is set to 0 changes the outputs; norms normalize; all parameters are
    built; from the initial weights, each has a gradient by the second step, or by the third where some are 0."""
    wrong = [*missing_parts(trial), *dead_edges(trial), *without_gradient(trial), *alike(trial)]
    count = len(edges(trial.architecture))
    if wrong:
        more = f"; and {len(wrong) - MAX_FAULTS} more" if len(wrong) > MAX_FAULTS else ""
        return Finding(False, "; ".join(wrong[:MAX_FAULTS]) + more, {"faults": wrong})
    return Finding(True, f"all {count} edges change the outputs, and all parameters have a gradient", {"edges": count})


def missing_parts(trial: ArmTrial) -> Iterator[str]:
    """Parameters that the formula has and the model has not."""
    module = trial.module()
    built = {name: parameter.numel() for name, parameter in module.named_parameters(remove_duplicate=False)}
    for path, sizes in module_sizes(trial.architecture).items():
        own = sum(size for name, size in built.items() if name == path or name.startswith(f"{path}."))
        if own < sum(sizes.values()):
            yield f"{path} is not built: {own:,} of its {sum(sizes.values()):,} parameters are there"


class Replaced:
    """The model with drawn weights, of which one edge at a time is replaced; `seen`: what its reader then yields."""

    def __init__(self, trial: ArmTrial) -> None:
        self.edges = edges(trial.architecture)
        self.given = trial.exact
        self.name, self.reader = "", ""
        self.change: Change = torch.zeros_like
        self.seen = torch.empty(0)
        names = [*(edge.name for edge in self.edges), *(edge.reader for edge in self.edges)]
        self.twin = watched(trial.drawn, dict.fromkeys(names, self.look))

    def look(self, name: str, tensor: Tensor) -> Tensor | None:
        if name == self.reader:
            self.seen = tensor
        return self.change(tensor) if name == self.name and tensor.is_floating_point() else None

    def outputs(self, edge: GraphPlace | None = None, change: Change = torch.zeros_like) -> list[Tensor]:
        """What the model returns with an edge replaced; without one, as it is."""
        self.name, self.reader = ("", "") if edge is None else (edge.name, edge.reader)
        self.change = change
        with torch.no_grad():
            return tensors_of(self.twin(**self.given))


def dead_edges(trial: ArmTrial) -> Iterator[str]:
    """Edges that change no output when they are set to 0, nor when they are set to other numbers, the last of each
    chain of such; and norms whose result grows as what they read does."""
    model = Replaced(trial)
    outputs = model.outputs()
    alive, dead = set[str](), list[GraphPlace]()
    for edge in model.edges:
        if edge.kind == "input" or not edge.value.reads_content or asked_last(trial, edge):
            continue
        if any(changed(outputs, model.outputs(edge, change)) for change in (torch.zeros_like, torch.cos)):
            alive.add(edge.source)
            if is_idle(model, edge):
                yield f"{edge.reader} does not normalize{in_line(edge)}"
        else:
            dead.append(edge)
    read = {edge.source for edge in model.edges}
    for edge in dead:
        if edge.reader in alive or edge.reader not in read:
            yield f"{edge.name} changes nothing{in_line(edge)}"


def is_idle(model: Replaced, edge: GraphPlace) -> bool:
    """Whether an edge leads into a norm whose result grows as what it reads does."""
    if edge.value.word_kind != "norm" or edge.argument != 0:
        return False
    model.outputs(edge, torch.clone)
    once = model.seen
    model.outputs(edge, lambda tensor: FACTOR * tensor)
    return torch.allclose(model.seen, FACTOR * once)


def changed(before: list[Tensor], after: list[Tensor]) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def asked_last(trial: ArmTrial, edge: GraphPlace) -> bool:
    """Whether an edge leads to what the model's policy asks for after a layer, such as whether to halt: after the last
    layer nothing is left to decide."""
    section = next((s for s in trial.architecture.sections() if edge.value in s.values), None)
    return section is not None and bool(section.asked) and edge.layer == trial.architecture.main.depth


def in_line(edge: GraphPlace) -> str:
    return f" ({edge.section}, line {edge.line}: {edge.text})" if edge.line else f" ({edge.section})"


def without_gradient(trial: ArmTrial) -> Iterator[str]:
    """Parameters that have had no gradient after the first steps from the initial weights."""
    module = trial.module().train()
    waiting = dict(busy_parameters(trial, module))
    steps = LATER if any(not parameter.any() for parameter in module.parameters()) else SOON
    for _ in gradients(trial, module, steps):
        waiting = {name: p for name, p in waiting.items() if p.grad is None or not p.grad.any()}
        if not waiting:
            return
    yield f"no gradient by step {steps}: {listing(sorted(waiting), 8)}"


def gradients(trial: ArmTrial, module: nn.Module, steps: int) -> Iterator[None]:
    """Steps of training; yields within each, when the parameters have their gradients."""
    optimizer = trial.optimizer(module)
    for _ in range(steps):
        module.zero_grad(set_to_none=True)
        torch.autograd.backward(trial.loss(module))
        yield
        optimizer.step(trial.rate)


def busy_parameters(trial: ArmTrial, module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The parameters, but for those that may have no gradient on a few rows: of experts, of which a position uses some;
    and of a choice of one entry, which needs no weight."""
    calls = [value.called for section in trial.architecture.sections() for value in section.calls()]
    idle = tuple(f"{call.path}." for call in calls if call.word.active or call.entries == 1)
    return ((name, parameter) for name, parameter in module.named_parameters() if not name.startswith(idle))


def alike(trial: ArmTrial) -> Iterator[str]:
    """Mixtures all of whose coefficients have one and the same gradient, step after step: what they mix is equal, and
    stays so."""
    module = trial.module().train()
    parameters = busy_parameters(trial, module)
    waiting = [name for name, parameter in parameters if parameter.numel() > 1 and mixes(module, name)]
    for _ in gradients(trial, module, LATER if waiting else 0):
        waiting = [name for name in waiting if all_alike(module.get_parameter(name))]
    if waiting:
        yield f"what they mix is equal, and stays so: {listing(waiting, 8)}"


def mixes(module: nn.Module, name: str) -> bool:
    """Whether a parameter mixes streams, each with each, or values over depth."""
    word = module.get_submodule(name.rpartition(".")[0])
    kind = getattr(getattr(word, "record", None), "kind", "")
    return kind == "depth" or (kind == "streams" and module.get_parameter(name).numel() == getattr(word, "n", 0) ** 2)


def all_alike(parameter: Tensor) -> bool:
    """Whether all numbers of a parameter are one, and so are those of its gradient."""
    gradient = parameter.grad
    if gradient is None or not torch.allclose(parameter, parameter.flatten()[0].expand_as(parameter)):
        return False
    return torch.allclose(gradient, gradient.flatten()[0].expand_as(gradient), rtol=1e-4)
