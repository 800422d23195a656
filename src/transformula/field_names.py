"""The field's names and ours: what `rope`, `num_heads`, `d_model` or `learning_rate` are called here.

One table for all who look a name up: errors of formulas, of settings and of options, `transformula words NAME`, and
`gallery search`. A row has the field's names (the first in full, as a person would search for it), our name, and what
is written instead. Names are compared without case, `-` and `_`.

    WORDS       called as a word; what is written is a formula of a layer, or a whole model file
    OPTIONS     options of words, by word ("*": of any word that has ours)
    NAMES       read as a value in a formula
    MODEL_KEYS  keys of a model file
    SETTINGS    settings of training, data and generation; options of the command line are all of these keys

Where a name stands in this table, the table's answer is given, and not the nearest by spelling.
"""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import TYPED, did_you_mean, nearest


@dataclass(frozen=True)
class Ours:
    """What one name of the field is called here.

    name    our word, option or key; of keys also several, of which the first that is known where the name stands holds
    option  of a word: the option that it is, if it is one
    write   what is written instead; of options and keys only where the value differs from what was typed
    tag     how the gallery marks an entry that has it; "" if it marks none
    """

    name: str
    option: str = ""
    write: str = ""
    tag: str = ""

    @property
    def shown(self) -> str:
        """'mlp', or 'attention(rotary=)'."""
        return f"{self.name}({self.option}=)" if self.option else self.name


ATTENTION = "x = x + attention(norm(x){}); x = x + mlp(norm(x))"
MLP = "x = x + attention(norm(x)); x = x + {}"
BRANCH = "x = x + {}attention(norm(x)); x = x + {}mlp(norm(x))"
GATED = MLP.format('mlp(norm(x), gated=True, activation="{}")')
BEFORE = "before: x = {}\nlayer: " + ATTENTION.format("")
OUTPUT = "layer: " + ATTENTION.format("") + "\noutput: {}"
DECODER = (
    "encoder:\n  causal: false\n  before: x = embed.words(source) + positions(source)\n"
    "  layer: x = x + attention(norm(x)); x = x + mlp(norm(x))\n"
    "decoder:\n  before: x = embed.words(tokens) + positions(tokens)\n"
    "  layer: x = x + attention(norm(x)); x = x + attention(norm(x), memory); x = x + mlp(norm(x))"
)
ALIBI = 'words: {"alibi(s, h, i, j)": s = s - 2**(-8 * h / heads) * (i - j)}\nlayer: ' + ATTENTION.format(
    ", score=alibi"
)
SINKS = 'words: {"sinks(i, j)": m = i - j < 32 or j < 4}\nlayer: ' + ATTENTION.format(", mask=sinks")

