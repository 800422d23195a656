"""The module that a formula becomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError, did_you_mean, nearest
from ..language.graph import Architecture
from ..language.model_file import ModelText
from ..words.word import Word
from .decoding import Decoding
from .formula import Formula
from .modules import spots, text_of
from .whole import flow, leaving


class Layer(Formula):
    """One layer: its `forward` is the formula, with the names that it reads as arguments, in order of first reading,
    then the history; it returns the names that it sets and something later needs, alone or as a tuple."""

    _step: Any


class Transformer(Formula):
    """A model: `model(tokens) -> logits`.

    tokens (batch, length), whole numbers; logits (batch, length, vocab). A model of several inputs takes them in the
    order of `inputs`; one of several named outputs returns a mapping. Modules stand where the formula says:
    `layers["3"].attention`. Make it by `build`.
    """

    _step: Any

    @property
    def architecture(self) -> Architecture:
        """The checked formula."""
        return self._recipe.architecture

    @property
    def text(self) -> ModelText:
        """The text that the model was made from, with what was changed in it."""
        text: ModelText = self.architecture.text
        return text

    @property
    def formula_hash(self) -> str:
        """What the model is, in 16 digits: the hash of its canonical form."""
        from ..language.canonical import formula_hash

        return formula_hash(self.architecture)

    @property
    def inputs(self) -> list[str]:
        """Names of what the model is called with, in order."""
        return list(flow(self.architecture)[1])

    @property
    def context_limit(self) -> int | None:
        """The longest sequence that the model's learned positions reach; None where nothing limits it."""
        limits = []
        for section in self.architecture.sections():
            for value in section.calls():
                call = value.call
                assert call is not None
                # what stands at positions by a table of so many rows
                if call.word.positional and call.word.parameters and "rows" in call.options:
                    limits.append(int(call.options["rows"] - call.options.get("first", 0)))
        return min(limits, default=None)

    def start(self, batch: int, capacity: int) -> Decoding:
        """Begin to decode `batch` rows step by step, with room for `capacity` positions.

        Raises InputError where the formula cannot be decoded: a stack that sees the future, a word without steps.
        """
        architecture = self.architecture
        if not architecture.main.causal:
            raise InputError("only a causal stack can be decoded step by step; this one says `causal: false`")
        if batch < 1 or capacity < 1:
            raise InputError(f"decoding needs at least one row and one position; given: {batch} rows, {capacity}")
        like = next((p for p in self.parameters() if p.is_floating_point()), torch.empty(0))
        modules: list[list[Word]] = []
        for section, calls in zip(architecture.sections(), self._recipe.sites, strict=True):
            for value in section.calls():
                assert value.call is not None
                if value.call.word.reach == "all":
                    raise InputError(f"{section.title}: {value.call.name} sees all positions: no decoding step by step")
            modules.append([self.get_submodule(c.path) for c in calls])  # type: ignore[misc]
        states = [[m.start(batch, capacity, like.dtype, like.device) for m in row] for row in modules]
        return Decoding(batch, capacity, states, modules, like.device)

    def step(self, tokens: Tensor, decoding: Decoding, new: Tensor | None = None) -> Any:
        """Decode one more chunk of every row: what `model(tokens)` would give for these positions.

        tokens (batch, length); logits (batch, length, vocab). `new` (batch,) says how many positions of the chunk are
        real in each row, the rest, on the right, being padding, whose logits mean nothing.
        """
        if not isinstance(tokens, Tensor) or tokens.dim() != 2:
            raise InputError("a chunk of tokens must be a tensor (batch, length)")
        result = self._step(tokens, decoding.states, decoding.at(tokens, new))
        decoding.advance(tokens.shape[1], new)
        return result

    def run_layers(self, entering: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run the layers alone, evaluating: from the values of names (and inputs) on entering to those on leaving.

        History 0 is what enters; what `after` and the output read is returned. For invariants such as the gain of the
        skip path. Raises InputError for names that are missing.
        """
        now: dict[str, Tensor] = dict(entering)
        past = {(name, 0): value for name, value in now.items()}
        training = self.training
        self.eval()
        try:
            for section in self.architecture.main.layers:
                missing = [name for name in section.reads if name not in now]
                missing += [f"{n}[{at}]" for n, at in section.history if (n, at) not in past]
                if missing:
                    raise InputError(f"{section.title} reads {', '.join(missing)}, which was not given")
                names = leaving(section)
                if names:
                    given = [now[name] for name in section.reads] + [past[pair] for pair in section.history]
                    made = self.get_submodule(f"layers.{section.number}")(*given)
                    now.update(zip(names, made if len(names) > 1 else (made,), strict=True))
                past.update({(name, section.number): value for name, value in now.items()})
        finally:
            self.train(training)
        # what nothing reads on leaving was not computed in the last layers
        wanted = {**self.architecture.main.after.reads, **self.architecture.output.reads}
        return {name: now[name] for name, value in wanted.items() if value.op == "name" and name in now}

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Within it every sublayer of the layers (a call that mixes positions or channels) yields 0."""
        hooks = []
        for module in self.get_submodule("layers").modules():
            if isinstance(module, Word) and module.record.sublayer:
                hooks.append(module.register_forward_hook(_zero))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def line_of(self, module_name: str) -> str:
        """The line of the formula that a module stands in: "layer 3, line 1: x = x + attention(norm(x))".

        `module_name` is a name as in `named_modules`, or of something inside one. "" where there is none.
        """
        found = spots(self.architecture)
        parts = module_name.split(".")
        for count in range(len(parts), 0, -1):
            spot = found.get(".".join(parts[:count]))
            if spot is not None and spot.place is not None and spot.line is not None:
                line = f"{spot.title}, line {spot.line.line}: {text_of(spot.line)}"
                if spot.place.source is not spot.line.source:
                    line += f" ({spot.place.where}: {spot.place.source.line(spot.place.line).strip()})"
                return line
        near = nearest(module_name, found)
        known = dict(self.named_modules())
        if module_name not in known:
            raise InputError(f"the model has no module {module_name!r};{did_you_mean(near)}", near=near)
        return ""

    def flops_per_token(self, length: int | None = None) -> float:
        """Floating-point operations a token, forward and backward, at the mean span of a sequence of `length`."""
        from ..language.accounting import summary

        totals: Any = summary(self.architecture, length=length).data["totals"]
        return float(totals["flops_forward"] + totals["flops_backward"])


def _zero(module: nn.Module, given: Any, result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(torch.zeros_like(r) for r in result)
    return torch.zeros_like(result)
