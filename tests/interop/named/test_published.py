"""Folders as they are published on the model hub are opened and computed as transformers does, or refused in one line.

`published.py` has the decoders and encoders; those that are fine-tuned, or of another kind, stand here.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize

from tests.interop.named.calls import CALLS
from tests.interop.named.published import (
    BART,
    BEAMS,
    BERT,
    BERT_4,
    COMPILED,
    DEBERTA,
    DECODERS,
    DISTILBERT,
    ENCODER,
    ENCODERS,
    IDS,
    LATER,
    MASKED,
    MODERN,
    MPNET,
    OLD_PAIRED,
    PAIRED,
    POOLED,
    POSITIONS,
    QWEN_3,
    ROBERTA,
    ROBERTA_KEPT,
    VOCAB,
    WIDTH,
    XLM_ROBERTA,
    Published,
    also,
    bare,
    both,
    default_labels,
    labels,
    pooler,
    unprefixed,
)  # fmt: skip
from transformula import Model
from transformula.errors import CheckpointError
from transformula.interop.named.config import model_of_folder
from transformula.interop.parity.calls import Inferred, ParityCall, call_of, real
from transformula.interop.parity.compare import LIMITS, compare, decoding_off
from transformula.interop.parity.theirs import EAGER, TheirClass

transformers = pytest.importorskip("transformers")

BIO = ("O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
CLASSIFIED, TAGGED, ANSWERED = "classification", "tagging", "question-answering"
EMOTIONS = ("anger", "disgust", "fear", "joy", "neutral", "sadness", "surprise")
TOXIC = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")
BART_LABELS = labels("contradiction", "neutral", "entailment")
FINE_TUNED = [
    Published("distilbert/distilbert-base-uncased-finetuned-sst-2-english", {**DISTILBERT,
        **labels("NEGATIVE", "POSITIVE"), "architectures": ["DistilBertForSequenceClassification"], "finetuning_task":
        "sst-2", "output_past": True, "transformers_version": "4.0.1"}, CLASSIFIED, daily=True),
    Published("cardiffnlp/twitter-roberta-base-sentiment", {**ROBERTA, **default_labels(3), "architectures":
        ["RobertaForSequenceClassification"], "gradient_checkpointing": False}, CLASSIFIED,
        also(roberta__embeddings__position_ids=IDS)),
    Published("cardiffnlp/twitter-roberta-base-sentiment-latest", {**ROBERTA, **LATER, "architectures":
        ["RobertaForSequenceClassification"], "gradient_checkpointing": False,
        **labels("negative", "neutral", "positive")}, CLASSIFIED,
        also(roberta__embeddings__position_ids=IDS), seen=False),
    Published("dslim/bert-base-NER", {**BERT, **labels(*BIO), "_name_or_path":
        "../models/bert-base-NER", "_num_labels": 9, "architectures": ["BertForTokenClassification"], "output_past":
        True}, TAGGED, both(pooler("bert__"), also(bert__embeddings__position_ids=IDS))),
    Published("dbmdz/bert-large-cased-finetuned-conll03-english", {**BERT, **POOLED, **labels(*BIO), "_num_labels": 9,
        "architectures": ["BertForTokenClassification"]}, TAGGED, pooler("bert__")),
    Published("FacebookAI/xlm-roberta-large-finetuned-conll03-english", {**XLM_ROBERTA, **labels(*BIO[1:], "O"),
        "_num_labels": 9, "architectures": ["XLMRobertaForTokenClassification"], "output_past": True}, TAGGED,
        both(ROBERTA_KEPT), seen=False),
    Published("deepset/roberta-base-squad2", {**ROBERTA, "architectures": ["RobertaForQuestionAnswering"],
        "gradient_checkpointing": False, "language": "english", "name": "Roberta"}, ANSWERED, ROBERTA_KEPT),
    Published("distilbert/distilbert-base-cased-distilled-squad", {**DISTILBERT, "architectures":
        ["DistilBertForQuestionAnswering"], "output_past": True}, ANSWERED, seen=False),
    Published("cross-encoder/ms-marco-MiniLM-L-6-v2", {**BERT_4, **default_labels(1), "architectures":
        ["BertForSequenceClassification"], "gradient_checkpointing": False, "sbert_ce_default_activation_function":
        "torch.nn.modules.linear.Identity"}, CLASSIFIED, also(bert__embeddings__position_ids=IDS),
        warned="a number of its own"),
    Published("cross-encoder/ms-marco-MiniLM-L6-v2", {**BERT_4, **default_labels(1), "architectures":
        ["BertForSequenceClassification"], "gradient_checkpointing": False, "sentence_transformers": {
        "activation_fn": "torch.nn.modules.linear.Identity", "version": "4.0.1"}}, CLASSIFIED,
        warned="a number of its own", seen=False),
    Published("BAAI/bge-reranker-base", {**XLM_ROBERTA, **LATER, **default_labels(1), "architectures":
        ["XLMRobertaForSequenceClassification"], "output_past": True, "_name_or_path": "xlm-roberta-base"}, CLASSIFIED,
        also(roberta__embeddings__position_ids=IDS), warned="a number of its own"),
    Published("Alibaba-NLP/gte-reranker-modernbert-base", {**MODERN, **default_labels(1), "_name_or_path":
        "gte-reranker-modernbert-base", "architectures": ["ModernBertForSequenceClassification"], **COMPILED},
        CLASSIFIED, warned="a number of its own"),
    Published("MoritzLaurer/ModernBERT-large-zeroshot-v2.0", {**MODERN, **COMPILED,
        **labels("entailment", "not_entailment"), "_name_or_path": "answerdotai/ModernBERT-large", "problem_type":
        "single_label_classification", "architectures": ["ModernBertForSequenceClassification"]}, CLASSIFIED),
    Published("FacebookAI/roberta-large-mnli", {**ROBERTA, **labels("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
        "_num_labels": 3, "architectures": ["RobertaForSequenceClassification"]}, CLASSIFIED, ROBERTA_KEPT, seen=False),
    Published("MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli", {**DEBERTA, "architectures":
        ["DebertaV2ForSequenceClassification"], **labels("entailment", "neutral", "contradiction"), "_name_or_path":
        "microsoft/deberta-v3-base", "torch_dtype": "float32", "transformers_version": "4.12.5"}, CLASSIFIED,
        seen=False),
    Published("facebook/bart-large-mnli", {**BART, **BART_LABELS, "_num_labels": 3, "architectures":
        ["BartForSequenceClassification"], "output_past": True}, CLASSIFIED),
    Published("ProsusAI/finbert", {**BERT, **labels("positive", "negative", "neutral"), "architectures":
        ["BertForSequenceClassification"], "gradient_checkpointing": False, "position_embedding_type": "absolute",
        "type_vocab_size": 2}, CLASSIFIED, also(bert__embeddings__position_ids=IDS), seen=False),
    Published("unitary/toxic-bert", {**BERT, **labels(*TOXIC), "_num_labels": 6, "architectures":
        ["BertForSequenceClassification"], "problem_type": "multi_label_classification"}, CLASSIFIED, seen=False),
    Published("j-hartmann/emotion-english-distilroberta-base", {**ROBERTA, **labels(*EMOTIONS), "architectures":
        ["RobertaForSequenceClassification"], "gradient_checkpointing": False, "problem_type":
        "single_label_classification"}, CLASSIFIED, seen=False),
    Published("nlptown/bert-base-multilingual-uncased-sentiment", {**BERT, **POOLED, "_num_labels": 5, "architectures":
        ["BertForSequenceClassification"], **labels("1 star", "2 stars", "3 stars", "4 stars", "5 stars"),
        "finetuning_task": "sentiment-analysis", "output_past": True}, CLASSIFIED, seen=False),
    Published("Intel/bert-base-uncased-mrpc", {**BERT_4, **labels("not_equivalent", "equivalent"), "architectures":
        ["BertForSequenceClassification"], "finetuning_task": "mrpc", "gradient_checkpointing": False, "problem_type":
        "single_label_classification", "_name_or_path": "bert-base-uncased"}, CLASSIFIED),
]  # fmt: skip


TYPE = "sentence_transformers.models."


def steps(mode: str, normalize: bool = False, length: int | None = 256, *more: str, **about: Any) -> dict[str, Any]:
    """The files of sentence-transformers."""
    names = ["Transformer", "Pooling", *(["Normalize"] if normalize else []), *more]
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    return {
        "modules.json": [
            {"idx": n, "name": str(n), "path": f"{n}_{step}" if n else "", "type": f"{TYPE}{step}"}
            for n, step in enumerate(names)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": WIDTH, **{f"pooling_mode_{name}": name == mode for name in modes}
        },
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "__version__": {"sentence_transformers": "2.0.0", "transformers": "4.6.1", "pytorch": "1.8.1"}, **about
        },
    }  # fmt: skip


VECTORS, MEAN, UNIT = "sentence-embeddings", steps("mean_tokens"), steps("mean_tokens", True)
SAVED_BY_5 = {"add_cross_attention": False, "classifier_dropout": None, "dtype": "float32", "is_decoder": False,
    "position_embedding_type": "absolute", "tie_word_embeddings": True, "transformers_version": "5.4.0",
    "use_cache": True}  # fmt: skip
E5 = {"_name_or_path": "tmp/", "architectures": ["BertModel"]}
KEPT = also(embeddings__position_ids=IDS)
EMBEDDINGS = [
    Published("sentence-transformers/all-MiniLM-L6-v2", {**BERT, "_name_or_path": "nreimers/MiniLM-L6-H384-uncased",
        "architectures": ["BertModel"], "gradient_checkpointing": False, "position_embedding_type": "absolute",
        "transformers_version": "4.8.2", "use_cache": True}, VECTORS, KEPT, UNIT, daily=True),
    Published("sentence-transformers/all-mpnet-base-v2", {**MPNET, "_name_or_path": "microsoft/mpnet-base",
        "transformers_version": "4.8.2"}, VECTORS, both(KEPT, pooler("")), UNIT,
        drawn={"architectures": ["MPNetModel"]}, daily=True),
    Published("sentence-transformers/multi-qa-mpnet-base-dot-v1", {**MPNET, "_name_or_path": "microsoft/mpnet-base",
        "transformers_version": "4.8.2"}, VECTORS, KEPT, steps("cls_token", length=512), seen=False,
        drawn={"architectures": ["MPNetModel"]}),
    Published("sentence-transformers/all-distilroberta-v1", {**ROBERTA, "_name_or_path": "distilroberta-base",
        "architectures": ["RobertaForMaskedLM"], "gradient_checkpointing": False, "transformers_version": "4.8.2",
        "position_embedding_type": "absolute", "use_cache": True}, VECTORS, KEPT, steps("mean_tokens", True, 512),
        seen=False, drawn={"architectures": ["RobertaModel"]}),
    Published("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", {**BERT, "_name_or_path":
        "old_models/paraphrase-multilingual-MiniLM-L12-v2/0_Transformer", "architectures": ["BertModel"],
        "gradient_checkpointing": False, "position_embedding_type": "absolute", "use_cache": True,
        "transformers_version": "4.7.0"}, VECTORS, KEPT, MEAN),
    Published("sentence-transformers/msmarco-distilbert-base-v4", {**DISTILBERT, "architectures": ["DistilBertModel"]},
        VECTORS, files=MEAN, seen=False),
    Published("sentence-transformers/LaBSE", {**BERT, **POOLED, "architectures": ["BertModel"]}, VECTORS,
        files=steps("cls_token", False, 256, "Dense", "Normalize"), refused="Transformer, Pooling, Dense, Normalize",
        seen=False),
    Published("BAAI/bge-small-en-v1.5", {**BERT_4, **default_labels(1), "architectures": ["BertModel"],
        "_name_or_path": "BAAI_bge-small-en/"}, VECTORS, KEPT,
        steps("cls_token", True, 512)),
    Published("BAAI/bge-m3", {**XLM_ROBERTA, **SAVED_BY_5, "architectures": ["XLMRobertaModel"], "output_past": True},
        VECTORS, KEPT, steps("cls_token", True, 8192)),
    Published("intfloat/e5-small-v2", {**BERT_4, **E5}, VECTORS, KEPT, steps("mean_tokens", True, 512)),
    Published("intfloat/multilingual-e5-small", {**BERT_4, "architectures": ["BertModel"], "_name_or_path":
        "intfloat/multilingual-e5-small", "tokenizer_class": "XLMRobertaTokenizer"}, VECTORS, KEPT,
        steps("mean_tokens", True, 512), seen=False),
    Published("intfloat/multilingual-e5-base", {**XLM_ROBERTA, **SAVED_BY_5, "architectures": ["XLMRobertaModel"],
        "output_past": True}, VECTORS, KEPT, steps("mean_tokens", True, 512)),
    Published("thenlper/gte-small", {**BERT_4, "architectures": ["BertModel"], "export_model_type": "transformer"},
        VECTORS, KEPT,
        steps("mean_tokens", True, 512)),
    Published("Alibaba-NLP/gte-modernbert-base", {**MODERN, **COMPILED, "architectures": ["ModernBertModel"]}, VECTORS,
        files=steps("cls_token", False, 8192), tensors=unprefixed("model."), seen=False),
    Published("mixedbread-ai/mxbai-embed-large-v1", {**BERT_4, "architectures": ["BertModel"], "use_cache": False},
        VECTORS, KEPT, steps("cls_token", False, 512, prompts={"query":
        "Represent this sentence for searching relevant passages: "}, default_prompt_name=None), seen=False),
    Published("Qwen/Qwen3-Embedding-0.6B", QWEN_3, tensors=unprefixed("model."), files=steps("lasttoken", True),
        seen=False),
    Published("nomic-ai/nomic-embed-text-v1.5", {"architectures": ["NomicBertModel"], "model_type": "nomic_bert",
        "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"}, "n_embd": WIDTH,
        "n_layer": 2, "n_head": 4, "n_inner": 24, "n_positions": 64, "rotary_emb_base": 1000}, VECTORS,
        refused="is no key that nomic_bert-vectors knows", seen=False),
]  # fmt: skip

BART_TABLES = also(model__encoder__embed_tokens__weight="model.shared.weight",
    model__decoder__embed_tokens__weight="model.shared.weight")  # fmt: skip
WHISPER = {key: value for key, value in PAIRED.items() if key != "max_position_embeddings"}
T5 = {"architectures": ["T5ForConditionalGeneration"], "d_ff": 24, "d_kv": 4, "d_model": WIDTH, "num_heads": 4,
    "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "initializer_factor": 1.0,
    "is_encoder_decoder": True, "layer_norm_epsilon": 1e-6, "model_type": "t5", "n_positions": 512, "num_layers": 2,
    "output_past": True, "pad_token_id": 0, "relative_attention_num_buckets": 8, "vocab_size": VOCAB,
    "task_specific_params": {
        "summarization": {**BEAMS, "prefix": "summarize: "},
        "translation_en_to_de": {"max_length": 300, "num_beams": 4, "prefix": "translate English to German: "},
    }}  # fmt: skip
T5_TABLES = also(encoder__embed_tokens__weight="shared.weight", decoder__embed_tokens__weight="shared.weight")
VIT = {**ENCODER, "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0, "image_size": 16, "patch_size": 8,
    "num_channels": 3, "layer_norm_eps": 1e-12, "model_type": "vit", "qkv_bias": True, "torch_dtype": "float32",
    "architectures": ["ViTForImageClassification"], **default_labels(5)}  # fmt: skip
for key in ("vocab_size", "max_position_embeddings"):
    del VIT[key]
USED = {"_name_or_path": "", "add_cross_attention": False, "architectures": None, "bad_words_ids": None,
    "chunk_size_feed_forward": 0, "cross_attention_hidden_size": None, "decoder_start_token_id": None,
    "diversity_penalty": 0.0, "do_sample": False, "early_stopping": False, "encoder_no_repeat_ngram_size": 0,
    "finetuning_task": None, "forced_bos_token_id": None, "forced_eos_token_id": None, **default_labels(2),
    "is_decoder": False, "is_encoder_decoder": False, "length_penalty": 1.0, "max_length": 20, "min_length": 0,
    "no_repeat_ngram_size": 0, "num_beam_groups": 1, "num_beams": 1, "num_return_sequences": 1,
    "output_attentions": False, "output_hidden_states": False, "output_scores": False, "prefix": None,
    "problem_type": None, "pruned_heads": {}, "remove_invalid_values": False, "repetition_penalty": 1.0,
    "return_dict": True, "return_dict_in_generate": False, "sep_token_id": None, "task_specific_params": None,
    "temperature": 1.0, "tie_encoder_decoder": False, "tie_word_embeddings": True, "tokenizer_class": None,
    "top_k": 50, "top_p": 1.0, "torch_dtype": None, "torchscript": False, "transformers_version": "4.16.0.dev0",
    "use_bfloat16": False}  # fmt: skip
CLIP_SIDE = {**USED, "attention_dropout": 0.0, "dropout": 0.0, "hidden_act": "quick_gelu", "hidden_size": WIDTH,
    "initializer_factor": 1.0, "initializer_range": 0.02, "intermediate_size": 24, "layer_norm_eps": 1e-5,
    "num_attention_heads": 4, "num_hidden_layers": 2}  # fmt: skip
CLIP_TEXT = {**CLIP_SIDE, "bos_token_id": 0, "eos_token_id": 2, "max_position_embeddings": POSITIONS, "model_type":
    "clip_text_model", "pad_token_id": 1, "vocab_size": VOCAB}  # fmt: skip
CLIP_IMAGE = {**CLIP_SIDE, "bos_token_id": None, "eos_token_id": None, "image_size": 16, "model_type":
    "clip_vision_model", "pad_token_id": None, "patch_size": 8}  # fmt: skip
CLIP_KEPT = also(text_model__embeddings__position_ids=IDS, vision_model__embeddings__position_ids=torch.arange(5)[None])
SIGLIP_SIDE = {"hidden_size": WIDTH, "intermediate_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2}
SUMMED, TRANSLATED, CLASSES = "summarization", "translation", "image-classification"

OTHERS = [
    Published("google-t5/t5-small", T5, TRANSLATED, both(T5_TABLES, also(lm_head__weight="shared.weight",
        decoder__block__0__layer__1__EncDecAttention__relative_attention_bias__weight=torch.zeros(8, 4))), daily=True),
    Published("google/flan-t5-small", {**T5, "feed_forward_proj": "gated-gelu", "is_gated_act": True, "dense_act_fn":
        "gelu_new", "classifier_dropout": 0.0, "num_decoder_layers": 2, "relative_attention_max_distance": 128,
        "tie_word_embeddings": False, "transformers_version": "4.23.1", "use_cache": True}, TRANSLATED,
        both(T5_TABLES, also(lm_head__weight=torch.linspace(-1, 1, VOCAB * WIDTH).sin().view(VOCAB, WIDTH)))),
    Published("facebook/bart-base", {**BART, "_name_or_path": "bart-base", "architectures": ["BartModel"],
        "early_stopping": True, "no_repeat_ngram_size": 3, "normalize_embedding": True, "num_beams": 4, "torch_dtype":
        "float32", "task_specific_params": {"summarization": {"length_penalty": 1.0, "max_length": 128}}}, SUMMED,
        both(bare("model."), also(encoder__embed_tokens__weight="shared.weight",
        decoder__embed_tokens__weight="shared.weight")), drawn={"architectures": ["BartForConditionalGeneration"]}),
    Published("facebook/bart-large-cnn", {**BART, **BEAMS, "_num_labels": 3, "force_bos_token_to_be_generated": True,
        "output_past": True, "prefix": " ", "task_specific_params": {"summarization": BEAMS}}, SUMMED, BART_TABLES),
    Published("Helsinki-NLP/opus-mt-en-de", {**PAIRED, **OLD_PAIRED, "_num_labels": 3, "activation_function": "swish",
        "architectures": ["MarianMTModel"], "bad_words_ids": [[39]], "decoder_start_token_id": 39, "eos_token_id": 0,
        "extra_pos_embeddings": 39, "max_length": 512, "model_type": "marian", "normalize_embedding": False,
        "num_beams": 6, "pad_token_id": 39, "scale_embedding": True, "static_position_embeddings": True}, TRANSLATED,
        BART_TABLES),
    Published("facebook/m2m100_418M", {**PAIRED, "activation_function": "relu", "architectures":
        ["M2M100ForConditionalGeneration"], "early_stopping": True, "gradient_checkpointing": False, "max_length": 200,
        "model_type": "m2m_100", "num_beams": 5, "scale_embedding": True, "tokenizer_class": "M2M100Tokenizer"},
        TRANSLATED, both(BART_TABLES, also(lm_head__weight="model.shared.weight")), seen=False),
    Published("facebook/nllb-200-distilled-600M", {**PAIRED, "activation_function": "relu", "architectures":
        ["M2M100ForConditionalGeneration"], "attention_dropout": 0.1, "max_length": 200, "model_type": "m2m_100",
        "scale_embedding": True, "tokenizer_class": "NllbTokenizer", "torch_dtype": "float32"},
        TRANSLATED, BART_TABLES),
    Published("facebook/mbart-large-50-many-to-many-mmt", {**PAIRED, **OLD_PAIRED, "_num_labels": 3,
        "activation_function": "relu", "add_final_layer_norm": True, "architectures":
        ["MBartForConditionalGeneration"], "early_stopping": True, "forced_eos_token_id": 2, "max_length": 200,
        "model_type": "mbart", "normalize_before": True, "normalize_embedding": True, "num_beams": 5, "output_past":
        True, "scale_embedding": True, "static_position_embeddings": False, "tokenizer_class": "MBart50Tokenizer"},
        TRANSLATED, BART_TABLES, seen=False),
    Published("google/pegasus-xsum", {**PAIRED, **OLD_PAIRED, "activation_function": "relu", "add_final_layer_norm":
        True, "architectures": ["PegasusForConditionalGeneration"], "decoder_start_token_id": 0,
        "do_blenderbot_90_layernorm": False, "eos_token_id": 1, "extra_pos_embeddings": 0,
        "force_bos_token_to_be_generated": False, "forced_eos_token_id": 1, "length_penalty": 0.6, "max_length": 64,
        "model_type": "pegasus", "normalize_before": True, "normalize_embedding": False, "num_beams": 8,
        "pad_token_id": 0, "scale_embedding": True, "static_position_embeddings": True}, SUMMED, BART_TABLES,
        seen=False),
    Published("openai/whisper-tiny", {**WHISPER, "_name_or_path": "openai/whisper-tiny", "activation_function": "gelu",
        "architectures": ["WhisperForConditionalGeneration"], "begin_suppress_tokens": [4, 3], "bos_token_id": 3,
        "decoder_start_token_id": 4, "dropout": 0.0, "eos_token_id": 3, "forced_decoder_ids": [[1, 5], [2, 6]],
        "max_length": 448, "max_source_positions": 12, "max_target_positions": POSITIONS, "model_type": "whisper",
        "num_mel_bins": 8, "pad_token_id": 3, "vocab_size": 53, "scale_embedding": False, "suppress_tokens": [1, 2, 7],
        "torch_dtype": "float32", "transformers_version": "4.27.0.dev0"}, "speech-recognition"),
    Published("google/vit-base-patch16-224", VIT, CLASSES, pooler("vit__"), seen=False),
    Published("facebook/deit-base-patch16-224", {**VIT, "transformers_version": "4.13.0.dev0"}, CLASSES, seen=False),
    Published("facebook/deit-tiny-distilled-patch16-224", {**VIT, "architectures":
        ["DeiTForImageClassificationWithTeacher"], "model_type": "deit"}, CLASSES, seen=False),
    Published("facebook/dinov2-small-imagenet1k-1-layer", {key: value for key, value in {**VIT, "apply_layernorm": True,
        "architectures": ["Dinov2ForImageClassification"], "drop_path_rate": 0.0, "layer_norm_eps": 1e-6,
        "layerscale_value": 1.0, "mlp_ratio": 4, "model_type": "dinov2", "out_features": ["stage2"], "out_indices":
        [2], "reshape_hidden_states": True, "stage_names": ["stem", "stage1", "stage2"], "use_swiglu_ffn": False,
        }.items() if key != "intermediate_size"}, CLASSES, seen=False),
    Published("openai/clip-vit-base-patch32", {"_name_or_path": "openai/clip-vit-base-patch32", "architectures":
        ["CLIPModel"], "initializer_factor": 1.0, "logit_scale_init_value": 2.6592, "model_type": "clip",
        "projection_dim": 8, "text_config": CLIP_TEXT, "text_config_dict": None, "torch_dtype": "float32",
        "transformers_version": None, "vision_config": CLIP_IMAGE, "vision_config_dict": None}, "image-text-retrieval",
        CLIP_KEPT),
    Published("google/siglip-base-patch16-224", {"architectures": ["SiglipModel"], "initializer_factor": 1.0,
        "model_type": "siglip", "text_config": {**SIGLIP_SIDE, "max_position_embeddings": 12, "model_type":
        "siglip_text_model", "vocab_size": VOCAB}, "torch_dtype": "float32", "transformers_version": "4.37.0.dev0",
        "vision_config": {**SIGLIP_SIDE, "image_size": 16, "model_type": "siglip_vision_model", "patch_size": 8}},
        "image-text-retrieval", seen=False, padded=False),
]  # fmt: skip
ROWS = [*DECODERS, *ENCODERS, *FINE_TUNED, *EMBEDDINGS, *OTHERS]


def written(row: Published, folder: Path) -> TheirClass | None:
    """Write the folder; the class that opens it, None where transformers has none."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder.mkdir()
    for file, content in {"config.json": row.keys, **row.files}.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(content), encoding="utf-8")
    keys = {**json.loads(json.dumps(row.keys)), **row.drawn}
    model_class = getattr(transformers, keys["architectures"][0], None)
    if model_class is None:
        return None
    kind = TheirClass(model_class)
    drawn = kind.drawn(model_class.config_class.from_dict(keys, **EAGER))
    drawn.save_pretrained(folder / "drawn")
    dtype = getattr(torch, row.keys.get("torch_dtype") or "float32")
    tensors = row.tensors(load_file(folder / "drawn" / "model.safetensors"))
    stored = {name: (t.to(dtype) if t.is_floating_point() else t).contiguous().clone() for name, t in tensors.items()}
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    return kind


