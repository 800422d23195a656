"""One wiring in every family: a text of one stack as an encoder, as a decoder with a memory, as both.

    as_encoder            one stack that sees all positions of its sequence
    as_decoder            a stack `decoder`: each attention is followed by one over `memory`, wired the same way
    as_encoder_decoder    both, with one table of words where the text gives it a label (`embed.words`)

Lines are kept as they are written but for these changes:

encoder  reads `source` for `tokens`. In formulas over scores `i - j` becomes `abs(i - j)`, the same number where only
         the past is seen; `window=w`, which looks back, becomes the mask abs(i - j) < w
decoder  see `to_decoder.py` (the lines) and `cross_attention.py` (the calls)
both     labels in the encoder's `before` and `after` become `encoder_NAME`, but for those of tables of words, which are
         meant for the whole model; patterns of `init` name both stacks' parameters, and those of the new attention

Numbers, words, output and other hooks stay as they are. What `about` tells of the text is not true of the new one, and
is left out.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..errors import InputError, UnknownName
from ..language.check import check
from ..language.definitions import read_definition
from ..language.graph import Architecture, Section
from ..language.messages import FormulaError
from ..language.model_file import INPUTS, ModelText, StackText
from ..language.options import sizes_of
from ..language.parser import parse
from ..language.source import Source
from ..language.stacks import default_before
from ..language.syntax import Index, walk
from ..language.vocabulary import Vocabulary
from .cross_attention import BY_HAND, Book, Unfit
from .substitute import calls_in, changed_lines, formula_text, relabelled
from .to_decoder import with_lists, with_memory
from .to_encoder import Encoding

ENCODER, DECODER = "encoder", "decoder"
"""The names of the stacks."""


def as_encoder(text: ModelText, vocabulary: Vocabulary, *, reads: str = "source") -> ModelText:
    """The text as an encoder: one stack that sees all positions of the input `reads`.

    Of a text that sees all already only the input's name is changed; one that reads no tokens (images) is given back as
    it is. Raises InputError that says why where it cannot be one, FormulaError where the text itself is wrong.
    """

    def turned(original: Original) -> ModelText:
        made = encoder_of(original, reads)
        check(made, vocabulary)
        return made

    return turn(text, vocabulary, "an encoder", turned)


def as_decoder(text: ModelText, vocabulary: Vocabulary) -> ModelText:
    """The text as a decoder with a memory: one stack `decoder`, to stand below one that makes `memory`.

    Raises InputError that says why where it cannot be one, FormulaError where the text itself is wrong.
    """

    def turned(original: Original) -> ModelText:
        made, roles = decoder_of(original)
        above = StackText(
            ENCODER,
            numbers={"depth": Source("number depth", "1")},
            before=Source("encoder, before", "x = embed.of_the_memory(source)"),
            layers={"layer": Source("encoder, layer", "x = x")},
            causal=False,
        )
        architecture = check(dataclasses.replace(made, stacks=(above, *made.stacks)), vocabulary)
        check_kept(original.architecture, architecture)
        return dataclasses.replace(made, hooks=hooks_for(text.hooks, architecture, roles, [DECODER]))

    return turn(text, vocabulary, "a decoder with a memory", turned)


def as_encoder_decoder(text: ModelText, vocabulary: Vocabulary) -> ModelText:
    """The text as a model of two stacks: `encoder` over `source`, `decoder` over `tokens`.

    A text whose last stack reads another one already is given back as it is. Raises InputError that says why where it
    cannot be one, FormulaError where the text itself is wrong.
    """
    if len(text.stacks) > 1 and any(map(crosses, check(text, vocabulary).main.layers)):
        return text

    def turned(original: Original) -> ModelText:
        above = encoder_of(original, "source")
        if "source" not in inputs_of(check(above, vocabulary)):
            raise Unfit("it reads no tokens", BY_HAND)
        # the decoder has the encoder's definitions, which are the same where only the past is seen
        words = dataclasses.replace(original.text, words=above.words)
        below, roles = decoder_of(dataclasses.replace(original, text=words))
        encoder, labels = with_own_labels(above.stacks[0], original)
        made = dataclasses.replace(below, stacks=(encoder, *below.stacks))
        architecture = check(made, vocabulary)
        check_kept(original.architecture, architecture)
        hooks = hooks_for(text.hooks, architecture, {**roles, **labels}, [ENCODER, DECODER])
        return dataclasses.replace(made, hooks=hooks)

    return turn(text, vocabulary, "an encoder and a decoder", turned)


FAMILIES = ("encoder", "decoder", "encoder-decoder")


def of_family(text: ModelText, family: str, vocabulary: Vocabulary) -> ModelText:
    """The text as a model of its own of a family: what `family=` and `--family` mean.

    encoder          sees all of its `tokens`
    decoder          writes `tokens`, without a memory: a text of one causal stack as it is
    encoder-decoder  reads `source` and writes `tokens`

    Raises UnknownName; InputError that says why where the text cannot be of the family.
    """
    if family not in FAMILIES:
        raise UnknownName("family", family, FAMILIES)
    if family == "encoder":
        return as_encoder(text, vocabulary, reads="tokens")
    if family == "encoder-decoder":
        return as_encoder_decoder(text, vocabulary)
    if not text.single or not text.stacks[0].causal:
        what = "sees all of its sequence at once" if text.single else "is made of several stacks"
        raise InputError(f"{text.name or 'the formula'} is no decoder: it {what}\ngive a text of one causal stack")
    return text


@dataclasses.dataclass(frozen=True)
class Original:
    """A text that is turned, its checked graph, and its `before`, written out."""

    text: ModelText
    vocabulary: Vocabulary
    architecture: Architecture
    before: Source

    @property
    def stack(self) -> StackText:
        """Its only stack."""
        return self.text.stacks[0]

    def book(self) -> Book:
        """What its calls stand for."""
        taken = {*self.text.numbers, *self.stack.numbers, *INPUTS, *self.text.inputs, *self.streams()}
        return Book.of(self.text.words, self.vocabulary, {*taken, "memory", "layer", "pi", ENCODER, DECODER})

    def streams(self) -> set[str]:
        """The names that it sets."""
        sources = [self.before, *self.stack.layers.values(), *([self.stack.after] if self.stack.after else [])]
        return {line.name for source in sources for line in parse(source)}

    def one_sided(self) -> Iterator[str]:
        """The words of its graph that read a table of distances whose rows depend on whether the stack is causal."""
        calls = (value.call for section in self.architecture.sections() for value in section.calls())
        return (call.word.name for call in calls if call is not None and "causal" in call.word.rows)


def turn(text: ModelText, vocabulary: Vocabulary, what: str, turned: Callable[[Original], ModelText]) -> ModelText:
    """`turned` of a text that is sound in itself; what is not to be had is said with the text's name and a remedy."""
    architecture = check(text, vocabulary)
    who = f"{text.name or 'the formula'} cannot be {what}"
    try:
        if not text.single:
            names = ", ".join(stack.name for stack in text.stacks)
            raise Unfit(f"it is made of stacks of its own ({names})", "turn a text of one stack")
        formulas = {name: parse(source) for name, source in text.stacks[0].layers.items()}
        definitions = [read_definition(header, body, at) for at, (header, body) in enumerate(text.words.items())]
        default = default_before(formulas.values(), definitions, vocabulary, {*INPUTS, *text.inputs})
        before = text.stacks[0].before or default
        return turned(Original(dataclasses.replace(text, about={}), vocabulary, architecture, before))
    except Unfit as unfit:
        raise InputError(f"{who}: {unfit.reason}\n{unfit.remedy}") from None
    except FormulaError as error:
        raise InputError(f"{who}, for as one its text is wrong\n{error}\n{BY_HAND}", near=error.near) from None
    except RecursionError:
        raise FormulaError("too-deep", None) from None