WORDS: tuple[tuple[str, str, str, str], ...] = (
    # mixing of positions
    ("multi_head_attention mha self_attention attn self_attn causal_attention causal_self_attention masked_attention"
     " multi_headed_attention", "attention", ATTENTION.format(""), "attention"),
    ("scaled_dot_product_attention sdpa flash_attention", "dot_attention",
     "q = linear.q(x, width); k = linear.k(x, width); v = linear.v(x, width); x = x + dot_attention(q, k, v)",
     "dot_attention"),
    ("cross_attention cross_attn encoder_decoder_attention", "attention", DECODER, "attention:memory"),
    ("grouped_query_attention gqa", "attention(kv_heads=)", ATTENTION.format(", kv_heads=heads // 2"),
     "attention.kv_heads"),
    ("multi_query_attention mqa", "attention(kv_heads=)", ATTENTION.format(", kv_heads=1"), "attention.kv_heads=1"),
    ("sliding_window_attention swa sliding_window local_attention windowed_attention", "attention(window=)",
     ATTENTION.format(", window=16"), "attention.window"),
    ("rotary_position_embedding rope rotary_embedding rotary_emb rotary_pos_emb apply_rotary_pos_emb",
     "attention(rotary=)", ATTENTION.format(", rotary=10000"), "attention.rotary"),
    ("qk_norm query_key_norm qk_layernorm", "attention(qk_norm=)", ATTENTION.format(', qk_norm="head"'),
     "attention.qk_norm"),
    ("logit_soft_capping soft_cap", "attention(cap=)", ATTENTION.format(", cap=50"), "attention.cap"),
    ("attention_sinks softmax1 softmax_one streaming_attention", "attention(mask=)", SINKS, "mask:streaming"),
    ("top_k_attention sparse_attention lightning_indexer deepseek_sparse_attention dsa", "attention(top=)",
     "h = norm(x); x = x + attention(h, top=64, ranking=dot_scores(linear.q(h, 64), linear.k(h, 64), heads=1)); "
     "x = x + mlp(norm(x))", "attention.top"),
    ("alibi attention_with_linear_biases", "attention(score=)", ALIBI, "score:alibi"),
    ("t5_bias t5_relative_bias relative_position_bias rel_pos_bias relative_attention_bias", "relative_bias",
     ATTENTION.format(", scores=relative_bias(x)"), "relative_bias"),
    ("linear_transformer linear_attn", "linear_attention", MLP.format("linear_attention(norm(x))"), "linear_attention"),
    ("convolution conv1d causal_conv causal_conv1d depthwise_conv", "conv",
     MLP.format("conv(norm(x), 4, depthwise=True)"), "conv"),
    ("token_shift time_shift", "shift", MLP.format("mlp(norm(shift(x)))"), "shift"),
    ("average_pooling mean_pool avg_pool pooling pool global_average_pooling", "mean",
     "causal: false\n" + OUTPUT.format("logits = linear(mean(x), 10)"), "mean"),
    ("max_pool max_pooling global_max_pooling", "maxpool",
     "causal: false\n" + OUTPUT.format("logits = linear(maxpool(x), 10)"), "maxpool"),
    ("eos_pooling eos_token_pooling", "pick", OUTPUT.format("logits = linear(pick(x, tokens, id=2), 10)"), "pick"),
    ("last_token_pooling last_token cls_pool", "pick", OUTPUT.format("logits = linear(pick(x, at=\"end\"), 10)"),
     "pick"),
    # mixing of channels
    ("feed_forward ffn ff feed_forward_network position_wise_feed_forward fnn mlp_block", "mlp",
     MLP.format("mlp(norm(x), hidden=4 * width)"), "mlp"),
    ("gated_mlp gated_feed_forward glu_mlp", "mlp(gated=)", MLP.format("mlp(norm(x), gated=True)"), "mlp.gated"),
    ("swiglu", "mlp(gated=)", GATED.format("silu"), "mlp.gated mlp.activation=silu"),
    ("geglu", "mlp(gated=)", GATED.format("gelu"), "mlp.gated mlp.activation=gelu"),
    ("reglu", "mlp(gated=)", GATED.format("relu"), "mlp.gated mlp.activation=relu"),
    ("gated_linear_unit glu", "sigmoid", MLP.format("linear.v(x, width) * sigmoid(linear.w(x, width))"), ""),
    ("dense fc fully_connected linear_layer nn_linear projection proj dense_layer", "linear",
     MLP.format("linear(norm(x), width)"), "linear"),
    ("mixture_of_experts moe sparse_moe moe_layer", "experts", MLP.format("experts(norm(x), n=8, active=2)"),
     "experts"),
    ("low_rank lora low_rank_adapter bottleneck", "lowrank", MLP.format("lowrank(norm(x), 8)"), "lowrank"),
    # norms
    ("layer_norm layer_normalization ln", "norm", ATTENTION.format(""), "layernorm"),
    ("rms_norm root_mean_square_norm", "rmsnorm",
     "x = x + attention(rmsnorm(x)); x = x + mlp(rmsnorm(x))", "rmsnorm"),
    ("batch_norm bn batch_normalization", "batchnorm",
     "causal: false\nlayer: x = x + attention(batchnorm(x)); x = x + mlp(batchnorm(x))", "batchnorm"),
    ("group_norm gn instance_norm", "groupnorm",
     "causal: false\nlayer: x = x + attention(groupnorm(x, 8)); x = x + mlp(groupnorm(x, 8))", "groupnorm"),
    ("scale_norm", "scalenorm", "x = x + attention(scalenorm(x)); x = x + mlp(scalenorm(x))", "scalenorm"),
    ("l2_norm normalize unit_norm", "l2norm", "x = l2norm(x + attention(x)); x = l2norm(x + mlp(x))", "l2norm"),
    ("dynamic_tanh", "dyt", "x = x + attention(dyt(x)); x = x + mlp(dyt(x))", "dyt"),
    # functions and chance
    ("swish", "silu", MLP.format("linear.down(silu(linear.up(norm(x), 2 * width)), width)"), "silu"),
    ("gelu_new gelu_pytorch_tanh gelu_fast", "gelu_tanh",
     MLP.format("linear.down(gelu_tanh(linear.up(norm(x), 2 * width)), width)"), "gelu_tanh"),
    ("clip hardtanh", "clamp", MLP.format("clamp(mlp(norm(x)), -5, 5)"), "clamp"),
    ("minimum", "min", MLP.format("min(mlp(norm(x)), 5)"), "min"),
    ("maximum maxout", "max", MLP.format("max(linear.a(norm(x), width), linear.b(norm(x), width))"), "max"),
    ("cumsum cumulative_sum prefix_sum", "running_sum",
     MLP.format("running_sum(mlp(norm(x))) / running_sum(ones(x))"), "running_sum"),
    ("ones_like", "ones", MLP.format("running_sum(mlp(norm(x))) / running_sum(ones(x))"), "ones"),
    ("zero_pad pad_channels", "pad", MLP.format("pad(linear(norm(x), width // 2), width)"), "pad"),
    ("squared_relu relu2 relu_squared", "relu",
     MLP.format("linear.down(relu(linear.up(norm(x), 2 * width)) ** 2, width)"), "relu"),
    ("stochastic_depth drop_path droplayer", "droppath",
     "x = x + droppath(attention(norm(x)), 0.1); x = x + droppath(mlp(norm(x)), 0.1)", "droppath"),
    ("residual_dropout resid_dropout hidden_dropout", "dropout",
     "x = x + dropout(attention(norm(x)), 0.1); x = x + dropout(mlp(norm(x)), 0.1)", "dropout"),
    # the stream
    ("residual skip residual_connection skip_connection shortcut add_norm", "x = x + ...", ATTENTION.format(""), ""),
    ("layer_scale", "vector", BRANCH.format("vector(1e-4) * ", "vector(1e-4) * "), "vector"),
    ("learned_scalar learnable_scalar parameter", "scalar", BRANCH.format("scalar(0) * ", "scalar(0) * "), "scalar"),
    ("highway_gate gating", "gate", "g = gate(x); x = (1 - g) * x + g * attention(norm(x)); x = x + mlp(norm(x))",
     "gate"),
    ("concat cat concatenate", "join", MLP.format("linear(join(x, norm(x)), width)"), "join"),
    ("split chunk", "part", MLP.format("join(part(x, 1, 2), part(norm(x), 2, 2))"), "part"),
    ("hyper_connections_streams multi_stream", "expand",
     "before: X = expand(embed.words(tokens) + positions(tokens), 4)\n"
     "layer: y = read(X); X = write(X, attention(norm(y))); y = read(X); X = write(X, mlp(norm(y)))\n"
     "after: x = norm(collapse(X))", "expand"),
    # inputs and output
    ("token_embedding word_embedding tok_emb embedding wte embed_tokens nn_embedding", "embed",
     BEFORE.format("embed.words(tokens) + positions(tokens)"), "embed"),
    ("position_embedding positional_embedding pos_emb wpe learned_positions absolute_positions", "positions",
     BEFORE.format("embed.words(tokens) + positions(tokens)"), "positions"),
    ("sinusoidal_positions positional_encoding sinusoidal pos_enc sinusoidal_embedding sinusoidal_encoding",
     "sinusoids", BEFORE.format("embed.words(tokens) * sqrt(width) + sinusoids(tokens)"), "sinusoids"),
    ("segment_embedding token_type_embedding", "embed",
     BEFORE.format("embed.words(tokens) + positions(tokens) + embed.types(types, rows=2)"), "embed:types"),
    ("patch_embedding patch_embed patchify", "patches",
     "causal: false\nbefore: p = patches(image, 4); x = p + positions(p, rows=64)\nlayer: "
     + ATTENTION.format(""), "patches"),
    ("mel_spectrogram log_mel_spectrogram mel spectrogram", "logmel",
     "causal: false\nbefore: m = linear(logmel(audio), width); x = m + sinusoids(m)\nlayer: "
     + ATTENTION.format(""), "logmel"),
    ("cls_token class_token prefix_tokens register_tokens", "prepend",
     "causal: false\n" + BEFORE.format("prepend(learned(1), patches(image, 4))"), "prepend"),
    ("lm_head output_projection output_layer unembedding", "unembed", OUTPUT.format("logits = unembed(x)"), "unembed"),
    ("weight_tying tied_embeddings tie_weights tied_output", "unembed", OUTPUT.format("logits = unembed.words(x)"),
     "tied"),
    ("copy_mechanism copy_attention pointer_network", "pointer",
     DECODER + "\noutput: y = pointer(x, encoder, source)", "pointer"),
)  # fmt: skip
"""The field's names, our word (or its option), what is written instead, the gallery's tags (all of them)."""

