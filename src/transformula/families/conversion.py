"""One wiring in every family: a text of one stack as an encoder, as a decoder with a memory, as both.

    as_encoder            one stack that sees all positions of its sequence
    as_decoder            a stack `decoder`: each attention is followed by one over `memory`, wired the same way
    as_encoder_decoder    both, with one table of words where the text gives it a label (`embed.words`)

Lines are kept as they are written but for these changes:

encoder  sees all positions, so it has another input, and distances to both sides:

         embed.words(tokens)             embed.words(source)
         s = s - slope * (i - j)         s = s - slope * abs(i - j), the same number where only the past is seen
         attention(x, window=8)          attention(x, mask=near), with near(i, j): m = abs(i - j) < 8

decoder  see `to_decoder.py` (the lines) and `cross_attention.py` (the calls)
both     labels in the encoder's `before` and `after` become `encoder_NAME`, but for those of tables of words, which are
         meant for the whole model; patterns of `init` name both stacks' parameters, and those of the new attention

Numbers, words, output and other hooks stay as they are. What `about` tells of the text is not true of the new one, and
is left out.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

from ..errors import InputError, UnknownName
from ..language.check import check, default_before
from ..language.context import OF_TOKENS
from ..language.graph import Architecture, Section
from ..language.messages import FormulaError
from ..language.model_text import INPUTS, ModelText, StackText
from ..language.options import sizes_of
from ..language.parser import parse
from ..language.source import Source
from ..language.syntax import Binary, CallNode, Index, Line, Name, Negative, Node, Number, rewritten, spell, walk
from ..language.vocabulary import Vocabulary
from .cross_attention import BY_HAND, Book, Unfit
from .formulas import calls_in, changed_text, formula_text, fresh_name, relabel
from .to_decoder import LayerLines, with_lists

ENCODER, DECODER = "encoder", "decoder"  # the names of the stacks
FAMILIES = (ENCODER, DECODER, "encoder-decoder")


def as_encoder(text: ModelText, vocabulary: Vocabulary, *, reads: str = "source") -> ModelText:
    """The text as an encoder: one stack that sees all positions of the input `reads`.

    Of a text that sees all already only the input's name is changed; one that reads no tokens (images) is given back as
    it is. Raises InputError that says why where it cannot be one, FormulaError where the text itself is wrong.
    """
    with original_of(text, vocabulary, "an encoder") as original:
        encoder = encoder_of(original, reads)
        check(encoder, vocabulary)
        return encoder


def as_decoder(text: ModelText, vocabulary: Vocabulary) -> ModelText:
    """The text as a decoder with a memory: one stack `decoder`, to stand below one that makes `memory`.

    Raises InputError that says why where it cannot be one, FormulaError where the text itself is wrong.
    """
    with original_of(text, vocabulary, "a decoder with a memory") as original:
        decoder, roles = decoder_of(original)
        above = StackText(
            ENCODER,
            numbers={"depth": Source("number depth", "1")},
            before=Source("encoder, before", "x = embed.of_the_memory(source)"),
            layers={"layer": Source("encoder, layer", "x = x")},
            causal=False,
        )
        whole = dataclasses.replace(decoder, stacks=(above, *decoder.stacks))
        return dataclasses.replace(finish(whole, original, roles, [DECODER]), stacks=decoder.stacks)


def as_encoder_decoder(text: ModelText, vocabulary: Vocabulary) -> ModelText:
    """The text as a model of two stacks: `encoder` over `source`, `decoder` over `tokens`.

    A text whose last stack reads another one already is given back as it is. Raises InputError that says why where it
    cannot be one, FormulaError where the text itself is wrong.
    """
    if len(text.stacks) > 1 and any(any(attentions(layer)) for layer in check(text, vocabulary).main.layers):
        return text
    with original_of(text, vocabulary, "an encoder and a decoder") as original:
        encoder = encoder_of(original, "source")
        if "source" not in inputs_of(check(encoder, vocabulary)):
            raise Unfit("it reads no tokens", BY_HAND)
        # the decoder has the encoder's definitions, which are the same where only the past is seen
        one = dataclasses.replace(original.text, words=encoder.words)
        decoder, roles = decoder_of(dataclasses.replace(original, text=one))
        above, labels = with_own_labels(encoder.stacks[0], original.book())
        whole = dataclasses.replace(decoder, stacks=(above, *decoder.stacks))
        return finish(whole, original, {**roles, **labels}, [ENCODER, DECODER])


def of_family(text: ModelText, family: str, vocabulary: Vocabulary, before: str | None = None) -> ModelText:
    """The text as a model of its own of a family: what `family=` and `--family` mean.

    encoder          sees all of its `tokens`
    decoder          writes `tokens`, without a memory: a text of one causal stack as it is
    encoder-decoder  reads `source` and writes `tokens`; or what `before` reads, sounds or pictures, with which the
                     encoder then begins

    Raises UnknownName; InputError that says why where the text cannot be of the family.
    """
    if family not in FAMILIES:
        raise UnknownName("family", family, FAMILIES)
    if family == "encoder":
        return as_encoder(text, vocabulary, reads="tokens")
    if family == "encoder-decoder":
        both = as_encoder_decoder(text, vocabulary)
        return both if before is None else with_before(both, before, vocabulary)
    if not text.single or not text.stacks[0].causal:
        what = "sees all of its sequence at once" if text.single else "is made of several stacks"
        raise InputError(f"{text.name or 'the formula'} is no decoder: it {what}\ngive a text of one causal stack")
    return text


def with_before(text: ModelText, before: str, vocabulary: Vocabulary) -> ModelText:
    """A text of two stacks whose encoder begins with other lines. Raises FormulaError."""
    encoder = dataclasses.replace(text.stacks[0], before=Source(f"{ENCODER}, before", before))
    changed = dataclasses.replace(text, stacks=(encoder, *text.stacks[1:]))
    check(changed, vocabulary)
    return changed


@dataclasses.dataclass(frozen=True)
class Original:
    """A text of one stack that is turned, its `before` written out, and its checked graph."""

    text: ModelText
    vocabulary: Vocabulary
    architecture: Architecture

    @property
    def stack(self) -> StackText:
        return self.text.stacks[0]

    def streams(self) -> set[str]:
        return {line.name for source in self.stack.formulas for line in parse(source)}

    def book(self) -> Book:
        taken = {*self.text.numbers, *self.stack.numbers, *INPUTS, *self.text.inputs, *self.streams()}
        return Book(self.text.words, self.vocabulary, {*taken, "memory", "layer", "pi", ENCODER, DECODER})

    def refuse_one_sided(self, distances: str, remedy: str) -> None:
        """Refuse a text that reads a table of distances whose rows depend on whether the stack is causal."""
        for section in self.architecture.sections():
            for word in (value.called.word for value in section.calls()):
                if "causal" in word.rows:
                    raise Unfit(f"the table that `{word.name}` reads has {distances}", remedy)


@contextmanager
def original_of(text: ModelText, vocabulary: Vocabulary, what: str) -> Iterator[Original]:
    """The text to be turned, sound in itself; what is not to be had is said with the text's name and a remedy."""
    architecture = check(text, vocabulary)
    who = f"{text.name or 'the formula'} cannot be {what}"
    try:
        if not text.single:
            names = ", ".join(stack.name for stack in text.stacks)
            raise Unfit(f"it is made of stacks of its own ({names})", "turn a text of one stack")
        (stack,) = text.stacks
        formulas = [parse(source) for source in stack.layers.values()]
        definitions = Book(text.words, vocabulary, set()).definitions
        before = stack.before or default_before(formulas, definitions, vocabulary, {*INPUTS, *text.inputs})
        stacks = (dataclasses.replace(stack, before=before),)
        yield Original(dataclasses.replace(text, about={}, stacks=stacks), vocabulary, architecture)
    except Unfit as unfit:
        raise InputError(f"{who}: {unfit.reason}\n{unfit.remedy}") from None
    except FormulaError as error:
        raise InputError(f"{who}, for as one its text is wrong\n{error}\n{BY_HAND}", near=error.near) from None
    except RecursionError:
        raise FormulaError("too-deep", None) from None


