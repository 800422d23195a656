"""Answers in a form: every text of a model of random weights keeps it, on the command line and in Python."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from transformula import Model
from transformula.cli import main
from transformula.errors import ConfigError, InputError
from transformula.tasks.forms import Form
from transformula.tokenizers.characters import Characters

LAYER = "x = x + attention(norm(x), rotary=10000)\nx = x + mlp(norm(x))"
MOST = 3000


def model(tokenizer: Any = "bytes") -> Model:
    return Model(LAYER, tokenizer=tokenizer, width=16, heads=2, depth=1, seed=2)


@pytest.fixture(scope="module")
def writes() -> Model:
    return model()


def schema(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema whose texts are short."""
    simple: list[dict[str, Any]] = [
        {"type": "integer", "minimum": -5, "maximum": rng.randrange(1000)},
        {"type": "string", "maxLength": rng.randrange(1, 9)},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": ["red", "blau", "größer", 3, None][: rng.randrange(1, 6)]},
        {"const": {"a": [1, "x"]}},
        {"type": "string", "pattern": "^[a-c]{1,4}-[0-9]{2}$"},
        {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.5},
    ]
    if depth > 1 or rng.random() < 0.2:
        return rng.choice(simple)
    if rng.random() < 0.2:
        return {"anyOf": [schema(rng, depth + 1), schema(rng, depth + 1)]}
    if rng.random() < 0.3:
        return {"type": "array", "items": schema(rng, depth + 1), "minItems": 1, "maxItems": 3}
    names = [f"{letter}{rng.randrange(9)}" for letter in "abcd"[: rng.randrange(1, 5)]]
    return {
        "type": "object",
        "properties": {name: schema(rng, depth + 1) for name in names},
        "required": names[: rng.randrange(len(names) + 1)],
        "additionalProperties": False,
    }


def check_schemas(writes: Model, first: int, count: int) -> None:
    for seed in range(first, first + count):
        wanted = schema(random.Random(seed))
        text = writes.generate("a", json_schema=json.dumps(wanted), max_tokens=MOST, seed=seed)
        jsonschema.validate(json.loads(text), wanted)


def test_every_answer_is_json_of_its_schema(writes: Model) -> None:
    check_schemas(writes, 0, 15)


@pytest.mark.slow
def test_every_answer_of_200_schemas(writes: Model) -> None:
    check_schemas(writes, 1000, 200)


@pytest.mark.parametrize("pattern", ["[0-9]{3}-[a-f]{2}", "(ab|cd){2,4}", "ü{3}", "a/b", "x?y"])
def test_a_regular_expression(writes: Model, pattern: str) -> None:
    for seed, text in enumerate(writes.generate(["a"] * 4, regex=pattern, max_tokens=60)):
        assert re.fullmatch(pattern, text), (seed, text)


def test_a_grammar_and_texts_to_choose_from(writes: Model, tmp_path: Path) -> None:
    grammar = 'start: item ("," item){2}\nitem: /[a-z]/ | "<" item ">"'
    for text in writes.generate(["a"] * 4, grammar=grammar, max_tokens=400):
        assert re.fullmatch(r"(<*[a-z]>*,){2}<*[a-z]>*", text) and text.count("<") == text.count(">")
    (tmp_path / "list.lark").write_text(grammar)
    assert writes.generate("a", grammar=str(tmp_path / "list.lark"), max_tokens=400).count(",") == 2
    texts = ["yes", 'no "x"', "größer/"]
    made = writes.generate(["a"] * 12, one_of=texts, max_tokens=60)
    assert {*made} <= {*texts} and len({*made}) > 1
    assert writes.generate(["a"], one_of="only", max_tokens=60) == ["only"]


def test_a_row_is_what_it_is_alone(writes: Model) -> None:
    given: dict[str, Any] = {"regex": "[a-z]{5,9}[0-9]", "max_tokens": 40}
    together = writes.generate(["a", "bc", "def"], seed=4, **given)
    assert together == [writes.generate(text, seed=4 + n, **given) for n, text in enumerate(("a", "bc", "def"))]


def test_what_the_model_may_end_it_ends() -> None:
    """Where a form is complete and could go on, the model's end of a text decides."""
    made = model().generate(["a"] * 30, regex="[0-9]+", max_tokens=300)
    assert all(text.isdigit() for text in made) and len({len(text) for text in made}) > 5


def test_tokens_that_cannot_write_it() -> None:
    small = model(Characters.train(["cat dog"]))
    assert small.generate("cat", one_of=["cat", "dog"], max_tokens=9) in ("cat", "dog")
    with pytest.raises(InputError, match="the JSON schema: what must come next cannot be written"):
        small.generate("cat", json_schema='{"enum": ["cat"]}', max_tokens=9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"regex": "("}, "the regular expression cannot be followed"),
        ({"grammar": "start: nobody"}, "unknown name"),
        ({"json_schema": '{"type": "objekt"}'}, "Invalid type: objekt"),
        ({"json_schema": "{"}, "is no JSON"),
        ({"json_schema": "nowhere.json"}, "nowhere.json"),
        ({"one_of": ["a", ""]}, "none of them empty"),
    ],
)
def test_a_form_that_is_none(writes: Model, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        writes.generate("a", max_tokens=5, **given)


def test_one_form_at_a_time(writes: Model) -> None:
    with pytest.raises(ConfigError, match="regex and one_of: a text has one form"):
        writes.generate("a", regex="a", one_of=["b"])
    with pytest.raises(ConfigError, match="leave speculate out"):
        writes.generate("a", regex="a", speculate=3)
    with pytest.raises(InputError, match="are of texts"):
        writes.generate(tokens=[1, 2], regex="a")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model().save(tmp_path / "model")
    (tmp_path / "schema.json").write_text(
        '{"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}'
    )
    sample = ["sample", str(tmp_path / "model"), "a", "--max-tokens", "60"]
    assert main([*sample, "--json-schema", str(tmp_path / "schema.json")]) == 0
    assert len(json.loads(capsys.readouterr().out.removeprefix("a"))) == 2
    assert main([*sample, "--one-of", "yes", "no"]) == 0
    assert capsys.readouterr().out.strip() in ("ayes", "ano")
    assert main([*sample, "--regex", "("]) == 2
    assert "the regular expression cannot be followed" in capsys.readouterr().err


def test_the_tokenizer_is_read_once() -> None:
    tokenizer = Characters.train(["cat dog"])
    one, two = (Form.of_choices(["cat"]).begin(tokenizer) for _ in range(2))
    assert one.vocabulary is two.vocabulary
