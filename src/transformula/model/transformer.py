"""The module that a formula becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..analysis.lines import text_of
from ..analysis.residual_path import line_of, own_place
from ..errors import InputError, did_you_mean, nearest
from ..language.graph import Architecture
from ..language.model_text import ModelText
from ..words.word import At, Word
from .blueprint import Blueprint
from .dataflow import DECODED, made_of, positions_learned
from .decoding import IMAGE, Decoding, by_length, hold_once, pictures_said
from .hook import Policy, hook_of
from .segment_memory import Carried, left_in, put
from .step_trial import to_be_tried, try_once

M = TypeVar("M")


class FormulaModule(nn.Module):
    """Base of the modules whose `forward` is generated from a formula. Make them by `Blueprint.make`."""

    _blueprint: Blueprint
    _key: tuple[Any, ...]

    def __reduce_ex__(self, protocol: Any) -> Any:
        # the class exists in memory only: it is named by what it was made from; compiled code would be of this module
        state = {name: value for name, value in self.__dict__.items() if name != "_compiled_call_impl"}
        return restore, (self._blueprint, self._key), state


def restore(blueprint: Blueprint, key: tuple[Any, ...]) -> FormulaModule:
    """An empty module of a blueprint's class; pickle fills it."""
    cls: Any = blueprint.classes[key]
    module: FormulaModule = cls.__new__(cls)
    return module


class Layer(FormulaModule):
    """One layer: its `forward` is the formula, with the names that it reads as arguments, in order of first reading,
    then the history; it returns the names that it sets and something later needs, alone or as a tuple.

    borrowed  what holds the modules of other layers that this one calls (`share=`), not registered here: so one put in
              a module's place (an adapter, a quantized layer) is called here too
    """

    _step: Any
    borrowed: list[nn.Module]


