"""Decoders of torchscale: DeepNorm, Sub-LN, and the retentive network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.carry import Theirs, Weights, together
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH, Pair, case
from tests.peers.stand_in import absent
from transformula import gallery

MATRICES = ("query", "key", "value", "output")


def model(**options: Any) -> nn.Module:
    """Their Decoder with learned positions, its output tied to its embedding."""
    with absent("torchvision", "fairscale"):
        from torchscale.architecture.config import DecoderConfig
        from torchscale.architecture.decoder import Decoder
        from torchscale.component.embedding import PositionalEmbedding, TextEmbedding

    config = DecoderConfig(
        decoder_embed_dim=WIDTH,
        decoder_attention_heads=HEADS,
        decoder_ffn_embed_dim=4 * WIDTH,
        decoder_layers=DEPTH,
        vocab_size=VOCAB,
        share_decoder_input_output_embed=True,
        **options,
    )
    return Decoder(config, TextEmbedding(VOCAB, WIDTH), PositionalEmbedding(CONTEXT + 2, WIDTH))


def decoder(theirs: nn.Module, text: str, layer: Callable[[str, Theirs], Weights]) -> Pair:
    """Their positions begin at the third row of the table."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("embed_tokens")
        yield "before.positions.weight", theirs("embed_positions")["weight"][2:]
        for n, block in theirs.layers("layers"):
            yield from layer(f"layers.{n}", block)
        if theirs.has("layer_norm"):
            yield "after.norm", theirs("layer_norm")

    def steps(tokens: Tensor, chunks: tuple[int, ...]) -> Tensor:
        """The first chunk at once, then one position at a time: theirs takes no others."""
        state: dict[Any, Any] = {"is_first_step": True}
        made = [theirs(tokens[:, : chunks[0]], incremental_state=state)[0]]
        state["is_first_step"] = False
        for end in range(chunks[0] + 1, tokens.shape[1] + 1):
            made.append(theirs(tokens[:, :end], incremental_state=state)[0])
        return torch.cat(made, 1)

    return Pair(theirs, text, weights, run=lambda tokens: theirs(tokens)[0], steps=steps)


def attention(theirs: Theirs) -> list[Theirs]:
    """Its four matrices."""
    return [theirs(f"{name}_proj") for name in ("q", "k", "v", "out")]


@case("torchscale-sub-ln", "torchscale", "Decoder(subln=True)", "sub-ln")
def sub_ln() -> Pair:
    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.sub_attention_input_norm", theirs("self_attn_layer_norm")
        yield from together(f"{name}.sub_attention", MATRICES, attention(theirs("self_attn")))
        yield f"{name}.sub_attention.output_input_norm", theirs("self_attn.inner_attn_ln")
        yield f"{name}.sub_mlp_input_norm", theirs("final_layer_norm")
        yield f"{name}.sub_mlp.up", theirs("ffn.fc1")
        yield f"{name}.sub_mlp.down_input_norm", theirs("ffn.ffn_layernorm")
        yield f"{name}.sub_mlp.down", theirs("ffn.fc2")

    return decoder(model(subln=True), "sub-ln", layer)


@case("torchscale-deepnorm", "torchscale", "Decoder(deepnorm=True)", "deepnorm")
def deepnorm() -> Pair:
    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.attention_sum_norm", theirs("self_attn_layer_norm")
        yield from together(f"{name}.attention", MATRICES, attention(theirs("self_attn")))
        yield f"{name}.mlp_sum_norm", theirs("final_layer_norm")
        yield f"{name}.mlp.up", theirs("ffn.fc1")
        yield f"{name}.mlp.down", theirs("ffn.fc2")

    return decoder(model(deepnorm=True), "deepnorm", layer)


RETNET = "eps of norms 0, so that what they undo changes nothing; their longest wave is 10,000 at any size of heads"


@case("retnet", "torchscale", "RetNetDecoder(activation_fn='swish')", "retnet", RETNET)
def retnet() -> Pair:
    """Theirs divides scores by sums that the norm of each head undoes. It decodes by its recurrence, whose state does
    not grow, one position at a time."""
    with absent("torchvision", "fairscale"):
        from torchscale.architecture.config import RetNetConfig
        from torchscale.architecture.retnet import RetNetDecoder
        from torchscale.component.embedding import TextEmbedding

    config = RetNetConfig(
        decoder_embed_dim=WIDTH,
        decoder_value_embed_dim=2 * WIDTH,
        decoder_retention_heads=HEADS,
        decoder_ffn_embed_dim=2 * WIDTH,
        decoder_layers=DEPTH,
        activation_fn="swish",
        vocab_size=VOCAB,
        share_decoder_input_output_embed=True,
        layernorm_eps=0.0,
    )
    theirs = RetNetDecoder(config, TextEmbedding(VOCAB, WIDTH))

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("embed_tokens")
        for n, layer in theirs.layers("layers"):
            yield f"layers.{n}.retention_input_norm", layer("retention_layer_norm")
            five = [layer(f"retention.{letter}_proj") for letter in ("q", "k", "v", "g", "out")]
            yield from together(f"layers.{n}.retention", ("query", "key", "value", "gate", "output"), five)
            yield f"layers.{n}.mlp_input_norm", layer("final_layer_norm")
            yield from together(
                f"layers.{n}.mlp", ("gate", "up", "down"), [layer(f"ffn.{m}") for m in ("fc1", "gate", "fc2")]
            )
        yield "after.norm", theirs("layer_norm")

    def steps(tokens: Tensor, chunks: tuple[int, ...]) -> Tensor:
        state: dict[Any, Any] = {}
        ends = range(1, tokens.shape[1] + 1)
        return torch.cat([theirs(tokens[:, :end], incremental_state=state)[0] for end in ends], 1)

    changed = {
        "eps=1e-6": "eps=0",
        "weight=False": "weight=False, eps=0",
        "pairs=True": "pairs=True, base=10000 ** (4 / 3)",
    }
    run: Callable[[Tensor], Tensor] = lambda tokens: theirs(tokens)[0]  # noqa: E731
    return Pair(theirs, "retnet", weights, run=run, steps=steps, changed=changed)


@case("retnet-by-scan", "torchscale", "RetNetDecoder(activation_fn='swish')", note=RETNET)
def retnet_by_scan() -> Pair:
    """The same model with a state that does not grow."""
    pair, old = retnet(), "dot_attention(q, k, linear.value(x, 2 * width, bias=False), softmax=False, score=decay)"
    pair.text = gallery.entry("retnet").source.replace("retnet", "recurrent").replace(old, RECURRENT)
    pair.text = "".join(row for row in pair.text.splitlines(True) if "decay(s, h" not in row)
    return pair


RECURRENT = """scan(
      q * sqrt(heads / width), k, linear.value(x, 2 * width, bias=False),
      log(1 - exp(-log(2) * (5 + arange(heads)))))"""
