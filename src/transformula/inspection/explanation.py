"""What a formula says, on one page: diagram, analysis, size, relatives in the gallery. From its text alone."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from .. import gallery
from ..language.accounting import summary
from ..language.analysis import Analysis, analyse
from ..language.canonical import formula_hash, wiring_key_of
from ..language.diagram import draw_text
from ..language.graph import Architecture
from ..language.vocabulary import Vocabulary

WIDTH = 100


@dataclass(frozen=True)
class Explanation:
    """What `explain` returns. Its `repr` is the page for a person, `.data` is for programs.

    filled_in  formulas that the text leaves out, as they were filled in: {"before": "x = ...", "output": ...}
    relatives  gallery entries of the same wiring: equal but for sizes, labels, kinds of norm and dropout
    hash       of the canonical form: equal hashes are equal functions with equal names of parameters
    """

    analysis: Analysis
    diagram: str
    filled_in: dict[str, str]
    totals: dict[str, Any]
    relatives: list[str]
    hash: str

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        more = {"filled_in": self.filled_in}
        return {**self.analysis.data, **more, "totals": self.totals, "relatives": self.relatives, "hash": self.hash}

    def __repr__(self) -> str:
        size = f"{self.totals['parameters']:,} parameters; hash {self.hash[:12]}"
        filled = [f"{key:<8}{text}   (left out, so this)" for key, text in self.filled_in.items()]
        rows = [self.diagram, "", *filled, *[""] * bool(filled), repr(self.analysis).rstrip(), "", size]
        if self.relatives:
            rows.append(textwrap.fill(f"the same wiring in the gallery: {', '.join(self.relatives)}", WIDTH))
        return "\n".join(rows)


def explained(architecture: Architecture, vocabulary: Vocabulary, ascii: bool = False) -> Explanation:
    """Explain a checked model. `vocabulary` is what it was checked with; `ascii` draws without other characters."""
    key = wiring_key_of(architecture.text, vocabulary)
    return Explanation(
        analyse(architecture, vocabulary),
        draw_text(architecture, ascii=ascii),
        filled_in(architecture),
        summary(architecture).data["totals"],
        [name for name in gallery.relatives(key) if name != architecture.name],
        formula_hash(architecture),
    )


def filled_in(architecture: Architecture) -> dict[str, str]:
    """The formulas that a model of one stack leaves out, as they stand in the checked model."""
    text, found = architecture.text, {}
    if text.single and text.stacks[0].before is None:
        found["before"] = architecture.main.before
    if text.output is None:
        found["output"] = architecture.output
    return {key: "; ".join(place.text for place, _, _ in section.lines) for key, section in found.items()}
