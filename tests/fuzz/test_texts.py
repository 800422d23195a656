"""Texts of strangers: those of the gallery and of the tests, changed at random, and hostile ones.

Each is refused with an error of ours, or checked, hashed, explained and counted in time; small ones are built and run
on random ids.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest
import torch

from benchmarks.hostile import HOSTILE, read_any
from tests.fuzz import harness
from transformula.analysis.accounting import summary
from transformula.gallery import FOLDER
from transformula.inspection.explanation import explanation_of
from transformula.language import check as checker
from transformula.language.check import check
from transformula.model import build
from transformula.words import vocabulary

MODELS = Path(__file__).parents[1] / "language" / "models.yaml"

SMALL = 200_000
"""Parameters of a model that is built."""

TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*|\s+|.")

WORDS = """
x y z tokens source layer depth width heads vocab context norm mlp attention linear embed positions memory
if else and or not lambda True False None import x[layer-1] x[:] x[0] share=0 rotary=10000 window=4 p=0.1
scalar(0) vector(1) norm(x) mlp(norm(x)) attention(norm(x)) mix(x[:]) embed(x) positions(x) expand(x,2) read(x)
scan(x,-1) running_sum(x) delta(x,x,x,1) selective_scan(x,x,x,x,x) experts(x,n=4,active=2) ngrams(x) transitions(x)
pick(x,1) pick(x,at="end") top(x,keep=0.5) linear_attention(x) gru(x) lstm(x) conv(x,3) attend(x,x,x) spell(x) write(x)
running_max(x) dynamic_conv(x,x,3) slice(x,1,3) where(x,1,x) fourier(x) indicator(tokens,1) shift(x,-1)
rotary(x) dot_scores(x,x) sum_heads(x,x) relative_bias(x) collapse(x) repeat(x,2) gate(x,x) lowrank(x,2) maxpool(x,2)
conv2d(x,3) conv2d(x,2,stride=2) pool2d(x,3) window_attention(x,x,x,2) grid_scores(grid_distances(2),2)
upsample(x,2) upsample(x,like=y) depth_to_space(x,2) space_to_depth(x,2)
depth_to_space(join(x,y),2,dimensions=1) space_to_depth(x,2,dimensions=1)
depth: width: layer: layers: before: after: order: share: causal: words: language: name: inputs: extra: about:
+ - * / // % ** ( ) [ ] [:] = == . , ; : # | " \\ 0 1 2 -1 0.5 1e9 1e-9 1e400 9999999999 007 0x10 1_0 1j ² ١ ℵ é
"""

PIECES = [*WORDS.split(), "'", "\n", "\t", " ", "\0", "\x1b", "\ud800", "\ufeff", "\u2028"]


@pytest.fixture(autouse=True)
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is in proportion to a model's calls and sums, of which 200,000 are taken; the limit is for 6,000."""
    limits = [(what, sums, 3_000 * (1 + sums), most, code) for what, sums, _, most, code in checker.LIMITS]
    monkeypatch.setattr(checker, "LIMITS", limits)


@cache
def texts() -> list[str]:
    """The texts that are changed: whole files and bare formulas."""
    found = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))]
    found += re.split(r"(?m)^--- ?.*\n", MODELS.read_text(encoding="utf-8"))[1:]
    found += [record.example for record in vocabulary().values() if record.example]
    found += [text for text in HOSTILE.values() if len(text) < 6_000]
    return found


def draw(generator: random.Random) -> str:
    """A text with one to four changes, made shallow as often as not."""
    text = generator.choice(texts())
    for _ in range(generator.randint(1, 4)):
        text = generator.choice(CHANGES)(text, generator)
    if generator.random() < 0.5:
        text = re.sub(
            r"(?m)^(\s*)(width|vocab|context): \d+", r"\1\2: 16", re.sub(r"(?m)^depth: \d+", "depth: 2", text)
        )
    return text