TOPICS: tuple[tuple[str, str], ...] = (
    ("bidirectional encoder_only bidirectional_attention masked_language_model", "bidirectional"),
    ("encoder_decoder seq2seq sequence_to_sequence", "attention:memory"),
    ("weight_sharing parameter_sharing layer_sharing shared_layers", "shared"),
    ("causal_language_model decoder_only autoregressive", "decoder-only"),
    ("no_bias bias_free without_biases", "attention.bias"),
)
"""What is searched for in the gallery and is no word, and its tag."""

OPTIONS: tuple[tuple[str, str, str, str], ...] = (
    ("attention linear_attention dot_attention relative relative_bias rotary",
     "num_heads n_heads n_head num_attention_heads nhead head h", "heads", ""),
    ("attention", "num_kv_heads n_kv_heads n_kv_head num_key_value_heads kv_head n_head_kv num_query_groups groups",
     "kv_heads", ""),
    ("attention linear_attention", "head_dim head_size d_head dim_head d_k d_kv key_dim qkv_dim", "size", ""),
    ("attention", "rope rope_theta rope_base rotary_base theta rotary_emb_base base", "rotary", ""),
    ("attention", "partial_rotary_factor rotary_pct rotary_fraction rotary_percentage", "rotary_part", ""),
    ("attention", "attention_factor mscale attention_scaling", "rotary_scale", "rotary=10000, rotary_scale=1.2"),
    ("attention dot_attention", "sink attention_sink attention_sinks s_aux", "sinks", "sinks=True"),
    ("attention", "rope_interleaved interleaved interleave", "rotary_pairs", ""),
    ("attention dot_attention", "sliding_window window_size local_window attention_window", "window", ""),
    ("attention dot_attention", "attn_dropout attention_dropout attn_pdrop dropout_p dropout_rate"
     " attention_probs_dropout_prob p drop", "dropout", ""),
    ("attention dot_attention", "softcap logit_cap logit_softcap logits_soft_cap attn_logit_softcapping", "cap", ""),
    ("attention dot_attention", "softmax_scale attn_scale scaling temperature", "scale", ""),
    ("attention", "qk_layernorm qk_ln use_qk_norm key_norm query_norm qk_rmsnorm", "qk_norm", 'qk_norm="head"'),
    ("attention", "qkv_bias attention_bias attn_bias add_bias_kv", "bias", ""),
    ("attention dot_attention", "attn_mask attention_mask", "mask", ""),
    ("attention dot_attention", "alibi score_mod", "score", ""),
    ("mlp experts", "d_ff dff hidden_size hidden_dim intermediate_size ffn_dim ff_dim d_inner inner_dim"
     " dim_feedforward mlp_dim n_inner d_hidden hidden_features", "hidden", ""),
    ("mlp experts", "mlp_ratio expansion expansion_factor ff_mult mult ffn_mult", "hidden", "hidden=4 * width"),
    ("mlp experts", "act act_fn hidden_act activation_function nonlinearity act_layer", "activation", ""),
    ("mlp experts", "glu gate use_glu gated_mlp", "gated", ""),
    ("mlp experts", "swiglu", "gated", 'gated=True, activation="silu"'),
    ("experts", "num_experts n_experts num_local_experts n_routed_experts e", "n", ""),
    ("experts", "top_k topk k num_experts_per_tok moe_top_k n_activated_experts", "active", ""),
    ("experts", "n_shared_experts num_shared_experts shared_experts", "shared", ""),
    ("experts", "norm_topk_prob normalize_weights renormalize", "renormalise renormalize", ""),
    ("experts", "router_aux_loss_coef aux_loss load_balancing", "balance", ""),
    ("experts", "scoring_func score_function score_func", "scoring", ""),
    ("experts", "routed_scaling_factor route_scale", "scale", ""),
    ("experts", "e_score_correction_bias expert_bias correction_bias", "selection_bias", "selection_bias=True"),
    ("experts", "bias_update_speed load_balance_coeff", "bias_rate", "selection_bias=True, bias_rate=0.001"),
    ("experts", "n_group num_expert_group", "groups", ""),
    ("experts", "topk_group", "active_groups", ""),
    ("experts", "apply_router_weight_on_input", "weigh_input", ""),
    ("experts", "swiglu_limit", "limit", "gated=True, limit=7"),
    ("norm layernorm rmsnorm batchnorm scalenorm l2norm mix attend",
     "epsilon norm_eps layer_norm_eps layer_norm_epsilon rms_norm_eps variance_epsilon", "eps", ""),
    ("norm layernorm rmsnorm batchnorm dyt", "elementwise_affine affine gamma use_scale", "weight", ""),
    ("norm layernorm rmsnorm batchnorm dyt", "beta center", "bias", ""),
    ("dyt", "alpha init_alpha alpha_init", "init", ""),
    ("dropout droppath", "rate prob dropout_rate dropout drop_prob drop_rate probability", "p", ""),
    ("scalar vector", "value init_value init_values", "init", ""),
    ("linear", "out_features d_out out out_dim dim units output_dim features output_size", "size", ""),
    ("lowrank", "r", "rank", ""),
    ("lowrank", "out_features d_out out_dim", "size", ""),
    ("conv", "kernel_size kernel k", "length", ""),
    ("conv", "out_channels channels filters", "size", ""),
    ("rnn gru lstm", "hidden_size hidden units state_size", "size", ""),
    ("embed unembed", "num_embeddings vocab_size vocab n_vocab", "rows", ""),
    ("embed positions sinusoids learned", "embedding_dim embed_dim d_model dim n_embd", "size", ""),
    ("positions", "max_len max_length max_position_embeddings block_size max_seq_len n_positions", "rows", ""),
    ("patches", "patch_size patch", "size", ""),
    ("patches", "in_channels in_chans num_channels", "channels", ""),
    ("rotary sinusoids", "theta rope_theta max_period", "base", ""),
    ("rotary", "interleaved", "pairs", ""),
    ("rotary", "attention_factor mscale attention_scaling", "scale", ""),
    ("relative_bias", "num_buckets relative_attention_num_buckets", "buckets", ""),
    ("relative_bias", "max_distance relative_attention_max_distance", "reach", ""),
    ("relative", "max_relative_positions max_distance", "span", ""),
    ("*", "use_bias with_bias add_bias", "bias", ""),
)  # fmt: skip
"""Words, the field's options, ours, and what is written where the value differs."""