class Transformer(FormulaModule):
    """A model: `model(tokens) -> logits`.

    tokens (batch, length), whole numbers; logits (batch, length, vocab). A model of several inputs takes them in the
    order of `inputs`, or by name; one of several named outputs returns a mapping. `lengths` says how many positions of
    each row are real, the rest, on the right, being padding, which changes nothing before it: (batch,), or a mapping of
    such by input where there are several sequences. Inputs of one sequence (`tokens types characters`) share theirs.
    Modules stand where the formula says: `layers["3"].attention`, `encoder.layers["3"].attention`. Make it by `build`.
    """

    _step: Any
    _fixed: Any

    def __call__(self, *inputs: Any, **named_inputs: Any) -> Any:
        try:
            return super().__call__(*inputs, **named_inputs)
        except TypeError:
            self._check_inputs(len(inputs), named_inputs)
            raise

    def _check_inputs(self, count: int, named: Mapping[str, Any]) -> None:
        """Raise InputError unless each input is given, the first `count` in order and the others by name."""
        inputs = self.inputs
        missing = [name for name in inputs[count:] if name not in named]
        unknown = [name for name in named if name not in (*inputs[count:], "lengths")]
        if not missing and not unknown:
            return
        wrong = [
            f"{' and '.join(names)} {what}"
            for what, names in (("left out", missing), ("not expected", unknown))
            if names
        ]
        near = nearest(unknown[0], missing) if unknown else []
        says = f"the model is given {', '.join(inputs)}, in this order or by name, and lengths="
        raise InputError(
            f"{says}; here: {', '.join(wrong)}{';' if near else ''}{did_you_mean(near)}", near=near
        ) from None

    @property
    def architecture(self) -> Architecture:
        """The checked formula."""
        return self._blueprint.architecture

    @property
    def text(self) -> ModelText:
        """The text that the model was made from, with what was changed in it."""
        return self.architecture.text  # type: ignore[no-any-return]

    @property
    def formula_hash(self) -> str:
        """What the model is, in 16 digits: the hash of its canonical form."""
        from ..analysis.canonical import formula_hash

        return formula_hash(self.architecture)

    @property
    def inputs(self) -> list[str]:
        """Names of what the model is called with, in order."""
        return list(self._blueprint.flow.inputs)

    @property
    def context_limit(self) -> int | None:
        """The longest text that the model's learned positions reach; None where nothing limits it."""
        return self.positions_of(DECODED if DECODED in self.inputs else self.inputs[0]) if self.inputs else None

    def positions_of(self, name: str) -> int | None:
        """How many positions of an input the model has learned: no more can be read. None where nothing limits it."""
        learned = self._blueprint.learned  # a search asks each time
        if name not in learned:
            sequences = made_of(self.architecture, name)
            calls = [value for section in self.architecture.sections() for value in section.calls()]
            limits = [positions_learned(value, sequences) for value in calls]
            learned[name] = min((limit for limit in limits if limit is not None), default=None)
        return learned[name]

    @property
    def carry(self) -> int:
        """How many positions of the segments before `segment` lets one see; 0: the model's text says none."""
        return self.architecture.carry

    @property
    def given_at_start(self) -> list[str]:
        """Names of the inputs that decoding is given once, at the start: those of other sequences than the tokens'."""
        flow = self._blueprint.decoding
        return [name for name in flow.inputs if name not in flow.growing]

    def start(self, batch: int, capacity: int, *, lengths: Any = None, **inputs: Tensor) -> Decoding:
        """Begin to decode `batch` rows step by step, with room for `capacity` positions.

        `inputs` are those of other sequences than the tokens' (`source`, `image`), with their `lengths` as in a whole
        pass: what depends on them alone, such as an encoder's output, is computed here, once. Where rows have several
        pictures or none, `image` has the pictures of the first row, then those of the second, and
        `lengths={"image": counts}` says how many each row has; where no row has any, one is given that stands nowhere.

        Raises InputError where the formula cannot be decoded: a stack that sees the future or reads no tokens, a word
        without steps.
        """
        if not self.architecture.main.causal:
            raise InputError("only a causal stack can be decoded step by step; this one says `causal: false`")
        if DECODED not in self.inputs:
            read = ", ".join(self.inputs)
            raise InputError(f"a step of decoding adds tokens, and this model reads {read}: run the whole sequence")
        if batch < 1 or capacity < 1:
            raise InputError(f"decoding needs at least one row and one position; given: {batch} rows, {capacity}")
        names = self.given_at_start
        if set(inputs) != {*names}:
            wanted, received = ", ".join(names) or "no inputs", ", ".join(inputs) or "none"
            raise InputError(f"decoding starts with {wanted}; given: {received}")
        counts, lengths = pictures_said(lengths)
        if counts is not None and names != [IMAGE]:
            raise InputError(f"rows have several pictures where nothing else is given; here: {', '.join(names)}")
        for name, tensor in inputs.items():
            rows = batch if counts is None or name != IMAGE else max(1, int(counts.sum()))
            if tensor.shape[0] != rows:
                raise InputError(f"{name} has {tensor.shape[0]} rows, the decoding {rows}")
        decoding = self.empty_states(batch, capacity)
        decoding.given = bool(names)
        if self._blueprint.decoding.fixed:
            decoding.fixed = self._made_once({name: inputs[name] for name in names}, lengths)
        if counts is not None:
            decoding.by_row(counts)
        return decoding

    def _made_once(self, inputs: dict[str, Tensor], lengths: Any) -> list[Any]:
        """What decoding reads at each step and nothing decoded changes."""
        if len(inputs) == 1 and isinstance(lengths, Mapping) and set(lengths) == set(inputs) and not self.training:
            ((name, ids),) = inputs.items()
            if ids.dim() == 2 and isinstance(lengths[name], Tensor):
                values_by_length = by_length(lambda rows, real: self._fixed(rows, {name: real}), ids, lengths[name])
                if values_by_length is not None:
                    return values_by_length
        values: list[Any] = self._fixed(*inputs.values(), lengths)
        return values

    def empty_states(self, batch: int, capacity: int) -> Decoding:
        """Empty states for each section and each of its calls that look at the past. Raises InputError where there is
        no decoding step by step."""
        blueprint = self._blueprint
        like = next((p for p in self.parameters() if p.is_floating_point()), torch.empty(0))
        modules: list[list[Any]] = []
        grows = {run.section for run in blueprint.decoding.chosen("step")}
        for index, (section, calls) in enumerate(zip(self.architecture.sections(), blueprint.sites, strict=True)):
            for value in section.calls() if index in grows else ():
                if value.called.word.reach == "all":
                    what = f"{section.title}: {value.called.name} sees all positions"
                    raise InputError(f"{what}: no decoding step by step")
                if capacity and to_be_tried(value):
                    try_once(value, evaluating(self.get_submodule(value.called.path)))
            modules.append([self.get_submodule(call.path) for call in calls] if index in grows else [])
        states = [[m.start(batch, capacity, like.dtype, like.device) for m in row] for row in modules]
        hold_once(states, blueprint.sites, blueprint.kept, capacity)
        return Decoding(batch, capacity, states, modules, like.device)

    def step(
        self, tokens: Tensor, decoding: Decoding, new: Tensor | None = None, last: bool = False, **inputs: Tensor
    ) -> Any:
        """Decode one more chunk of every row: what `model(tokens)` would give for these positions.

        tokens (batch, length); logits (batch, length, vocab). `new` (batch,) says how many positions of the chunk are
        real in each row, the rest, on the right, being padding, whose logits mean nothing. `last`: only the logits at
        the last real position of each row are wanted, (batch, 1, vocab); where the output is not made position by
        position, all come. `inputs`: others of the tokens' positions by name, such as `types` and `characters`.
        """
        self._check_chunk("chunk", tokens, inputs)
        at = decoding.at(tokens, new)
        at.last = last
        result = self._step(tokens=tokens, **inputs, fixed=decoding.fixed, states=decoding.states, at=at)
        decoding.advance(tokens.shape[1], new)
        return result

    def _check_chunk(self, what: str, tokens: Any, others: Mapping[str, Tensor]) -> None:
        """Raise InputError unless this is what is given for some positions of the tokens."""
        if not isinstance(tokens, Tensor) or tokens.dim() != 2:
            raise InputError(f"a {what} of tokens must be a tensor (batch, length)")
        names = self._blueprint.decoding.growing - {DECODED}
        if others.keys() != names:
            wanted, received = ", ".join(sorted(names)) or "nothing else", ", ".join(others) or "no others"
            raise InputError(f"a {what} is given tokens and {wanted}, by name; here: {received}")

    def segment(self, tokens: Tensor, carried: Carried | None = None, **inputs: Tensor) -> tuple[Any, Carried]:
        """Read one more segment of every row's text: (what `model(tokens)` gives, behind what was read before; what
        the next segment is given).

        tokens (batch, length); `carried` is what the segment before has left, None at the start of a text. Each
        position sees those before it in its segment and the last `model.carry` positions before that. Gradients flow
        through this segment only; `carried` is not changed. `inputs`: others of the tokens' positions by name.

        Raises InputError for a model that does not say `carry`, and for rows that are not those of `carried`.
        """
        if not self.carry:
            raise InputError("this model carries nothing from segment to segment: write `carry: 150` in its text")
        self._check_chunk("segment", tokens, inputs)
        batch, length = tokens.shape
        carried = carried or Carried(batch, 0, 0, {})
        if batch != carried.rows:
            raise InputError(f"what is carried has {carried.rows} rows, the segment {batch}")
        decoding = self.empty_states(batch, 0)
        device = decoding.lengths.device
        for path, tensor in carried.tensors.items():
            put(decoding.states, path.split("."), tensor.to(device))
        start, end = carried.length, carried.length + length
        at = At(torch.full((batch,), start, device=device), start, first=carried.first)
        fixed = self._fixed(None) if self._blueprint.decoding.fixed else []
        result = self._step(tokens=tokens, **inputs, fixed=fixed, states=decoding.states, at=at)
        kept = [
            [module.carried(state, self.carry) for module, state in zip(modules, states, strict=True)]
            for modules, states in zip(decoding.modules, decoding.states, strict=True)
        ]
        return result, Carried(batch, end, max(carried.first, end - self.carry), left_in(kept))

    def named_losses(self) -> dict[str, Tensor]:
        """What words add to the loss, as of their last pass in training: by their path and the loss's own name."""
        return self._by_path("losses")

    def named_measures(self) -> dict[str, Tensor]:
        """What words measure in training since the last step, by their path and the measure's own name."""
        return self._by_path("measures")

    def _by_path(self, method: str) -> dict[str, Tensor]:
        by_path: dict[str, Tensor] = {}
        for path, module in self.named_modules():
            if isinstance(module, (Word, Policy)) and hasattr(module, method):
                by_path |= {f"{path}.{name}": value for name, value in getattr(module, method)().items()}
        return by_path

    def after_step(self) -> None:
        """What words change after each step of an optimizer without a gradient (selection biases of experts). The
        trainer calls it; a training loop of your own does so after `optimizer.step()`."""
        for module in self.modules():
            change: Any = getattr(module, "after_step", None) if isinstance(module, Word) else None
            if change is not None:
                change()

    def calibrate(self, *inputs: Tensor, **named_inputs: Any) -> str:
        """Do what the model's `calibrate` hook asks for, over one batch: the inputs as for a call.

        The trainer does it before the first step. Returns what was done, a line; "" where the model asks for nothing.
        """
        calibrate, training = hook_of(self.architecture, "calibrate"), self.training
        if calibrate is None:
            return ""
        try:
            return str(calibrate(self.train(), lambda: self(*inputs, **named_inputs)))
        finally:
            self.train(training)

    def line_of(self, module_name: str) -> str:
        """The line of the formula that a module stands in: "layer 3, line 1: x = x + attention(norm(x))".

        `module_name` is a name as in `named_modules`, or of something inside one. "" where there is none.
        """
        by_path = self._blueprint.spots
        parts = module_name.split(".")
        for count in range(len(parts), 0, -1):
            spot = by_path.get(".".join(parts[:count]))
            if spot is not None and spot.value.place is not None:
                section, place = spot.section, spot.value.place
                index = line_of(section, spot.value)
                line = (own_place(spot.value) or place) if index is None else section.lines[index][0]
                text = f"{section.title}, line {line.line}: {text_of(line)}"
                if place.source is not line.source:
                    text += f" ({place.where}: {place.source.line(place.line).strip()})"
                return text
        near = nearest(module_name, by_path)
        if module_name not in dict(self.named_modules()):
            raise InputError(f"the model has no module {module_name!r};{did_you_mean(near)}", near=near)
        return ""

    def flops_per_token(self, length: int | None = None) -> float:
        """Floating-point operations a token, forward and backward, at the mean span of a sequence of `length`."""
        from ..analysis.accounting import summary

        return float(summary(self.architecture, length=length).flops_per_token)

    def flops_per_unit(self) -> float:
        """Floating-point operations of training on a token; of a model that reads pictures alone, on a picture."""
        from ..analysis.accounting import flops_per_unit

        return float(flops_per_unit(self.architecture))


