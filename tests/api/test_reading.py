"""What a person calls a model, and what may be changed in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from transformula.api.reading import check_model, known_words, model_folder, read_model
from transformula.errors import CheckpointError, InputError
from transformula.language.messages import FormulaError
from transformula.language.model_writing import write_text

TEXT = "language: 1\ndepth: 2\nwidth: 8\nheads: 2\nlayer: x = x + attention(norm(x))\nafter: x = norm(x)\n"


def test_a_text_with_an_equals_sign_is_a_formula() -> None:
    assert read_model("x = x + mlp(norm(x))").stacks[0].layers["layer"].text == "x = x + mlp(norm(x))"


def test_a_yaml_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(TEXT)
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "best" / "model.yaml").write_text(TEXT)
    assert write_text(read_model(tmp_path / "m.yaml")) == write_text(read_model(tmp_path / "run"))
    assert model_folder(tmp_path / "run") == model_folder(tmp_path / "run" / "best")


def test_a_formula_without_an_equals_sign_is_underlined() -> None:
    with pytest.raises(FormulaError, match=r"\^\^\^"):
        check_model("attention(norm(x))")


def test_numbers_and_formulas_change() -> None:
    architecture = check_model("x = x + mlp(norm(x))", {"depth": "3", "width": 16, "after": "x = norm(x)"})
    assert (architecture.main.depth, architecture.numbers["width"]) == (3, 16)
    assert len(list(architecture.main.after.calls())) == 1


def test_a_number_that_only_the_formula_mentions() -> None:
    architecture = check_model("x = x + linear(relu(linear(norm(x), rank)), width)", {"rank": "8"})
    assert architecture.numbers["rank"] == 8


def test_an_unknown_number_names_the_nearest() -> None:
    with pytest.raises(FormulaError, match="depth"):
        check_model("x = x + mlp(norm(x))", {"depht": "3"})


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        model_folder(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"model\.yaml"):
        model_folder(tmp_path)
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(CheckpointError, match="--resume"):
        model_folder(tmp_path)


def test_words_from_outside_are_read_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside_words.py").write_text(
        'raise RuntimeError("this file is not to be run")\n'
        '@word("twice", streams=("x",), kind="function", width="x", equation="y = 2 x")\n'
        "class Twice: ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "twice" in known_words(["outside_words"]) and "twice" not in known_words()
    assert check_model("x = x + mlp(twice(norm(x)))", use=["outside_words"])
    with pytest.raises(InputError, match="no_such_package"):
        known_words(["no_such_package"])


def test_a_family_is_made_of_the_changed_text() -> None:
    architecture = check_model("x = x + attention(norm(x))", {"family": "encoder-decoder", "after": "x = norm(x)"})
    assert [(s.name, s.causal, len(s.after.values) > 0) for s in architecture.stacks] == [
        ("encoder", False, True),
        ("decoder", True, True),
    ]
    assert check_model("pre-norm", {"family": "decoder", "depth": 2}).main.depth == 2
    with pytest.raises(InputError, match="did you mean encoder"):
        read_model("pre-norm", {"family": "encodr"})
    with pytest.raises(InputError, match="no attention"):
        read_model("x = x + mlp(norm(x))", {"family": "encoder-decoder"})


def test_a_number_may_be_called_family() -> None:
    assert check_model("x = x + linear(linear(norm(x), family), width)", {"family": 3}).numbers["family"] == 3
