"""Two post-norm encoders over one normed table of words and positions: of a text with masks, and of a filled one."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, embed, encoder_layer, gelu, layer_norm, layers, linear, unembed

EPS = 1e-12


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> dict[str, Tensor]:
    """See plain.py; both outputs by name."""

    def run(stack: str, tokens: Tensor, heads: int) -> Tensor:
        x = embed(p, tokens) + p["places.weight"][: tokens.shape[1]]
        x = linear(p(f"{stack}.before.linear"), layer_norm(p("embedded"), x, EPS))
        for layer in layers(p, n, stack):
            x = encoder_layer(layer, x, {**n, "heads": heads}, EPS)
        return x

    generator = run("generator", given["source"], max(1, int(n["heads"]) // 4))
    discriminator = run("discriminator", given["tokens"], int(n["heads"]))
    filled = layer_norm(p("output.words_input_norm"), gelu(linear(p("fill"), generator)), EPS)
    return {
        "logits": unembed(p, filled) + p["output.vector.weight"],
        "replaced": linear(p("detect"), gelu(linear(p("output.linear"), discriminator))),
    }