NAMES: tuple[tuple[str, str], ...] = (
    ("input_ids token_ids ids idx input inputs prompt", "tokens"),
    ("src encoder_input source_ids", "source"),
    ("tgt target labels label y_true", "targets"),
    ("token_type_ids segment_ids segments", "types"),
    ("char_ids chars character_ids", "characters"),
    ("pixel_values images img pixels", "image"),
    ("input_values waveform wave sound speech raw_speech", "audio"),
    ("hidden_states hidden residual h out stream", "x"),
    ("encoder_output encoder_hidden_states enc_output encoder_out context_vector", "memory"),
    ("layer_idx layer_index layer_id depth_index", "layer"),
)
"""The field's names of what a formula reads, and ours: inputs, the stream, numbers."""

MODEL_KEYS: tuple[tuple[str, str, str], ...] = (
    ("n_layer n_layers num_layers num_hidden_layers n_blocks num_blocks layers num_decoder_layers decoder_layers",
     "depth", ""),
    ("n_embd n_embed d_model hidden_size embed_dim embedding_dim emb_dim model_dim dim d_embed hidden_dim model_width",
     "width", ""),
    ("n_head n_heads num_heads num_attention_heads nhead attention_heads", "heads", ""),
    ("vocab_size n_vocab vocabulary_size num_embeddings", "vocab", ""),
    ("block_size seq_len sequence_length max_seq_len max_seq_length seq_length max_length n_ctx n_positions"
     " context_length context_size max_position_embeddings ctx_len max_len bptt", "context max_length max_tokens", ""),
    ("dropout_rate dropout_prob dropout_p resid_pdrop embd_pdrop hidden_dropout_prob hidden_dropout resid_dropout"
     " residual_dropout drop_rate p_dropout", "dropout", ""),
    ("is_causal", "causal", ""),
    ("is_encoder bidirectional", "causal", "false"),
    ("attn_dropout attention_dropout attn_pdrop attention_probs_dropout_prob",
     "attention(dropout=)", ATTENTION.format(", dropout=0.1")),
    ("num_key_value_heads n_kv_heads num_kv_heads n_kv_head kv_heads", "attention(kv_heads=)",
     ATTENTION.format(", kv_heads=1")),
    ("d_kv head_dim head_size d_head dim_head", "attention(size=)", ATTENTION.format(", size=16")),
    ("d_ff dff intermediate_size n_inner ffn_dim dim_feedforward mlp_dim ff_dim inner_dim mlp_ratio ffn_hidden_size",
     "mlp(hidden=)", MLP.format("mlp(norm(x), hidden=4 * width)")),
    ("hidden_act activation activation_function act_fn", "mlp(activation=)",
     MLP.format('mlp(norm(x), activation="relu")')),
    ("rope_theta rope rotary rope_base rotary_base", "attention(rotary=)", ATTENTION.format(", rotary=10000")),
    ("sliding_window window window_size", "attention(window=)", ATTENTION.format(", window=16")),
    ("qk_norm qk_layernorm", "attention(qk_norm=)", ATTENTION.format(', qk_norm="head"')),
    ("layer_norm_eps layer_norm_epsilon rms_norm_eps norm_eps", "norm(eps=)",
     "x = x + attention(norm(x, eps=1e-6)); x = x + mlp(norm(x, eps=1e-6))"),
    ("num_experts n_experts num_local_experts", "experts(n=)", MLP.format("experts(norm(x), n=8)")),
    ("bias use_bias", "attention(bias=)", "x = x + attention(norm(x), bias=False); x = x + mlp(norm(x), bias=False)"),
    ("tie_weights tie_word_embeddings tied_embeddings weight_tying share_embeddings", "output",
     "logits = unembed.words(x)"),
    ("norm_first pre_norm prenorm", "layer", ATTENTION.format("")),
    ("post_norm postnorm", "layer", "x = norm(x + attention(x)); x = norm(x + mlp(x))"),
    ("initializer_range init_std", "init", '{"*.weight": 0.02}'),
)  # fmt: skip
"""The field's keys of a model, ours (several: the first that is known), the value where it differs from the typed."""

