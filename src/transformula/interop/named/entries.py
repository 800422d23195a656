"""The data files of named models, `gallery/named/NAME.yaml`: a model file whose constants are names, and a block
`folder` that says what a config.json and the tensors beside it mean.

    name: NAME
    layer: |
      x = x + dropout(attention(norm(x), dropout=dropout))
      x = x + dropout(mlp(norm(x), hidden=hidden, activation=act))
    folder:
      model_type: NAME                    or a list
      architectures: [NameForCausalLM]    the first is written
      config:                             key: constant = its value where the key is absent | where it is null
        n_embd: width
        n_inner: hidden = 4 * width
        activation_function: activation[act] = "gelu_tanh"      by a table of `common.yaml`
        conv_dim: sizes * convs = [512, 512]    a list, and how many entries it has; else lists have one a layer
        rope_theta | rope_scaling/rope_parameters.rope_theta: theta = 10000     keys that mean the same
      derived: {gated: ...}               constants that follow from others
      fixed: {scale_attn_weights: true}   the key has this value (of a list: one of these), or is absent
      must: {"act == 'gelu'": why}        what else must hold
      instead: {text_config_dict: text_config}   a key whose value, if it has one, stands in another's place
      unused: [n_ctx]                     keys that change no logits
      prefix: transformer.                what the names of tensors begin with, or lack
      places: {TEXT: model.text}          what stands in names of tensors for what parts of the file write so
      bare: true                          they are written without it, as by a class of theirs without an output
      weights: {...}                      their tensors as expressions of ours: see `tensors.py`
      leave: ["*.attn.bias"]              tensors that are no part of the text
      keep: ["*.head.*"]                  the same, but they are written again as they were read
      zeros: ["*.output.bias"]            tensors of ours that they lack, all 0
      choices: {kinds: [...]}             values that are tried for a constant that a text does not hold; one that no
                                          key of config.json says has the first when a folder is read
      task: NAME                          what such models were trained for; of several data files of a model_type, the
                                          one of a task has the output with which the others are fine-tuned for it
    like: OTHER                           all of another file, or of a list of them, later ones over earlier, but
                                          for what stands here; null takes out

A file without `model_type` is a part for others. Nothing of a file is executed: expressions are the language's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Any

from ...errors import CheckpointError, did_you_mean, nearest, setting
from ...gallery import FOLDER as GALLERY
from ...plain import several
from ...structured import load_yaml

FOLDER = GALLERY.parent / "named"
COMMON = "common"  # tables, and what holds for all
JOINED = ("unused", "leave", "keep", "zeros")  # lists to which a file adds


@dataclass(frozen=True)
class NamedModel:
    """A family of models. `body` is the model file without its constants; the other fields are those of `folder`."""

    name: str
    body: Mapping[str, Any]
    model_type: Sequence[str]
    architectures: Sequence[str]
    config: Mapping[str, str]
    weights: Mapping[str, Any]
    derived: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    must: Mapping[str, str] = dataclasses.field(default_factory=dict)
    instead: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unused: Sequence[str] = ()
    prefix: str = ""
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)
    bare: bool = False
    leave: Sequence[str] = ()
    keep: Sequence[str] = ()
    zeros: Sequence[str] = ()
    choices: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    task: str = ""


@dataclass(frozen=True)
class Common:
    """What all named models share: tables of names, keys of config.json that change no logits, tensors that are left
    out, earlier spellings in names of tensors (patterns of `re`), the task where a file names none."""

    tables: Mapping[str, Mapping[str, Any]]
    unused: Sequence[str]
    leave: Sequence[str]
    old_names: Mapping[str, str]
    task: str
    not_zero: Sequence[str]


@cache
def common() -> Common:
    return Common(**load_yaml(FOLDER / f"{COMMON}.yaml"))


OUTSIDE: dict[str, Mapping[str, Any]] = {}  # what the data files of others say, by the family's name: see `outside`


@cache
def names() -> tuple[str, ...]:
    """The named models: those from outside, then those of this package, sorted."""
    files = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != COMMON)
    own = tuple(name for name in files if "model_type" in content(name).get("folder", {}))
    return (*OUTSIDE, *(name for name in own if name not in OUTSIDE))


@cache
def content(name: str) -> dict[str, Any]:
    """What a file says, with what it is like. Raises CheckpointError where there is none of that name."""
    if name not in OUTSIDE and not (FOLDER / f"{name}.yaml").is_file():
        near = nearest(name, [*OUTSIDE, *(path.stem for path in FOLDER.glob("*.yaml"))])
        raise CheckpointError(f"no named model is called {name!r};{did_you_mean(near)}", near=near)
    own: dict[str, Any] = dict(OUTSIDE[name]) if name in OUTSIDE else load_yaml(FOLDER / f"{name}.yaml")
    return reduce(merge, [*map(content, several(own.pop("like", None))), own])


@cache
def named_model(name: str) -> NamedModel:
    """A named model. Raises CheckpointError, with the nearest names, for one that is not known."""
    if name not in names():
        near = nearest(name, names())
        raise CheckpointError(f"no named model is called {name!r};{did_you_mean(near)}", near=near)
    return named_model_of(name, content(name))


def named_model_of(name: str, whole: Mapping[str, Any]) -> NamedModel:
    """A named model of all that its file says."""
    body = dict(whole)
    folder = {"task": common().task, **body.pop("folder")}
    return NamedModel(name=body.pop("name", name), body=body, **{**folder, "model_type": several(folder["model_type"])})


def put_outside(name: str, own: Mapping[str, Any] | None) -> None:
    """Make a family from outside known, or forget it: None."""
    OUTSIDE.pop(name, None)
    if own is not None:
        OUTSIDE[name] = own
    for kept in (names, content, named_model):
        kept.cache_clear()


def merge(base: Any, over: Any, key: str = "") -> Any:
    """A mapping with another laid over it: null takes out, lists of JOINED are added to, the rest is replaced."""
    if key in JOINED and base is not None:
        return [*base, *over]
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    taken = {k for k, v in over.items() if v is None and k in base}
    new = {k: merge(base.get(k), v, k) for k, v in over.items() if k not in taken}
    return {k: v for k, v in base.items() if k not in taken} | new


def named_for(path: Path, config: Mapping[str, Any]) -> NamedModel:
    """The named model of a config.json, by `model_type` and `architectures`. Code of the folder's own (`auto_map`) is
    left alone where there is one, as transformers leaves it unless it is trusted.

    Raises CheckpointError, with those that are known, where there is none.
    """
    kind, architectures = config.get("model_type"), config.get("architectures") or []
    alike = [model for model in map(named_model, names()) if kind in model.model_type]
    if not alike and config.get("auto_map"):
        what = f"{path}: auto_map: the model, of model_type {kind!r}, is Python code of its own folder"
        remedy = "use a folder of an architecture that has a named model, or write its formula"
        raise CheckpointError(f"{what}, and none is executed here; {remedy}")
    if not alike:
        known = sorted({kind for name in names() for kind in named_model(name).model_type})
        near = nearest(str(kind), known)
        what = f"{path}: model_type is {kind!r}, which no named model has;{did_you_mean(near)}"
        count = f"{len(known)} are known, see docs/reference/named-models.md"
        remedy = f"one of yours is named by {setting('use', 'FILE.yaml')}: docs/how-to/add-a-family.md"
        raise CheckpointError(f"{what} {count}; {remedy}", near=near)
    for model in alike:
        if not architectures or set(architectures) & set(model.architectures):
            return model
    known = sorted({name for model in alike for name in model.architectures})
    what = f"{path}: architectures is {', '.join(map(str, architectures))}, of model_type {kind}"
    raise CheckpointError(f"{what}; known: {', '.join(known)}")
