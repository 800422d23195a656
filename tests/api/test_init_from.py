"""`train(init_from=...)`: what a model has before its first step, and what is said of it."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula.api.run import train
from transformula.api.starting import task_trained
from transformula.errors import CheckpointError, InputError
from transformula.interop.folder import convert
from transformula.interop.weights import load_tensors
from transformula.tokenizers.base import load

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = {"after": "x = norm(x)", "before": "x = embed.words(tokens) + sinusoids(tokens)", "depth": 1, "width": 16,
         "heads": 2, "context": 24}  # fmt: skip
BOTH = {**SMALL, "family": "encoder-decoder"}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRANSFORMULA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    lines = [f"{i} and {7 * i % 100} make {i + 7 * i % 100}." for i in range(200)]
    (folder / "text.jsonl").write_text("".join(f'{{"text": "{line}"}}\n' for line in lines))
    rows = [f"{i} and {i % 7}\t{i + i % 7}" for i in range(80)]
    (folder / "rows.tsv").write_text("\n".join(["source\ttarget", *rows]) + "\n")
    return folder


def trained(data: Path, out: Path, **given: Any) -> tuple[Path, dict[str, torch.Tensor]]:
    text = {"data": str(data / "text.jsonl"), "tokenizer": "characters", "batch": 2}
    train(LAYER, **text, out=str(out), steps=2, precision="float32", quiet=True, **given)
    return out, load_tensors(out / "best" / "weights.safetensors")


@pytest.fixture(scope="module")
def repaired(data, tmp_path_factory) -> tuple[Path, dict[str, torch.Tensor]]:
    return trained(data, tmp_path_factory.mktemp("runs") / "span", task="span", **BOTH)


@pytest.fixture(scope="module")
def language_model(data, tmp_path_factory) -> tuple[Path, dict[str, torch.Tensor]]:
    return trained(data, tmp_path_factory.mktemp("runs") / "text", **SMALL)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_from_repairing_to_pairs(data, repaired, before_the_first_step, capsys):
    out, given = repaired
    rows = {"data": str(data / "rows.tsv"), "task": "translation", "init_from": str(out)}
    seen = before_the_first_step(LAYER, **rows, **BOTH)
    assert seen["tensors"].keys() == given.keys() and any(name.startswith("encoder.") for name in given)
    assert all(torch.equal(tensor, given[name]) for name, tensor in seen["tensors"].items())
    assert seen["task"].data.writing.target.identity == load(out / "best").identity
    assert seen["task"].numbers["vocab"] == len(given["words.weight"]) > seen["task"].data.writing.target.vocab
    assert "loaded words, encoder, decoder" in said(capsys)
    assert seen["config"]["init_from"] == str(out) and "init_stack" not in seen["config"]
    # Without a model it is the run's own.
    assert before_the_first_step(**rows)["tensors"].keys() == given.keys()


def test_another_decoder_keeps_its_random_initialization(data, repaired, before_the_first_step, capsys, tmp_path):
    out, given = repaired
    text = (out / "best" / "model.yaml").read_text()
    at = text.index("decoder:")
    other = tmp_path / "other.yaml"
    other.write_text(text[:at] + text[at:].replace("mlp(norm(x))", "mlp(norm(x), hidden=48)"))
    seen = before_the_first_step(str(other), data=str(data / "rows.tsv"), task="translation", init_from=str(out))
    assert seen["tensors"]["decoder.layers.1.mlp.up.weight"].shape == (48, 16)
    for name, tensor in seen["tensors"].items():
        assert name.startswith("decoder.") or torch.equal(tensor, given[name])
    wanted = "loaded words, encoder; randomly initialized: decoder (decoder.layers.1.mlp.up.weight is (48, 16)"
    assert wanted in said(capsys)


def test_a_language_model_becomes_an_encoder(data, language_model, before_the_first_step, capsys):
    out, given = language_model
    rows = {"data": str(data / "rows.tsv"), "task": "translation", "init_from": str(out)}
    seen = before_the_first_step(LAYER, **rows, init_stack="encoder", **BOTH)
    for name, tensor in given.items():
        assert torch.equal(seen["tensors"][name if name == "words.weight" else f"encoder.{name}"], tensor)
    assert "loaded words, encoder; randomly initialized: decoder" in said(capsys)
    assert seen["config"]["init_stack"] == "encoder"


def test_a_run_that_began_so_goes_on_and_is_repeated(data, language_model, tmp_path, before_the_first_step):
    rows = {"data": str(data / "rows.tsv"), "task": "translation", "quiet": True, "precision": "float32"}
    out = tmp_path / "rows"
    train(LAYER, **rows, **BOTH, init_from=language_model[0], init_stack="encoder", steps=2, out=str(out))
    assert train(resume=out, steps=3, quiet=True).result.steps == 3
    seen = before_the_first_step(config=out)
    assert seen["config"]["init_stack"] == "encoder"
    assert torch.equal(seen["tensors"]["encoder.after.norm.weight"], language_model[1]["after.norm.weight"])


def test_a_folders_text_has_the_output_of_another_task(data, language_model, before_the_first_step, capsys, tmp_path):
    out, given = language_model
    text = {"data": str(data / "text.jsonl"), "init_from": str(out)}
    seen = before_the_first_step(task="multi-token-prediction", **text)
    told = said(capsys)
    assert "output logits = unembed.words(x); logits_2 = " in told
    assert "of multi-token-prediction, in the place of the usual one, of language-modeling" in told
    assert "loaded words, the stack; randomly initialized: output; ahead_2" in told
    assert all(torch.equal(seen["tensors"][name], tensor) for name, tensor in given.items())
    assert seen["tensors"].keys() > given.keys()

    # A copy of the model alone, and one in its run, are of that task too.
    assert task_trained(out / "best") == task_trained(out) == "language-modeling"
    alone = Path(shutil.copytree(out / "best", tmp_path / "alone"))
    assert task_trained(alone) == "language-modeling"
    (alone / "tokenizer.json").unlink()
    assert task_trained(alone) is None
    # An output for which a number of the data is needed goes with that number.
    other = tmp_path / "other"
    shutil.copytree(out, other)
    text_file = other / "best" / "model.yaml"
    text_file.write_text(text_file.read_text() + "classes: 3\noutput: logits = linear(mean(x), classes)\n")
    (other / "config.yaml").write_text("task: multi-token-prediction\n")
    seen = before_the_first_step(task="language-modeling", **{**text, "init_from": str(other)})
    assert seen["tensors"].keys() == given.keys()
    assert "the usual one, of language-modeling, in the place of logits = linear(mean(x), classes)" in said(capsys)


def test_a_stack_of_several_becomes_a_model(data, repaired, before_the_first_step, capsys):
    out, given = repaired
    text = {"data": str(data / "text.jsonl"), "init_from": str(out), "init_stack": "encoder"}
    seen = before_the_first_step(LAYER, task="masked", **{**SMALL, "family": "encoder"}, **text)
    own = {f"encoder.{name}" if name.startswith(("layers", "after")) else name for name in seen["tensors"]}
    assert own == {name for name in given if not name.startswith("decoder")}
    for name, tensor in seen["tensors"].items():
        assert torch.equal(tensor, given[name if name in given else f"encoder.{name}"])
    assert "loaded words, the stack" in said(capsys)


def test_what_is_refused(data, language_model, repaired, before_the_first_step):
    rows = {"data": str(data / "rows.tsv"), "task": "translation"}
    with pytest.raises(InputError, match="init_stack=encoder says into which stack of MODEL .* give these two"):
        train(LAYER, **rows, **BOTH, init_stack="encoder")
    with pytest.raises(InputError, match="give these two"):
        train(**rows, init_from=language_model[0], init_stack="encoder")
    with pytest.raises(CheckpointError, match="no such stack; did you mean encoder"):
        train(LAYER, **rows, **BOTH, init_from=language_model[0], init_stack="enkoder")
    with pytest.raises(CheckpointError, match=r"no part of the model agrees .*words.weight is \(\d+, 8\)"):
        train(LAYER, **rows, **{**BOTH, "width": 8}, init_from=repaired[0])


@pytest.fixture(scope="module")
def theirs(data, tmp_path_factory) -> tuple[Path, dict[str, torch.Tensor]]:
    """A folder of transformers that a run was written to."""
    folder = tmp_path_factory.mktemp("theirs")
    learned = {**SMALL, "before": "x = embed.words(tokens) + positions(tokens)"}
    run, tensors = trained(data, folder / "run", **learned)
    return convert(run / "best", folder / "exported", write="transformers"), tensors


def test_a_changed_number_that_shapes_weights_is_named(data, language_model, before_the_first_step):
    given = {"init_from": language_model[0], "data": str(data / "text.jsonl"), "quiet": True}
    with pytest.raises(InputError, match=r"there and \(19, 32\) here, by width 32 \(there 16\); .*: width=16"):
        train(**given, width=32, out=str(data / "wide"))



def test_from_a_folder_of_transformers(data, theirs, before_the_first_step, capsys):
    folder, tensors = theirs
    assert task_trained(folder) == "language-modeling"
    begun = before_the_first_step(init_from=str(folder), data=str(data / "text.jsonl"), steps=1)
    assert begun["tensors"].keys() == tensors.keys()
    assert all(torch.equal(begun["tensors"][name], tensors[name]) for name in tensors)
    assert f"weights from {folder}" in said(capsys)
    with pytest.raises(InputError, match="is a trained model, and as MODEL its text alone is read"):
        train(str(folder), data=str(data / "text.jsonl"))


@pytest.fixture
def killed(monkeypatch):
    """Runs that are killed between their configuration and their first checkpoint."""

    def kill(*_, **__):
        raise KeyboardInterrupt

    def begun(*arguments, **given):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("transformula.training.start.begin", kill)
            train(*arguments, **given)
        return Path(given["out"])

    return begun


@pytest.mark.parametrize("kind", ["same", "adapters", "other"])
def test_without_a_checkpoint_it_begins_again_from_the_same_weights(data, language_model, killed, tmp_path, kind):
    given = {"init_from": language_model[0], "steps": 2, "precision": "float32", "threads": 1, "quiet": True}
    if kind == "other":
        rows = {"data": str(data / "rows.tsv"), "task": "translation"}
        given |= {"model": LAYER, "init_stack": "encoder", **rows, **BOTH}
    else:
        given |= {"data": str(data / "text.jsonl"), "batch": 2, **({"lora": "rank=2"} if kind == "adapters" else {})}
    train(**given, out=str(tmp_path / "whole"))
    cut = killed(**given, out=str(tmp_path / "cut"))
    train(resume=cut, quiet=True)
    whole, resumed = (load_tensors(run / "last" / "weights.safetensors") for run in (tmp_path / "whole", cut))
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_weights_that_are_gone_or_others_are_not_begun_from(data, language_model, killed, tmp_path):
    began = shutil.copytree(language_model[0], tmp_path / "began")
    given = {"data": str(data / "text.jsonl"), "batch": 2, "tokenizer": "characters", "quiet": True}
    cut = killed(**given, init_from=began, steps=2, out=str(tmp_path / "cut"))
    before = sorted(cut.rglob("*"))
    shutil.rmtree(began / "best")
    shutil.copytree(trained(data, tmp_path / "longer", seed=2, **SMALL)[0] / "best", began / "best")
    with pytest.raises(CheckpointError, match="began, the weights that it began with, are not what they were; put"):
        train(resume=cut, quiet=True)
    shutil.rmtree(began)
    with pytest.raises(CheckpointError, match="the weights that it began with, are gone .*no such folder"):
        train(resume=cut, quiet=True)
    assert sorted(cut.rglob("*")) == before
