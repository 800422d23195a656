"""Equations on several rows: broken at spaces, within a long word after an opening bracket or a comma."""

from __future__ import annotations

import re


def wrapped(equation: str, letters: int, indent: str = "  ") -> list[str]:
    """The rows of an equation, at most so many letters wide, all but the first indented."""
    rows: list[str] = [""]
    for word in re.findall(r"\s*\S+", equation.strip()):
        for n, piece in enumerate(_pieces(word, letters - len(indent))):
            if len(rows[-1]) + len(piece) <= letters and (not n or rows[-1].strip()):
                rows[-1] += piece
            elif rows[-1].strip():
                rows.append(indent + piece.lstrip())
            else:
                rows[-1] += piece.lstrip()
    return rows


def _pieces(word: str, letters: int) -> list[str]:
    """A word in one piece if a row holds it; else broken after brackets and commas, and anywhere where that is not
    enough."""
    if len(word.lstrip()) <= letters:
        return [word]
    pieces = re.findall(r"[^(,]+[(,]*|[(,]+", word)
    return [piece[i : i + letters] for piece in pieces for i in range(0, len(piece), letters)]
