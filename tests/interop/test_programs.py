"""Models as programs for ONNX Runtime and for torch.export: in chunks, for every batch, what one pass gives."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.invariants.harness import CAUSAL, EXAMPLE, built, fresh, inputs, randomize, sees_the_past_only, single
from transformula import Model, gallery
from transformula.cli import main
from transformula.errors import CheckpointError, InputError, MissingExtra
from transformula.interop import programs
from transformula.interop.folder import convert, save_model
from transformula.interop.programs import ABOUT, Port, Program
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build, stateless
from transformula.ownership import MARKER
from transformula.words import vocabulary
from transformula.words.word import Word, word

ROWS, LENGTH, FIRST = 3, 9, 6
Arrays = Mapping[str, Any]


class InONNXRuntime:
    """A folder as others run it: by its own description, without this package."""

    def __init__(self, folder: Path) -> None:
        runtime = pytest.importorskip("onnxruntime")
        self.about = json.loads((folder / ABOUT).read_text())
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        self.sessions = {
            name: runtime.InferenceSession(folder / program["file"], options)
            for name, program in self.about["programs"].items()
        }

    def run(self, name: str, given: Arrays) -> dict[str, Any]:
        about = self.about["programs"][name]
        outputs = [port["name"] for port in about["outputs"]]
        feed = {port["name"]: given[port["name"]] for port in about["inputs"]}
        made = self.sessions[name].run(outputs, feed)
        sizes: dict[str, int] = {}
        for port, array in zip(about["inputs"], feed.values(), strict=True):
            for size, stated in zip(array.shape, port["shape"], strict=True):
                assert sizes.setdefault(stated, size) == size if isinstance(stated, str) else stated == size
        for port, array in zip(about["outputs"], made, strict=True):
            assert array.dtype == port["dtype"]
            expected = [eval(size, {}, sizes) if isinstance(size, str) else size for size in port["shape"]]
            assert list(array.shape) == expected, port
        return dict(zip(outputs, made, strict=True))

    def begin(self, given: Arrays) -> dict[str, Any]:
        ports = {port["name"]: port for port in self.about["programs"]["model"]["inputs"]}
        free = {"batch": len(next(iter(given.values()))), "past": 0}
        fixed = self.run("start", given) if "start" in self.sessions else {}
        state = {
            name: np.zeros([free.get(size, size) for size in ports[name]["shape"]], ports[name]["dtype"])
            for name in self.about["state"]
        }
        return {**fixed, **state}

    def step(self, chunk: Arrays, kept: dict[str, Any]) -> dict[str, Any]:
        """Outputs of a chunk; what is kept is moved on."""
        made = self.run("model", {**kept, **chunk})
        kept.update({name: made.pop(f"next.{name}") for name in self.about["state"]})
        return made


def given_to(name: str) -> tuple[Any, dict[str, Tensor]]:
    """An entry's model in float32, and random inputs; every row of another sequence ends in more padding."""
    model, given = fresh(name, torch.float32, deep=False), single(inputs(name, ROWS, LENGTH))
    decoded = stateless.is_decoded(model)
    whole = programs.whole_inputs(model, model.given_at_start if decoded else model.inputs)
    for key in whole:
        if key.endswith(stateless.LENGTHS):
            longest = given[key.removesuffix(stateless.LENGTHS)].shape[1]
            given[key] = longest - torch.arange(ROWS) * (1 if longest < 100 else 200)
    return model, given


def close(made: Arrays, expected: Mapping[str, Tensor], tolerance: float = 1e-4) -> None:
    assert made.keys() == expected.keys()
    for name, one in expected.items():
        off, largest = np.abs(np.asarray(made[name]) - one.numpy()).max(), float(one.abs().max())
        assert largest > 1e-6 and off <= tolerance * largest, f"{name}: {off:.2g} beside {largest:.2g}"