SETTINGS: tuple[tuple[str, str, str], ...] = (
    ("learning_rate learningrate max_lr peak_lr eta base_lr", "lr", ""),
    ("batch_size bs micro_batch_size per_device_train_batch_size train_batch_size", "batch batch_tokens", ""),
    ("gradient_accumulation_steps accumulate_grad_batches grad_accum accum_steps update_freq", "accumulate", ""),
    ("max_steps num_steps n_steps max_iters num_iters iterations train_steps num_train_steps total_steps", "steps", ""),
    ("num_epochs n_epochs max_epochs num_train_epochs epoch", "epochs", ""),
    ("max_minutes time_limit max_time time", "minutes", ""),
    ("max_train_tokens train_tokens num_tokens", "tokens", ""),
    ("optim opt", "optimizer", ""),
    ("wd l2 decay_rate", "weight_decay", ""),
    ("adam_beta1 beta_1", "beta1", ""),
    ("adam_beta2 beta_2", "beta2", ""),
    ("grad_clip max_grad_norm clip_grad_norm gradient_clip_val clip_norm gradient_clipping clip_grad", "clip", ""),
    ("lora_rank lora_r lora_alpha adapter adapters peft", "lora", "rank=8"),
    ("frozen freeze_layers freeze_parameters freeze_params", "freeze", "words,layers.1.*"),
    ("lr_scheduler lr_scheduler_type scheduler lr_decay_style", "lr_schedule", ""),
    ("warmup_steps warmup_iters num_warmup_steps warmup_updates warmup_ratio lr_warmup", "warmup", "0.02"),
    ("lr_decay_iters lr_decay_steps decay_steps", "decay", "0.6"),
    ("min_lr lr_min end_lr", "final_lr", "0.1"),
    ("fp16 bf16 bfloat16 mixed_precision amp half dtype autocast", "precision", "bf16"),
    ("fp32", "precision", "float32"),
    ("random_seed manual_seed", "seed", ""),
    ("num_threads n_threads torch_threads", "threads", ""),
    ("eval_interval eval_steps eval_every val_interval evaluation_interval val_check_interval", "evaluate_every", ""),
    ("save_steps save_every save_interval ckpt_every checkpoint_interval", "checkpoint_every", ""),
    ("save_total_limit keep_last", "keep", ""),
    ("log_interval logging_steps log_steps", "log_every", ""),
    ("report_to loggers use_wandb wandb_log", "log_to", "tensorboard"),
    ("output_dir out_dir save_dir run_dir logdir log_dir outdir", "out", ""),
    ("early_stopping early_stopping_patience", "patience", "5"),
    ("ema ema_decay", "average", "0.999"),
    ("metric metric_for_best_model monitor", "select", ""),
    # data
    ("dataset data_dir data_path train_file train_data training_data corpus input_file", "data", ""),
    ("val_data validation_file valid_file val_file eval_data dev_data validation_data", "validation", ""),
    ("val_split valid_split validation_split val_fraction val_size", "split held_out", ""),
    ("text_column text_field", "column", ""),
    ("tokenizer_name tokenizer_path", "tokenizer", ""),
    ("smoothing", "label_smoothing", ""),
    ("class_weight label_weights loss_weights pos_weight", "class_weights", "balanced"),
    ("source_column src_column src_lang source_lang", "source", ""),
    ("target_column tgt_column tgt_lang target_lang", "target", ""),
    ("max_tokens_per_batch tokens_per_batch", "batch_tokens", ""),
    # generation
    ("max_new_tokens num_tokens_to_generate new_tokens max_gen_len", "max_tokens max_length", ""),
    ("temp", "temperature", ""),
    ("nucleus", "top_p", ""),
    ("topk", "top_k", ""),
    ("num_beams beam_size beam_width n_beams", "beam", ""),
    ("length_penalty lenpen", "alpha", ""),
    ("num_return_sequences nbest", "n_best", ""),
    ("no_repeat_ngram_size", "block_ngrams", ""),
    ("stop_sequences stop_words", "stop", ""),
)  # fmt: skip
"""The same of training, data and generation."""


