"""Encoders and decoders: nn.Transformer of PyTorch; BART, PEGASUS, Marian, T5 of transformers. Sources are padded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.around import causal
from tests.peers.carry import QKV, Leaf, Theirs, Weights, renamed, thirds, together
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH, Pair, case, ids, real
from tests.peers.hub import HIDDEN, hub_case, in_chunks, model

SOURCE = 9
LENGTHS = torch.tensor([SOURCE, SOURCE - 3])


def inputs() -> dict[str, Any]:
    """Other tokens as the source, the second row of them padded."""
    return {"source": ids(length=SOURCE, seed=5), "tokens": ids(), "lengths": {"source": LENGTHS}}


def waves(rows: int) -> Tensor:
    """(rows, WIDTH): sines and cosines in turn, as in the paper."""
    table = torch.empty(rows, WIDTH)
    for i in range(rows):
        for c in range(0, WIDTH, 2):
            table[i, c] = math.sin(i / 10000 ** (c / WIDTH))
            table[i, c + 1] = math.cos(i / 10000 ** (c / WIDTH))
    return table


class Translator(nn.Module):
    """nn.TransformerEncoder and nn.TransformerDecoder between one table and itself, with waves as positions.

    Their attention has no biases here, as in the paper; their MLPs have.
    """

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        options = {"dropout": 0.0, "activation": "relu", "batch_first": True, "norm_first": norm_first}
        last = nn.LayerNorm(WIDTH) if norm_first else None
        encoder = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, **options)
        decoder = nn.TransformerDecoderLayer(WIDTH, HEADS, 4 * WIDTH, **options)
        encoder.self_attn, decoder.self_attn, decoder.multihead_attn = (
            nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True) for _ in range(3)
        )
        self.encoder = nn.TransformerEncoder(encoder, DEPTH, last, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder, DEPTH, nn.LayerNorm(WIDTH) if norm_first else None)

    def entering(self, tokens: Tensor) -> Tensor:
        """What enters a stack."""
        return math.sqrt(WIDTH) * self.words(tokens) + waves(tokens.shape[1])

    def forward(self, source: Tensor, tokens: Tensor, lengths: Mapping[str, Tensor]) -> Tensor:
        padding = ~real(lengths["source"], source.shape[1])
        memory = self.encoder(self.entering(source), src_key_padding_mask=padding)
        mask = causal(tokens.shape[1])
        x = self.decoder(self.entering(tokens), memory, tgt_mask=mask, memory_key_padding_mask=padding)
        return x @ self.words.weight.T


def torch_attention(name: str, theirs: Theirs) -> Weights:
    """Queries, keys and values in one parameter."""
    yield from together(name, QKV, thirds(renamed(theirs, weight="in_proj_weight")))
    yield f"{name}.output", theirs("out_proj")


def torch_pair(text: str, norm_first: bool) -> Pair:
    """Of nn.Transformer's stacks."""
    stands = "input" if norm_first else "sum"

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("words")
        for stack in ("encoder", "decoder"):
            for n, layer in theirs.layers(f"{stack}.layers"):
                ours = f"{stack}.layers.{n}"
                sublayers = {"attention": "self_attn", "cross_attention": "multihead_attn"}
                names = ["attention", "mlp"] if stack == "encoder" else ["attention", "cross_attention", "mlp"]
                for place, name in enumerate(names, 1):
                    yield f"{ours}.{name}_{stands}_norm", layer(f"norm{place}")
                    if name != "mlp":
                        yield from torch_attention(f"{ours}.{name}", layer(sublayers[name]))
                yield f"{ours}.mlp.up", layer("linear1")
                yield f"{ours}.mlp.down", layer("linear2")
            if norm_first:
                yield f"{stack}.after.norm", theirs(f"{stack}.norm")

    return Pair(Translator(norm_first), text, weights, inputs=inputs)


NOTE = "a table and waves around them; attention without biases, no last norm where layers end with one"


@case("torch-vaswani", "torch", "nn.TransformerEncoder, nn.TransformerDecoder(norm_first=False)", "vaswani", NOTE)
def vaswani() -> Pair:
    return torch_pair("vaswani", False)


@case(
    "torch-vaswani-pre", "torch", "nn.TransformerEncoder, nn.TransformerDecoder(norm_first=True)", "vaswani-pre",
    "a table and waves around them; attention without biases",
)  # fmt: skip
def vaswani_pre() -> Pair:
    return torch_pair("vaswani-pre", True)