def test_a_model_in_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    model = Model("x = x + attention(norm(x))", depth=1, width=8, heads=2, tokenizer="bytes", seed=3)
    model.save(tmp_path / "m")
    assert main(["export", str(tmp_path / "m"), "--to", "onnx", "--out", str(tmp_path / "out")]) == 0
    files = {"model.yaml", "model.onnx", ABOUT, "tokenizer.json", "pipeline.json", "predict.py", "runtime.py"}
    names = {MARKER, *files}
    assert {p.name for p in (tmp_path / "out").iterdir()} == names
    theirs = InONNXRuntime(tmp_path / "out")
    assert theirs.about["end"] == [model.tokenizer.end_of_document] and theirs.about["vocab"] == model.tokenizer.vocab
    assert theirs.about["state"] == ["positions", "layers.1.attention.keys", "layers.1.attention.values"]
    for rows, chunks in ((1, (4, 1, 1, 1)), (5, (1, 6))):
        tokens = torch.randint(256, (rows, 7), generator=torch.Generator().manual_seed(rows))
        kept, made = theirs.begin({"tokens": tokens}), []
        for chunk in tokens.split(chunks, 1):
            made.append(theirs.step({"tokens": chunk.numpy()}, kept)["logits"])
        with torch.no_grad():
            close({"logits": np.concatenate(made, 1)}, {"logits": model.module.eval()(tokens)})
    kept, chunk, written = theirs.begin({"tokens": [0]}), list(b"the "), []
    for _ in range(8):
        logits = theirs.step({"tokens": np.array([chunk])}, kept)["logits"]
        chunk = [int(logits[0, -1].argmax())]
        written += chunk
    assert written == model.generate(tokens=list(b"the "), max_tokens=8, temperature=0)


def test_a_router_that_is_a_formula_in_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    router = "h = norm(x); s = sigmoid(linear.router(h, 6)); w = slice(topk(s, 2, by=s * (1 - s)), 1, 4)"
    text = f"x = x + attention(norm(x)); {router}; x = x + experts(h, n=4, active=2, hidden=5, weights=w)"
    model = Model(text, depth=1, width=8, heads=2, vocab=11, context=8, seed=3).module.eval()
    theirs = InONNXRuntime(save_model(tmp_path / "out", model, format="onnx"))
    tokens = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(1))
    kept, made = theirs.begin({"tokens": tokens}), []
    for chunk in tokens.split((4, 1, 2), 1):
        made.append(theirs.step({"tokens": chunk.numpy()}, kept)["logits"])
    with torch.no_grad():
        close({"logits": np.concatenate(made, 1)}, {"logits": model(tokens)})


STATES = {"altup", "gemma3", "mla", "documents", "whisper", "mamba2", "gated-deltanet", "highway", "retnet"}
"""Entries that differ in what they keep."""


@pytest.mark.parametrize("name", [n if n in STATES else pytest.param(n, marks=pytest.mark.slow) for n in CAUSAL])
def test_steps_without_a_memory_are_one_pass(name: str) -> None:
    """What is traced, not traced: every tensor that decoding keeps goes in and comes out."""
    model, given = built(name, deep=False), inputs(name, ROWS, LENGTH)
    assert isinstance(model, stateless.Transformer) and stateless.is_decoded(model)
    with torch.no_grad():
        fixed = stateless.start(model, given) if model.given_at_start else {}
        state = stateless.state_of(model, fixed)
        grows = {key: dimension for key, (_, dimension) in state.items()}
        kept = {key: torch.zeros_like(tensor).expand(ROWS, *tensor.shape[1:]) for key, (tensor, _) in state.items()}
        kept = {key: tensor if grows[key] is None else tensor.narrow(grows[key], 0, 0) for key, tensor in kept.items()}
        kept[stateless.POSITIONS] = torch.zeros(ROWS, dtype=torch.int64)
        made, begin = [], 0
        for length in (4, 1, LENGTH - 5):
            chunk = {key: given[key][:, begin : begin + length] for key in stateless.growing_inputs(model)}
            after = stateless.step(model, {**chunk, **fixed, **kept}, grows)
            kept = {key: after.pop(stateless.NEXT + key) for key in kept}
            made.append(after)
            begin += length
        close({key: torch.cat([m[key] for m in made], 1) for key in made[0]}, stateless.whole(model, given), 1e-9)