def plain(name: str) -> str:
    """A name as it is compared: without case, `-`, `_` and spaces."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "").replace(".", "")


def means(theirs: str, name: str) -> bool:
    """Whether a name is among the field's of a row."""
    return plain(name) in map(plain, theirs.split())


def row_as_ours(ours: str, write: str, tag: str = "") -> Ours:
    """'attention(rotary=)' as the word and its option."""
    name, _, option = ours.removesuffix("=)").partition("(") if ours.endswith("=)") else (ours, "", "")
    return Ours(name, option, write, tag)


def word(name: str) -> Ours | None:
    """What a word of the field is called here."""
    return next((row_as_ours(*row) for theirs, *row in WORDS if means(theirs, name)), None)


def option(of_word: str, name: str, known: Iterable[str]) -> Ours | None:
    """What an option of the field is called at one of our words, whose options are `known`."""
    known = list(known)
    rows = [row for words, *row in OPTIONS if words == "*" or of_word in words.split()]
    ours = ((one, write) for theirs, ours, write in rows if means(theirs, name) for one in ours.split())
    return next((Ours(one, write=write) for one, write in ours if one in known), None)


def read_name(name: str, known: Iterable[str]) -> Ours | None:
    """What a name that a formula reads is called here, if that is among the `known`."""
    known = list(known)
    rows = (*NAMES, *((theirs, ours.split()[0]) for theirs, ours, _ in MODEL_KEYS))
    return next((Ours(ours) for theirs, ours in rows if ours in known and means(theirs, name)), None)


