"""The model card of a folder of transformers: README.md, whose first lines programs read."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from .exchange import text_of

CARD = "README.md"
HEAD = """---
library_name: transformers
tags:
- transformula
---
"""
LEFT_OUT = ("![", "| machine", "- identity:", "- tokenizer_identity:", "- device:", "- threads:", "- out:")


def model_card(model: nn.Module, report: Path | None = None) -> str:
    """What the model is: the report of its run, with its text, scores and data; without one, its text.

    Pictures and what concerns the machine alone are left out.
    """
    if report is None:
        name = getattr(getattr(model, "architecture", None), "name", "") or "A model"
        return f"{HEAD}\n# {name}\n\nThe model, as transformula writes it:\n\n```yaml\n{text_of(model)}```\n"
    text = report.read_text(encoding="utf-8").partition("\n## How to go on")[0]
    kept = [line for line in text.splitlines() if not line.startswith(LEFT_OUT)]
    return "\n".join([HEAD, *kept]).rstrip() + "\n"
