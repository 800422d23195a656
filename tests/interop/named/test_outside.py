"""Families from outside the package: a data file, a text in a file of Python, files of a package."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.interop.named import tiny
from transformula import check_family
from transformula.api.reading import LOOKED_AT, import_packages
from transformula.errors import CheckpointError, InputError
from transformula.interop.named import entries, outside, valid
from transformula.interop.named.config import model_of_folder

FOREIGN = """\
like: llama
name: foreign
folder:
  model_type: foreign
  architectures: [ForeignForCausalLM]
"""
KINDS = ("bert-vectors", "bert-tagger", "bert-spans", "dpr", "data2vec-audio", "convnext", "bart", "xlm-languages")
CONFIG = '{"model_type": "foreign", "architectures": ["ForeignForCausalLM"]}'


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in [*entries.OUTSIDE]:
        entries.put_outside(name, None)
    LOOKED_AT.clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(CONFIG)
    return tmp_path / "model"


def test_a_file_makes_a_family_known(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="use=FILE.yaml"):
        model_of_folder(folder)
    (tmp_path / "mine.yaml").write_text(FOREIGN)
    assert outside.add_family(tmp_path / "mine.yaml") == "foreign"
    assert model_of_folder(folder)[0].name == "foreign"
    assert entries.named_model("foreign").config == entries.named_model("llama").config
    before = entries.named_model("foreign")
    import_packages([str(tmp_path / "mine.yaml")])
    assert entries.named_model("foreign") is before, "the same again changes nothing"


def test_an_edited_family_replaces_the_one_before(folder: Path) -> None:
    outside.add_family(FOREIGN)
    outside.add_family(FOREIGN + "  fixed: {attention_bias: false}\n")
    assert model_of_folder(folder)[0].fixed == {"attention_bias": False}


def test_a_family_of_the_package_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="llama is a family of transformula's own.*; give yours another name"):
        outside.add_family(FOREIGN.replace("name: foreign", "name: llama"))


def test_one_from_outside_is_asked_first(tmp_path: Path) -> None:
    outside.add_family(FOREIGN.replace("model_type: foreign", "model_type: llama").replace("Foreign", "Llama"))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert model_of_folder(tmp_path)[0].name == "foreign"


@pytest.mark.parametrize("where", ["file", "package"])
def test_families_of_a_package_are_known_without_running_it(
    where: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text that a file gives to add_family, and data files of a folder; what else is there is no family."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    if where == "file":
        body = f'from transformula import add_family\n\nTEXT = """{FOREIGN}"""\nadd_family(TEXT)\nraise RuntimeError\n'
        (tmp_path / "outside_file.py").write_text(body)
    else:
        (tmp_path / "outside_package").mkdir()
        (tmp_path / "outside_package" / "__init__.py").write_text("raise RuntimeError\n")
        (tmp_path / "outside_package" / "mine.yaml").write_text(FOREIGN)
        (tmp_path / "outside_package" / "other.yaml").write_text("folder: elsewhere\n")
        (tmp_path / "outside_package" / "template.yaml").write_text("{% for each in rows %}\n- {{ each }\n")
    from transformula.api.reading import known_words

    assert "linear" in known_words([f"outside_{where}"])
    assert model_of_folder(folder)[0].name == "foreign"


MISTAKES: Mapping[str, tuple[str, str]] = {
    "no mapping": ("- one", "expected a mapping"),
    "no YAML": ("a: [1", "no YAML"),
    "no block": ("name: foreign\nlayer: x = x", "folder: the block is missing"),
    "like": (FOREIGN.replace("like: llama", "like: lama"), "like: no named model is called 'lama'; did you mean llama"),
    "like itself": (FOREIGN.replace("like: llama", "like: foreign"), "like: it is like itself"),
    "misspelt": (FOREIGN + "  weight: {a: b}\n", "folder: weight: no key of a family; did you mean weights"),
    "no list": (FOREIGN.replace("[ForeignForCausalLM]", "Foreign"), "architectures: expected a list of texts"),
    "no model_type": (FOREIGN.replace("model_type: foreign", "model_type:"), "model_type: is missing, or empty"),
    "no constant": (FOREIGN + "  config: {hidden_size: null, vocab_size: 3}\n", "vocab_size: expected `constant`"),
    "no table": (FOREIGN + "  config:\n    a: activaton[b]\n", "no table is called activaton; did you mean activation"),
    "default": (FOREIGN + "  config:\n    a: b = kv_head\n", "no constant is called kv_head; did you mean kv_heads"),
    "no expression": (FOREIGN + "  derived: {a: 3 +}\n", "folder: derived: a: `3 +`"),
    "unquoted": (FOREIGN + "  choices: {kinds: [sliding]}\n", "a text is quoted, as in '\"sliding\"'"),
    "no choices": (FOREIGN + "  choices: {kinds: sliding}\n", "expected a list of the values that are tried"),
    "must": (FOREIGN + '  must: {"hidden > heads": 3}\n', "expected the reason, a text"),
    "computed": (FOREIGN + '  fixed: {a: "= size * heds"}\n', "no constant is called heds; did you mean heads"),
    "tensor": (FOREIGN + "  weights: {a: b * c}\n", "folder: weights: a: `b * c`"),
    "unclosed tensor": (FOREIGN + "  weights: {a: T(b}\n", "folder: weights: a: `T(b`"),
    "test of a tensor": (FOREIGN + "  weights: {a: b if teid else none}\n", "is called teid; did you mean tied"),
    "number": (FOREIGN + "  weights: {a: 3}\n", "expected our tensor, or an expression of ours"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_its_key(mistake: str, tmp_path: Path) -> None:
    text, said = MISTAKES[mistake]
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(CheckpointError) as error:
        outside.add_family(tmp_path / "mine.yaml")
    assert said in str(error.value) and "mine.yaml" in str(error.value)
    assert not entries.OUTSIDE, "nothing is left behind"


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        outside.add_family(FOREIGN + "  choices: {kinds: [sliding], other: 3}\n  derived: {a: nothing_here}\n")
    assert len(str(error.value).splitlines()) == 3


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no such file; give the data file of a family"):
        import_packages([str(tmp_path / "mine.yaml")])
    with pytest.raises(InputError, match="nothing here is called so|No module named"):
        import_packages(["no_such_package_at_all"])


@pytest.mark.parametrize("name", entries.names())
def test_the_files_of_the_package_have_no_mistake(name: str) -> None:
    assert valid.mistakes_in(name, entries.content(name)) == []


FAMILY = '''\
import torch

from transformula import add_family
from transformula.words.word import Word, word


@word("swish_of_mine", streams=("x",), kind="function", width="x", saved="x", equation="y = x sigmoid(b x)",
      parameters={"weight": "x"}, source="Ramachandran et al. 2017")
class Swish(Word):
    """y = x sigmoid(b x), with b learned for each channel."""

    def __init__(self, x: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(x))

    def initial_values(self, generator_for) -> None:
        torch.nn.init.ones_(self.weight)

    def forward(self, x):
        return x * torch.sigmoid(self.weight * x)


add_family("""
like: llama
name: foreign
extra: {swish_of_mine: {reach: token, package: mine}}
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, size=size, rotary=theta, rates=rates,
    rotary_scale=rotary_scale if rates == "yarn" else none, bias=bias)
  h = norm.second(x)
  x = x + linear.down(swish_of_mine.act(linear.gate(h, hidden, bias=False)) * linear.up(h, hidden, bias=False), width,
    bias=False)