def hub_pair(theirs: nn.Module, text: str, weights: Callable[[Theirs], Weights], **numbers: float) -> Pair:
    """A model that is given a source with a mask, and what is written so far."""

    def run(source: Tensor, tokens: Tensor, lengths: Mapping[str, Tensor]) -> Tensor:
        mask = real(lengths["source"], source.shape[1]).long()
        return theirs(source, attention_mask=mask, decoder_input_ids=tokens, use_cache=False).logits

    def steps(source: Tensor, tokens: Tensor, lengths: Mapping[str, Tensor], chunks: tuple[int, ...]) -> Tensor:
        mask = real(lengths["source"], source.shape[1]).long()
        encoded = theirs.get_encoder()(source, attention_mask=mask)

        def write(chunk: Tensor, **cache: Any) -> Any:
            return theirs(attention_mask=mask, encoder_outputs=encoded, decoder_input_ids=chunk, **cache)

        return in_chunks(write, tokens, chunks)

    return Pair(theirs, text, weights, numbers, run, steps, inputs)


BART: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "encoder_layers": DEPTH,
    "decoder_layers": DEPTH,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 4 * WIDTH,
    "decoder_ffn_dim": 4 * WIDTH,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": 0,
}


def bart_names(stands: str, bias: Tensor, ends: Mapping[str, str]) -> Callable[[Theirs], Weights]:
    """BART's names, which Pegasus and Marian share. `stands`: where the norms do; `bias`: of the logits, which they
    keep as a buffer; `ends`: what else stands in a stack, ours by theirs."""
    matrices = ((*QKV, "output"), ("q_proj", "k_proj", "v_proj", "out_proj"))

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.shared")
        yield "output.vector.weight", bias[0]
        for stack in ("encoder", "decoder"):
            for ours, name in ends.items():
                yield f"{stack}.{ours}", theirs(f"model.{stack}.{name}")
            for n, layer in theirs.layers(f"model.{stack}.layers"):
                ours = f"{stack}.layers.{n}"
                sublayers = {"attention": "self_attn"}
                if stack == "decoder":
                    sublayers["cross_attention"] = "encoder_attn"
                for name, other in sublayers.items():
                    attention: list[Leaf] = [layer(f"{other}.{matrix}") for matrix in matrices[1]]
                    yield from together(f"{ours}.{name}", matrices[0], attention)
                    yield f"{ours}.{name}_{stands}_norm", layer(f"{other}_layer_norm")
                yield f"{ours}.mlp.up", layer("fc1")
                yield f"{ours}.mlp.down", layer("fc2")
                yield f"{ours}.mlp_{stands}_norm", layer("final_layer_norm")

    return weights


def with_bias(theirs: nn.Module) -> Tensor:
    """Their bias of the logits, drawn at random: it is a buffer of zeros."""
    theirs.final_logits_bias.copy_(torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(7)))
    return theirs.final_logits_bias


def halves(theirs: nn.Module) -> None:
    """Their table of waves, sines first, is rounded to float32: the same in float64."""
    for stack in (theirs.model.encoder, theirs.model.decoder):
        table = stack.embed_positions.weight
        exact = torch.cat((waves(CONTEXT)[:, 0::2], waves(CONTEXT)[:, 1::2]), 1)
        table.copy_(exact) if not table.any() else None  # it is filled when weights are first drawn
        assert (table - exact).abs().max() < 1e-6, "the waves are others"
        table.copy_(exact)


@hub_case("BartForConditionalGeneration", "bart")
def bart() -> Pair:
    theirs = model("BartForConditionalGeneration", "BartConfig", **BART)
    ends = {"before.positions": "embed_positions", "before.norm": "layernorm_embedding"}
    return hub_pair(theirs, "bart", bart_names("sum", with_bias(theirs), ends))


WAVES = "the table of waves, rounded to float32 there, is given in float64"


@case("pegasus", "transformers", "PegasusForConditionalGeneration", "pegasus", WAVES)
def pegasus() -> Pair:
    theirs = model(
        "PegasusForConditionalGeneration", "PegasusConfig", **BART, scale_embedding=True, activation_function="relu"
    )
    halves(theirs)
    return hub_pair(theirs, "pegasus", bart_names("input", with_bias(theirs), {"after.norm": "layer_norm"}))