def by_tokens(text: str, generator: random.Random) -> str:
    """Some tokens are taken out, doubled, swapped, or replaced by pieces."""
    tokens = TOKEN.findall(text)
    for _ in range(generator.randint(1, 3)):
        if not tokens:
            break
        at, other = generator.randrange(len(tokens)), generator.randrange(len(tokens))
        match generator.randrange(4):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case _:
                tokens[at] = generator.choice(PIECES)
    return "".join(tokens)


def by_characters(text: str, generator: random.Random) -> str:
    """A character is put in, taken out or replaced."""
    at = generator.randrange(len(text) + 1)
    new = generator.choice(
        ["", chr(generator.randrange(128)), chr(generator.randrange(0x3000)), generator.choice(PIECES)]
    )
    return text[:at] + new + text[at + generator.randrange(3) :]


def spliced(text: str, generator: random.Random) -> str:
    """The beginning of one text and the end of another, cut between lines."""
    rows, others = text.split("\n"), generator.choice(texts()).split("\n")
    return "\n".join(rows[: generator.randrange(len(rows) + 1)] + others[generator.randrange(len(others) + 1) :])


def repeated(text: str, generator: random.Random) -> str:
    """A line stands many times."""
    rows = text.split("\n")
    at = generator.randrange(len(rows))
    return "\n".join(rows[:at] + [rows[at]] * generator.choice([2, 3, 30, 400]) + rows[at + 1 :])


def nested(text: str, generator: random.Random) -> str:
    """A name stands inside calls, or is added to itself, many times."""
    names = list(re.finditer(r"\b[a-z]\b", text))
    if not names:
        return text
    at = generator.choice(names)
    times = generator.choice([1, 3, 12, 48, 60])
    inside = generator.choice(["norm(", "mlp(", "(", "-(", "relu("])
    new = inside * times + at.group() + ")" * times if generator.random() < 0.6 else "+".join([at.group()] * 10 * times)
    return text[: at.start()] + new + text[at.end() :]


def numbered(text: str, generator: random.Random) -> str:
    """A number becomes another."""
    numbers = list(re.finditer(r"\d+(\.\d+)?", text))
    if not numbers:
        return text
    at = generator.choice(numbers)
    new = generator.choice(["0", "-1", "1", "2", "3", "7", "0.5", "1e9", "10000", "99999999999", "9" * 4_400, "layer"])
    return text[: at.start()] + new + text[at.end() :]


CHANGES = (by_tokens, by_tokens, by_characters, spliced, repeated, nested, numbered)


def read_all(text: str) -> None:
    """What a user does with a text: all that is said of it, and for small models a run."""
    architecture = check(read_any(text), vocabulary())
    repr(explanation_of(architecture, vocabulary()))  # with its hash, its costs, its neighbors
    counted = summary(architecture)
    repr(counted)
    if counted.totals.parameters > SMALL or architecture.inputs != ["tokens"] or len(text) % 4:
        return
    module = build(architecture, seed=0)
    length = min(8, int(architecture.numbers["context"]))
    ids = torch.randint(0, int(architecture.numbers["vocab"]), (2, length), generator=torch.Generator().manual_seed(0))
    module(tokens=ids)


@pytest.mark.parametrize("cases", harness.portions())
def test_a_changed_text_is_refused_or_read(cases: range) -> None:
    vocabulary(), texts()
    build(check(read_any("x = x + attention(norm(x))"), vocabulary()), seed=0)  # torch's own first time is no case's
    harness.check("texts", cases, draw, read_all)


LONGER = re.compile("forty|hundred (functions|doubled|squared|sublayers|layers)|Gemma|history")
"""Names of those that take longest; each has a smaller relative."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if LONGER.search(name) else name for name in HOSTILE]
)
def test_a_hostile_text_is_refused_or_read(name: str) -> None:
    assert not harness.trouble(HOSTILE[name], read_all)
