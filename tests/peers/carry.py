"""Carrying weights from a reference to a model of ours: names, splits, transposes, and a tally of what was used.

A case writes down the reference's parameters under our names, module by module:

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("transformer.wte")
        for n, layer in theirs.layers("transformer.h"):
            yield f"layers.{n}.attention_input_norm", layer("ln_1")
            yield from together(f"layers.{n}.attention", ("query", "key", "value"), thirds(layer("attn.c_attn")))

A value is the reference's module (all parameters that stand directly in it, under their own names `weight`, `bias`), a
mapping from such names to tensors, or one tensor, whose name is then given in full. `carry` loads them, and fails if
a parameter of either side is left over. `gradients` leads those of ours back the same way, to be compared with theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from transformula.interop.parity.theirs import in_double as in_double
from transformula.interop.parity.theirs import randomize as randomize

Leaf = Mapping[str, Tensor]


class Theirs(Mapping[str, Tensor]):
    """A reference's parameters by name, below a prefix; reading one notes it.

    As a mapping it holds the parameters directly below the prefix: {"weight": ..., "bias": ...}. One that two modules
    share stands once, under its first name.
    """

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str = "", taken: set[str] | None = None) -> None:
        self.tensors, self.prefix = tensors, prefix
        self.taken: set[str] = set() if taken is None else taken

    @classmethod
    def of(cls, module: nn.Module) -> Theirs:
        """The parameters of a module; tables that it holds as such, and does not train, are none."""
        return cls({name: p for name, p in module.named_parameters() if p.requires_grad})

    def __call__(self, name: str) -> Theirs:
        below = Theirs(self.tensors, f"{self.prefix}{name}.", self.taken)
        assert any(key.startswith(below.prefix) for key in self.tensors), f"the reference has nothing below {name}"
        return below

    def layers(self, name: str) -> Iterator[tuple[int, Theirs]]:
        """The modules NAME.0, NAME.1, ..., counted from 1 as ours are."""
        below = self(name)
        numbers = {int(key.removeprefix(below.prefix).split(".")[0]) for key in self.tensors if key in below.under()}
        return ((n + 1, below(str(n))) for n in sorted(numbers))

    def under(self) -> set[str]:
        """The full names below the prefix."""
        return {key for key in self.tensors if key.startswith(self.prefix)}

    def has(self, name: str) -> bool:
        """Whether there is such a module or parameter."""
        full = self.prefix + name
        return any(key == full or key.startswith(f"{full}.") for key in self.tensors)

    def __getitem__(self, name: str) -> Tensor:
        self.taken.add(self.prefix + name)
        return self.tensors[self.prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (key.removeprefix(self.prefix) for key in self.under() if "." not in key.removeprefix(self.prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def left(self) -> set[str]:
        """The names that nothing has read."""
        return set(self.tensors) - self.taken


Value = Theirs | Leaf | Tensor
Weights = Iterable[tuple[str, Value]]


@torch.no_grad()
def carry(ours: nn.Module, theirs: nn.Module, weights: Callable[[Theirs], Weights]) -> None:
    """Load the reference's parameters into ours; running statistics may be given, too. Every parameter of both sides is
    used, once of ours."""
    source = Theirs.of(theirs)
    given = by_our_names(weights(source))
    assert not source.left(), f"parameters of the reference that nothing used: {sorted(source.left())}"
    own = {**{name: b for name, b in ours.named_buffers() if name in given}, **dict(ours.named_parameters())}
    assert set(given) == set(own), (
        f"ours, not given: {sorted(set(own) - set(given))}; given, not ours: {sorted(set(given) - set(own))}"
    )
    for name, tensor in given.items():
        assert own[name].shape == tensor.shape, f"{name}: {tuple(tensor.shape)} for {tuple(own[name].shape)}"
        own[name].copy_(tensor)


def by_our_names(weights: Weights) -> dict[str, Tensor]:
    """The tensors by the full names of ours."""
    given: dict[str, Tensor] = {}
    for name, value in weights:
        for full, tensor in [(name, value)] if isinstance(value, Tensor) else named(name, value):
            assert full not in given, f"{full} is given twice"
            given[full] = tensor
    return given


def gradients(
    ours: nn.Module, theirs: nn.Module, weights: Callable[[Theirs], Weights], still: Sequence[str] = ()
) -> tuple[Tensor, Tensor]:
    """What both have as the gradient of the reference's parameters, all in one row each.

    Ours is led back through `weights` by the chain rule: what is scaled on its way to ours, cut, or given to several is
    so scaled, put together and added up. The gradients of ours whose names end with one of `still` follow; there the
    reference trains nothing, and has 0. A row of a table that is its `padding_idx` gets no gradient there where it is
    looked up; it is left out.
    """
    source = Theirs.of(theirs)
    given, own = by_our_names(weights(source)), dict(ours.named_parameters())
    moved = {name: tensor for name, tensor in given.items() if tensor.requires_grad and name in own}
    zero = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in own.items()}
    known = list(source.tensors.values())
    back = torch.autograd.grad(list(moved.values()), known, [zero[name] for name in moved], allow_unused=True)
    held = [zero[name] for name in own if name.endswith(tuple(still))]
    led = [torch.zeros_like(p) if grad is None else grad for p, grad in zip(known, back, strict=True)]
    have = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in known]
    idle = {id(table.weight): table.padding_idx for table in theirs.modules() if isinstance(table, nn.Embedding)}
    for p, *both in zip(known, led, have, strict=True):
        if (row := idle.get(id(p))) is not None:
            for grad in both:
                grad[row] = 0
    return flat([*led, *held]), flat([*have, *(torch.zeros_like(grad) for grad in held)])


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """All numbers in one row."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def named(name: str, leaf: Leaf) -> Iterator[tuple[str, Tensor]]:
    """Full names."""
    return ((f"{name}.{key}", leaf[key]) for key in leaf)


