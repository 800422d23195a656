"""Speech: Whisper, Moonshine, wav2vec 2.0, and that with Conformer layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.carry import QKV, Leaf, Theirs, Weights, each, split, together
from tests.peers.case import DEPTH, HEADS, VOCAB, WIDTH, Pair, ids
from tests.peers.hub import HIDDEN, hub_case, in_chunks, model, rope
from tests.references.whisper import log_mel

SAMPLES = 3300


def waveforms() -> Tensor:
    """Two rows of noise, a fifth of a second of it."""
    return torch.randn(2, SAMPLES, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) / 4


def writer(
    theirs: nn.Module,
    text: str,
    weights: Callable[[Theirs], Weights],
    features: Callable[[Tensor], Tensor] = lambda audio: audio,
    **numbers: float,
) -> Pair:
    """An encoder that hears and a decoder that writes; `features`: what theirs is given of the waveform."""

    def run(audio: Tensor, tokens: Tensor) -> Tensor:
        return theirs(features(audio), decoder_input_ids=tokens, use_cache=False).logits

    def steps(audio: Tensor, tokens: Tensor, chunks: tuple[int, ...]) -> Tensor:
        memory = theirs.get_encoder()(features(audio))

        def write(chunk: Tensor, **cache: Any) -> Any:
            return theirs(encoder_outputs=memory, decoder_input_ids=chunk, **cache)

        return in_chunks(write, tokens, chunks)

    return Pair(theirs, text, weights, numbers, run, steps, lambda: {"audio": waveforms(), "tokens": ids()})


@hub_case("WhisperForConditionalGeneration", "whisper")
def whisper() -> Pair:
    """Their features are made in float32, so they are given the spectrogram that is written by hand in the tests."""
    keys = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in SIDES.items()}
    frames = SAMPLES // 320
    theirs = model(
        "WhisperForConditionalGeneration", "WhisperConfig", **keys, d_model=WIDTH, vocab_size=VOCAB, num_mel_bins=80,
        max_source_positions=frames, max_target_positions=24, pad_token_id=0, bos_token_id=0, eos_token_id=0,
        decoder_start_token_id=0,
    )  # fmt: skip

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.decoder.embed_tokens")
        yield "one", theirs("model.encoder.conv1")
        yield "two", theirs("model.encoder.conv2")
        yield "decoder.before.positions", theirs("model.decoder.embed_positions")
        for side in ("encoder", "decoder"):
            for n, layer in theirs.layers(f"model.{side}.layers"):
                for ours, call in CALLS.items() if side == "decoder" else [("attention", "self_attn")]:
                    for part, name in ATTENTION.items():
                        yield f"{side}.layers.{n}.{ours}.{part}", layer(f"{call}.{name}")
                    yield f"{side}.layers.{n}.{ours}_input_norm", layer(f"{call}_layer_norm")
                yield f"{side}.layers.{n}.mlp_input_norm", layer("final_layer_norm")
                yield f"{side}.layers.{n}.mlp.up", layer("fc1")
                yield f"{side}.layers.{n}.mlp.down", layer("fc2")
            yield f"{side}.after.norm", theirs(f"model.{side}.layer_norm")

    return writer(theirs, "whisper", weights, lambda audio: log_mel(audio, 80).mT)


SIDES = {"layers": DEPTH, "attention_heads": HEADS, "ffn_dim": 4 * WIDTH}
ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
CALLS = {"attention": "self_attn", "cross_attention": "encoder_attn"}


def matrix(leaf: Leaf) -> Leaf:
    """A convolution over one position."""
    return each(leaf, lambda tensor: tensor.squeeze(-1) if tensor.dim() == 3 else tensor)


@hub_case("Wav2Vec2ConformerForCTC (feat_extract_norm='layer')", "wav2vec2-conformer")
def wav2vec2_conformer() -> Pair:
    theirs = model(
        "Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerConfig", vocab_size=VOCAB, hidden_size=WIDTH,
        num_hidden_layers=DEPTH, num_attention_heads=HEADS, intermediate_size=HIDDEN, hidden_act="silu",
        feat_extract_norm="layer", conv_bias=True, conv_dim=[WIDTH // 2] * 7, apply_spec_augment=False,
        position_embeddings_type="relative", max_source_positions=64, num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    # made for a position embedding that no layer reads
    del theirs.wav2vec2_conformer.encoder.pos_conv_embed
    theirs.wav2vec2_conformer.masked_spec_embed.requires_grad_(False)
    generator = torch.Generator().manual_seed(6)
    norms = [layer.conv_module.batch_norm for layer in theirs.wav2vec2_conformer.encoder.layers]
    for norm in norms:
        norm.running_mean.copy_(torch.randn(norm.num_features, generator=generator))
        norm.running_var.copy_(torch.rand(norm.num_features, generator=generator) + 0.3)

    def weights(theirs: Theirs) -> Weights:
        trunk = theirs("wav2vec2_conformer")
        names = ("one", "two", "three", "four", "five", "six", "seven")
        for name, (_, conv) in zip(names, trunk.layers("feature_extractor.conv_layers"), strict=True):
            yield f"{name}.conv", conv("conv")
            yield f"{name}.conv_output_norm", conv("layer_norm")
        yield "before.projection_input_norm", trunk("feature_projection.layer_norm")
        yield "projection", trunk("feature_projection.projection")
        for n, layer in trunk.layers("encoder.layers"):
            own = f"layers.{n}"
            for ours, half in (("first", "ffn1"), ("last", "ffn2")):
                yield f"{own}.{ours}_input_norm", layer(f"{half}_layer_norm")
                yield f"{own}.{ours}.up", layer(f"{half}.intermediate_dense")
                yield f"{own}.{ours}.down", layer(f"{half}.output_dense")
            yield f"{own}.last_sum_norm", layer("final_layer_norm")
            yield f"{own}.attend_input_norm", layer("self_attn_layer_norm")
            attention = layer("self_attn")
            four = [attention(f"linear_{name}") for name in ("q", "k", "v", "out")]
            yield from together(f"{own}.attend", (*QKV, "output"), four)
            yield f"{own}.attend.place_key", attention("linear_pos")
            yield f"{own}.attend.what.weight", attention["pos_bias_u"].flatten()
            yield f"{own}.attend.place.weight", attention["pos_bias_v"].flatten()
            module = layer("conv_module")
            yield f"{own}.convolution_input_norm", module("layer_norm")
            gated = split(matrix(module("pointwise_conv1")), WIDTH, WIDTH)
            yield from together(f"{own}.convolution", ("value", "gate"), gated)
            yield f"{own}.convolution.conv", module("depthwise_conv")
            yield f"{own}.convolution.output_input_batchnorm", module("batch_norm")
            yield f"{own}.convolution.output_input_batchnorm.running_mean", norms[n - 1].running_mean
            yield f"{own}.convolution.output_input_batchnorm.running_var", norms[n - 1].running_var
            yield f"{own}.convolution.output", matrix(module("pointwise_conv2"))
        yield "after.norm", trunk("encoder.layer_norm")
        yield "output.unembed", theirs("lm_head")

    def run(audio: Tensor) -> Tensor:
        return theirs(audio).logits

    return Pair(
        theirs, "wav2vec2-conformer", weights, {"hidden": HIDDEN}, run, inputs=lambda: {"audio": waveforms()},
        decodes=False,
    )  # fmt: skip


WAV2VEC2 = """
causal: false
words:
  extract(x, length, stride): y = conv(x, length, width // 2, stride=stride, padding="valid", bias=False)
before: |
  w = gelu(groupnorm.one_norm(extract.one(frames(audio), 10, 5), width // 2))
  w = gelu(extract.three(gelu(extract.two(w, 3, 2)), 3, 2))
  w = gelu(extract.five(gelu(extract.four(w, 3, 2)), 3, 2))
  w = gelu(extract.seven(gelu(extract.six(w, 2, 2)), 2, 2))
  x = linear.projection(norm(w), width)
  x = norm.enter(x + gelu(conv.places(x, 16, groups=4, padding="same_lower")))
layer: |
  x = norm(x + attention(x))
  x = norm(x + mlp(x, hidden=hidden))
output: logits = unembed(x, bias=True)
"""


@hub_case("Wav2Vec2ForCTC (feat_extract_norm='group')")
def wav2vec2() -> Pair:
    theirs = model(
        "Wav2Vec2ForCTC", "Wav2Vec2Config", vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=DEPTH,
        num_attention_heads=HEADS, intermediate_size=HIDDEN, conv_dim=[WIDTH // 2] * 7, apply_spec_augment=False,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    theirs.wav2vec2.masked_spec_embed.requires_grad_(False)

    def weights(theirs: Theirs) -> Weights:
        trunk = theirs("wav2vec2")
        names = ("one", "two", "three", "four", "five", "six", "seven")
        for name, (_, conv) in zip(names, trunk.layers("feature_extractor.conv_layers"), strict=True):
            yield f"{name}.conv", conv("conv")
            if name == "one":
                yield "one_norm", conv("layer_norm")
        yield "before.projection_input_norm", trunk("feature_projection.layer_norm")
        yield "projection", trunk("feature_projection.projection")
        places = trunk("encoder.pos_conv_embed.conv")
        length, direction = (places("parametrizations.weight")[f"original{n}"] for n in (0, 1))
        yield "places.weight", length * direction / direction.norm(dim=(0, 1), keepdim=True)
        yield "places.bias", places["bias"]
        yield "enter", trunk("encoder.layer_norm")
        for n, layer in trunk.layers("encoder.layers"):
            for ours, name in ATTENTION.items():
                yield f"layers.{n}.attention.{ours}", layer(f"attention.{name}")
            yield f"layers.{n}.attention_sum_norm", layer("layer_norm")
            yield f"layers.{n}.mlp.up", layer("feed_forward.intermediate_dense")
            yield f"layers.{n}.mlp.down", layer("feed_forward.output_dense")
            yield f"layers.{n}.mlp_sum_norm", layer("final_layer_norm")
        yield "output.unembed", theirs("lm_head")

    return Pair(
        theirs, WAV2VEC2, weights, {"hidden": HIDDEN}, lambda audio: theirs(audio).logits,
        inputs=lambda: {"audio": waveforms()}, decodes=False,
    )  # fmt: skip


MOONSHINE = """
words:
  norm: x = layernorm(x, bias=False)
encoder:
  causal: false
  before: |
    a = groupnorm.first(tanh(conv.one(frames(audio), 127, width, stride=64, padding="valid", bias=False)), 1)
    x = gelu(conv.two(a, 7, 2 * width, stride=3, padding="valid"))
    x = gelu(conv.three(x, 3, width, stride=2, padding="valid"))
  layer: |
    x = x + attention(norm(x), rotary=10000, rotary_part=0.5, rotary_pairs=True, bias=False)
    x = x + mlp(norm(x), hidden=hidden)
  after: x = norm(x)
decoder:
  before: x = embed.words(tokens)
  layer: |
    x = x + attention(norm(x), rotary=10000, rotary_part=0.5, rotary_pairs=True, bias=False)
    x = x + attention(norm(x), memory, bias=False)
    x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu")
  after: x = norm(x)
output: logits = unembed.words(x)
"""


@hub_case("MoonshineForConditionalGeneration")
def moonshine() -> Pair:
    sizes = {"num_hidden_layers": DEPTH, "num_attention_heads": HEADS}
    keys = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sizes.items()}
    theirs = model(
        "MoonshineForConditionalGeneration", "MoonshineConfig", **keys, **rope(10000, 0.5), hidden_size=WIDTH,
        intermediate_size=HIDDEN, vocab_size=VOCAB,
    )  # fmt: skip
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    encoder = {"attention": ("self_attn", "input_layernorm"), "mlp": ("mlp", "post_attention_layernorm")}
    decoder = {**encoder, "cross_attention": ("encoder_attn", "post_attention_layernorm")}
    decoder["mlp"] = ("mlp", "final_layernorm")

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.decoder.embed_tokens")
        for number, name in enumerate(("one", "two", "three"), 1):
            yield name, theirs(f"model.encoder.conv{number}")
        yield "first", theirs("model.encoder.groupnorm")
        for side, calls, last in (("encoder", encoder, "layer_norm"), ("decoder", decoder, "norm")):
            for n, layer in theirs.layers(f"model.{side}.layers"):
                for ours, (call, norm) in calls.items():
                    yield f"{side}.layers.{n}.{ours}_input_norm", layer(norm)
                    for part, name in names.items() if ours != "mlp" else ():
                        yield f"{side}.layers.{n}.{ours}.{part}", layer(f"{call}.{name}")
                own = f"{side}.layers.{n}.mlp"
                first = layer("mlp.fc1")
                yield from ([(f"{own}.up", first)] if side == "encoder" else gated(own, first))
                yield f"{own}.down", layer("mlp.fc2")
            yield f"{side}.after.norm", theirs(f"model.{side}.{last}")

    return writer(theirs, MOONSHINE, weights, hidden=HIDDEN)


def gated(own: str, leaf: Leaf) -> Weights:
    """What is gated, then the gate, in one matrix."""
    return together(own, ("up", "gate"), split(leaf, HIDDEN, HIDDEN))