@case("marian", "transformers", "MarianMTModel", note=WAVES)
def marian() -> Pair:
    """Post-norm, with Swish."""
    theirs = model(
        "MarianMTModel", "MarianConfig", **BART, decoder_vocab_size=VOCAB, decoder_start_token_id=1,
        scale_embedding=True, activation_function="swish",
    )  # fmt: skip
    halves(theirs)
    text = """
encoder:
  causal: false
  before: x = sqrt(width) * embed.words(source) + sinusoids(source, halves=True)
  layer: |
    x = norm(x + attention(x))
    x = norm(x + mlp(x, activation="silu"))
decoder:
  before: x = sqrt(width) * embed.words(tokens) + sinusoids(tokens, halves=True)
  layer: |
    x = norm(x + attention(x))
    x = norm(x + attention(x, memory))
    x = norm(x + mlp(x, activation="silu"))
output: logits = unembed.words(x) + vector(0, size=vocab)
"""
    return hub_pair(theirs, text, bart_names("sum", with_bias(theirs), {}))


T5: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "d_kv": 6,
    "d_ff": HIDDEN,
    "num_layers": DEPTH,
    "num_heads": HEADS,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 9,
    "decoder_start_token_id": 0,
}
"""Buckets that a sequence of 12 fills."""


def t5_weights(mlp: Mapping[str, str]) -> Callable[[Theirs], Weights]:
    """T5's names. Only the first layer has the table of distances, which all use. `mlp`: ours by theirs."""
    matrices = ("query", "key", "value", "output")

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("shared")
        for stack in ("encoder", "decoder"):
            table = theirs(f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias")
            yield f"{stack}.before.relative_bias", table
            for n, layer in theirs.layers(f"{stack}.block"):
                ours = f"{stack}.layers.{n}"
                sublayers = [("attention", "0.SelfAttention")]
                if stack == "decoder":
                    sublayers.append(("cross_attention", "1.EncDecAttention"))
                for place, (name, other) in enumerate(sublayers):
                    four = [layer(f"layer.{other}.{letter}") for letter in "qkvo"]
                    yield from together(f"{ours}.{name}", matrices, four)
                    yield f"{ours}.{name}_input_norm", layer(f"layer.{place}.layer_norm")
                last = layer(f"layer.{len(sublayers)}")
                yield f"{ours}.mlp_input_norm", last("layer_norm")
                yield from ((f"{ours}.mlp.{part}", last(f"DenseReluDense.{name}")) for part, name in mlp.items())
            yield f"{stack}.after.norm", theirs(f"{stack}.final_layer_norm")
        if theirs.has("lm_head"):
            yield "output.unembed", theirs("lm_head")

    return weights


T5_TEXT = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
encoder:
  causal: false
  before: |
    x = embed.words(source)
    b = relative_bias(x, buckets=8, reach=9)
  layer: |
    x = x + attention(norm(x), size=size, scale=1, bias=False, scores=b)
    x = x + mlp(norm(x), hidden=hidden, activation="relu", bias=False)
  after: x = norm(x)
decoder:
  before: |
    x = embed.words(tokens)
    b = relative_bias(x, buckets=8, reach=9)
  layer: |
    x = x + attention(norm(x), size=size, scale=1, bias=False, scores=b)
    x = x + attention(norm(x), memory, size=size, scale=1, bias=False)
    x = x + mlp(norm(x), hidden=hidden, activation="relu", bias=False)
  after: x = norm(x)
output: logits = unembed.words(x / sqrt(width))
"""


@hub_case("T5ForConditionalGeneration (few buckets, a size of heads apart from the width)", name="t5-buckets")
def t5_buckets() -> Pair:
    """So few that 12 positions reach the last."""
    theirs = model("T5ForConditionalGeneration", "T5Config", **T5)
    return hub_pair(theirs, T5_TEXT, t5_weights({"up": "wi", "down": "wo"}), hidden=HIDDEN, size=6)


PUBLISHED = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}


@hub_case("T5ForConditionalGeneration", "t5")
def t5() -> Pair:
    """Version 1.0: ReLU, tied, the output divided by the root of the width."""
    theirs = model("T5ForConditionalGeneration", "T5Config", **{**T5, **PUBLISHED, "d_ff": 4 * WIDTH})
    return hub_pair(theirs, "t5", t5_weights({"up": "wi", "down": "wo"}), size=6)


@case("t5v11", "transformers", "T5ForConditionalGeneration (gated-gelu)", "t5v11", "an output table of its own")
def t5v11() -> Pair:
    """This version ties the output whatever its configuration says; released models of 1.1 do not."""
    keys = {**T5, **PUBLISHED, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    theirs = model("T5ForConditionalGeneration", "T5Config", **keys)
    theirs.lm_head.weight = nn.Parameter(torch.empty(VOCAB, WIDTH))
    mlp = {"gate": "wi_0", "up": "wi_1", "down": "wo"}
    return hub_pair(theirs, "t5v11", t5_weights(mlp), hidden=HIDDEN, size=6)
