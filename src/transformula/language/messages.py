"""Every mistake that a text in the formula language can hold: its message and an example that causes it.

One table feeds the errors, their tests and the page of errors in the docs. `FormulaError` adds the place, underlined,
and the nearest known names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, did_you_mean, nearest
from ..field_names import Ours
from .source import Place


@dataclass(frozen=True)
class Message:
    """What is wrong, what to do ({names} are filled in), and a formula or model file that causes it."""

    text: str
    remedy: str
    example: str


# What is wrong, what to do, and an example that causes it.
ROWS: dict[str, tuple[str, str]] = {
    # spelling
    "syntax": ("this is not a formula: {detail}\nwrite lines of the form: name = expression", "x = x + + * y"),
    "expression-syntax": (
        "this is not an expression: {detail}\n"
        "write names and numbers with + - * / // % ** or `a if test else b`; "
        "a flag is true or false, a string one word",
        "tied: yes please\nlayer: x = x + mlp(x) if tied else x",
    ),
    "empty": ("the formula is empty\nwrite at least one line: name = expression", "# nothing"),
    "not-ascii": ("{char!r} is not an ASCII character\nformulas are written in ASCII", "x = x + аttention(x)"),
    "too-long": ("the text has {count:,} characters\na formula has at most 20,000", "x = x" + " " * 20_001 + "+ x"),
    "too-many-parts": (
        "the formula has {count:,} {what}\na formula has at most 500 lines and 1,000 calls, and a sum 2,000 terms",
        "x = x\n" * 600,
    ),
    "too-deep": (
        "the expression is nested too deeply\nat most 50 levels: give a part of it a name",
        "x = " + "(" * 60 + "x" + ")" * 60,
    ),
    "too-many-calls": (
        "the model has more than 100,000 calls\nmake it less deep, or its definitions smaller",
        "depth: 10000\nlayer: x = x" + " + mlp(norm(x))" * 6,
    ),
    "too-many-operations": (
        "the model has more than 200,000 calls, sums and products\nmake it less deep, or its definitions smaller",
        "depth: 10000\nlayer: x = x" + " + x" * 30,
    ),
    "too-many-entries": (
        "the lists of history, such as {name}[:], hold more than 100,000 values of layers\n"
        "make the model less deep, or read single layers: {name}[layer - 1]",
        "depth: 1000\nlayer: |\n  h = x + mlp(x)\n  x = mix(h[:])",
    ),
    "too-large-a-layer": (
        "with its definitions expanded, this part of the model has more than {most} {what}\n"
        "make its definitions smaller, or write it as several layers",
        "words:\n  f0(x): y = mlp(mlp(mlp(x)))\n"
        + "".join(f"  f{n}(x): y = f{n - 1}(f{n - 1}(x))\n" for n in range(1, 12))
        + "layer: x = x + f11(x)",
    ),
    "not-allowed": ("{what} is not part of the language\n{remedy}", "x = [y for y in x]"),
    "not-assignment": ("a line must be one assignment: {what}\nwrite: name = expression", "attention(x)"),
    "keyword-name": ("{name!r} cannot be a name here\nchoose another name", "lambda: 2\nlayer: x = x + mlp(norm(x))"),
    # numbers
    "not-a-number": (
        "{what} is not a number\nnumbers are made of literals, the file's numbers, layer and pi",
        "x = x + mlp(x) if norm(x) > 1 else x",
    ),
    "number-too-large": (
        "this number is too large or not finite\nnumbers are finite and at most 1e9",
        "x = 9**9**9 * x",
    ),
    "division-by-zero": ("division by zero\ncheck the numbers on this line", "x = x / (layer - layer)"),
    "number-domain": ("{what} is not defined for {value}\ncheck the numbers on this line", "x = sqrt(0 - 1) * x"),
    "unknown-number": (
        "no number is called {name!r};{near} known: {known}\n{remedy}",
        "x = x + mlp(x) if layer > first else x",
    ),
    "number-cycle": (
        "the number {name!r} is defined in terms of itself\ngive it a value",
        "width: 2 * heads\nheads: width // 2\nlayer: x = x + mlp(x)",
    ),
    "not-a-flag": (
        "{name} is {what}; a flag is wanted here\nwrite true or false under its name, or compare it: layer > 2",
        "x = x + mlp(x) if width else x",
    ),
    "not-compared": (
        "{detail} is no test\nnumbers are compared by < <= > >= == !=, two strings or two flags by == and !=",
        'act: silu\nlayer: x = x + mlp(x, activation=act) if act > "relu" else x',
    ),
    "not-a-list": (
        "{name} is {what}, and no list\nwrite one in the file: {name}: [512, 512, 0]",
        "size: 512\nlayer: x = x + attention(x, window=size[layer])",
    ),
    "list-range": (
        "{name}[{index}] is no place in a list\nits {count} places are counted from 1, and repeated: {name}[layer]",
        "windows: [512, 0]\nlayer: x = x + attention(x, window=windows[layer - 1])",
    ),
    "number-unused": (
        "nothing reads the {kind} {name!r};{near}\ntake it out, or {remedy}",
        "rank: 8\nlayer: x = x + mlp(norm(x))",
    ),
    # names
    "unset": ("{name!r} has no value in {title};{near}\n{remedy}", "x = x + attention(norm(y))"),
    "never-read": ("the value of {name!r} is never read\nuse it, or take the line out", "y = norm(x); x = x + mlp(x)"),
    "two-things": ("{name!r} is already {other}\nchoose another name", "norm = x; x = x + mlp(norm)"),
    "carried-changes": (
        "{name!r} enters the layer as {before}, but leaves it as {after}\n"
        "a name that is carried from layer to layer keeps its kind and width",
        "x = linear.a(x, 2 * width)",
    ),
    "history-range": (
        "{name}[{index}] does not exist in {title}\nhere there is {there}; {name}[n] is what layer n left",
        "x = x + mlp(x[layer])",
    ),
    "history-first": (
        "{name}[{first}:] does not begin with a layer\n"
        "the first layer of a list is a whole number, e.g. {name}[layer - 3:]",
        "x = x + mix(x[layer / 2:])",
    ),
    "history-unset": (
        "{name!r} has no value at the end of {place_name}\nread a layer that has set it",
        "y = mlp(x); x = x + y[0]",
    ),
    "list-here": (
        "a history list cannot be used here\nhistory lists go into mix, attend and definitions only",
        "x = x + x[:]",
    ),
    "empty-list": (
        "{word} needs at least one value, but the list is empty\nset the name before this line",
        "x = x + mix(y[:]); y = mlp(x)",
    ),
    # words
    "unknown-word": ("no word is called {name!r};{near}\nknown words: {known}{see}", "x = x + attenion(norm(x))"),
    "outside-word": (
        "the word {name!r} comes from {package}\n{remedy}",
        "extra: {swish: {reach: token, package: my_words}}\nlayer: x = x + swish(norm(x))",
    ),
    "argument-count": ("{word} takes {expected}, but is given {given}\nsee: {equation}", "x = x + mlp(x, x, 8, 8)"),
    "unknown-option": (
        "{word} has no option {name!r};{near}\nits options: {known}{see}",
        "x = x + attention(x, head=4)",
    ),
    "option-twice": ("{word} is given {name!r} twice\ngive it once", "x = x + dropout(x, 0.1, p=0.2)"),
    "option-type": ("{word}: {name} is {expected}, not {given};{near}\n{help}", 'x = x + attention(x, heads="four")'),
    "option-range": ("{word}: {name} is {given}, but must be {expected}\n{help}", "x = x + dropout(mlp(x), p=2)"),
    "option-missing": ("{word} needs {name}\n{help}", "x = x + linear(x)"),
    "check-failed": (
        "{word}: {detail}\nchange the numbers of this call or of the file",
        "width: 10\nheads: 3\nlayer: x = x + attention(x)",
    ),
    "not-an-input": (
        "{word} takes a stream, but {what} is an input of the task\nembed it first",
        "x = x + mlp(tokens)",
    ),
    "ids-wanted": (
        "{word} takes ids of the task here, but this is {what}\n"
        "give it an input that holds ids, such as tokens or source",
        "layer: x = x + mlp(x)\noutput: y = pointer(x, x, x)",
    ),
    "not-read": (
        "{word} does not read {what}\n{remedy}",
        "before: x = embed(image)\nlayer: x = x + mlp(x)",
    ),
    "one-id": (
        "{word} does not read {what}\n"
        "`characters` holds several ids a position: spell(characters) reads it, and no other input",
        "before: x = embed(characters)\nlayer: x = x + mlp(x)",
    ),
    "wrong-kind": ("{word} takes a stream, but this is {what}\ngive it a stream", "x = x + mlp(scalar(1))"),
    "scores-wanted": (
        "{word} takes scores, but this is {what}\n"
        "give it what a word of scores makes, such as dot_scores or relative, or the tap `scores` of an attention",
        "x = x + attention(x, scores=x)",
    ),
    "no-channels": (
        "{word} works across channels, and scores have keys in their place, of which some are not to be seen\n"
        "take the softmax over the keys that each query sees: attention_weights(s), or attention(x, scores=s)",
        "x = x + attention(x, scores=softmax(dot_scores(x, x)))",
    ),
    "reach-all": (
        "{word} sees all positions, but this stack is causal\n"
        "use a word that sees only the past, or write: causal: false",
        "x = x + mean(x)",
    ),
    "not-causal": (
        "{name!r} comes from a stack that sees the whole of this sequence, but this stack is causal\n"
        "make that stack causal too, or read another sequence",
        "width: 8\na:\n  causal: false\n  depth: 1\n  before: x = embed(tokens)\n  layer: x = x + mlp(x)\n"
        "b:\n  depth: 1\n  before: x = embed(tokens)\n  layer: x = x + a\noutput: logits = unembed(x)",
    ),
    "sees-ahead": (
        "{word} lets queries of {queries} see all of {keys}, but each position of this causal stack sees only its past"
        "\ntake the queries from that sequence, or write: causal: false",
        "x = x + attention(norm(x), attention(learned(4), x))",
    ),
    "widths": (
        "widths differ: {left} and {right}\nmake them equal, e.g. by linear(x, {left})",
        "x = x + linear(x, 2 * width)",
    ),
    "turned-otherwise": (
        "{word}: rotary positions turn what it multiplies in different ways: {detail}\n{remedy}",
        "heads: 8\nwidth: 64\nlayer: |\n  q = rotary(linear.q(x, 64))\n"
        "  x = x + dot_attention(q, rotary(linear.k(x, 16)), linear.v(x, 16))",
    ),
    "sequences": (
        "the two sides belong to different sequences: {left} and {right}\n"
        "attention reads across sequences; sums do not{also}",
        "before: |\n  x = embed(tokens)\n  m = embed.m(source)\nlayer: x = x + m",
    ),
    "kinds": (
        "{left} and {right} cannot be combined by {operator}\n"
        "+ - * / take streams, coefficients, scores and numbers, an exponent is a number: docs/reference/language.md",
        "x = x + x ** x",
    ),
    # labels, taps, definitions
    "label-twice": (
        "the label {label!r} stands for {first} and for {second}\none label is one module",
        "x = x + mlp.a(norm.a(x))",
    ),
    "label-differs": (
        "{label!r} has {name} {first}, but here it would be {second}\ncalls with one label are one module",
        "x = x + linear.a(x, width); x = x + linear.a(x, width, bias=False)",
    ),
    "label-role": (
        "the label {label!r} is also the automatic name of another call\nchoose another label",
        "x = x + attention(x); x = x + mlp.attention(x)",
    ),
    "share-label": ("share= needs a label\nwrite {word}.NAME(..., share=...)", "x = x + mlp(x, share=1)"),
    "unknown-tap": ("{call!r} makes no value {tap!r};{near}\n{remedy}", "y = attention(x); x = x + y + attention.u"),
    "tap-ambiguous": (
        "{call!r} is called {count} times here\ngive the call a label, and write LABEL.{tap}",
        "x = x + attention(x); x = x + attention(x) + attention.v",
    ),
    "definition-header": (
        "{text!r} is not the header of a definition\nwrite NAME or NAME(x, y, size=width)",
        "words: {3x: y = x}\nlayer: x = x + mlp(x)",
    ),
    "definition-unused": (
        "the definition {name!r} is never used\nuse it, or take it out",
        "words: {f: y = relu(x)}\nlayer: x = x + mlp(x)",
    ),
    "definition-value": (
        "{name!r} takes {what}\ndefinitions, strings and True or False go into options",
        "x = x + mlp(True)",
    ),
    "second-level": (
        "{name!r} cannot stand in a formula over scores: {detail}\n"
        "it may use s, h, i, j, numbers, tests, min max abs exp log sqrt, "
        "table(h, n) and inputs of one number a position",
        'words: {"bad(s, i, j)": s = s + norm(i)}\nlayer: x = x + attention(x, score=bad)',
    ),
    "looks-ahead": (
        "{word} with {option} sees what comes after a position, but this stack is causal\n"
        "leave {option} out, or write: causal: false",
        "x = x + attention(x, window=4, two_sided=True)",
    ),
    "rotary-formula": (
        "{name!r} cannot stand in a formula over rotary positions: {detail}\n"
        "it may use r, the rate of a pair of channels, c, its number from 0, numbers, tests, "
        "min max abs exp log sqrt, and for angles= the position i and inputs of one number a position",
        'words: {"bad(r, c)": r = r / norm(c)}\nlayer: x = x + attention(x, rotary=10000, rates=bad)',
    ),
    # files
    "unknown-key": ("unknown key {name!r};{near}\nknown keys: {known}", "layr: x = x + mlp(x)"),
    "key-twice": ("the key {name!r} is given twice\nkeep one of them", "depth: 2\ndepth: 3\nlayer: x = x + mlp(x)"),
    "key-value": ("{name}: {detail}\n{remedy}", "depth: []\nlayer: x = x + mlp(x)"),
    "not-yaml": ("this is not a model file: {detail}\n{remedy}", "layer: [x = x"),
    "no-layer": ("{title} has no `layer`\nwrite layer: ..., or layers: with order:", "depth: 2\nwidth: 8"),
    "order": (
        "order: {detail}\nname one of: {known}",
        "layers: {a: x = x + mlp(x), b: x = x + attention(x)}\norder: c",
    ),
    "newer-language": (
        "this file is written in language {given}, but this program knows language {known}\n"
        "install a newer transformula",
        "language: 2\nlayer: x = x + mlp(x)",
    ),
    "needs-depth": (
        "{name} must be a whole number from 1 to 10,000, but is {given}\ngive it another value",
        "depth: 0\nlayer: x = x + mlp(x)",
    ),
}
MESSAGES = {code: Message(*row.partition("\n")[::2], example) for code, (row, example) in ROWS.items()}


class FormulaError(InputError):
    """A mistake in a text of the formula language: `code` is its row in MESSAGES, `place` where it stands (None for a
    whole file), `near` the nearest known names. `said` are these in words, where they are more than names; `write` is a
    text that works, in the place of the row's remedy."""

    def __init__(
        self,
        code: str,
        place: Place | None = None,
        *,
        near: Sequence[str] = (),
        said: str = "",
        write: str = "",
        **values: object,
    ) -> None:
        row = MESSAGES[code]
        values["near"] = said or did_you_mean(near)
        values.setdefault("see", "")
        what = row.text.format(**values).replace(";  ", "; ").rstrip(";").strip()
        remedy = f"{example(write)}{values['see']}" if write else row.remedy.format(**values)
        lines = [f"{place.where}: {what}", place.underlined(), remedy] if place else [what, remedy]
        super().__init__("\n".join(filter(None, lines)), near=near)
        self.code, self.place, self.what, self.remedy = code, place, what, remedy

    @property
    def data(self) -> dict[str, Any]:
        """As plain data: code and remedy too, and where it stands, if that is known."""
        return {**super().data, "code": self.code, "remedy": self.remedy, **(self.place.data if self.place else {})}


def example(text: str) -> str:
    """'e.g. x = ...', or a whole file below it."""
    return f"e.g. {text}" if "\n" not in text else "e.g.\n" + "\n".join(f"    {row}" for row in text.splitlines())


def unknown(
    code: str, place: Place | None, name: str, known: Iterable[str], ours: Ours | None = None, **values: Any
) -> FormulaError:
    """The error for an unknown name, with what the field's name is called here, else the nearest known ones."""
    known = sorted(set(known))
    if ours is not None:
        values = {"said": did_you_mean([ours.label]), "write": ours.write, **values}
    if code == "unknown-number":
        values.setdefault("remedy", f"add it to the file, or give it as --{name}")
    near = [ours.name] if ours is not None else nearest(name, known)
    return FormulaError(code, place, near=near, name=name, known=", ".join(known) or "none", **values)