def key(name: str, known: Iterable[str]) -> Ours | None:
    """What a key of the field is called where our keys are `known`; an option of a word wherever `layer` is."""
    known = list(known)
    for theirs, ours, write in (*MODEL_KEYS, *SETTINGS):
        if means(theirs, name):
            if ours.endswith("=)") and "layer" in known:
                return row_as_ours(ours, write)
            for one in ours.split():
                if one in known and one != name:
                    return Ours(one, write=write)
    return None


def setting(name: str) -> Ours | None:
    """The setting that a name is, or is called here: what does not stand in a model file."""
    for theirs, ours, write in SETTINGS:
        if name in ours.split():
            return Ours(name)
        if means(theirs, name):
            return Ours(ours.split()[0], write=write)
    return None


def topics() -> Iterator[tuple[list[str], list[str]]]:
    """The names by which the gallery's entries are searched, as a person writes them, and the tags that all hold."""
    for theirs, *_, tag in (*WORDS, *TOPICS):
        if tag:
            yield [one.replace("_", " ") for one in theirs.split()], tag.split()


def written(name: str, value: Any = None, where: str = "") -> str:
    """`lr=0.0003`, `--lr 3e-4` or `lr: 3e-4`, as keys are written here; without a value `lr` or `--lr`.

    where  "python", on a command "line" or in a "file"; by default where the user stands
    """
    where = where or ("python" if TYPED.get() is None else "line")
    if where == "line":
        shown = f"--{name.replace('_', '-')}"
        return shown if value is None else f"{shown} {shlex.quote(str(value))}"
    if value is None:
        return name
    return f"{name}: {value}" if where == "file" else f"{name}={value!r}"


def suggest(ours: Ours, value: Any = None, where: str = "") -> str:
    """' did you mean --lr? e.g. --lr 3e-4' for a key of the field that stands with `value`."""
    shown = ours.shown if ours.option else written(ours.name, None, where)
    example = written("layer" if ours.option else ours.name, ours.write or value, where)
    return f" did you mean {shown}?" + (f" e.g. {example}" if example != shown else "")


def unknown_key(name: str, value: Any, known: Iterable[str], where: str = "") -> tuple[str, list[str]]:
    """What is said of a key that nothing has: our name for it, else the nearest, else all; and the names as data."""
    known = sorted(set(known))
    ours = key(name, known)
    if ours is not None:
        return f"unknown key;{suggest(ours, value, where)}", [ours.name]
    near = nearest(name, known)
    said = did_you_mean([written(one, None, where) for one in near]) or f" known: {', '.join(known)}"
    return f"unknown key;{said}", near
