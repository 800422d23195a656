"""Writes model files at random: well-formed, of known widths, from the whole language.

A `Writer` keeps what a formula may read at each place; its expressions are those of expressions.py.

    models()    a strategy of model files
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.generated.expressions import MEMORIES, NUMBERS, SCORES, TESTS, VOCAB, WIDTH, Expressions, Scope

SCATTERED = "masked_scatter(embed.words(tokens), tokens, learned(2), 7)"
"""Two positions of another sequence in the places of two ids: each row has two (examine.py)."""


class Writer(Expressions):
    """Draws one model file: definitions, formulas, stacks."""

    def define(self) -> None:
        """A definition: one line or several, of one stream or two; later ones may call earlier ones."""
        name = f"w{len(self.definitions)}"
        count = self.whole(1, 2)
        parameters = ["x", "y"][:count]
        at = Scope(dict.fromkeys(parameters, WIDTH), "definition", unread=list(parameters))
        lines, taps = [], []
        for number in range(self.whole(0, 2)):
            text, _ = self.value(at, 1, WIDTH)
            local = f"u{number}"
            lines.append(f"{local} = {text}")
            at.names[local] = WIDTH
            at.unread.append(local)
            taps.append(local)
        text, width = self.value(at, 2)
        for left in list(at.unread):
            text += f" + {self.fitted(left, WIDTH, at, width)[0]}"
        lines.append(f"z = {text}")
        header = name if count == 1 and self.often(3) else f"{name}({', '.join(parameters)})"
        self.definitions[name] = (f"{header}: |\n" + indented(lines, 4), [WIDTH] * count, width, taps)

    def lines(self, at: Scope, carried: Sequence[str], budget: int) -> list[str]:
        """A formula that sets x, and the carried names now and then."""
        lines = []
        for number in range(self.whole(0, 2)):
            text, width = self.value(at, budget, first=True)
            name = f"h{number}"
            lines.append(f"{name} = {text}")
            at.names[name] = width
            at.unread.append(name)
        if at.stacks and self.often(6):
            options = self.of(["", ", rotary=100", ", kv_heads=1, cap=3"])
            lines.append(f"x = x + attention(norm(x), {self.of(MEMORIES)}{options})")
        for name in carried:
            if self.often(6):
                text, _ = self.value(at, budget - 1, WIDTH)
                lines.append(f"{name} = {self.of([name + ' + ', ''])}{text}")
        for _ in range(self.whole(1, 2)):
            text, _ = self.value(at, budget, WIDTH, first=True)
            lines.append(self.of(["x = x + {}", "x = x + {}", "x = norm(x + {})", "x = {}"]).format(text))
        for name in list(at.unread):
            lines.append(f"x = x + {self.fitted(name, at.names[name], at, WIDTH)[0]}")
            at.unread.remove(name)
        return lines

    def stack(self, source: str, causal: bool, stacks: Sequence[str]) -> dict[str, Any]:
        """before, layers, order, after of one stack."""
        found: dict[str, Any] = {}
        carried = ["r"][: self.whole(0, 1)]
        scores = False
        if carried or source != "tokens" or self.often(4):
            words = f"embed{self.of(['.words', ''])}({source})" if source != "tokens" else "embed.words(tokens)"
            order = self.of([f" + positions({source})", f" + sinusoids({source})", ""])
            if source == "image":
                words, order = "patches(image, 2)", self.of(["", " + sinusoids(rows=6)"])
            elif source == "series":
                words, order = "linear(v, width)", order.replace("series", "v")
            elif source == "audio":
                frames = self.of(["frames(audio, 4, hop=2)", "logmel(audio, 3, hop=2, frame=4, rate=100)"])
                words, order = f"linear({frames}, width)", ""
            elif source == "tokens" and self.often(1):
                words = self.of([SCATTERED, f"where(indicator(tokens, 3), 0.5, {words})"])
            elif source == "tokens" and self.often(1):
                order += f" + embed.types(types, rows={VOCAB})"
            elif source == "tokens" and self.often(1):
                order += self.of([f" + spell(characters, rows={VOCAB})", " + ngrams(tokens, 3, rows=7)"])
            lines = ["v = values(series, 3)"] if source == "series" else []
            lines.append(f"x = {self.of(['', '0.5 * ', 'sqrt(width) * '])}{words}{order}")
            if not causal and source == "tokens" and self.often(4):
                lines.append("x = prepend(learned(2), x)")
            at = Scope({"x": WIDTH}, "before", causal=causal, labels=self.whole_labels)
            if self.often(2):
                lines.append(f"x = {self.value(at, 1, WIDTH)[0]}")
            lines += [f"{name} = {self.value(at, 1, WIDTH)[0]}" for name in carried]
            if self.often(2):
                carried = [*carried, "s"]
                scores = self.often(4)
                lines.append(f"s = {'0' if scores else self.of(['0', '0.5'])}")
            found["before"] = lines
        # a number at first is no stream: it is written by name
        streams = ["x", *(name for name in carried if name != "s")]
        names = dict.fromkeys(streams, WIDTH)
        formulas = ["near", "far"][: self.whole(1, 2)]
        for name in formulas:
            at = Scope(dict(names), "layer", streams, streams, stacks, causal)
            lines = self.lines(at, streams[1:], 3)
            if scores:
                lines += ["x = x + attention.kept(norm(x), scores=s)", "s = kept.scores"]
            elif "s" in carried:
                text, _ = self.value(at, 1, WIDTH)
                lines += [f"s = s + {text}", "x = x + 0.1 * s"]
            found.setdefault("layers", {})[name] = lines
        if len(formulas) > 1:
            found["order"] = self.of([f"far if {self.of(TESTS[:4])} else near", "[near, far]", "[near, near, far]"])
        elif self.often(1):
            found["share"] = self.of(["0", "(layer + 1) // 2"])
        if carried or self.often(6):
            at = Scope(dict(names), "after", streams, streams, causal=causal, labels=self.whole_labels)
            lines = [f"x = {self.value(at, 1, WIDTH)[0]}"] if self.often(4) else ["x = norm(x)"]
            found["after"] = [*lines, *(f"x = x + {c}" for c in (streams[1:] if scores else carried) if c != "x")]
        return found

    def model(self) -> str:
        """A whole file."""
        if self.often(3):
            self.norm = self.of(["norm: x = rmsnorm(x, eps=1e-5)", "norm: y = 2 * tanh(layernorm(x, bias=False))"])
        for _ in range(self.whole(0, 2)):
            self.define()
        depth = self.whole(1, 4)
        rows = [f"depth: {depth}", *(f"{key}: {value}" for key, value in NUMBERS.items())]
        kind = self.of(["one", "one", "two", "two", "seen"])
        if kind == "two":
            source = self.of(["source", "source", "image", "audio"])
            encoder = self.stack(source, False, ())
            decoder = self.stack("tokens", True, ("encoder", "memory"))
            own = [f"  depth: {self.whole(1, 3)}"] if self.often(3) else []
            decoder.setdefault("before", ["x = embed.words(tokens) + positions(tokens)"])
            if not re.search(r"\b(encoder|memory)\b", "\n".join(written(decoder, 2))):
                decoder["after"] = ["x = norm(x + attention(x, encoder))", *decoder.get("after", [])]
            body = ["encoder:", "  causal: false", *own, *written(encoder, 2), "decoder:", *written(decoder, 2)]
        else:
            source = self.of(["tokens", "tokens", "tokens", "series"])
            stack = self.stack(source, kind == "one", ())
            body = [*(["causal: false"] if kind == "seen" else []), *written(stack, 0)]
        if self.often(2):
            outputs = ["unembed(x)", "3 * tanh(unembed.words(x) / 3)", "unembed(norm(x), bias=True)"]
            if source == "source":
                outputs.append("pointer(x, encoder, source)")
            elif source == "series":
                outputs[1] = "3 * tanh(linear(x, 2) / 3)"
            body.append(f"output: logits = {self.of(outputs)}")
        if self.often(1):
            body.append(self.of(['init: {"*.weight": 0.1}', "after_step: unit_rows", "policy: layerdrop(p=0.2)"]))
        if kind == "one" and self.often(2):
            body.append(f"carry: {self.of([20, 3])}")
        if any("dropout(" in row for row in body) and self.often(5):
            rows.append("dropout: 0.1")
        words = [SCORES[name] for name in self.used_scores]
        text, needed = "\n".join(body), []
        for name in reversed(self.definitions):
            # a definition sees those above it
            if calls(name, text):
                needed.insert(0, name)
                text += self.definitions[name][0].split("\n", 1)[1]
        if self.norm and (calls("norm", text) or "qk_norm=" in text):
            words.append(self.norm)
        words += [self.definitions[name][0] for name in needed]
        if words:
            rows += ["words:", *("\n".join(f"  {row}" for row in w.splitlines()) for w in words)]
        return "\n".join([*rows, *body]) + "\n"


def calls(name: str, text: str) -> bool:
    """Whether a text calls a definition."""
    return re.search(rf"\b{name}(\.\w+)?\(", text) is not None


def indented(lines: Sequence[str], by: int) -> str:
    return "\n".join(" " * by + line for line in lines)


def written(stack: Mapping[str, Any], by: int) -> list[str]:
    """A stack's keys as YAML."""
    rows: list[str] = []
    for key in ("before", "layers", "order", "share", "after"):
        if key not in stack:
            continue
        value = stack[key]
        if key == "layers" and len(value) == 1:
            (lines,) = value.values()
            rows += ["layer: |", *indented(lines, 2).splitlines()]
        elif key == "layers":
            rows.append("layers:")
            for name, lines in value.items():
                rows += [f"  {name}: |", *indented(lines, 4).splitlines()]
        elif isinstance(value, list):
            rows += [f"{key}: |", *indented(value, 2).splitlines()]
        else:
            rows.append(f"{key}: {value}")
    return [" " * by + row for row in rows]


@st.composite
def models(draw: Callable[[Any], Any]) -> str:
    """A model file."""
    return Writer(draw).model()
