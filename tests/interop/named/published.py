"""Folders as the model hub has them: every key of their config.json, and the names of their tensors.

The sizes are made tiny and the weights are drawn. A row whose config.json was not compared with a copy says so.
These are decoders and encoders; the other kinds stand beside the test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
Change = Callable[[Tensors], Tensors]
VOCAB, WIDTH, POSITIONS = 40, 16, 32


def same(tensors: Tensors) -> Tensors:
    return tensors


def bare(prefix: str) -> Change:
    """Names without a prefix; what lies outside it, an output that was not trained, is no part of the folder."""
    return lambda tensors: {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def unprefixed(prefix: str) -> Change:
    return lambda tensors: {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


def prefixed(prefix: str) -> Change:
    return lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()}


def also(**more: Any) -> Change:
    """Further tensors, `.` written `__`; `N` stands for each layer, a string for a tensor that is stored twice."""

    def change(tensors: Tensors) -> Tensors:
        new = {}
        for name, tensor in more.items():
            for layer in range(2) if "N" in name else [0]:
                key = name.replace("__", ".").replace("N", str(layer))
                new[key] = tensors[tensor] if isinstance(tensor, str) else tensor
        return {**tensors, **new}

    return change


def both(*changes: Change) -> Change:
    def change(tensors: Tensors) -> Tensors:
        for each in changes:
            tensors = each(tensors)
        return tensors

    return change


def gamma_and_beta(tensors: Tensors) -> Tensors:
    """The names of norms that the first folders have."""
    names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    return {re.sub("|".join(names), lambda found: names[found[0]], name): t for name, t in tensors.items()}


IDS = torch.arange(POSITIONS)[None]
SQUARE, LINE, PAIR = torch.zeros(WIDTH, WIDTH), torch.zeros(WIDTH), torch.zeros(2, WIDTH)
CAUSAL, LOW = torch.ones(POSITIONS, POSITIONS).tril()[None, None], torch.tensor(-1e4)


def pooler(prefix: str) -> Change:
    """A pooler that no output reads."""
    return also(**{f"{prefix}pooler__dense__weight": SQUARE, f"{prefix}pooler__dense__bias": LINE})


@dataclass(frozen=True)
class Published:
    """A folder of the hub. `task`: what it is used for; `refused`: what our error says, if it is."""

    name: str
    keys: Mapping[str, Any]
    task: str = "language-modeling"
    tensors: Change = same
    files: Mapping[str, Any] = field(default_factory=dict)
    """Files beside config.json."""
    refused: str = ""
    warned: str = ""
    """What a note says, where no verb reads the folder."""
    seen: bool = True
    """Whether the keys were compared with a public copy of config.json."""
    daily: bool = False
    padded: bool = True
    """Whether rows of different lengths are compared."""
    drawn: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the model that is drawn, where they are others."""


def labels(*names: str) -> dict[str, Any]:
    return {"id2label": {str(n): name for n, name in enumerate(names)}, "label2id": {n: i for i, n in enumerate(names)}}


def default_labels(count: int) -> dict[str, Any]:
    return labels(*(f"LABEL_{n}" for n in range(count)))


def sized(width: str, depth: str, heads: str, hidden: str, positions: str) -> dict[str, int]:
    return {width: WIDTH, depth: 2, heads: 4, hidden: 24, positions: POSITIONS, "vocab_size": VOCAB}