def with_a_tokenizer(folder: Path) -> None:
    """A tokenizer of letters, beside a folder of texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    ids = {token: n for n, token in enumerate(["<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz "])}
    tokenizer = Tokenizer(models.WordLevel({**ids, "<mask>": len(ids)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.add_special_tokens([*list(ids)[:4], "<mask>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", ids["</s>"])]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "mask_token": "<mask>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


class Vectors(Inferred):
    """The vectors of texts as the files of sentence-transformers have them."""

    first: bool
    unit: bool

    def taken(self, results: Any, inputs: Any) -> torch.Tensor:
        hidden = results.last_hidden_state
        seen = real(inputs["lengths"]["tokens"], hidden.shape[1])[..., None]
        pooled = hidden[:, 0] if self.first else (hidden * seen).sum(1) / seen.sum(1)
        return normalize(pooled, dim=-1) if self.unit else pooled


def call(row: Published, folder: Path, module: Any, theirs: Any) -> ParityCall:
    if "audio" in module.architecture.inputs:
        return CALLS["audio"]
    usual = call_of(folder, module, theirs, row.padded)
    if row.task != VECTORS:
        return usual
    found = Vectors(**vars(usual))
    pooling = row.files["1_Pooling/config.json"]
    object.__setattr__(found, "first", pooling["pooling_mode_cls_token"])
    object.__setattr__(found, "unit", len(row.files["modules.json"]) == 3)
    return found


USES = {
    "language-modeling": "TextGenerator", MASKED: "Filling", CLASSIFIED: "Classifier", TAGGED: "Tagger",
    ANSWERED: "Answering", VECTORS: "TextEmbedder", TRANSLATED: "Writing", SUMMED: "Writing",
}  # fmt: skip
"""Tasks of texts -> what answers."""
GIVEN: dict[str, Any] = {MASKED: "a [MASK]", ANSWERED: {"question": "a b", "context": "c d"}}


def used(row: Published, model: Model) -> None:
    """What the folder is used for is done, in its own labels."""
    assert type(model.predictor).__name__ == USES[row.task]
    (answer,) = model.predict([GIVEN.get(row.task, "a b")])
    if row.task in (CLASSIFIED, TAGGED):
        said = answer.tags if row.task == TAGGED else answer.split(", ")
        assert {*said} <= {*row.keys["id2label"].values()}


def parameters() -> list[Any]:
    return [pytest.param(row, id=row.name, marks=[] if row.daily else [pytest.mark.slow]) for row in ROWS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", parameters())
def test_a_published_folder(row: Published, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    kind = written(row, folder)
    if row.refused:
        with pytest.raises(CheckpointError, match=row.refused) as error:
            Model.from_folder(folder)
        assert len(str(error.value).splitlines()) == 1
        return
    with_a_tokenizer(folder)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        model = Model.from_folder(folder, dtype="float32")
    assert model_of_folder(folder)[0].task == row.task
    if row.warned:
        assert any(row.warned in str(note.message) for note in notes) and model.predictor is None
    elif row.task in USES:
        used(row, model)
    assert kind is not None
    theirs = kind.load(folder, whole=False)
    how = call(row, folder, model.module, theirs)
    assert compare(how, model.module, theirs) <= LIMITS[torch.float32]
    if how.writes(model.module):
        assert decoding_off(model.module, how) <= LIMITS[torch.float32]


def test_each_name_stands_once() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