def take_code(model: Transformer) -> None:
    """Let a model run from here on what its blueprint says now."""
    blueprint = model._blueprint
    model.__class__ = type(blueprint.make(("model",), Transformer, **blueprint.methods(*blueprint.calls)))


def is_compiled(model: nn.Module) -> bool:
    """Whether a module, or one inside, runs code that `compile` made."""
    return any(getattr(module, "_compiled_call_impl", None) is not None for module in model.modules())


def evaluating(model: M) -> M:
    """A view of a model that evaluates: its modules are copies that hold the model's own parameters, buffers and hooks.

    Weights that are trained or loaded meanwhile, and what `to` makes of them, are seen through it. What modules leave
    behind in a pass stays in the view, so that threads with a view each share none of it. A module that was compiled by
    `compile` runs eagerly in it, because its compiled code is of the mode of its own. What is no module is returned as
    it is.

    `model.eval()` would be seen by every other thread that uses the model: one that trains would train without dropout.
    """
    return _view(model, {}) if isinstance(model, nn.Module) else model  # type: ignore[return-value]


def _view(module: nn.Module, known: dict[nn.Module, nn.Module]) -> nn.Module:
    if module in known:
        return known[module]
    view = known[module] = type(module).__new__(type(module))
    held = dict(vars(module))
    children = {name: child if child is None else _view(child, known) for name, child in held["_modules"].items()}
    for name, value in held.items():
        # modules that are held without being registered: faces of a word, holders of what a layer borrows
        if isinstance(value, (list, tuple)) and value and all(isinstance(one, nn.Module) for one in value):
            held[name] = type(value)([_view(one, known) for one in value])
    vars(view).update(held, _modules=children, training=False, _compiled_call_impl=None)
    return view
