"""Options come from settings and model files; what is not one is an error that names the nearest."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import Field

from transformula.cli.options import Parser
from transformula.errors import ConfigError, InputError
from transformula.settings import Settings


class Sample(Settings):
    """Fields of every kind."""

    steps: int | None = Field(None, ge=1, description="how many; 100 % of them")
    learning_rate: float = Field(0.1, gt=0, description="how fast")
    quick: bool = Field(False, description="whether")
    mode: Literal["one", "two"] = Field("one", description="which")
    data: str | list[str] = Field("docs", description="where from")
    stop: list[str] = Field([], description="before what")


def parser(model: bool = True) -> Parser:
    made = Parser("test", "What it does.", ["transformula test x"])
    made.add_argument("model", nargs="?")
    if model:
        made.add_model_options()
    made.add_settings("things", Sample)
    return made


def test_every_field_is_an_option_and_help_states_its_default() -> None:
    shown = parser().format_help()
    for text in ("--steps N", "--learning-rate NUMBER", "--quick, --no-quick", "--mode {one,two}", "(default: 0.1)"):
        assert text in shown
    assert "how many; 100 % of them" in shown
    assert "transformula test x" in shown and "exit status: 0 done" in shown


def test_values_take_the_types_of_the_fields() -> None:
    given = parser().parse(["--steps", "3", "--learning_rate=1e-3", "--quick", "--stop", "a", "--stop", "b", "m"])
    read = Sample.read(given.of(Sample))
    assert (read.steps, read.learning_rate, read.quick, read.stop) == (3, 1e-3, True, ["a", "b"])
    assert given["model"] == "m" and given.model == {}


def test_only_what_was_typed_is_given() -> None:
    assert parser().parse(["--no-quick"]).of(Sample) == {"quick": False}


def test_one_value_of_a_field_that_takes_one_or_several() -> None:
    assert parser().parse(["--data", "a"]).of(Sample) == {"data": "a"}
    assert parser().parse(["--data", "a", "--data", "b"]).of(Sample) == {"data": ["a", "b"]}


def test_keys_and_numbers_of_a_model_are_options_wherever_they_stand() -> None:
    given = parser().parse(["--rank", "8", "x = x", "--depth=12", "--after", "x = norm(x)", "--kv-heads", "2"])
    assert given["model"] == "x = x"
    assert given.model == {"depth": "12", "after": "x = norm(x)", "rank": "8", "kv_heads": "2"}


@pytest.mark.parametrize("typed", [["--stepz", "3"], ["--stepz"], ["--stepz=3"]])
def test_an_unknown_option_names_the_nearest(typed: list[str]) -> None:
    with pytest.raises(InputError, match=r"unknown option --stepz; did you mean --steps"):
        parser(model=False).parse(typed)


def test_no_abbreviations() -> None:
    with pytest.raises(InputError, match="--quick"):
        parser(model=False).parse(["--quic"])


def test_all_mistakes_in_one_report() -> None:
    with pytest.raises(ConfigError) as caught:
        Sample.read(parser().parse(["--steps", "0", "--learning-rate", "fast", "--mode", "three"]).of(Sample))
    assert len(caught.value.mistakes) == 3


def test_a_missing_value_is_said() -> None:
    with pytest.raises(InputError, match="--steps"):
        parser().parse(["--steps"])


def test_arguments_may_stand_after_options() -> None:
    made = Parser("test", "", [])
    made.add_argument("run")
    made.add_argument("prompts", nargs="*")
    made.add_settings("things", Sample)
    given = made.parse(["a", "--steps", "3", "b", "c"])
    assert (given["run"], given["prompts"], given.of(Sample)) == ("a", ["b", "c"], {"steps": "3"})


def test_braces_that_a_shell_took_apart() -> None:
    made = Parser("test", "", [])
    made.add_argument("--data")
    with pytest.raises(InputError, match=r"unrecognized arguments: a\.en .*quote them"):
        made.parse(["--data", "a.de", "a.en"])
