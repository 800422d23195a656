"""Our weights as a model of CTranslate2 (https://github.com/OpenNMT/CTranslate2), to decode the same by other code.

Needs `pip install ctranslate2`, which the project itself does not. For encoder-decoders wired like the gallery's
`vaswani`: post-norm, sinusoids in turn, matrices of attention without biases, relu, one table for source, target and
output, times the root of the width on entering.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformula.model import Transformer
from transformula.words.waves import waves


def names_of(vocab: int, begin: int, end: int) -> list[str]:
    """A name for every id; CTranslate2 reads and writes names."""
    special = {0: "<unk>", begin: "<s>", end: "</s>"}
    return [special.get(number, f"token{number}") for number in range(vocab)]


def save(model: Transformer, folder: Path, begin: int, end: int, positions: int = 512) -> list[str]:
    """Write the model in CTranslate2's format, float32, into a new folder; the names of the tokens, by id.

    positions  rows of the table of sinusoids: no text may be longer
    """
    from ctranslate2.specs import TransformerSpec

    weights = {name: weight.detach().float() for name, weight in model.state_dict().items()}
    numbers = model.architecture.numbers
    depth, heads, vocab = (int(numbers[name]) for name in ("depth", "heads", "vocab"))
    table = weights["words.weight"]
    spec = TransformerSpec.from_config(depth, heads, pre_norm=False)
    (places,) = waves(torch.arange(positions, dtype=torch.float64), 0, table.shape[1], 10000.0, False)
    for stack, embeddings in ((spec.encoder, spec.encoder.embeddings[0]), (spec.decoder, spec.decoder.embeddings)):
        embeddings.weight = table.numpy()  # `scale_embeddings` is on by default: times the root of the width
        stack.position_encodings.encodings = places.float().numpy()
    spec.decoder.projection.weight = table.numpy()
    for layer in range(depth):
        for name, of_layer in (("encoder", spec.encoder.layer[layer]), ("decoder", spec.decoder.layer[layer])):
            path = f"{name}.layers.{layer + 1}"
            _attention(of_layer.self_attention, weights, f"{path}.attention", ["query key value", "output"])
            if name == "decoder":
                splits = ["query", "key value", "output"]
                _attention(of_layer.attention, weights, f"{path}.cross_attention", splits)
            _linear(of_layer.ffn.linear_0, [weights[f"{path}.mlp.up.weight"]], weights[f"{path}.mlp.up.bias"])
            _linear(of_layer.ffn.linear_1, [weights[f"{path}.mlp.down.weight"]], weights[f"{path}.mlp.down.bias"])
            _norm(of_layer.ffn.layer_norm, weights, f"{path}.mlp")
    names = names_of(vocab, begin, end)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = names[begin], names[end], names[0]
    spec.config.decoder_start_token = names[begin]
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True)
    spec.save(str(folder))
    return names


def _attention(spec: Any, weights: dict[str, Tensor], path: str, splits: Sequence[str]) -> None:
    """Matrices in the order of `splits`, those of one string joined, and the norm after the sum."""
    for linear, joined in zip(spec.linear, splits, strict=True):
        _linear(linear, [weights[f"{path}.{name}.weight"] for name in joined.split()])
    _norm(spec.layer_norm, weights, path)


def _linear(spec: Any, matrices: Sequence[Tensor], bias: Tensor | None = None) -> None:
    spec.weight = torch.cat(list(matrices)).contiguous().numpy()
    if bias is not None:
        spec.bias = bias.numpy()


def _norm(spec: Any, weights: dict[str, Tensor], path: str) -> None:
    spec.gamma, spec.beta = weights[f"{path}_sum_norm.weight"].numpy(), weights[f"{path}_sum_norm.bias"].numpy()