NO_ONNX = {
    *(EXAMPLE + word for word in ("space_to_depth", "window_attention", "grid_scores", "grid_distances")),
    *(EXAMPLE + word for word in ("conv2d", "pool2d")),  # over tokens, whose number is free
}
"""What needs a grid of one size, which a program for images of every size does not have."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*gallery.names(), *(EXAMPLE + word for word in vocabulary())])
def test_an_entry_in_onnx_runtime(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    model, given = given_to(name)
    try:
        theirs = InONNXRuntime(save_model(tmp_path / "out", model, format="onnx"))
    except InputError as refusal:
        assert name in NO_ONNX and re.search("use this model in PyTorch|are no square grid", str(refusal))
        return
    assert sees_the_past_only(name) or not theirs.about["state"]
    arrays = {key: tensor.numpy() for key, tensor in given.items()}
    with torch.no_grad():
        expected = stateless.whole(model, given)
    if not theirs.about["state"]:
        close(theirs.run("model", arrays), expected)
        return
    growing, kept, made = stateless.growing_inputs(model), theirs.begin(arrays), []
    for begin, end in ((0, FIRST), (FIRST, FIRST + 1), (FIRST + 1, LENGTH)):
        made.append(theirs.step({key: arrays[key][:, begin:end] for key in growing}, kept))
    close({key: np.concatenate([m[key] for m in made], 1) for key in expected}, expected)
    if growing == ["tokens"]:  # greedy: what each row finds likeliest is what one pass over all of it does
        kept, chunk, written = theirs.begin(arrays), arrays["tokens"][:, :FIRST], [arrays["tokens"][:, :FIRST]]
        for _ in range(5):
            logits = next(iter(theirs.step({"tokens": chunk}, kept).values()))
            chunk = logits[:, -1:].argmax(-1)
            written.append(chunk)
        tokens = np.concatenate(written, 1)
        with torch.no_grad():
            logits = next(iter(stateless.whole(model, {**given, "tokens": torch.from_numpy(tokens)}).values()))
        assert (logits[:, FIRST - 1 : -1].argmax(-1).numpy() == tokens[:, FIRST:]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["pre-norm", "gemma3", "mla", "t5", "whisper", "mamba2", "gated-deltanet", "bert", "vit"]
)
def test_an_entry_as_torch_saves_it(name: str, tmp_path: Path) -> None:
    model, given = given_to(name)
    folder = save_model(tmp_path / "out", model, format="torch-export")
    about = json.loads((folder / ABOUT).read_text())["programs"]
    modules = {key: torch.export.load(folder / program["file"]).module() for key, program in about.items()}

    def run(key: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        made = modules[key](*(given[port["name"]] for port in about[key]["inputs"]))
        return dict(zip((port["name"] for port in about[key]["outputs"]), made, strict=True))

    def ports(key: str, side: str) -> list[Port]:
        return [Port(port["name"], port["dtype"], tuple(port["shape"])) for port in about[key][side]]

    stated: Any = {key: Program(model, None, ports(key, "inputs"), ports(key, "outputs"), {}) for key in about}  # type: ignore[arg-type]
    with torch.no_grad():
        close(programs.decode(stated, run, given, [4, 1, LENGTH - 5]), stateless.whole(model, given))


@pytest.mark.slow
def test_beyond_learned_positions_is_an_error_and_numbers_are_float32(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    model = Model("pre-norm", depth=1, width=8, heads=2, vocab=5, context=6).module.bfloat16()
    theirs = InONNXRuntime(save_model(tmp_path / "out", model, format="onnx"))
    assert theirs.about["context"] == 6 and next(model.parameters()).dtype == torch.bfloat16
    kept = theirs.begin({"tokens": np.zeros((1, 1), np.int64)})
    assert theirs.step({"tokens": np.zeros((1, 5), np.int64)}, kept)["logits"].dtype == np.float32
    theirs.step({"tokens": np.zeros((1, 1), np.int64)}, kept)
    with pytest.raises(Exception, match="out of data bounds"):
        theirs.step({"tokens": np.zeros((1, 1), np.int64)}, kept)


AMONG_TOKENS = """
width: 8
heads: 2
depth: 1
vocab: 11
context: 12
side:
  causal: false
  depth: 1
  before: x = {seen}
  layer: x = x + mlp(norm(x))