def encoder_of(original: Original, reads: str) -> ModelText:
    """See `as_encoder`; not yet checked."""
    text, stack, inputs = original.text, original.stack, inputs_of(original.architecture)
    if "carry" in text.hooks:
        raise Unfit("`carry` keeps what is past, and an encoder sees all at once", "take it out: carry=None")
    if "tokens" not in inputs and not stack.causal:
        return text
    belong = {"types", "targets", "document", "rank", *(n for n, of in text.inputs.items() if of == "tokens")} & inputs
    if belong and reads != "tokens":
        raise Unfit(
            f"it reads {', '.join(sorted(belong))}, which only `tokens` have", "write the encoder by hand, without"
        )
    for word in original.one_sided() if stack.causal else ():
        raise Unfit(
            f"the table that `{word}` reads has the distances of the past only",
            "write the encoder by hand, with a table for both sides, as in the gallery's deberta",
        )
    encoding = Encoding(original.book(), reads, both_sides=stack.causal)
    layers = {name: encoding.formula(source) for name, source in stack.layers.items()}
    before, after = encoding.formula(original.before), encoding.formula(stack.after) if stack.after else None
    output = encoding.formula(text.output) if text.output else None
    made = dataclasses.replace(stack, before=before, layers=layers, after=after, causal=False, place=None)
    return dataclasses.replace(text, stacks=(made,), words=encoding.words(text.words), output=output)