folder:
  model_type: foreign
  architectures: [ForeignForCausalLM]
  config: {hidden_act: null, mlp_bias: null}
  fixed: {mlp_bias: false}
  unused: [hidden_act]
  weights:
    model:
      layers.N = layers.N+1:
        post_attention_layernorm: second
        mlp = mlp: null
        mlp: {act_fn.b: act.weight, gate_proj: gate, up_proj: up, down_proj: down}
""")
'''
THEIRS = """\
import torch
from transformers import LlamaConfig, LlamaForCausalLM


class ForeignConfig(LlamaConfig):
    model_type = "foreign"


class Act(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.b = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.sigmoid(self.b * x)


class ForeignForCausalLM(LlamaForCausalLM):
    config_class = ForeignConfig

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers:
            layer.mlp.act_fn = Act(config.intermediate_size)
"""
STEPS = """\
import json
from pathlib import Path
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformula import Model, check_family, explain, train
from transformula.cli import main

import theirs
sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 29,
         "num_key_value_heads": 2, "max_position_embeddings": 32}
theirs.ForeignForCausalLM(theirs.ForeignConfig(**sizes)).save_pretrained("folder")
letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz .?")}
tokenizer = Tokenizer(models.WordLevel(letters, unk_token="?"))
tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Split(Regex("."), "isolated"), decoders.Fuse()
tokenizer.save("folder/tokenizer.json")
Path("text.txt").write_text("the cat sees the dog. " * 100)

