"""`Model` in the first hour: by hand, with a tokenizer, from token ids, with what cannot be a prompt or a model."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transformula
from transformula import Model
from transformula.errors import CheckpointError, ConfigError, InputError, NotFinite
from transformula.tokenizers.characters import Characters

SMALL: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2, "context": 32}
TEXT = "the cat sees the bird.\n"


def model_of(**changes: Any) -> Model:
    return Model("pre-norm", **{**SMALL, **changes})


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of(tokenizer="bytes")


def test_token_ids_are_continued_without_a_tokenizer() -> None:
    model = model_of(vocab=11)
    whole = model.generate(tokens=[1, 2, 3], max_tokens=6)
    assert len(whole) == 6 and all(type(token) is int and 0 <= token < 11 for token in whole)
    rows = [[1, 2, 3], [4]]
    found = model.generate(tokens=rows, max_tokens=6)
    assert found[0] == whole and len(found) == 2
    for same in ([1, 2, 3], (1, 2, 3), torch.tensor([1, 2, 3]), np.array([1, 2, 3])):
        assert model.generate(tokens=same, max_tokens=6) == whole
    assert model.generate(tokens=torch.tensor([[1, 2, 3]]), max_tokens=6) == [whole]
    assert model.generate(tokens=[torch.tensor([1, 2, 3]), [4]], max_tokens=6) == found
    with pytest.raises(InputError, match="no tokenizer.*tokens="):
        model.generate("a")


def test_ids_and_text_are_continued_alike(model: Model) -> None:
    tokenizer: Any = model.tokenizer
    written = model.generate(tokens=tokenizer.encode("the"), max_tokens=8, seed=3)
    assert tokenizer.decode(written) == model.generate("the", max_tokens=8, seed=3)
    end = tokenizer.end_of_document
    ended = copy.deepcopy(model)
    with torch.no_grad():  # the end of a document is the likeliest token, whatever was read
        ended.module.get_parameter("words.weight").zero_()[end] = 1.0
        ended.module.get_parameter("after.norm.weight").zero_()
        ended.module.get_parameter("after.norm.bias").fill_(1.0)
    assert ended.generate(tokens=[1], temperature=0, max_tokens=8) == []


@pytest.mark.parametrize(
    "tokens", [[], [[]], [1.5], [300], [-1], "abc", 5, [True], [[1], 2], torch.tensor(3), torch.tensor([1.0]), [["a"]]]
)
def test_what_is_no_token_ids(model: Model, tokens: Any) -> None:
    with pytest.raises(InputError, match="^tokens"):
        model.generate(tokens=tokens)


@pytest.mark.parametrize("other", [{"prompt": "a"}, {"stop": "a"}, {"on_text": print}])
def test_what_is_of_texts_is_refused_beside_ids(model: Model, other: Any) -> None:
    with pytest.raises(InputError, match="of texts"):
        model.generate(tokens=[1], **other)


@pytest.mark.parametrize(
    "prompt", [5, None, b"the", [5], ["the", None], [["the"]], {"a": 1}, object(), 1.5, True, torch.tensor([1])]
)
def test_what_is_no_prompt(model: Model, prompt: Any) -> None:
    with pytest.raises(InputError, match="^prompt.*expected a text"):
        model.generate(prompt)


def test_prompts_at_the_border(model: Model) -> None:
    assert model.generate([]) == []
    assert len(model.generate(["", "\0"], max_tokens=2)) == 2
    with pytest.raises(InputError, match="lone surrogate"):
        model.generate("a\ud800b")
    with pytest.raises(InputError, match="the prompt is empty"):
        model_of(tokenizer=Characters.train(["ab"])).generate()
    with pytest.raises(InputError, match="on_text: expected a function"):
        model.generate("a", on_text=5)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "sampling",
    [{"max_tokens": 0}, {"max_tokens": 10**15}, {"temperature": float("inf")}, {"temperature": float("nan")}]
    + [{"top_p": 0.0}, {"seed": -1}, {"stop": 5}, {"temprature": 1}],
)
def test_settings_that_cannot_be(model: Model, sampling: Any) -> None:
    with pytest.raises(
        (ConfigError, InputError), match=next(iter(sampling)).replace("max_tokens", "max_tokens|tokens")
    ):
        model.generate("a", **sampling)


@pytest.mark.parametrize("smallest", [{"temperature": 1e-300}, {"temperature": 5e-324}, {"top_p": 1e-300}])
def test_the_smallest_settings_are_greedy(model: Model, smallest: Any) -> None:
    assert model.generate("the", max_tokens=8, **smallest) == model.generate("the", max_tokens=8, temperature=0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0, 1])
def test_weights_that_are_not_finite(model: Model, value: float, temperature: float) -> None:
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.module.get_parameter("layers.1.mlp.up.weight").fill_(value)
    with pytest.raises(NotFinite, match="layers.1.mlp.up.weight holds"):
        broken.generate("a", temperature=temperature)


@pytest.mark.parametrize("given", [5, "", " ", None, b"x = x", [], 1.5])
def test_what_is_no_model(given: Any) -> None:
    with pytest.raises(InputError, match="a model is a formula"):
        Model(given)
    if given != " ":
        with pytest.raises(InputError, match="expected the name of a model file"):
            Model.from_file(given)
        with pytest.raises(InputError, match="expected the name of a model's folder"):
            Model.from_folder(given)
        with pytest.raises(InputError, match="expected the name of a folder"):
            model_of().save(given)


@pytest.mark.parametrize("other", [{"seed": "a"}, {"seed": -1}, {"use": "torch"}, {"use": 5}])
def test_what_is_no_seed_and_no_list_of_packages(other: Any) -> None:
    with pytest.raises(InputError, match=f"{next(iter(other))}: expected"):
        model_of(**other)


def test_a_tokenizer_is_attached_and_saved(tmp_path: Path) -> None:
    tokenizer = Characters.train([TEXT])
    model = model_of(vocab=tokenizer.vocab)
    model.tokenizer = tokenizer
    wanted = model.generate("the", max_tokens=5)
    folder = model.save(tmp_path / "model")
    assert Model.from_folder(folder).generate("the", max_tokens=5) == wanted
    for given in (tokenizer, folder, str(folder), folder / "tokenizer.json"):
        other = model_of(tokenizer=given)
        assert other.architecture.numbers["vocab"] == tokenizer.vocab
        assert other.generate("the", max_tokens=5) == wanted
    model.tokenizer = None
    assert model.tokenizer is None


def test_a_tokenizer_that_does_not_fit(tmp_path: Path) -> None:
    tokenizer = Characters.train([TEXT])
    with pytest.raises(InputError, match=f"vocab={tokenizer.vocab}"):
        model_of(tokenizer=tokenizer, vocab=tokenizer.vocab + 1)
    model = model_of(vocab=11)
    with pytest.raises(InputError, match="vocab is 11"):
        model.tokenizer = "bytes"
    assert model.tokenizer is None
    with pytest.raises(InputError, match="Characters.train"):
        model.tokenizer = "characters"
    with pytest.raises(InputError, match="expected a tokenizer"):
        model.tokenizer = 5
    with pytest.raises(CheckpointError, match="no such folder"):
        model.tokenizer = tmp_path / "nothing"


def test_a_model_is_copied_pickled_and_kept_in_half(model: Model) -> None:
    wanted = model.generate("the", max_tokens=5)
    assert pickle.loads(pickle.dumps(model)).generate("the", max_tokens=5) == wanted
    for dtype in (torch.float16, torch.bfloat16):
        half = copy.deepcopy(model)
        half.module.to(dtype)
        assert isinstance(half.generate("the", max_tokens=5), str)


def test_a_module_without_numbers(model: Model, tmp_path: Path) -> None:
    empty = copy.deepcopy(model)
    empty.module.to("meta")
    for ask in (lambda: empty.generate("a"), lambda: empty.save(tmp_path / "model")):
        with pytest.raises(InputError, match="to_empty"):
            ask()
    assert not (tmp_path / "model").exists()


def test_a_module_that_is_not_its_text_is_not_saved(model: Model, tmp_path: Path) -> None:
    other = copy.deepcopy(model)
    other.module.layers["1"].mlp.adapter = torch.nn.Linear(2, 2)  # type: ignore[union-attr, index]
    with pytest.raises(InputError, match="layers.1.mlp.adapter.bias.*merge adapters first"):
        other.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_a_module_has_is_found_there(model: Model) -> None:
    with pytest.raises(AttributeError, match="model.module.parameters"):
        model.parameters()
    with pytest.raises(AttributeError, match="no attribute 'nothing'$"):
        model.nothing  # noqa: B018
    assert not hasattr(model, "_nothing")


def test_threads_that_ask_first_get_one_module() -> None:
    model = model_of()
    with ThreadPoolExecutor(4) as pool:
        assert len({id(module) for module in pool.map(lambda _: model.module, range(8))}) == 1


def test_dir_shows_the_public_names() -> None:
    assert {name for name in dir(transformula) if not name.startswith("__")} == set(transformula.__all__)