def together(name: str, parts: Sequence[str], leaves: Iterable[Value]) -> Weights:
    """Several modules below one: NAME.query, NAME.key, ..."""
    return ((f"{name}.{part}", leaf) for part, leaf in zip(parts, leaves, strict=True))


QKV = ("query", "key", "value")


def each(leaf: Leaf, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """The same change of every tensor."""
    return {key: change(leaf[key]) for key in leaf}


def transposed(leaf: Leaf) -> dict[str, Tensor]:
    """A matrix that is stored (in, out), GPT-2's Conv1D, as (out, in)."""
    return each(leaf, lambda tensor: tensor.T if tensor.dim() == 2 else tensor)


def split(leaf: Leaf, *sizes: int) -> list[dict[str, Tensor]]:
    """The rows of a matrix that several modules share, in pieces of these sizes."""
    return [each(leaf, lambda tensor, n=n: tensor.split(sizes)[n]) for n in range(len(sizes))]


def thirds(leaf: Leaf) -> list[dict[str, Tensor]]:
    """Rows of queries, then of keys, then of values."""
    return [each(leaf, lambda tensor, n=n: tensor.chunk(3)[n]) for n in range(3)]


def by_heads(leaf: Leaf, groups: int, counts: Sequence[int], size: int) -> list[dict[str, Tensor]]:
    """Rows that go group by group: in each of `groups`, `counts[0]` heads of queries, `counts[1]` of keys, ...

    GPT-NeoX and BLOOM: groups = heads, counts (1, 1, 1); Falcon: groups = heads of keys, counts (heads each, 1, 1)."""

    def part(tensor: Tensor, n: int) -> Tensor:
        rows = tensor.reshape(groups, sum(counts), size, *tensor.shape[1:])
        return rows.split(list(counts), 1)[n].reshape(-1, *tensor.shape[1:])

    return [each(leaf, lambda tensor, n=n: part(tensor, n)) for n in range(len(counts))]


def plus_one(leaf: Leaf) -> dict[str, Tensor]:
    """Weights that are stored less 1."""
    return each(leaf, lambda tensor: tensor + 1)


def biased(leaf: Leaf) -> dict[str, Tensor]:
    """With a bias of 0, which the reference lacks."""
    return {**leaf, "bias": leaf["weight"].new_zeros(leaf["weight"].shape[0])}


def halves_of_pairs(leaf: Leaf, heads: int) -> dict[str, Tensor]:
    """Rows of queries or keys that turn by pairs of neighbours, in the order that turns by halves: in each head, first
    all first ones of the pairs, then all second ones."""
    return each(leaf, lambda t: t.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2))


def renamed(leaf: Leaf, **names: str) -> dict[str, Tensor]:
    """Their names by ours: renamed(leaf, weight="gamma")."""
    return {ours: leaf[theirs] for ours, theirs in names.items()}


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference over the largest number. Fails where there is nothing to compare."""
    assert one.shape == other.shape, f"{tuple(one.shape)} and {tuple(other.shape)}"
    assert one.dtype == other.dtype == torch.float64, f"{one.dtype} and {other.dtype}: both must be float64"
    assert torch.isfinite(one).all() and torch.isfinite(other).all()
    most = max(one.abs().max().item(), other.abs().max().item())
    assert most > 1e-6, "all numbers are 0: nothing was compared"
    assert other.std() > 1e-3 * most, "one number everywhere: nothing was compared"
    return (one - other).abs().max().item() / most
