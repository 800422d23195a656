"""The vector of a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..pipeline import RowPipeline, pipeline
from ..sentence_embeddings import TextEmbedder


@pipeline("text-embedder")
class VectorPipeline(RowPipeline[TextEmbedder]):
    def plain(self) -> dict[str, Any]:
        return {
            **super().plain(),
            "pooling": "in the program, which gives one vector",
            "normalization": None,
            "separator": "\t",
            "similarity": "cosine",
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        """And the cosine of a pair."""
        return [*texts, f"{texts[-1]}\t{texts[0]}"] if texts else []