decoder:
  before: x = masked_scatter(embed.words(tokens), tokens, side, 7) + positions(tokens)
  layer: x = x + attention(norm(x))
"""


def among_tokens(seen: str) -> Any:
    """A model that reads an image or a sound among its tokens."""
    return build(check(read_text(AMONG_TOKENS.format(seen=seen)), vocabulary()), seed=2).eval()


@pytest.mark.slow
@pytest.mark.parametrize(
    "seen", ["tail(patches(image, 4), 2)", "linear(space_to_depth(frames(audio, 100), 2, dimensions=1), 8)"]
)
def test_what_is_read_among_tokens_in_onnx_runtime(seen: str, tmp_path: Path) -> None:
    """Of another size than the one that was traced; a row of sound is padded."""
    pytest.importorskip("onnxscript")
    model = among_tokens(seen)
    given = {"image": torch.randn(2, 3, 8, 8)} if "image" in seen else {"audio": torch.rand(2, 600)}
    given["tokens"] = torch.tensor([[7, 2, 7, 7, 9, 3], [2, 2, 7, 4, 7, 7 if "image" in seen else 1]])
    if "audio" in given:
        given[f"audio{stateless.LENGTHS}"] = torch.tensor([600, 400])
    theirs = InONNXRuntime(save_model(tmp_path / "out", model, format="onnx"))
    arrays = {key: tensor.numpy() for key, tensor in given.items()}
    kept, made = theirs.begin(arrays), []
    for begin, end in ((0, 3), (3, 4), (4, 6)):
        made.append(theirs.step({"tokens": arrays["tokens"][:, begin:end]}, kept)["logits"])
    with torch.no_grad():
        close({"logits": np.concatenate(made, 1)}, stateless.whole(model, given))


def test_a_grid_is_of_one_size(tmp_path: Path) -> None:
    model = among_tokens("linear(space_to_depth(patches(image, 4), 2), 8)")
    with pytest.raises(InputError, match="a grid of one size, and an exported program holds for images of every size"):
        save_model(tmp_path / "out", model, format="torch-export")
    assert not list(tmp_path.iterdir())


@word(
    "undecided",
    streams=("x",),
    kind="function",
    width="x",
    example="x = x + undecided(norm(x))",
    equation="y = x or -x",
    source="a test",
)
class Undecided(Word):
    """y = x, or -x where the sum of all is negative: what data decide cannot be traced."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_what_cannot_be_traced_names_its_line(tmp_path: Path) -> None:
    model = Model("x = x + mlp(norm(x)); x = x + undecided(norm(x))", depth=1, width=8, vocab=5, use=[__name__])
    with pytest.raises(CheckpointError, match=r"layer 1, line 1: .*undecided.*nothing was written"):
        save_model(tmp_path / "out", model.module, format="torch-export")
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Model("pre-norm", depth=1, width=8, heads=2, vocab=5).save(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"onnxruntime; install it with: pip install 'transformula\[onnx\]'"):
        convert(tmp_path / "m", tmp_path / "out", write="onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_program_that_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = stateless.step

    def broken(*given: Any, **more: Any) -> dict[str, Tensor]:
        made = step(*given, **more)
        return made | {stateless.NEXT + "positions": given[1]["positions"]}

    monkeypatch.setattr(stateless, "step", broken)
    model = Model(
        "x = x + mlp(norm(x))", before="x = embed.words(tokens) + sinusoids(tokens)", depth=1, width=8, vocab=5
    )
    with pytest.raises(CheckpointError, match="gives other logits than the model"):
        save_model(tmp_path / "out", model.module, format="torch-export")
    assert not list(tmp_path.iterdir())


def test_pictures_of_four_squares() -> None:
    """As many as the model has learned positions: digits of 8 x 8 pixels."""
    squares = "p = patches(image, 4, channels=1)\nx = p + positions(p, rows=4)"
    output = "logits = linear(mean(x), 3)"
    model = Model("pre-norm", depth=1, width=16, heads=2, family="encoder", before=squares, output=output).module.eval()
    image = torch.randn(3, 1, 8, 8)
    made, *_ = programs.programs_of(model)["model"].exported.module()(image)
    assert torch.allclose(made, model(image=image), atol=1e-6)


STAGES = """
near:
  causal: false
  depth: 1
  width: 8
  before: x = patches(image, 7, stride=4, padding=2)
  layer: x = x + conv2d(norm(x), 3, depthwise=True{near})
far:
  causal: false
  depth: 1
  width: 12
  before: x = conv2d(near, 2, 12, stride=2{near})
  layer: h = norm(x); x = x + pool2d(h, 3{far}) - pool2d(h, 3, kind="max"{far})
output: logits = linear(mean(x), 3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("columns", [True, False])
def test_grids_of_every_size(columns: bool, tmp_path: Path) -> None:
    """Square pictures of every size; with columns, pictures that are as wide, of every height."""
    stated = {"near": ", columns=8", "far": ", columns=4"} if columns else {"near": "", "far": ""}
    model = randomize(build(check(read_text(STAGES.format(**stated)), vocabulary()))).eval()
    save_model(tmp_path / "onnx", model, format="onnx")
    program, exported = InONNXRuntime(tmp_path / "onnx"), programs.programs_of(model)["model"].exported.module()
    for rows, height, width in [(1, 32, 32), (3, 48, 32)] if columns else [(2, 32, 32), (3, 48, 48)]:
        image = torch.randn(rows, 3, height, width)
        expected = model(image=image)
        assert torch.allclose(exported(image)[0], expected, atol=1e-6)
        made = program.run("model", {"image": image.numpy()})["logits"]
        assert np.allclose(made, expected.detach().numpy(), atol=1e-5)


LARGER = """
near:
  causal: false
  depth: 1
  width: 8
  before: x = patches(image, 4)
  layer: x = x + conv2d(norm(x), 3, depthwise=True)
far:
  causal: false
  depth: 1
  width: 12
  before: x = conv2d(near, 2, 12, stride=2)
  layer: x = x + mlp(norm(x))
output: |
  h = near + upsample(linear(far, 8), like=near, kind="bilinear")
  pixels = linear(depth_to_space(linear(h, 32), 2) + upsample(h, 2), 3)
"""


@pytest.mark.slow
def test_larger_grids_of_every_size(tmp_path: Path) -> None:
    model = randomize(build(check(read_text(LARGER), vocabulary()))).eval()
    save_model(tmp_path / "onnx", model, format="onnx")
    program, exported = InONNXRuntime(tmp_path / "onnx"), programs.programs_of(model)["model"].exported.module()
    for rows, side in [(1, 16), (3, 40)]:
        image = torch.randn(rows, 3, side, side)
        expected = model(image=image)
        assert torch.allclose(exported(image)[0], expected, atol=1e-6)
        made = program.run("model", {"image": image.numpy()})["pixels"]
        assert np.allclose(made, expected.detach().numpy(), atol=1e-5)


@pytest.mark.slow
def test_positions_in_turn_of_every_length(tmp_path: Path) -> None:
    """Rows of different lengths, of streams that become one sequence and are taken out of it again."""
    text = """
    width: 8
    heads: 2
    depth: 1
    vocab: 11
    causal: false
    before: t = embed(tokens); x = depth_to_space(join(t, linear(t, 8)), 2, dimensions=1)
    layer: x = x + attention(norm(x))
    output: y = linear(part(space_to_depth(x, 2, dimensions=1), 2, 2), 3)
    """
    model = randomize(build(check(read_text(text), vocabulary()))).eval()
    exported = programs.programs_of(model)["model"].exported.module()
    for length in (4, 9):
        ids, lengths = torch.randint(11, (2, length)), torch.tensor([length, length - 2])
        expected = model(ids, lengths=lengths)
        assert torch.allclose(exported(ids, lengths)[0], expected, atol=1e-6)
