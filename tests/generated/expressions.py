"""Draws expressions at random: streams of known widths, with every word of the vocabulary and its options.

A `Scope` says what may be read at one place (names with their widths, history, labels, taps), so that most of what is
drawn is sound; what the language has reason to refuse (a window of another sequence, history that is empty at first)
is drawn, too. Options are drawn from the words' records: a new word is drawn by its being there.

    Expressions(draw).value(scope, budget)    (text, width)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from transformula.language.numbers import evaluate_text
from transformula.language.vocabulary import Option, WordRecord
from transformula.words import vocabulary

VOCABULARY = vocabulary()
WIDTH, HEADS, VOCAB, CONTEXT = 8, 2, 11, 12
NUMBERS: Mapping[str, Any] = {"width": WIDTH, "heads": HEADS, "vocab": VOCAB, "context": CONTEXT}
MOST = 64
"""Channels; wider streams are brought down."""

TESTS = [
    "layer % 2 == 0",
    "layer > depth / 2",
    "layer == 1 or layer == depth",
    "not layer < 2",
    "layer > 1 and layer != 3",
    "depth // 2 >= layer",
]
FACTORS = [
    "0.5",
    "2",
    "layer ** -0.5",
    "1 / depth",
    "sqrt(width) / 3",
    "(2 * depth) ** 0.25",
    "(1 if layer == 1 else 0.3)",
]
CONSTANTS = ["0.5", "2", "depth ** -0.5", "1e-1", "sqrt(width) / 3", "min(depth, 3) / 4"]
"""What stands where there is no layer."""

SCORES = {
    "alibi": "alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)",
    "near": "near(i, j): m = i - j < 3 or j % 2 == 0",
    "learned_bias": "learned_bias(s, h, i, j): s = s + table(h, heads) * abs(i - j) / 8",
    "squashed": "squashed(s, h): s = 3 * s / (h + abs(s))",
    "even": "even(i, j): m = (i - j) % 2 == 0",
    "same": "same(i, j): m = document(i) == document(j)",
}
SCORE, MASK = ("alibi", "learned_bias", "squashed"), ("near", "even", "same")

MEMORIES = ["encoder", "memory", "encoder[1]", "norm(mix(memory[:]))"]
"""What a decoder reads of the encoder."""

SAFE = {"exp": "exp(-abs({}))", "log": "log(1 + abs({}))", "sqrt": "sqrt(1 + abs({}))"}
SAFE |= {"clamp": "clamp({}, -2, 2)", "topk": "topk({}, 1)", "min": "min({}, 1)", "max": "max(-1, {})"}
SAFE |= {"where": "where({}, 1, -0.5)"}
"""Functions whose results run away, or are none, or that take more than a stream, as they are written."""

NOT_HERE = ("embed", "unembed", "patches", "prepend", "learned", "spell", "ngrams", "pointer", "selective_scan")
"""Words that are written in places of their own."""

@dataclass
class Scope:
    """What can be read at one place.

    names      -> width
    past       names with a history
    lists      names whose list is never empty
    taps       text -> width
    labels     label -> (word, arguments' widths, options) that it stands for
    """

    names: dict[str, int]
    where: str = "layer"
    past: Sequence[str] = ()
    lists: Sequence[str] = ()
    stacks: Sequence[str] = ()
    causal: bool = True
    taps: dict[str, int] = field(default_factory=dict)
    labels: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    calls: int = 0


class Expressions:
    """Draws the expressions of one model file, and keeps what they ask of it: scores and definitions."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.used_scores: list[str] = []
        self.definitions: dict[str, tuple[str, list[int], int, list[str]]] = {}
        self.whole_labels: dict[str, tuple[Any, ...]] = {}
        self.norm = ""

    # Choices.

    def of(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def often(self, chance: int) -> bool:
        """True in `chance` of ten; False is simplest."""
        return bool(self.draw(st.integers(0, 9)) >= 10 - chance)

    def whole(self, least: int, most: int) -> int:
        return int(self.draw(st.integers(least, most)))

    # Expressions: (text, width).

    def value(self, at: Scope, budget: int, width: int | None = None, first: bool = False) -> tuple[str, int]:
        """Any stream; with `width` one of that width; `first`: no mere name."""
        text, found = self.anything(at, budget, first)
        return self.fitted(text, found, at, width if width is not None else min(found, MOST))

    def fitted(self, text: str, found: int, at: Scope, width: int) -> tuple[str, int]:
        """A stream brought to a width."""
        if found == width:
            return text, width
        ways = ["linear"] * 2 + ["lowrank"]
        if found % width == 0:
            ways.append("part")
        if width % found == 0:
            ways.append("repeat")
        match self.of(ways):
            case "linear":
                return f"linear({text}, {width})", width
            case "lowrank":
                return f"lowrank({text}, 2, {width})", width
            case "part":
                return f"part({text}, {self.whole(1, found // width)}, {found // width})", width
        return f"repeat({text}, {width // found})", width

    def leaf(self, at: Scope) -> tuple[str, int]:
        """A name, its history, a tap."""
        if at.taps and self.often(2):
            text = self.of(sorted(at.taps))
            return text, at.taps[text]
        if at.past and self.often(2):
            name = self.of(at.past)
            index = self.of(["0", "layer - 1", "max(0, layer - 2)"] if at.where == "layer" else ["0", "depth"])
            return f"{name}[{index}]", at.names[name]
        name = self.of(sorted(at.names))
        if name in at.unread:
            at.unread.remove(name)
        return name, at.names[name]

    def anything(self, at: Scope, budget: int, first: bool = False) -> tuple[str, int]:
        if budget <= 0:
            return self.leaf(at)
        ways = ["leaf", "word", "word", "word", "word", "sum", "factor", "function", "depth", "defined", "choice"]
        way = self.of(ways[first:])
        match way:
            case "sum":
                return self.sum(at, budget)
            case "factor":
                return self.factor(at, budget)
            case "function":
                return self.function(at, budget)
            case "word":
                return self.word(at, budget)
            case "depth" if at.lists:
                return self.over_depth(at, budget)
            case "defined" if self.definitions and at.where != "output":
                return self.defined(at, budget)
            case "choice" if at.where == "layer":
                one, width = self.value(at, budget - 1)
                other, _ = self.value(at, budget - 1, width)
                return f"({one} if {self.of(TESTS)} else {other})", width
        return self.leaf(at)

    def sum(self, at: Scope, budget: int) -> tuple[str, int]:
        one, width = self.value(at, budget - 1)
        other, _ = self.value(at, budget - 1, width)
        operator = self.of(["+", "+", "-", "*", "/"])
        if operator == "-" and one == other:  # two l2norms of exact zeros have gradients of 1e24, which hide all others
            operator = "+"
        if operator == "/":
            return f"({one} / (1 + abs({other})))", width
        return f"({one} {operator} {other})", width

    def factor(self, at: Scope, budget: int) -> tuple[str, int]:
        text, width = self.value(at, budget - 1)
        numbers = FACTORS if at.where == "layer" else CONSTANTS
        match self.of(["number", "scalar", "vector", "power", "minus", "gate", "over"]):
            case "scalar":
                return f"scalar{self.labelled(at, 'scalar', (), ())}({self.of(['0', '1', '0.3'])}) * {text}", width
            case "vector":
                vector = self.of(["vector(0, size={})", "vector(1, size={})", "vector(0.3, size={})", "arange({}) / 8"])
                return f"{vector.format(width)} * {text}", width
            case "power":
                return f"tanh({text}) ** {self.of(['2', '3'])}", width
            case "minus":
                return f"(-{text})", width
            case "gate":
                return f"gate({text}, size={self.of([1, width])}) * {text}", width
            case "over":
                return f"{text} / {self.of(numbers)}", width
        return f"{self.of(numbers)} * {text}", width

    def function(self, at: Scope, budget: int) -> tuple[str, int]:
        text, width = self.value(at, budget - 1)
        name = self.of(sorted(r.name for r in VOCABULARY.values() if r.kind == "function"))
        return SAFE.get(name, f"{name}({{}})").format(text), width

    def over_depth(self, at: Scope, budget: int) -> tuple[str, int]:
        name = self.of(at.lists)
        width = at.names[name]
        if self.often(3):
            more, _ = self.value(at, budget - 1, width)
            return f"attend({more}, {name}[:])", width
        return self.of(["mix({}[:])", "attend({}[:])", "mix({}[:], dynamic=True)"]).format(name), width

    def labelled(self, at: Scope, word: str, widths: tuple[int, ...], options: tuple[str, ...]) -> str:
        """`.label`, now and then."""
        if not self.often(2) or at.where == "output":
            return ""
        label = f"{'l' if at.where in ('layer', 'definition') else 'm'}{len(at.labels)}"
        at.labels[label] = (word, widths, options)
        return f".{label}"

    def word(self, at: Scope, budget: int) -> tuple[str, int]:
        """A call of a word of the vocabulary, with options as its record says."""
        names = [r.name for r in VOCABULARY.values() if self.can_stand(r, at)]
        record = VOCABULARY[self.of(sorted(names) + ["attention"] * 4 + ["mlp"] * 2 + ["norm"] * 2)]
        if record.name in ("attention", "dot_attention"):
            return self.attention(record, at, budget)
        if record.kind == "streams":
            return self.streams(at, budget)
        if record.name in ("scan", "delta"):
            return self.recurrence(record.name, at, budget)
        if record.name == "weighted_sum":
            text, width = self.value(at, budget - 1, WIDTH)
            scores = self.of(["attention_weights({})", "mix_heads(attention_weights({}))", "relu({})"])
            return f"weighted_sum({scores.format(f'dot_scores({text}, {text})')}, {text})", width
        if record.name == "dynamic_conv":
            text, width = self.value(at, budget - 1)
            return f"dynamic_conv({text}, softmax(linear(x, 3), size={self.of([3, 1])}), 3, heads=1)", width
        form = self.of([f for f in record.forms if f and not set(f) & {*record.ids, "weights"}] or [()])
        arguments = [self.value(at, budget - 1) for _ in form[:1]]
        for _ in form[1:]:
            arguments.append(self.value(at, budget - 1, arguments[0][1]))
        widths = dict(zip(form, (w for _, w in arguments), strict=True))
        again = [
            label
            for label, (name, known, _) in at.labels.items()
            if name == record.name and known == tuple(widths.values())
        ]
        if again and self.often(5):
            label = self.of(again)
            _, _, options = at.labels[label]
            text = f"{record.name}.{label}({', '.join([t for t, _ in arguments] + list(options))})"
        else:
            options = tuple(f"{key}={said(value)}" for key, value in self.options(record, widths, at).items())
            label = self.labelled(at, record.name, tuple(widths.values()), options)
            share = (f"share={self.of(['0', 'layer % 2', '(layer + 1) // 2'])}",) if label and self.often(2) else ()
            share = share if at.where == "layer" else ()
            more = (*self.ports(record, options, at, budget), *share)
            text = f"{record.name}{label}({', '.join([t for t, _ in arguments] + list(options + more))})"
        own = record.sequence == "own" or (record.name == "upsample" and "like=" not in text)
        text = f"mean({text})" if own else text
        return text, self.width_of(record, widths, options)

    def can_stand(self, record: WordRecord, at: Scope) -> bool:
        if not record.built or record.name in NOT_HERE or record.module.split(".")[0] != "transformula":
            return False
        if record.kind in ("function", "coefficient", "depth", "scores", "input") and record.name != "rotary":
            return False
        if record.sequence == "own" and at.causal:
            return False  # what is summed has one sequence; where all is seen its mean goes with any
        return not (record.reach == "all" and at.causal)

    def options(self, record: WordRecord, widths: Mapping[str, int], at: Scope) -> dict[str, Any]:
        """Some options, drawn from their types and ranges; those that must be there."""
        given: dict[str, Any] = {}
        if record.name == "norm" and self.norm:
            return given  # the file's own has none
        for option in record.options.values():
            if option.default is None or self.often(2):
                value = self.option(record, option, widths)
                if value is not None:
                    given[option.name] = value
        if record.name == "pick":
            given = self.of([{"n": 1}, {"at": "end"}])
        if record.name == "slice":
            given = {"first": 1, "size": max(1, widths["x"] - 1)}
        if record.name == "pad":
            given["size"] = self.of([2, 8, 11])
        if record.name in ("conv2d", "pool2d"):
            given["columns"] = self.of([1, 2])
        if record.name in ("space_to_depth", "depth_to_space"):
            given = {key: value for key, value in given.items() if key == "parts"}
            given |= self.of([{"n": 2, "columns": 2}, {"n": 2, "dimensions": 1}])
        if record.name == "window_attention":
            side = self.of([1, 2, 2])
            given |= {"side": side, "columns": 2, "shift": self.of([0, side - 1]), "heads": HEADS}
        if record.name == "upsample":
            sizes = self.of([{"n": 2}, {"to_rows": 2, "to_columns": 3}, {"to_columns": 2}])
            given = {"kind": given.get("kind", "nearest"), "columns": 2, **sizes}
        if record.name == "experts" and "bias_rate" in given:
            given["selection_bias"] = True
        if record.name == "experts" and given.get("active", 2) == 1:
            given["renormalise"] = False
        return given

    def ports(self, record: WordRecord, options: Sequence[str], at: Scope, budget: int) -> tuple[str, ...]:
        """A stream that a word reads by name, now and then."""
        if record.name == "window_attention" and self.often(5):
            side = next(int(option[5:]) for option in options if option.startswith("side="))
            table = self.of([f"learned({(2 * side - 1) ** 2}, heads)", f"linear(grid_distances({side}), heads)"])
            return (f"scores=grid_scores({table}, {side})",)
        if record.name == "upsample" and not {"n=2", "to_rows=2"} & set(options):
            return (f"like={self.value(at, budget - 1)[0]}",)
        return ()

    def option(self, record: WordRecord, option: Option, widths: Mapping[str, int]) -> Any:
        x = next(iter(widths.values()), WIDTH)
        match option.type:
            case "flag":
                return self.of([True, False])
            case "choice":
                return self.of(option.choices)
            case "number":
                low = option.minimum if option.minimum is not None else -1
                values = {"base": [100, 10000], "eps": [1e-6, 1e-2], "p": [0.1, 0.5], "part": [0.5, 1], "bias": [-1, 2]}
                if option.name in values:
                    return self.of(values[option.name])
                return self.of([low + 0.1, low + 0.5, low + 1] if option.maximum is None else [0, 0.1, 0.5])
            case "whole":
                divisors = [d for d in range(1, x + 1) if x % d == 0]
                special = {"i": [1], "n": divisors[:3] if record.name == "part" else [2, 3], "heads": [1, 2]}
                special |= {
                    "size": divisors if record.kind == "norm" or record.name == "dot" else [2, 4, 6, 8],
                    "active": [1, 2],
                    "parts": [1, 2],
                }
                special |= {
                    "rank": [1, 3],
                    "hidden": [3, 8],
                    "shared": [0, 1, 2],
                    "length": [1, 2, 4],
                    "stride": [1, 1, 2],
                }
                special |= {"steps": [3, 20], "first": [int(option.minimum or 0), 1]}
                if option.name in special:
                    return self.of(special[option.name])
                low = int(option.minimum or 0)
                return self.whole(low, low + 3 if option.maximum is None else min(low + 3, int(option.maximum)))
        return None

    def width_of(self, record: WordRecord, widths: Mapping[str, int], options: Sequence[str]) -> int:
        """What the record says of the result's width; a guess where it is refused anyway."""
        names: dict[str, Any] = {
            **NUMBERS,
            "layer": 1,
            "depth": 2,
            **{f: 0 for form in record.forms for f in form},
            **widths,
        }
        for option in record.options.values():
            stated = next((o.split("=", 1)[1] for o in options if o.startswith(f"{option.name}=")), None)
            try:
                if stated is not None:
                    names[option.name] = stated.strip('"') if option.type == "choice" else evaluate_text(stated, names)
                elif isinstance(option.default, str) and option.type in ("whole", "number"):
                    names[option.name] = evaluate_text(option.default, names)
                else:
                    names[option.name] = option.default
            except Exception:
                names[option.name] = option.absent or 1
        try:
            return max(1, int(evaluate_text(record.width, names)))
        except Exception:
            return next(iter(widths.values()), WIDTH)

    def attention(self, record: WordRecord, at: Scope, budget: int) -> tuple[str, int]:
        """Attention of one, two or three streams, with windows, rotary positions, scores, formulas over scores."""
        options: dict[str, str] = {}
        width = self.of([WIDTH, WIDTH, 12])
        query, _ = self.value(at, budget - 1, width)
        others = bool(at.stacks) and self.often(5)
        if record.name == "dot_attention":
            arguments = [
                query,
                self.value(at, budget - 1, width)[0],
                self.value(at, budget - 1, self.of([width, 4]))[0],
            ]
        elif others:
            arguments = [query, self.of(MEMORIES)]
        elif self.often(2):
            arguments = [query, self.value(at, budget - 1)[0], self.value(at, budget - 1)[0]]
        else:
            arguments = [query]
        if self.often(3):
            options["window"] = self.of(["3", "0 if layer % 2 == 0 else 2"] if at.where == "layer" else ["2"])
        if self.often(1):
            options["cap"] = "5"
        if self.often(1):
            options["dropout"] = "0.1"
        if record.name == "attention":
            if self.often(3):
                options["rotary"] = self.of(["100", "10000 if layer == 1 else 50"] if at.where == "layer" else ["100"])
            if self.often(2):
                options["kv_heads"] = "1"
            if self.often(1):
                options["bias"] = "False"
            if self.often(1):
                options["qk_norm"] = self.of(['"head"', '"full"'])
            if self.often(1):
                options["size"] = "6"
        if self.often(2):
            names = self.of([SCORE, MASK])
            definition = self.of(names)
            options["score" if names is SCORE else "mask"] = definition
            if definition not in self.used_scores:
                self.used_scores.append(definition)
        if self.often(2) and len(arguments) == 1 and at.where == "layer":
            rows, more = "4" if at.causal else "2 * 4", self.of(["", ', by="key"', ", buckets=True"])
            table = f"relative({query}, learned({rows}, {width}), span=4{more})"
            products = f"{self.of(['relu', 'mix_heads'])}(dot_scores({query}, {query}))"
            sums = f"sum_heads(relu(dot_scores({query}, {query})), linear({query}, 4), size=2)"
            options["scores"] = self.of([f"relative_bias({query}, buckets=4, reach=8)", table, products, sums])
        if self.often(1) and len(arguments) == 1:
            options["top"] = "2"
            options["ranking"] = f"sum_heads(relu(dot_scores({query}, {query})), linear({query}, 2))"
        label = ""
        if self.often(3) and at.where == "layer":
            label = f"l{len(at.labels)}"
            at.labels[label] = (record.name, (), ())
            if record.name == "attention" and "size" not in options and "kv_heads" not in options and not others:
                for tap in ("q", "v"):
                    at.taps[f"{label}.{tap}"] = width
        text = ", ".join([*arguments, *(f"{k}={v}" for k, v in options.items())])
        result = f"{record.name}{'.' + label if label else ''}({text})"
        if record.name == "dot_attention":
            return f"linear({result}, {WIDTH})", WIDTH
        return result, width

    def recurrence(self, name: str, at: Scope, budget: int) -> tuple[str, int]:
        """Decays below 0; for `delta` keys of length 1 and shares between 0 and 1, with which its state is bounded."""
        q, k, v, other = (self.value(at, budget - 2, WIDTH)[0] for _ in range(4))
        wide = self.of([WIDTH, HEADS])
        decay = f"-softplus({other if wide == WIDTH else f'linear({other}, {wide})'})"
        if name == "scan":
            rates = f"softplus({other}), exp(vector(0, {2 * WIDTH}))"
            by_rates = f"selective_scan(linear({q}, 2), linear({k}, 2), {v}, {rates})"
            return self.of([f"scan({v}, {decay})", f"scan({q}, {k}, {v}, {decay})", by_rates]), WIDTH
        k = f"l2norm({k}, size={WIDTH // HEADS})"
        if self.often(3):
            return f"delta({q}, {k}, {v}, {k}, sigmoid({other}) * {k}, {decay})", WIDTH
        share = f"sigmoid(linear({other}, {HEADS}))"
        return f"delta({q}, {k}, {v}, {share}{self.of(['', f', {decay}'])})", WIDTH

    def streams(self, at: Scope, budget: int) -> tuple[str, int]:
        """Several streams in one, from expand to collapse."""
        one, width = self.value(at, budget - 1, WIDTH)
        kind = self.of(["hc", "mhc", "mhc_lite"])
        match self.of(["both", "collapse", "read"]):
            case "both":
                branch, _ = self.value(at, budget - 1, WIDTH)
                return f'collapse(write(expand({one}, 2), {branch}, kind="{kind}"))', width
            case "collapse":
                return f"collapse(expand({one}, 3))", width
        return f'read(expand({one}, 2), kind="{kind}")', width

    def defined(self, at: Scope, budget: int) -> tuple[str, int]:
        name = self.of(sorted(self.definitions))
        _, widths, width, taps = self.definitions[name]
        arguments = [self.value(at, budget - 1, w)[0] for w in widths]
        label = ""
        if self.often(3) and at.where == "layer":
            label = f"l{len(at.labels)}"
            at.labels[label] = (name, (), ())
            for tap in taps:
                at.taps[f"{label}.{tap}"] = WIDTH
        return f"{name}{'.' + label if label else ''}({', '.join(arguments)})", width


def said(value: Any) -> str:
    """An option's value as it is written."""
    return f'"{value}"' if isinstance(value, str) else str(value)
