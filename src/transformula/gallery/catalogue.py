"""The index, committed as `index.json`: `python docs/make_gallery.py` writes it, a test makes it again.

A tag is a word that its formulas call (`experts`), an option that differs from its default (`attention.window`), with
the value of a choice or of a small number (`mlp.activation=silu`, `attention.kv_heads=1`), or one of `tied` (embedding
and output share a table), `shared` (layers share weights), `bidirectional`, `decoder-only`, `attention:memory`,
`score:NAME` and `mask:NAME`. The table of the field's names (`field_names.py`) says by which names tags are searched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..analysis.canonical import at_wiring_depth, formula_hash
from ..analysis.graph_distance import shape, unseen
from ..language.check import check
from ..language.graph import Architecture, Call, ScoreFormula
from ..language.model_file import read_file
from ..language.vocabulary import Vocabulary
from . import FOLDER, names


def make_index(vocabulary: Vocabulary) -> dict[str, dict[str, Any]]:
    """Name -> what `Entry` holds of it, for every entry. Raises FormulaError for an entry that is no formula."""
    index: dict[str, dict[str, Any]] = {}
    for name in names():
        text = read_file(FOLDER / f"{name}.yaml")
        architecture = check(text, vocabulary)
        wiring = shape(at_wiring_depth(architecture, vocabulary))
        index[name] = {
            "about": dict(text.about),
            "wiring": wiring.key,
            "hash": formula_hash(architecture),
            "unseen": unseen(architecture),
            "tags": tags_of(architecture),
            "shape": wiring.data,
        }
    return index


def index_text(index: dict[str, dict[str, Any]]) -> str:
    """The index as it is committed: a line for each value, so that a change is seen as a diff."""
    return json.dumps(index, indent=1, ensure_ascii=False) + "\n"


def tags_of(architecture: Architecture) -> list[str]:
    """The tags of a checked model, sorted."""
    features: set[str] = set()
    tables: dict[str, set[str]] = {}
    calls = [v for s in architecture.sections() for v in s.calls()]
    for value in calls:
        call = value.called
        inner = [v.call for t in call.inner.values() for v in t.values if v.call is not None]
        for here in (call, *inner):
            features |= {here.word.same_as or here.word.name, *_options(here)}
        if value.reads_across:
            features.add(f"{call.word.name}:memory")
        if call.word.family == "table" and call.path:
            tables.setdefault(call.path, set()).add(call.word.kind)
    if any({"input", "output"} <= kinds for kinds in tables.values()):
        features.add("tied")
    if any(s.share is not None for s in architecture.stacks) or any(v.called.share is not None for v in calls):
        features.add("shared")
    if not any(stack.causal for stack in architecture.stacks):
        features.add("bidirectional")
    elif len(architecture.stacks) == 1:
        features.add("decoder-only")
    return sorted(features)


def _options(call: Call) -> Iterator[str]:
    """The options of a call that differ from their defaults."""
    for name in call.given:
        option, value = call.word.options[name], call.options[name]
        if isinstance(value, ScoreFormula):
            yield f"{name}:{value.name}"
            continue
        default = option.default
        if isinstance(default, str) and default != name:  # the name of another option: kv_heads=heads
            default = call.options.get(default, default)
        if value in (default, None):
            continue
        yield f"{call.word.name}.{name}"
        if isinstance(value, str) or (isinstance(value, int) and 0 <= value <= 1):
            yield f"{call.word.name}.{name}={value}"
