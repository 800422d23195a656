"""A server of the Model Context Protocol, over standard input and output: a language model reads words and the
gallery, checks formulas, and proposes some to a search that runs. It hands over texts of formulas, and nothing else: no
tool names a file, and none runs what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..api.editing import answer
from ..errors import InputError, TransformulaError, setting
from ..extras import need
from ..structured import Malformed, load_json
from .found import RESULTS
from .inbox import leave
from .plan import read_plan

PURPOSE = "a server of the Model Context Protocol"
ABOUT = (
    "Architectures of Transformers as formulas, such as `x = x + attention(norm(x))` and `x = x + mlp(norm(x))` on"
    " the next line. `words` and `word` say what may be called, `explain` checks a formula and says what it costs,"
    " `entries` and `entry` show published wirings, `propose` hands a formula to the search, `results` how it went."
)


def tools_of(hunt: Path | None) -> dict[str, Callable[..., dict[str, Any]]]:
    """The tools by name; `propose` and `results` where there is a search."""

    def explain(formula: str) -> dict[str, Any]:
        """Check a formula (the lines of a layer) or the text of a model file: its size, its warnings with remedies, the
        nearest published wirings. A mistake is underlined."""
        said = answer({"call": "explain", "text": formula})
        kept = ("page", "hash", "size", "warnings", "nearest", "error")
        return {key: said[key] for key in kept if key in said}

    def words() -> dict[str, Any]:
        """All words of the formula language, by kind, with their equations."""
        return answer({"call": "words"})

    def word(name: str) -> dict[str, Any]:
        """What is known of a word: its streams, options, equation, source and an example."""
        return answer({"call": "word", "name": name})

    def entries() -> dict[str, Any]:
        """The published wirings: name, title, kind."""
        return answer({"call": "entries"})

    def entry(name: str) -> dict[str, Any]:
        """The text of a published wiring."""
        return answer({"call": "entry", "name": name})

    tools: dict[str, Callable[..., dict[str, Any]]] = {
        "explain": explain, "words": words, "word": word, "entries": entries, "entry": entry,
    }  # fmt: skip
    if hunt is None:
        return tools

    def propose(formula: str, reason: str = "") -> dict[str, Any]:
        """Propose a formula, or the text of a model file, to the search, with the reason for it. It is checked first;
        the next round trains it beside the base."""
        said = answer({"call": "explain", "text": formula})
        if "error" in said:
            return {"error": said["error"]}
        try:
            return {"proposals": leave(hunt, formula, reason), "hash": said["hash"]}
        except (TransformulaError, OSError) as error:
            return {"error": {"message": str(error)}}

    def results() -> dict[str, Any]:
        """How the search goes: the base, the best wirings with their gains over it, what was refused and why, and, once
        it has ended, what was found."""
        return results_of(hunt)

    return {**tools, "propose": propose, "results": results}


def results_of(hunt: Path) -> dict[str, Any]:
    """What a search's folder says of it, without what is long."""
    plan = read_plan(hunt)
    if plan is None:
        return {"error": {"message": "the search has not begun"}}
    said: dict[str, Any] = {"base": str(plan.base.config["model"]), "unit": plan.unit, "rounds": plan.rounds}
    try:
        known = load_json(hunt / RESULTS)
    except (OSError, Malformed):
        return said
    rows = [short(one) for one in known["candidates"] if one["proposer"] != "tuning"]
    rows.sort(key=lambda one: -(one.get("gain") or -1e9))
    return {**said, "found": known["found"], "twins": known["twins"], "wirings": rows[:50]}


def short(one: Mapping[str, Any]) -> dict[str, Any]:
    standing = one.get("standing") or {}
    kept = {key: one[key] for key in ("name", "model", "reason", "parent", "refused")}
    return {**kept, "gain": standing.get("gain"), "rung": standing.get("rung")}


def server_of(hunt: str | Path | None = None) -> Any:
    """The server, with its tools. Raises InputError for a folder that is none, MissingExtra."""
    kind = need("mcp.server.mcpserver", PURPOSE).MCPServer
    folder = None if hunt is None else Path(hunt)
    if folder is not None and read_plan(folder) is None:
        raise InputError(f"{setting('hunt', str(hunt))}: no search has begun there: transformula search --out {hunt}")
    server = kind("transformula", instructions=ABOUT)
    for name, tool in tools_of(folder).items():
        server.tool(name=name)(tool)
    return server
