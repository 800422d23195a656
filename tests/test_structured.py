"""JSON and YAML of strangers: read as they are, or refused with the reason, whatever they hold and soon."""

import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from transformula.api.configuration import read_config
from transformula.api.reading import check_model
from transformula.errors import TransformulaError
from transformula.structured import MAX_LEVELS, Malformed, load_json, load_yaml, parse_json, parse_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**300), 10**300) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=50, deadline=None)
@given(PLAIN)
def test_json_comes_back(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@settings(max_examples=50, deadline=None)
@given(PLAIN)
def test_yaml_comes_back(value: object) -> None:
    """Aliases too, which the library writes where an object stands twice."""
    text = yaml.safe_dump({"a": value, "b": value}, allow_unicode=True)
    assert parse_yaml(text) == yaml.safe_load(text)


def laughs(one: str) -> str:
    return "a0: &a0 {x: 1}\n" + "\n".join(f"a{i}: &a{i} {one.format(i - 1)}" for i in range(1, 40))


DEEP = 100_000
BAD_YAML = {
    "deep lists": ("[" * DEEP, "line 1: .*deeper than 100"),
    "deep dashes": ("- " * DEEP, "line 1: .*deeper than 100"),
    "deep keys": ("? " * DEEP, "line 1: .*deeper than 100"),
    "deep lines": ("[\n" * DEEP, "line 101: .*deeper than 100"),
    "deep aliases": (laughs("[[[*a{0}]]]"), "deeper than 100"),
    "aliases of aliases": (laughs("[*a{0}, *a{0}, *a{0}]"), "line [0-9]+: .*more than 100,000 values"),
    "merges of merges": (laughs("{{<<: [*a{0}, *a{0}, *a{0}]}}"), "more than 100,000 values"),
    "in itself": ("a: &a [*a]", "a stands within itself"),
    "many": ("[" + "1," * 200_000 + "1]", "more than 100,000 values"),
    "long number": ("\na: " + "9" * 5_000, "line 2: a whole number of 5,000 signs"),
    "sixties": ("a: 1" + ":1" * 100_000, "a whole number of 200,001 signs"),
    "sixties with a point": ("a: 1" + ":1" * 100_000 + ".5", "too large"),
    "no date": ("a: 2001-99-99", "no YAML: month"),
    "half a character": ("a: \ud800", "lone surrogate, U\\+D800, as character 4"),
    "list as key": ("\n? [a]\n: b", "line 2: no YAML: found unhashable key"),
    "tag": ("!!python/object/apply:os.abort []", "line 1: no YAML: could not determine a constructor"),
    "no anchor": ("a: *b", "undefined alias"),
}
BAD_JSON = {
    "deep lists": ("[" * DEEP, "deeper than 100"),
    "deep objects": ('{"a":' * DEEP, "deeper than 100"),
    "just too deep": ("[" * (MAX_LEVELS + 1) + "]" * (MAX_LEVELS + 1), "deeper than 100"),
    "long number": ("9" * 5_000, "4300 digits"),
    "cut": ('{"a":\n', "line 2: no JSON: Expecting value"),
    "nothing": ("", "line 1: no JSON"),
}


@pytest.mark.parametrize(("text", "said"), BAD_YAML.values(), ids=BAD_YAML)
def test_yaml_beyond_the_limits_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(Malformed, match=said):
        parse_yaml(text)
    for name in ("config.yaml", "model.yaml"):
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(TransformulaError):
        check_model(tmp_path / "model.yaml")
    with pytest.raises(TransformulaError, match=r"config.yaml: "):
        read_config(tmp_path)


@pytest.mark.parametrize(("text", "said"), BAD_JSON.values(), ids=BAD_JSON)
def test_json_beyond_the_limits_is_refused(text: str, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        parse_json(text)


def test_levels_up_to_the_limit_are_read() -> None:
    text = "[" * MAX_LEVELS + "]" * MAX_LEVELS
    assert parse_json(text) == parse_yaml(text)


def test_files_that_are_no_text_of_a_size_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content, said in (
        (b"\xff", "not text in UTF-8 .byte 0"),
        (b" " * (2**20 + 1), "larger than 1,048,576"),
    ):
        path.write_bytes(content)
        with pytest.raises(Malformed, match=said):
            load_yaml(path)
    path.write_bytes(b"\xef\xbb\xbf[1]")
    assert load_json(path) == load_yaml(path) == [1]
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(Malformed, match="no plain file"):
            load_json(place)
    with pytest.raises(FileNotFoundError):
        load_json(tmp_path / "nothing")
