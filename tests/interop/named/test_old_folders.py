"""Folders as older versions of transformers wrote them, made of the tiny ones: computed alike, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.interop.named import tiny
from tests.interop.named.calls import CALLS
from tests.peers.case import CONTEXT, DEPTH, VOCAB, WIDTH
from tests.peers.hub import SIZE
from transformula.errors import CheckpointError
from transformula.interop.folder import load_model
from transformula.interop.parity.compare import LIMITS, compare

Folder = Callable[[str], Path]
Tensors = dict[str, Tensor]
Config = dict[str, Any]


def same(content: Any) -> Any:
    return content


def without(*keys: str, **new: Any) -> Callable[[Config], Config]:
    """A configuration without some keys, and with others."""
    return lambda config: {**{key: value for key, value in config.items() if key not in keys}, **new}


def without_prefix(prefix: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


def renamed(names: Mapping[str, str]) -> Callable[[Tensors], Tensors]:
    def change(name: str) -> str:
        for old, new in names.items():
            name = name.replace(old, new)
        return name

    return lambda tensors: {change(name): tensor for name, tensor in tensors.items()}


def also(**more: Tensor | str) -> Callable[[Tensors], Tensors]:
    """Further tensors, `.` written `__`; a string names one that is stored twice."""
    return lambda tensors: {
        **tensors,
        **{k.replace("__", "."): tensors[v] if isinstance(v, str) else v for k, v in more.items()},
    }


def version_4(*keys: str, **new: Any) -> Callable[[Config], Config]:
    """rope_theta beside rope_scaling, in the place of rope_parameters."""

    def change(config: Config) -> Config:
        rope = dict(config["rope_parameters"])
        rope.pop("rope_type")
        old = {"rope_theta": rope.pop("rope_theta"), "rope_scaling": None, "torch_dtype": "float32", **rope, **new}
        return without("rope_parameters", "dtype", *keys, **old)(config)

    return change


@dataclass(frozen=True)
class Old:
    """A tiny folder and what was other in it. `refused`: what our error says, if it is."""

    row: str
    what: str
    tensors: Callable[[Tensors], Tensors] = same
    config: Callable[[Config], Config] = same
    refused: str = ""


MASK = torch.ones(CONTEXT, CONTEXT).tril().view(1, 1, CONTEXT, CONTEXT)
FOLDERS = [
    Old(
        "gpt2",
        "no prefix, causal masks kept",
        lambda tensors: {
            **without_prefix("transformer.")(tensors),
            **{f"h.{n}.attn.bias": MASK for n in range(DEPTH)},
            **{f"h.{n}.attn.masked_bias": torch.tensor(-1e4) for n in range(DEPTH)},
        },
        without("tie_word_embeddings", "dtype", "n_inner", "add_cross_attention", "pad_token_id"),
    ),
    Old("gpt2", "lm_head kept beside the table", also(lm_head__weight="transformer.wte.weight")),
    Old("gpt2", "no architectures", config=without("architectures")),
    Old("gpt2", "two heads", config=without(architectures=["GPT2DoubleHeadsModel"]), refused="GPT2DoubleHeadsModel"),
    Old(
        "llama",
        "config of version 4, inv_freq kept",
        lambda tensors: {
            **tensors,
            **{f"model.layers.{n}.self_attn.rotary_emb.inv_freq": torch.ones(4) for n in range(DEPTH)},
        },
        version_4("head_dim", "attention_bias", "mlp_bias", "pretraining_tp"),
    ),
    Old("llama", "rope_scaling of version 4", config=version_4(rope_scaling={"type": "linear", "factor": 2.0})),
    Old("llama", "rope_scaling, and theta absent", config=lambda config: without("rope_theta")(version_4()(config))),
    Old(
        "llama",
        "dynamic scaling of version 4",
        config=version_4(rope_scaling={"type": "dynamic", "factor": 2.0}),
        refused="rope_scaling.type",
    ),
    Old(
        "llama-llama3",
        "rope_scaling of version 4",
        config=lambda config: without(
            "rope_parameters",
            rope_theta=config["rope_parameters"]["rope_theta"],
            rope_scaling=without("rope_theta")(config["rope_parameters"]),
        )(config),
    ),
    Old(
        "gpt_neox",
        "config of version 4",
        config=without("rope_parameters", rotary_pct=0.5, rotary_emb_base=10000, rope_scaling=None),
    ),
    Old("mistral", "sliding_window null", config=without(sliding_window=None)),
    Old("mistral", "sliding_window absent", config=without("sliding_window")),
    Old("mistral", "config of version 4", config=version_4("head_dim")),
    Old("qwen2-window", "config of version 4", config=version_4("layer_types")),
    Old("qwen2", "sliding_window said and not used", config=version_4("layer_types", sliding_window=5)),
    Old("qwen3", "config of version 4", config=version_4("layer_types")),
    Old("gemma2", "config of version 4", config=version_4("layer_types", hidden_act="gelu_pytorch_tanh")),
    Old(
        "gemma3",
        "no pattern, thetas of version 4",
        config=without(
            "rope_parameters", "_sliding_window_pattern", "layer_types", rope_theta=1e6, rope_local_base_freq=1e4
        ),
    ),
    Old(
        "gemma3",
        "a pattern of version 4",
        config=without("rope_parameters", "layer_types", sliding_window_pattern=4, rope_scaling=None),
    ),
    Old("phi", "config of version 4", config=version_4(partial_rotary_factor=0.5)),
    Old("phi3", "config of version 4", config=version_4(original_max_position_embeddings=4096)),
    Old("mixtral", "config of version 4", config=version_4("head_dim")),
    Old("mixtral", "names of memory", renamed({"block_sparse_moe": "mlp"}), refused="missing"),
    Old(
        "olmo_hybrid",
        "as it was released",
        renamed({"layers.1.feedforward_layer_norm": "layers.1.post_attention_layernorm"}),
    ),
    Old(
        "gpt-oss",
        "as it was released",
        config=lambda config: without(
            "rope_parameters",
            rope_theta=config["rope_parameters"]["rope_theta"],
            rope_scaling=without("rope_theta")(config["rope_parameters"]),
            experts_per_token=2,
            initial_context_length=8,
        )(config),
    ),
    Old(
        "deepseek-v3",
        "as it was released",
        config=version_4(
            "head_dim",
            "qk_head_dim",
            ep_size=1,
            moe_layer_freq=1,
            scoring_func="sigmoid",
            topk_method="noaux_tc",
            seq_aux=True,
            aux_loss_alpha=0.001,
            num_nextn_predict_layers=1,
        ),
    ),
    Old(
        "bert",
        "gamma and beta, pooler, next sentence",
        lambda tensors: {
            **renamed({"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"})(tensors),
            "bert.pooler.dense.weight": torch.zeros(WIDTH, WIDTH),
            "bert.pooler.dense.bias": torch.zeros(WIDTH),
            "cls.seq_relationship.weight": torch.zeros(2, WIDTH),
            "cls.seq_relationship.bias": torch.zeros(2),
            "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
        },
        without(
            "tie_word_embeddings",
            "is_decoder",
            gradient_checkpointing=False,
            position_embedding_type="absolute",
            architectures=["BertForPreTraining"],
        ),
    ),
    Old(
        "roberta",
        "pooler and positions kept",
        also(
            roberta__pooler__dense__weight=torch.zeros(WIDTH, WIDTH),
            roberta__pooler__dense__bias=torch.zeros(WIDTH),
            roberta__embeddings__position_ids=torch.arange(CONTEXT + SIZE)[None],
        ),
    ),
    Old(
        "t5",
        "its table four times",
        also(
            encoder__embed_tokens__weight="shared.weight",
            decoder__embed_tokens__weight="shared.weight",
            lm_head__weight="shared.weight",
        ),
        without("scale_decoder_outputs", "dense_act_fn", "is_gated_act", "num_decoder_layers"),
    ),
    Old(
        "bart",
        "no prefix, no bias of the logits",
        lambda tensors: {
            name: tensor for name, tensor in without_prefix("model.")(tensors).items() if name != "final_logits_bias"
        },
        without(architectures=["BartModel"]),
    ),
    Old(
        "llava",
        "names and keys of version 4",
        renamed({"vision_tower.": "vision_tower.vision_model."}),
        lambda config: {
            **config,
            "ignore_index": -100,
            "vocab_size": VOCAB,
            "text_config": version_4("head_dim")(config["text_config"]),
        },
    ),
    Old(
        "llava",
        "rope_scaling beside rope_parameters",
        config=lambda config: {
            **config,
            "text_config": {**config["text_config"], "rope_scaling": {"type": "linear", "factor": 2.0}},
        },
        refused=r"text_config\.rope_parameters.*text_config\.rope_scaling, which means the same",
    ),
    Old("vit", "no classes named", config=without("id2label", "label2id"), refused="id2label|classifier"),
]


def written(old: Old, folder: Path, out: Path) -> Path:
    out.mkdir()
    tensors = old.tensors(load_file(folder / "model.safetensors"))
    config = old.config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    save_file(
        {name: t.contiguous().clone() for name, t in tensors.items()}, out / "model.safetensors", {"format": "pt"}
    )
    (out / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return out


EVERYDAY = ("gpt2", "bert")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "old",
    [
        pytest.param(old, id=f"{old.row}, {old.what}", marks=[] if old.row in EVERYDAY else pytest.mark.slow)
        for old in FOLDERS
    ],
)
def test_an_old_folder(old: Old, tiny_folder: Folder, tmp_path: Path) -> None:
    folder = written(old, tiny_folder(old.row), tmp_path / "old")
    if old.refused:
        with pytest.raises(CheckpointError, match=old.refused):
            load_model(folder)
        return
    row = tiny.rows()[old.row]
    ours, _ = load_model(folder)
    assert compare(CALLS[row.call], ours, row.load(folder, whole=False)) <= LIMITS[torch.float32]