class Encoding:
    """Rewrites the formulas of one text for an encoder.

    reads       the input that takes the place of `tokens`
    both_sides  the text was causal, so its distances are of the past
    """

    def __init__(self, book: Book, reads: str, *, both_sides: bool) -> None:
        self.book, self.reads, self.both_sides = book, reads, both_sides
        self.masks: dict[str, str] = {}

    def formula(self, source: Source) -> Source:
        return changed_text(parse(source), self.input_or_window, source)

    def words(self) -> dict[str, Source]:
        """The text's definitions, and before them the masks that stand for windows. Definitions see no inputs."""
        changed = {
            header: changed_text(definition.lines, self.distance if definition.second else self.window, source)
            for (header, source), definition in zip(self.book.words.items(), self.book.definitions, strict=True)
        }
        masks = {f"{name}(i, j)": Source(f"definition {name}", text) for text, name in self.masks.items()}
        return {**masks, **changed}

    def input_or_window(self, node: Node) -> Node | None:
        if isinstance(node, Name) and node.name == "tokens":
            return dataclasses.replace(node, name=self.reads)
        unwindowed = self.window(node)
        return rewritten(unwindowed, self.input_or_window) if unwindowed is not None else None

    def window(self, node: Node) -> Node | None:
        """A call of attention with a mask in the place of its window."""
        if not self.both_sides or not isinstance(node, CallNode):
            return None
        record = self.book.vocabulary.get(node.word)
        window = next((o for o in node.options if o.name == "window"), None)
        if record is None or not record.attends or window is None:
            return None
        if any(o.name == "mask" for o in node.options):
            remedy = "write the window into the mask: abs(i - j) < window"
            raise Unfit(f"`{spell(node)}` has a window, which looks back, beside a mask", remedy)
        options = tuple(o for o in node.options if o is not window)
        if not (isinstance(window.value, Number) and window.value.value == 0):
            options = (*options, Line("mask", Name(window.place, self.mask(window.value)), window.place))
        return rewritten(dataclasses.replace(node, options=options), self.window)

    def mask(self, size: Node) -> str:
        """The name of the mask of a window of this size."""
        width = spell(size, 2)
        text = f"m = {'' if isinstance(size, Number) else f'{width} == 0 or '}abs(i - j) < {width}"
        if text not in self.masks:
            self.masks[text] = fresh_name("near", self.book.taken)
            self.book.taken.add(self.masks[text])
        return self.masks[text]

    def distance(self, node: Node) -> Node | None:
        """`i - j` without its sign."""
        match node:
            case Binary(operator="-", left=Name() as one, right=Name() as other) if self.both_sides:
                if {one.name, other.name} == {"i", "j"}:
                    i, j = (one, other) if one.name == "i" else (other, one)
                    size = CallNode(node.place, "abs", "", (Binary(node.place, "-", i, j),), (), node.place)
                    return size if one is i else Negative(node.place, size)
        return None