def decoder_of(original: Original) -> tuple[ModelText, dict[str, str]]:
    """See `as_decoder`; not yet checked, and with the text's own hooks. Beside it the role of each sublayer that is
    repeated, with that of the new one."""
    text, stack, book = original.text, original.stack, original.book()
    if "memory" in {*text.numbers, *stack.numbers}:
        raise Unfit("its number `memory` has the name of what a decoder reads", "give that number another name")
    if "tokens" not in inputs_of(original.architecture):
        raise Unfit("it reads no tokens, so it writes none", "give another text for the decoder")
    if any(v.call and v.call.word.reach == "all" for v in original.architecture.output.calls()):
        raise Unfit("its output takes all positions at once, so it writes nothing step by step", "give it --output")
    for word in () if stack.causal else original.one_sided():
        raise Unfit(f"the table that `{word}` reads has distances of the future", "write the decoder by hand")
    streams = original.streams()
    formulas = {name: parse(source) for name, source in stack.layers.items()}
    after = parse(stack.after) if stack.after else []
    history = [n for part in (*formulas.values(), after) for o in part for n in walk(o.value) if isinstance(n, Index)]
    turned = {name: with_memory(lines, streams, history, book) for name, lines in formulas.items()}
    if all(tuple(turned[name]) == tuple(lines) for name, lines in formulas.items()):
        raise Unfit("its layers have no attention that could be wired once more over a memory", BY_HAND)
    turned = {name: with_lists(lines, book.lists) for name, lines in turned.items()}
    end = with_lists(after, book.lists)
    made = dataclasses.replace(
        stack,
        name=DECODER,
        before=named(original.before, DECODER),
        layers={name: named(formula_text(turned[name], source), DECODER) for name, source in stack.layers.items()},
        after=named(stack.after if end == after else formula_text(end, stack.after), DECODER) if stack.after else None,
        causal=True,
        place=None,
    )
    return dataclasses.replace(text, stacks=(made,), words=book.words(text.words)), book.roles


def named(source: Source, stack: str) -> Source:
    """A text, called by its stack's name too."""
    return dataclasses.replace(source, name=f"{stack}, {source.name}")


def inputs_of(architecture: Architecture) -> set[str]:
    """The names of what a task gives."""
    return {v.name for section in architecture.sections() for v in section.reads.values() if v.op == "input"}


def attentions(section: Section) -> list[bool]:
    """For each attention that a section evaluates whether it reads another sequence."""
    found = []
    for value in section.calls():
        assert value.call is not None
        if value.call.word.attends:
            streams = value.args[: len(value.call.streams)]
            found.append(len({stream.sequence for stream in streams if stream.sequence}) > 1)
    return found


def crosses(section: Section) -> bool:
    """Whether a section attends to another sequence."""
    return any(attentions(section))


def check_kept(before: Architecture, after: Architecture) -> None:
    """Every attention of a layer is still there, and one over the memory for each. Raises Unfit."""
    for old, new in zip(before.main.layers, after.main.layers, strict=True):
        count, made = len(attentions(old)), attentions(new)
        if (made.count(False), made.count(True)) != (count, count):
            raise Unfit(
                f"repeated over a memory, its lines would lose what a line before has set ({new.title} would attend"
                f" {made.count(False)} times to itself and {made.count(True)} times to the memory, not {count})",
                BY_HAND,
            )


def with_own_labels(stack: StackText, original: Original) -> tuple[StackText, dict[str, str]]:
    """An encoder's stack, with labels of its own for what belongs to the whole model and is no table of words; and
    these labels by the old ones."""
    book = original.book()
    for definition in book.definitions:
        if any(option.name == "share" for call in book.inner(definition) for option in call.options):
            raise Unfit(f"share= in the definition {definition.name!r} would share it between the stacks", BY_HAND)
    labels: dict[str, str] = {}

    def own(source: Source, whole: bool) -> Source:
        lines = parse(source)
        here = {
            call.label: f"{ENCODER}_{call.label}"
            for line in lines
            for call in calls_in(line.value)
            if call.label
            and (any(o.name == "share" for o in call.options) or (whole and not table(book, call)))
        }  # fmt: skip
        labels.update(here)
        if not here:
            return named(source, ENCODER)
        made = changed_lines(lines, lambda node: relabelled(node, here))
        return named(formula_text(made, source), ENCODER)

    made = dataclasses.replace(
        stack,
        name=ENCODER,
        before=own(stack.before, True) if stack.before else None,
        layers={name: own(source, False) for name, source in stack.layers.items()},
        after=own(stack.after, True) if stack.after else None,
    )
    return made, labels


def table(book: Book, call: Any) -> bool:
    """Whether a call is of a table of words, which other calls may share as another face of it."""
    record = book.record(call)
    return record is not None and record.family == "table"


def hooks_for(
    hooks: Mapping[str, Any], architecture: Architecture, roles: Mapping[str, str], stacks: Collection[str]
) -> dict[str, Any]:
    """A text's hooks for the model that it was turned into: patterns of `init` that name a stack's own parameters
    (`before.*`) name those of `stacks`, and one of a sublayer that of the new one too."""
    patterns = hooks.get("init")
    if not isinstance(patterns, Mapping):
        return dict(hooks)
    names = {
        f"{call.path}.{name}"
        for section in architecture.sections()
        for call in (value.call for value in section.calls())
        if call is not None
        for name, size in sizes_of(call).items()
        if size
    }

    def parts(part: str) -> list[str]:
        """A pattern, as it is for each stack and for each role."""
        found = [part, *(f"{stack}.{part}" for stack in stacks if not part.startswith("*"))]
        for old, new in roles.items():
            found += [".".join(new if piece == old else piece for piece in one.split(".")) for one in found]
        return [one for one in dict.fromkeys(found) if fnmatch.filter(names, one)] or [part]

    made = {
        "|".join(dict.fromkeys(one for part in str(pattern).split("|") for one in parts(part.strip()))): given
        for pattern, given in patterns.items()
    }
    return {**hooks, "init": made}