assert "swish_of_mine" in str(explain("folder", use=["mine"]))
assert main("sample folder the --use mine.py --max-tokens 3".split()) == 0
short = "--data text.txt --steps 2 --context 16 --quiet"
assert main(f"train --init-from folder --use mine.py {short} --out run".split()) == 0
assert main("sample run the --use mine.py --max-tokens 3".split()) == 0
assert main("export run --use mine.py --to transformers --out exported".split()) == 0
again = theirs.ForeignForCausalLM.from_pretrained("exported")
import torch
ids = torch.tensor([[0, 3, 5, 8]])
ours = Model.from_folder("run", use=["mine"]).module.float()
with torch.no_grad():
    assert (again(ids).logits - ours(tokens=ids)).abs().max() < 1e-5
    assert not torch.equal(again.model.layers[0].mlp.act_fn.b, torch.ones(24))
checked = check_family("foreign", ["folder", "folder/config.json"], use=["mine", "theirs"])
assert checked.holds, checked
assert [row.what for row in checked.folders["folder"]][-1] == "changes"
"""


def test_an_outside_family_with_an_outside_word_is_used_trained_and_exported(tmp_path: Path) -> None:
    for name, text in {"mine.py": FAMILY, "theirs.py": THEIRS, "steps.py": STEPS}.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "-W", "ignore", "steps.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, textwrap.shorten(done.stderr[-3000:], 3000)


def test_what_does_not_hold_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A family of other equations than the folder's class: not equal; and its keys that nobody reads."""
    from transformula.cli import main

    text = """\
like: llama
name: foreign
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, size=size, rotary=theta, rates=rates, cap=9,
    rotary_scale=rotary_scale if rates == "yarn" else none, bias=bias)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation=act, bias=mlp_bias)
folder: {model_type: llama, architectures: [LlamaForCausalLM]}
"""
    (tmp_path / "mine.yaml").write_text(text)
    arguments = ["check-family", str(tmp_path / "mine.yaml"), str(tiny.written(tmp_path, "llama")), "--fast"]
    assert main(arguments) == 3
    shown = capsys.readouterr().out
    assert "float32   NOT: " in shown and "written   the same" in shown and shown.rstrip().endswith("see NOT")


@pytest.mark.parametrize("name", ["gpt2-states", *(pytest.param(n, marks=pytest.mark.slow) for n in KINDS)])
def test_what_is_compared_follows_from_what_both_give(name: str, tmp_path: Path) -> None:
    """Hidden states, vectors, classes, spans, a pooled output, pictures, and what writes."""
    folder = tiny.written(tmp_path, name)
    checked = check_family(model_of_folder(folder)[0].name, folder, changes=False)
    assert checked.holds, checked


def test_a_picture_among_tokens_is_not_compared(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="at ids that only its processor places; it is not compared here"):
        check_family("llava", tiny.written(tmp_path, "llava"))