def encoder_of(original: Original, reads: str) -> ModelText:
    """See `as_encoder`; not yet checked."""
    text, stack, inputs = original.text, original.stack, inputs_of(original.architecture)
    if "carry" in text.hooks:
        raise Unfit("`carry` keeps what is past, and an encoder sees all at once", "take it out: carry=None")
    if "tokens" not in inputs and not stack.causal:
        return text
    declared = {name for name, of in text.inputs.items() if of == "tokens"}
    belong = {*OF_TOKENS, *declared} & inputs - {"tokens"}
    if belong and reads != "tokens":
        names = ", ".join(sorted(belong))
        raise Unfit(f"it reads {names}, which only `tokens` have", "write the encoder by hand, without")
    if stack.causal:
        remedy = "write the encoder by hand, with a table for both sides, as in the gallery's deberta"
        original.refuse_one_sided("the distances of the past only", remedy)
    encoding = Encoding(original.book(), reads, both_sides=stack.causal)
    encoder = stack.rewritten(encoding.formula, causal=False, place=None)
    output = text.output and encoding.formula(text.output)
    return dataclasses.replace(text, stacks=(encoder,), words=encoding.words(), output=output)


def decoder_of(original: Original) -> tuple[ModelText, dict[str, str]]:
    """See `as_decoder`; not yet checked, and with the text's own hooks. Beside it the role of each sublayer that is
    repeated, with that of the new one."""
    text, stack, book = original.text, original.stack, original.book()
    if "memory" in {*text.numbers, *stack.numbers}:
        raise Unfit("its number `memory` has the name of what a decoder reads", "give that number another name")
    if "tokens" not in inputs_of(original.architecture):
        raise Unfit("it reads no tokens, so it writes none", "give another text for the decoder")
    if any(v.called.word.reach == "all" for v in original.architecture.output.calls()):
        raise Unfit("its output takes all positions at once, so it writes nothing step by step", "give it --output")
    if not stack.causal:
        original.refuse_one_sided("distances of the future", "write the decoder by hand")
    formulas = {name: parse(source) for name, source in stack.layers.items()}
    lines = [*chain(*formulas.values()), *(parse(stack.after) if stack.after else [])]
    history = [node for line in lines for node in walk(line.value) if isinstance(node, Index)]
    repeated = {name: LayerLines(o, original.streams(), history, book).repeat() for name, o in formulas.items()}
    if repeated == formulas:
        raise Unfit("its layers have no attention that could be wired once more over a memory", BY_HAND)
    stack = dataclasses.replace(stack, layers={n: formula_text(o, stack.layers[n]) for n, o in repeated.items()})

    def formula(source: Source) -> Source:
        return name_source(changed_text(parse(source), with_lists(book.lists), source), DECODER)

    decoder = stack.rewritten(formula, name=DECODER, causal=True, place=None)
    return dataclasses.replace(text, stacks=(decoder,), words=book.all_words()), book.roles