USUAL = sized("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")
DECODER = {**USUAL, "initializer_range": 0.02, "use_cache": True, "bos_token_id": 1, "eos_token_id": 2}
DECODER |= {"torch_dtype": "bfloat16", "transformers_version": "4.40.1", "tie_word_embeddings": False}
GATED = {**DECODER, "hidden_act": "silu", "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 1e4}
LLAMA = {**GATED, "model_type": "llama", "architectures": ["LlamaForCausalLM"], "pretraining_tp": 1}
LLAMA |= {"rope_scaling": None}
LLAMA_3 = {**LLAMA, "attention_bias": False, "attention_dropout": 0.0, "mlp_bias": False, "head_dim": 4}
LLAMA_3_ROPE = {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "rope_type": "llama3"}
LLAMA_3_ROPE |= {"original_max_position_embeddings": 8}
QWEN_2 = {**GATED, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
    "max_window_layers": 2, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "sliding_window": 32768,
    "use_sliding_window": False}  # fmt: skip
QWEN_3 = {**GATED, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "attention_bias": False,
    "attention_dropout": 0.0, "head_dim": 8, "max_window_layers": 2, "rms_norm_eps": 1e-6, "rope_scaling": None,
    "rope_theta": 1e6, "sliding_window": None, "tie_word_embeddings": True, "use_sliding_window": False}  # fmt: skip
GEMMA = {**DECODER, "num_key_value_heads": 2, "head_dim": 4, "attention_bias": False, "attention_dropout": 0.0,
    "cache_implementation": "hybrid", "hidden_activation": "gelu_pytorch_tanh", "pad_token_id": 0,
    "query_pre_attn_scalar": 8, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "sliding_window": 5,
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2"}  # fmt: skip
del GEMMA["tie_word_embeddings"]
GPT2 = {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1,
    "bos_token_id": 3, "eos_token_id": 3, "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "model_type": "gpt2",
    "n_ctx": POSITIONS, "n_positions": POSITIONS, "n_embd": WIDTH, "n_head": 4, "n_layer": 2, "resid_pdrop": 0.1,
    "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
    "summary_type": "cls_index", "summary_use_proj": True, "vocab_size": VOCAB,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}}  # fmt: skip
NEOX = {**DECODER, "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu",
    "num_attention_heads": 2, "layer_norm_eps": 1e-5, "model_type": "gpt_neox", "rotary_emb_base": 10000,
    "rotary_pct": 0.25, "use_parallel_residual": True, "torch_dtype": "float16"}  # fmt: skip
OPT = {**sized("hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim", "max_position_embeddings"),
    "activation_dropout": 0.0, "activation_function": "relu", "architectures": ["OPTForCausalLM"],
    "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": True, "dropout": 0.1, "eos_token_id": 2,
    "init_std": 0.02, "layerdrop": 0.0, "model_type": "opt", "pad_token_id": 1, "prefix": "</s>",
    "torch_dtype": "float16", "transformers_version": "4.21.0.dev0", "use_cache": True,
    "word_embed_proj_dim": WIDTH}  # fmt: skip
PHI_3 = {**GATED, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "num_key_value_heads": 4,
    "attention_bias": False, "attention_dropout": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "pad_token_id": 0,
    "original_max_position_embeddings": POSITIONS, "rope_scaling": None, "sliding_window": 5, "auto_map": {
        "AutoConfig": "configuration_phi3.Phi3Config", "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM",
    }}  # fmt: skip
FALCON_MAP = {f"AutoModel{kind}": f"modeling_falcon.Falcon{kind or 'Model'}" for kind in (
    "", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForCausalLM")}  # fmt: skip
YARN = {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "type": "yarn"}
YARN |= {"original_max_position_embeddings": 16}

DECODERS = [
    Published("meta-llama/Llama-2-7b-hf", {**LLAMA, "_name_or_path": "meta-llama/Llama-2-7b-hf",
        "num_key_value_heads": 4, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0"}, seen=False,
        tensors=also(model__layers__N__self_attn__rotary_emb__inv_freq=torch.ones(2))),
    Published("meta-llama/Llama-3.2-1B-Instruct", {**LLAMA_3, "rope_scaling": LLAMA_3_ROPE, "rope_theta": 5e5,
        "eos_token_id": [2, 3, 4], "tie_word_embeddings": True}, daily=True),
    Published("TinyLlama/TinyLlama-1.1B-Chat-v1.0", {**LLAMA, "attention_bias": False}),
    Published("HuggingFaceTB/SmolLM2-135M", {**LLAMA_3, "is_llama_config": True, "rope_interleaved": False,
        "initializer_range": 0.041666666666666664, "rope_theta": 100000, "tie_word_embeddings": True}),
    Published("mistralai/Mistral-7B-v0.1", {**GATED, "architectures": ["MistralForCausalLM"], "model_type": "mistral",
        "sliding_window": 5}, seen=False),
    Published("mistralai/Mixtral-8x7B-v0.1", {**GATED, "architectures": ["MixtralForCausalLM"],
        "attention_dropout": 0.0, "model_type": "mixtral", "num_experts_per_tok": 2, "num_local_experts": 3,
        "output_router_logits": False, "router_aux_loss_coef": 0.02, "sliding_window": None}, seen=False),
    Published("Qwen/Qwen2.5-0.5B", {**QWEN_2, "tie_word_embeddings": True, "use_mrope": False}),
    Published("Qwen/Qwen3-0.6B", QWEN_3, tensors=also(lm_head__weight="model.embed_tokens.weight"), seen=False),
    Published("google/gemma-2-2b-it", {**GEMMA, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        "eos_token_id": [1, 3], "hidden_act": "gelu_pytorch_tanh"}),
    Published("google/gemma-3-1b-it", {**GEMMA, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
        "attn_logit_softcapping": None, "final_logit_softcapping": None, "rope_local_base_freq": 10000,
        "rope_scaling": None, "rope_theta": 1000000, "sliding_window_pattern": 2}),
    Published("microsoft/phi-2", {**DECODER, "_name_or_path": "microsoft/phi-2", "architectures": ["PhiForCausalLM"],
        "attention_dropout": 0.0, "embd_pdrop": 0.0, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5,
        "model_type": "phi", "num_key_value_heads": 4, "partial_rotary_factor": 0.5, "qk_layernorm": False,
        "resid_pdrop": 0.1, "rope_scaling": None, "rope_theta": 1e4, "torch_dtype": "float16"}),
    Published("microsoft/Phi-3-mini-4k-instruct", {**PHI_3, "_name_or_path": "Phi-3-mini-4k-instruct"}),
    Published("microsoft/Phi-3-mini-128k-instruct", {**PHI_3, "_name_or_path": "Phi-3-mini-128k-instruct",
        "original_max_position_embeddings": 16, "rope_scaling": {"long_factor": [1.5, 2.5], "short_factor": [1.0, 1.1],
        "type": "longrope"}}, refused="rope_scaling.type is .longrope.; expected one of default"),
    Published("openai-community/gpt2", GPT2,
        tensors=both(unprefixed("transformer."), also(h__N__attn__bias=CAUSAL))),
    Published("distilbert/distilgpt2", {**GPT2, **default_labels(1), "_num_labels": 1}, seen=False,
        tensors=also(transformer__h__N__attn__bias=CAUSAL, transformer__h__N__attn__masked_bias=LOW)),
    Published("microsoft/DialoGPT-medium", {**GPT2, "task_specific_params": {"conversational": {"max_length": 1000}}},
        seen=False, tensors=also(transformer__h__N__attn__bias=CAUSAL, lm_head__weight="transformer.wte.weight")),
    Published("EleutherAI/pythia-70m", NEOX, seen=False, tensors=also(
        gpt_neox__layers__N__attention__bias=CAUSAL.bool(), gpt_neox__layers__N__attention__masked_bias=LOW,
        gpt_neox__layers__N__attention__rotary_emb__inv_freq=torch.ones(2))),
    Published("EleutherAI/gpt-neox-20b", {**NEOX, "attention_probs_dropout_prob": 0, "hidden_act": "gelu_fast",
        "hidden_dropout_prob": 0}),
    Published("EleutherAI/gpt-neo-125m", {"activation_function": "gelu_new", "architectures": ["GPTNeoForCausalLM"],
        "attention_dropout": 0, "attention_layers": ["global", "local"], "attention_types": [[["global", "local"], 1]],
        "bos_token_id": 3, "embed_dropout": 0, "eos_token_id": 3, "gradient_checkpointing": False, "hidden_size": WIDTH,
        "initializer_range": 0.02, "intermediate_size": None, "layer_norm_epsilon": 1e-5,
        "max_position_embeddings": POSITIONS, "model_type": "gpt_neo", "num_heads": 4, "num_layers": 2,
        "resid_dropout": 0, "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True, "transformers_version": "4.9.0.dev0", "use_cache": True,
        "vocab_size": VOCAB, "window_size": 5},
        tensors=also(transformer__h__N__attn__attention__bias=CAUSAL)),
    Published("facebook/opt-125m", {**OPT, "_remove_final_layer_norm": False}),
    Published("facebook/opt-350m", {**OPT, "_remove_final_layer_norm": False, "do_layer_norm_before": False,
        "word_embed_proj_dim": 8}, seen=False),
    Published("bigscience/bloom-560m", {"apply_residual_connection_post_layernorm": False, "architectures":
        ["BloomForCausalLM"], "attention_dropout": 0.0, "attention_softmax_in_fp32": True, "bias_dropout_fusion": True,
        "bos_token_id": 1, "eos_token_id": 2, "hidden_dropout": 0.0, "hidden_size": WIDTH, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-5, "masked_softmax_fusion": True, "model_type": "bloom", "n_head": 4, "n_inner": None,
        "n_layer": 2, "offset_alibi": 100, "pad_token_id": 3, "pretraining_tp": 1, "skip_bias_add": True,
        "skip_bias_add_qkv": False, "slow_but_exact": False, "transformers_version": "4.20.0", "unk_token_id": 0,
        "use_cache": True, "vocab_size": VOCAB}, tensors=unprefixed("transformer.")),
    Published("tiiuae/falcon-7b", {"alibi": False, "apply_residual_connection_post_layernorm": False, "architectures":
        ["FalconForCausalLM"], "attention_dropout": 0.0, "auto_map": {"AutoConfig":
        "configuration_falcon.FalconConfig", **FALCON_MAP}, "bias": False, "bos_token_id": 11, "eos_token_id": 11,
        "hidden_dropout": 0.0, "hidden_size": WIDTH, "initializer_range": 0.02, "layer_norm_epsilon": 1e-5,
        "model_type": "falcon", "multi_query": True, "new_decoder_architecture": False, "num_attention_heads": 4,
        "num_hidden_layers": 2, "parallel_attn": True, "torch_dtype": "bfloat16", "transformers_version": "4.27.4",
        "use_cache": True, "vocab_size": VOCAB}),
    Published("stabilityai/stablelm-2-1_6b", {**DECODER, "architectures": ["StableLmForCausalLM"], "hidden_act": "silu",
        "layer_norm_eps": 1e-5, "model_type": "stablelm", "num_key_value_heads": 4, "partial_rotary_factor": 0.5,
        "rope_theta": 10000, "torch_dtype": "float16", "use_qkv_bias": True}, seen=False),
    Published("allenai/OLMo-2-0425-1B", {**GATED, "architectures": ["Olmo2ForCausalLM"], "attention_bias": False,
        "attention_dropout": 0.0, "model_type": "olmo2", "pad_token_id": 3, "rope_scaling": None}, seen=False),
    Published("ibm-granite/granite-3.1-2b-base", {**GATED, "architectures": ["GraniteForCausalLM"],
        "attention_bias": False, "attention_dropout": 0.1, "attention_multiplier": 0.25, "embedding_multiplier": 12.0,
        "logits_scaling": 8.0, "mlp_bias": False, "model_type": "granite", "pad_token_id": 0,
        "residual_multiplier": 0.22, "rope_scaling": None, "tie_word_embeddings": True}),
    Published("deepseek-ai/DeepSeek-V2-Lite", {**GATED, "architectures": ["DeepseekV2ForCausalLM"],
        "attention_bias": False, "attention_dropout": 0.0, "auto_map": {
        "AutoConfig": "configuration_deepseek.DeepseekV2Config", "AutoModel": "modeling_deepseek.DeepseekV2Model",
        "AutoModelForCausalLM": "modeling_deepseek.DeepseekV2ForCausalLM"}, "aux_loss_alpha": 0.001, "ep_size": 1,
        "first_k_dense_replace": 1, "kv_lora_rank": 8, "model_type": "deepseek_v2", "moe_intermediate_size": 8,
        "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 2, "norm_topk_prob": False,
        "num_experts_per_tok": 2, "num_key_value_heads": 4, "pretraining_tp": 1, "q_lora_rank": None,
        "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "rms_norm_eps": 1e-6, "rope_scaling": YARN, "rope_theta": 10000,
        "routed_scaling_factor": 1.0, "scoring_func": "softmax", "seq_aux": True, "topk_group": 1,
        "topk_method": "greedy", "v_head_dim": 4}),
    Published("google/gemma-2b", {**{key: value for key, value in GEMMA.items() if key not in ("cache_implementation",
        "query_pre_attn_scalar", "sliding_window")}, "architectures": ["GemmaForCausalLM"], "model_type": "gemma",
        "hidden_act": "gelu", "hidden_activation": None, "rope_scaling": None}, seen=False),
    Published("mistralai/Mistral-7B-Instruct-v0.3", {**GATED, "architectures": ["MistralForCausalLM"],
        "attention_dropout": 0.0, "model_type": "mistral", "rope_theta": 1e6, "sliding_window": None}, seen=False),
    Published("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", {**QWEN_2, "use_mrope": False, "rope_theta": 10000}),
    Published("HuggingFaceTB/SmolLM3-3B", {**GATED, "architectures": ["SmolLM3ForCausalLM"], "attention_bias": False,
        "attention_dropout": 0.0, "layer_types": ["full_attention", "full_attention"], "max_window_layers": 2,
        "mlp_bias": False, "model_type": "smollm3", "no_rope_layer_interval": 2, "no_rope_layers": [1, 0],
        "pad_token_id": 0, "pretraining_tp": 2, "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 5e6,
        "sliding_window": None, "tie_word_embeddings": True, "use_sliding_window": False}),
    Published("bigcode/starcoder2-15b", {**DECODER, "architectures": ["Starcoder2ForCausalLM"],
        "attention_dropout": 0.0, "_name_or_path": "/aot/checkpoints/15b/config.json",
        "hidden_act": "gelu_pytorch_tanh", "mlp_type": "default",
        "model_type": "starcoder2", "norm_epsilon": 1e-5, "norm_type": "layer_norm", "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5, "rope_theta": 100000, "sliding_window": 5, "torch_dtype": "float32", "use_bias": True}),
    Published("bigcode/gpt_bigcode-santacoder", {**{key: value for key, value in GPT2.items() if key not in ("n_ctx",
        "task_specific_params")}, "activation_function": "gelu_pytorch_tanh", "architectures":
        ["GPTBigCodeForCausalLM"], "attention_softmax_in_fp32": True, "model_type": "gpt_bigcode",
        "multi_query": True, "n_inner": 24,
        "runner_max_sequence_length": None, "scale_attention_softmax_in_fp32": True, "scale_attn_weights": True,
        "use_cache": True}),
    Published("EleutherAI/gpt-j-6b", {**GPT2, "architectures": ["GPTJForCausalLM"], "attn_pdrop": 0.0,
        "embd_pdrop": 0.0, "gradient_checkpointing": False, "model_type": "gptj", "n_inner": None, "resid_pdrop": 0.0,
        "rotary": True,
        "rotary_dim": 2, "scale_attn_weights": True, "tie_word_embeddings": False, "tokenizer_class": "GPT2Tokenizer",
        "use_cache": True}, seen=False, tensors=also(transformer__h__N__attn__bias=CAUSAL.bool(),
        transformer__h__N__attn__masked_bias=LOW)),
    Published("Salesforce/codegen-350M-mono", {**GPT2, "architectures": ["CodeGenForCausalLM"], "attn_pdrop": 0.0,
        "gradient_checkpointing": False, "model_type": "codegen", "n_inner": None, "rotary_dim": 2,
        "scale_attn_weights": True, "tie_word_embeddings": False, "tokenizer_class": "GPT2Tokenizer",
        "torch_dtype": "float16", "use_cache":
        True}, seen=False),
    Published("tiiuae/falcon-rw-1b", {"alibi": True, "apply_residual_connection_post_layernorm": False, "architectures":
        ["FalconForCausalLM"], "attention_dropout": 0.0, "bias": True, "bos_token_id": 1, "eos_token_id": 2,
        "hidden_dropout": 0.0, "hidden_size": WIDTH, "initializer_range": 0.02, "layer_norm_epsilon": 1e-5,
        "model_type": "falcon", "multi_query": False, "new_decoder_architecture": False, "num_attention_heads": 4,
        "num_hidden_layers": 2, "parallel_attn": False, "torch_dtype": "bfloat16", "use_cache": True,
        "vocab_size": VOCAB}, refused="alibi is true; expected false", seen=False),
]  # fmt: skip

DROPOUTS = {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1}
ENCODER = {**USUAL, **DROPOUTS, "hidden_act": "gelu", "initializer_range": 0.02}
BERT = {**ENCODER, "layer_norm_eps": 1e-12, "model_type": "bert", "pad_token_id": 0, "type_vocab_size": 2}
LATER = {"classifier_dropout": None, "position_embedding_type": "absolute", "torch_dtype": "float32",
    "transformers_version": "4.28.1", "use_cache": True}  # fmt: skip
BERT_4 = {**BERT, **LATER}
POOLED = {"directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128, "pooler_type": "first_token_transform"}  # fmt: skip
ROBERTA = {**ENCODER, "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5, "model_type": "roberta",
    "pad_token_id": 1, "type_vocab_size": 1}  # fmt: skip
XLM_ROBERTA = {**ROBERTA, "model_type": "xlm-roberta"}
DISTILBERT = {**sized("dim", "n_layers", "n_heads", "hidden_dim", "max_position_embeddings"), "activation": "gelu",
    "attention_dropout": 0.1, "dropout": 0.1, "initializer_range": 0.02, "model_type": "distilbert", "pad_token_id": 0,
    "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True}  # fmt: skip
DEBERTA = {**ENCODER, "model_type": "deberta-v2", "layer_norm_eps": 1e-7, "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm", "pad_token_id": 0, "pooler_dropout": 0, "pooler_hidden_act": "gelu",
    "pooler_hidden_size": WIDTH, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "position_buckets": 4,
    "relative_attention": True, "share_att_key": True, "type_vocab_size": 0}  # fmt: skip
ALBERT = {**ENCODER, "architectures": ["AlbertForMaskedLM"], "attention_probs_dropout_prob": 0, "bos_token_id": 2,
    "classifier_dropout_prob": 0.1, "down_scale_factor": 1, "embedding_size": 8, "eos_token_id": 3, "gap_size": 0,
    "hidden_act": "gelu_new", "hidden_dropout_prob": 0, "inner_group_num": 1, "layer_norm_eps": 1e-12, "model_type":
    "albert", "net_structure_type": 0, "num_hidden_groups": 1, "num_memory_blocks": 0, "pad_token_id": 0,
    "type_vocab_size": 2}  # fmt: skip
ELECTRA = {**ENCODER, "embedding_size": 8, "layer_norm_eps": 1e-12, "model_type": "electra", "type_vocab_size": 2}
MODERN = {**USUAL, "architectures": ["ModernBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0,
    "classifier_pooling": "mean", "cls_token_id": 1, "decoder_bias": True, "deterministic_flash_attn": False,
    "embedding_dropout": 0.0, "eos_token_id": 2, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
    "gradient_checkpointing": False, "hidden_activation": "gelu", "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02, "layer_norm_eps": 1e-5, "local_attention": 8, "local_rope_theta": 10000.0,
    "mlp_bias": False, "mlp_dropout": 0.0, "model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-5,
    "pad_token_id": 3, "position_embedding_type": "absolute", "sep_token_id": 2, "tie_word_embeddings": True,
    "torch_dtype": "float32", "transformers_version": "4.47.0.dev0"}  # fmt: skip
COMPILED = {"reference_compile": True, "sparse_pred_ignore_index": -100, "sparse_prediction": False}
MPNET = {**ENCODER, "architectures": ["MPNetForMaskedLM"], "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5,
    "model_type": "mpnet", "pad_token_id": 1, "relative_attention_num_buckets": 32}  # fmt: skip
MASKED = "masked-language-modeling"
PRETRAINED = both(gamma_and_beta, pooler("bert__"), also(cls__seq_relationship__weight=PAIR,
    cls__seq_relationship__bias=torch.zeros(2)))  # fmt: skip
ROBERTA_KEPT = both(pooler("roberta__"), also(roberta__embeddings__position_ids=IDS))

ENCODERS = [
    Published("google-bert/bert-base-uncased", {**BERT, "architectures": ["BertForMaskedLM"], "gradient_checkpointing":
        False, "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "use_cache": True}, MASKED,
        PRETRAINED, daily=True),
    Published("google-bert/bert-base-multilingual-cased", {**BERT, **POOLED, "architectures": ["BertForMaskedLM"]},
        MASKED, PRETRAINED),
    Published("FacebookAI/roberta-base", {**ROBERTA, "architectures": ["RobertaForMaskedLM"]}, MASKED, ROBERTA_KEPT),
    Published("FacebookAI/xlm-roberta-base", {**XLM_ROBERTA, "architectures": ["XLMRobertaForMaskedLM"],
        "output_past": True, "position_embedding_type": "absolute", "transformers_version": "4.17.0.dev0",
        "use_cache": True}, MASKED, both(ROBERTA_KEPT,
        also(lm_head__decoder__weight="roberta.embeddings.word_embeddings.weight")), seen=False),
    Published("almanach/camembert-base", {**ROBERTA, "architectures": ["CamembertForMaskedLM"], "bos_token_id": 5,
        "eos_token_id": 6, "model_type": "camembert", "output_past": True}, MASKED, ROBERTA_KEPT, seen=False),
    Published("distilbert/distilroberta-base", {**ROBERTA, "architectures": ["RobertaForMaskedLM"]}, MASKED,
        ROBERTA_KEPT, seen=False),
    Published("distilbert/distilbert-base-uncased", {**DISTILBERT, "architectures": ["DistilBertForMaskedLM"],
        "transformers_version": "4.10.0.dev0"}, MASKED,
        tensors=also(vocab_projector__weight="distilbert.embeddings.word_embeddings.weight")),
    # It names no class, and transformers finds no output in it either.
    Published("microsoft/deberta-v3-base", {**DEBERTA, "pos_att_type": "p2c|c2p"}, MASKED, both(prefixed("deberta."),
        also(lm_predictions__lm_head__dense__weight=SQUARE, lm_predictions__lm_head__dense__bias=LINE)), seen=False,
        drawn={"architectures": ["DebertaV2Model"]}, refused="cls.predictions.transform.dense.weight, .* are missing"),
    Published("albert/albert-base-v2", ALBERT, MASKED,
        also(albert__pooler__weight=SQUARE, albert__pooler__bias=LINE, sop_classifier__classifier__weight=PAIR,
        sop_classifier__classifier__bias=torch.zeros(2), albert__embeddings__position_ids=IDS)),
    Published("google/electra-small-discriminator", {**ELECTRA, "architectures": ["ElectraForPreTraining"],
        "pad_token_id": 0, "position_embedding_type": "absolute", "summary_activation": "gelu", "summary_last_dropout":
        0.1, "summary_type": "first", "summary_use_proj": True, "transformers_version": "4.25.1", "use_cache": True},
        "replaced-token-detection", also(electra__embeddings__position_ids=IDS), seen=False),
    Published("google/electra-small-generator", {**ELECTRA, "architectures": ["ElectraForMaskedLM"],
        "pad_token_id": 0, "summary_activation": "gelu", "summary_last_dropout": 0.1, "summary_type": "first",
        "summary_use_proj": True}, MASKED, also(electra__embeddings__position_ids=IDS), seen=False),
    Published("answerdotai/ModernBERT-base", {**MODERN, **COMPILED}, MASKED),
    Published("microsoft/mpnet-base", MPNET, MASKED, both(pooler("mpnet__"),
        also(mpnet__embeddings__position_ids=IDS))),
    Published("nlpaueb/legal-bert-base-uncased", {**BERT, **default_labels(2), "architectures": ["BertForPreTraining"],
        "bos_token_id": 0, "do_sample": False, "eos_token_ids": 0, "finetuning_task": None, "is_decoder": False,
        "length_penalty": 1.0, "max_length": 20, "num_beams": 1, "num_labels": 2, "num_return_sequences": 1,
        "output_attentions": False, "output_hidden_states": False, "output_past": True, "pruned_heads": {},
        "repetition_penalty": 1.0, "temperature": 1.0, "top_k": 50, "top_p": 1.0, "torchscript": False,
        "use_bfloat16": False}, MASKED, PRETRAINED, drawn={"architectures": ["BertForMaskedLM"]}),
    Published("google/mobilebert-uncased", {**BERT, "architectures": ["MobileBertForPreTraining"],
        "attention_probs_dropout_prob": 0.1, "classifier_activation": False, "embedding_size": 4, "hidden_act": "relu",
        "hidden_dropout_prob": 0.0, "intra_bottleneck_size": 8, "key_query_shared_bottleneck": True, "model_type":
        "mobilebert", "normalization_type": "no_norm", "num_feedforward_networks": 4, "trigram_input": True,
        "true_hidden_size": 8, "use_bottleneck": True, "use_bottleneck_attention": False}, MASKED,
        drawn={"architectures": ["MobileBertForMaskedLM"]}, tensors=pooler("mobilebert__"),
        padded=False),
]  # fmt: skip

SIDES = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in
    {"layers": 2, "attention_heads": 4, "ffn_dim": 24, "layerdrop": 0.0}.items()}  # fmt: skip
PAIRED = {**SIDES, "d_model": WIDTH, "vocab_size": VOCAB, "max_position_embeddings": POSITIONS, "num_hidden_layers": 2,
    "is_encoder_decoder": True, "init_std": 0.02, "activation_dropout": 0.0, "attention_dropout": 0.0, "dropout": 0.1,
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "use_cache": True,
}  # fmt: skip
OLD_PAIRED = {**default_labels(3), "add_bias_logits": False, "add_final_layer_norm": False, "classif_dropout": 0.0,
    "classifier_dropout": 0.0, "gradient_checkpointing": False, "normalize_before": False}  # fmt: skip
BEAMS = {"early_stopping": True, "length_penalty": 2.0, "max_length": 142, "min_length": 56, "no_repeat_ngram_size": 3,
    "num_beams": 4}  # fmt: skip
BART = {**PAIRED, **OLD_PAIRED, "activation_function": "gelu", "model_type": "bart", "scale_embedding": False,
    "architectures": ["BartForConditionalGeneration"], "forced_eos_token_id": 2, "forced_bos_token_id": 0}  # fmt: skip
