"""Rows of further encoders with a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.interop.named.others import BART, own_output, writer
from tests.peers.case import DEPTH, WIDTH
from tests.peers.cases.seq2seq import T5

BIGBIRD: Mapping[str, Any] = {**BART, "attention_type": "original_full"}


def exact_fairseq_waves(model: Any) -> None:
    """The tables of waves, which are rounded to float32."""
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions.weights
        rates = 10000 ** (-torch.arange(WIDTH // 2, dtype=torch.float64) / (WIDTH // 2 - 1))
        angles = torch.arange(len(table))[:, None] * rates
        table.data = torch.cat((angles.sin(), angles.cos()), 1)


ROWS = [
    writer("m2m_100", "M2M100ForConditionalGeneration", "M2M100", BART, exact=exact_fairseq_waves),
    writer(
        "m2m_100-unscaled",
        "M2M100ForConditionalGeneration",
        "M2M100",
        {**BART, "pad_token_id": 1, "scale_embedding": False, "activation_function": "gelu", "decoder_layers": 2},
        exact=exact_fairseq_waves,
    ),
    writer("blenderbot", "BlenderbotForConditionalGeneration", "Blenderbot", {**BART, "decoder_layers": DEPTH + 1}),
    writer("blenderbot-scaled", "BlenderbotForConditionalGeneration", "Blenderbot", {**BART, "scale_embedding": True}),
    writer("blenderbot-small", "BlenderbotSmallForConditionalGeneration", "BlenderbotSmall", BART),
    writer(
        "blenderbot-small-scaled",
        "BlenderbotSmallForConditionalGeneration",
        "BlenderbotSmall",
        {**BART, "scale_embedding": True, "activation_function": "relu"},
    ),
    writer("plbart", "PLBartForConditionalGeneration", "PLBart", BART),
    writer("plbart-unscaled", "PLBartForConditionalGeneration", "PLBart", {**BART, "scale_embedding": False}),
    writer("umt5", "UMT5ForConditionalGeneration", "UMT5", {**T5, "feed_forward_proj": "gated-gelu"}),
    writer(
        "umt5-relu",
        "UMT5ForConditionalGeneration",
        "UMT5",
        {**T5, "num_decoder_layers": 2, "feed_forward_proj": "relu"},
    ),
    writer("umt5-own-output", "UMT5ForConditionalGeneration", "UMT5", T5, change=own_output),
    writer("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", "BigBirdPegasus", BIGBIRD),
    writer(
        "bigbird_pegasus-biases",
        "BigBirdPegasusForConditionalGeneration",
        "BigBirdPegasus",
        {**BIGBIRD, "use_bias": True, "scale_embedding": False, "decoder_layers": 2},
    ),
]