def name_source(source: Source, stack: str) -> Source:
    return dataclasses.replace(source, name=f"{stack}, {source.name}")


def inputs_of(architecture: Architecture) -> set[str]:
    """The names of what a task gives."""
    return {v.name for section in architecture.sections() for v in section.reads.values() if v.op == "input"}


def attentions(section: Section) -> list[bool]:
    """For each attention that a section evaluates whether it reads another sequence."""
    calls = [value for value in section.calls() if value.called.word.attends]
    sequences = [{stream.sequence for stream in value.args[: len(value.called.streams)]} for value in calls]
    return [len(names - {""}) > 1 for names in sequences]


def finish(whole: ModelText, original: Original, roles: Mapping[str, str], stacks: Collection[str]) -> ModelText:
    """A text of two stacks, checked, with its hooks. Each attention of the original's layers must still be there, and
    one over the memory for each. Raises Unfit."""
    architecture = check(whole, original.vocabulary)
    for old, new in zip(original.architecture.main.layers, architecture.main.layers, strict=True):
        count, after = len(attentions(old)), attentions(new)
        if (after.count(False), after.count(True)) != (count, count):
            lost = "repeated over a memory, its lines would lose what a line before has set"
            itself, memory = f"{after.count(False)} times to itself", f"{after.count(True)} times to the memory"
            raise Unfit(f"{lost} ({new.title} would attend {itself} and {memory}, not {count})", BY_HAND)
    return dataclasses.replace(whole, hooks=hooks_for(whole.hooks, architecture, roles, stacks))


def with_own_labels(stack: StackText, book: Book) -> tuple[StackText, dict[str, str]]:
    """An encoder's stack, with labels of its own for what belongs to the whole model and is no table of words, which
    other calls may share as another face of it; and these labels by the old ones."""
    for definition in book.definitions:
        if any(option.name == "share" for call in book.inner(definition) for option in call.options):
            raise Unfit(f"share= in the definition {definition.name!r} would share it between the stacks", BY_HAND)
    labels: dict[str, str] = {}

    def own(source: Source) -> Source:
        whole, lines = source is stack.before or source is stack.after, parse(source)
        here: dict[str, str] = {}
        for call in (call for line in lines for call in calls_in(line.value) if call.label):
            record = book.record(call)
            table = record is not None and record.family == "table"
            if any(o.name == "share" for o in call.options) or (whole and not table):
                here[call.label] = f"{ENCODER}_{call.label}"
        labels.update(here)
        return name_source(changed_text(lines, lambda node: relabel(node, here), source), ENCODER)

    return stack.rewritten(own, name=ENCODER), labels


def hooks_for(
    hooks: Mapping[str, Any], architecture: Architecture, roles: Mapping[str, str], stacks: Collection[str]
) -> dict[str, Any]:
    """A text's hooks for the model that it was turned into: patterns of `init` that name a stack's own parameters
    (`before.*`) name those of `stacks`, and one of a sublayer that of the new one too."""
    patterns = hooks.get("init")
    if not isinstance(patterns, Mapping):
        return dict(hooks)
    calls = [value.called for section in architecture.sections() for value in section.calls()]
    names = {f"{call.path}.{name}" for call in calls for name, size in sizes_of(call).items() if size}

    def parts(part: str) -> list[str]:
        """A pattern, as it is for each stack and for each role."""
        variants = [part, *(f"{stack}.{part}" for stack in stacks if not part.startswith("*"))]
        for old, new in roles.items():
            variants += [".".join(new if piece == old else piece for piece in one.split(".")) for one in variants]
        return [one for one in dict.fromkeys(variants) if fnmatch.filter(names, one)] or [part]

    init = {
        "|".join(dict.fromkeys(one for part in str(pattern).split("|") for one in parts(part.strip()))): value
        for pattern, value in patterns.items()
    }
    return {**hooks, "init": init}
