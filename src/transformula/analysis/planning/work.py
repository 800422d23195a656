"""The work of a model for one token, from its graph: matrix products by their sizes, scores of attention, numbers kept.

It is read from the same records as the accounting, and holds together what that gives by line.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...language.graph import Architecture, Value
from ..accounting import Counter, module_sizes, numbers_by_role
from ..tensor_plan import tensor_plan


@dataclass(frozen=True)
class WorkPart:
    """One value of a formula, of one token.

    matrices    (rows, columns) of the matrices that it multiplies by
    scores      FLOPs of its forward pass that are no products with weights: those of attention, scans, experts' routes
    heads       of attention; 0 for all else
    kept        numbers kept for the backward pass
    logits      numbers that it makes for the loss; 0 for all but the output
    layer       it stands in a layer
    """

    matrices: tuple[tuple[int, int], ...] = ()
    scores: float = 0
    heads: int = 0
    kept: float = 0
    logits: int = 0
    layer: bool = False


@dataclass(frozen=True)
class TensorShare:
    """What one of the ranks has that share matrices, as the words' records say.

    layers   share of the parameters of layers
    outside  share of all others: tables, the output
    scores   share of attention's scores: heads are divided where they can be
    refusal  why nothing can be shared; "" where something is
    """

    layers: float = 1.0
    outside: float = 1.0
    scores: float = 1.0
    refusal: str = ""


@dataclass(frozen=True)
class ModelWork:
    """The work of a model.

    parts       with how many of each there are
    parameters  in all; `layered` of them stand in layers, and `unit` in the largest layer, table or output, which is
                gathered at once
    width       of the stream that layers pass on
    depth       layers
    context     positions of a sequence
    flops       a token, forward and backward, as `summary` counts them
    unaligned   sizes of matrices that are no multiples of 8
    """

    parts: tuple[tuple[WorkPart, int], ...]
    parameters: int
    layered: int
    unit: int
    width: int
    depth: int
    context: int
    flops: float
    unaligned: tuple[int, ...]
    heads: int
    architecture: Architecture = field(repr=False, compare=False)
    shares: dict[int, TensorShare] = field(default_factory=dict, repr=False, compare=False)

    def share(self, ranks: int) -> TensorShare:
        """What each of so many ranks has that share matrices."""
        if ranks not in self.shares:
            self.shares[ranks] = share_of(self.architecture, ranks, self.heads) if ranks > 1 else TensorShare()
        return self.shares[ranks]

    def kept(self, layer: bool) -> float:
        """Numbers kept a token, in the layers or outside them."""
        return sum(part.kept * times for part, times in self.parts if part.layer == layer)

    @property
    def logits(self) -> int:
        return sum(part.logits * times for part, times in self.parts)


def work_of(architecture: Architecture, length: int) -> ModelWork:
    """The work of a model on sequences of `length` positions."""
    counter = Counter(architecture, length, 1, 1)
    active = module_sizes(architecture, active=True)
    parts: Tally[WorkPart] = Tally()
    flops = 0.0
    sections = [(section, stack.causal) for stack in architecture.stacks for section in stack.sections()]
    for section, causal in [*sections, (architecture.output, architecture.main.causal)]:
        for value in section.values:
            costs = counter.value(value, causal)
            flops += costs.flops_forward + costs.flops_backward
            matrices = matrices_of(value, active, costs.flops_forward)
            scores = costs.flops_forward - sum(2 * rows * columns for rows, columns in matrices)
            heads = int(value.called.numbers.get("heads", 1)) if scores > 0 else 0
            logits = value.width if section.where == "output" and costs.flops_forward else 0
            kept, in_layer = costs.activation_bytes / length, section.where == "layer"
            parts[WorkPart(matrices, scores, heads, kept, logits, in_layer)] += 1
    sizes = {path: sum(one.values()) for path, one in module_sizes(architecture).items()}
    units: Tally[str] = Tally()
    for path, size in sizes.items():
        units[path.partition("layers.")[2].partition(".")[0] or path] += size
    sides = {side for part in parts for matrix in part.matrices for side in matrix}
    return ModelWork(
        parts=tuple(parts.items()),
        parameters=sum(sizes.values()),
        layered=numbers_by_role(architecture)["matrix"],
        unit=max(units.values(), default=0),
        width=int(architecture.numbers["width"]),
        depth=sum(stack.depth for stack in architecture.stacks),
        context=length,
        flops=flops,
        unaligned=tuple(sorted(side for side in sides if side % 8)),
        heads=max((part.heads for part in parts), default=0),
        architecture=architecture,
    )


def share_of(architecture: Architecture, ranks: int, heads: int) -> TensorShare:
    """What each of so many ranks has of a model, by its tensor plan."""
    plan = tensor_plan(architecture, ranks)
    here, whole = ({True: 0, False: 0} for _ in range(2))
    for row in plan.rows:
        here["layers." in row.path] += row.here
        whole["layers." in row.path] += row.parameters
    layers, outside = (here[inside] / max(1, whole[inside]) for inside in (True, False))
    return TensorShare(layers, outside, 1 / ranks if heads % ranks == 0 else 1.0, plan.refusal())


def matrices_of(value: Value, sizes: Mapping[str, Mapping[str, int]], flops: float) -> tuple[tuple[int, int], ...]:
    """(rows, columns) of the matrices of a call, of which one side is the width that it reads or makes."""
    if value.call is None or not flops or not value.args:
        return ()
    matrices = []
    for name, size in sizes.get(value.call.path, {}).items():
        sides = [width for width in (value.args[0].width, value.width) if size % width == 0 and size > width > 1]
        if sides and not name.endswith("bias"):
            matrices.append((sides[0], size // sides[0]))
    products = sum(2 * rows * columns for rows, columns in matrices)
    return tuple(matrices) if products <= flops else ((value.width, int(flops / 2 / value.width)),)
