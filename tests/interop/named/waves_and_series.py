"""Rows of models of sound, and of series of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.interop.named.others import WHISPER
from tests.interop.named.seq2seq_and_images import exact_fairseq_waves
from tests.interop.named.tiny import FRAMES, Tiny, rope
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.hub import HIDDEN

SPEECH: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS,
    "intermediate_size": HIDDEN,
    "conv_dim": [12, 16, 16, 12],
    "conv_kernel": [10, 3, 3, 2],
    "conv_stride": [5, 2, 2, 2],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "num_labels": 7,
    "classifier_proj_size": 10,
}
BY_LAYER: Mapping[str, Any] = {
    **SPEECH,
    "feat_extract_norm": "layer",
    "do_stable_layer_norm": True,
    "conv_bias": True,
    "num_conv_pos_embeddings": 7,
}


@torch.no_grad()
def rounded_products(model: Any) -> None:
    """Its weights under weight norm, which are stored as two tensors, as the product in float32 that ours is."""
    for module in model.modules():
        if hasattr(module, "parametrizations"):
            parts = [*module.parametrizations.weight.parameters()]
            length, direction = (torch.from_numpy(part.numpy().astype("float32")) for part in parts)
            product = length * (direction / lengths(direction))
            parts[1].copy_(product)
            parts[0].copy_(lengths(parts[1]))


def lengths(weight: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(weight, dim=(0, 1), keepdim=True)


def speech(name: str, model: str, config: str, keys: Mapping[str, Any] = SPEECH, **more: Any) -> Tiny:
    usual = {"call": "waveform", "slow": True, "exact": rounded_products}
    return Tiny(name, model, f"{config}Config", keys, **{**usual, **more})


def classifier(name: str, model: str, config: str, keys: Mapping[str, Any] = SPEECH, **more: Any) -> Tiny:
    return speech(f"{name}-classifier", f"{model}ForSequenceClassification", config, keys, **{"call": "sound", **more})


MOONSHINE: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "encoder_num_hidden_layers": DEPTH,
    "decoder_num_hidden_layers": 2,
    "encoder_num_attention_heads": HEADS,
    "decoder_num_attention_heads": HEADS,
    "max_position_embeddings": CONTEXT,
    "attention_bias": True,
    **rope(10000, partial_rotary_factor=0.5),
}
FEATURES: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "encoder_layers": DEPTH,
    "decoder_layers": 2,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": HIDDEN,
    "decoder_ffn_dim": 40,
    "input_feat_per_channel": 3,
    "input_channels": 2,
    "conv_channels": 12,
    "conv_kernel_sizes": [5, 3],
    "max_target_positions": CONTEXT,
    "pad_token_id": 1,
}
CONFORMER: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "encoder_config": {
        "hidden_size": WIDTH,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": HEADS,
        "intermediate_size": HIDDEN,
        "conv_kernel_size": 4,
        "num_mel_bins": 6,
        "subsampling_conv_channels": 10,
        "subsampling_conv_kernel_size": 3,
    },
}
BIASES: Mapping[str, Any] = {
    "attention_bias": True,
    "convolution_bias": True,
    "conv_kernel_size": 5,
    "conv_residual_weights": [0.7, 1.3],
    "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
}
PATCHES: Mapping[str, Any] = {
    "context_length": FRAMES,
    "patch_length": 6,
    "patch_stride": 3,
    "num_hidden_layers": DEPTH,
    "d_model": WIDTH,
    "num_attention_heads": HEADS,
    "ffn_dim": HIDDEN,
    "prediction_length": 5,
    "num_targets": 4,
}
OTHER_PATCHES: Mapping[str, Any] = {
    **PATCHES,
    "norm_type": "layernorm",
    "pre_norm": False,
    "use_cls_token": True,
    "bias": False,
    "positional_encoding_type": "random",
}
NEAR: Mapping[str, Any] = {**SPEECH, "num_buckets": 8, "max_bucket_distance": 12}
DATA2VEC: Mapping[str, Any] = {**SPEECH, "num_conv_pos_embeddings": 3, "conv_pos_kernel_size": 6}


def series(name: str, model: str, config: str, keys: Mapping[str, Any], call: str) -> Tiny:
    return Tiny(name, model, f"{config}Config", keys, call, slow=True)


BATCH, SOUNDS = {"call": "waveform in a batch"}, {"call": "sounds in a batch"}

ROWS = [
    speech("wav2vec2", "Wav2Vec2ForCTC", "Wav2Vec2"),
    speech("wav2vec2-by-layer", "Wav2Vec2ForCTC", "Wav2Vec2", BY_LAYER, **BATCH),
    speech("hubert", "HubertForCTC", "Hubert", {**SPEECH, "feat_proj_layer_norm": False}),
    speech("hubert-by-layer", "HubertForCTC", "Hubert", BY_LAYER, **BATCH),
    speech("unispeech", "UniSpeechForCTC", "UniSpeech", BY_LAYER, **BATCH),
    speech("unispeech-sat", "UniSpeechSatForCTC", "UniSpeechSat", BY_LAYER, **BATCH),
    speech("data2vec-audio", "Data2VecAudioForCTC", "Data2VecAudio", DATA2VEC),
    speech("wavlm", "WavLMForCTC", "WavLM", NEAR),
    speech("wavlm-by-layer", "WavLMForCTC", "WavLM", {**NEAR, **BY_LAYER}, **BATCH),
    classifier("wavlm", "WavLM", "WavLM", {**NEAR, **BY_LAYER}, **SOUNDS),
    classifier("wav2vec2", "Wav2Vec2", "Wav2Vec2"),
    classifier("hubert", "Hubert", "Hubert", BY_LAYER, **SOUNDS),
    classifier("unispeech", "UniSpeech", "UniSpeech", BY_LAYER, **SOUNDS),
    classifier("unispeech-sat", "UniSpeechSat", "UniSpeechSat", BY_LAYER, **SOUNDS),
    classifier("data2vec-audio", "Data2VecAudio", "Data2VecAudio", DATA2VEC),
    Tiny(
        "whisper-classifier",
        "WhisperForAudioClassification",
        "WhisperConfig",
        {**WHISPER, "num_labels": 7, "classifier_proj_size": 10},
        call="spectrum",
        slow=True,
    ),
    Tiny("moonshine", "MoonshineForConditionalGeneration", "MoonshineConfig", MOONSHINE, call="spoken", slow=True),
    Tiny(
        "speech_to_text",
        "Speech2TextForConditionalGeneration",
        "Speech2TextConfig",
        FEATURES,
        call="features",
        slow=True,
        exact=exact_fairseq_waves,
    ),
    Tiny("lasr_ctc", "LasrForCTC", "LasrCTCConfig", CONFORMER, call="frames in a batch", slow=True),
    Tiny(
        "lasr_ctc-biases",
        "LasrForCTC",
        "LasrCTCConfig",
        {**CONFORMER, "encoder_config": {**CONFORMER["encoder_config"], **BIASES}},
        call="frames in a batch",
        slow=True,
    ),
    series("patchtst", "PatchTSTForPrediction", "PatchTST", PATCHES, "forecast"),
    series("patchtst-others", "PatchTSTForPrediction", "PatchTST", OTHER_PATCHES, "forecast"),
    series("patchtst-classifier", "PatchTSTForClassification", "PatchTST", PATCHES, "classes of series"),
    series(
        "patchtst-max", "PatchTSTForClassification", "PatchTST", {**PATCHES, "pooling_type": "max"}, "classes of series"
    ),
    series("patchtst-regressor", "PatchTSTForRegression", "PatchTST", OTHER_PATCHES, "numbers of series"),
]
