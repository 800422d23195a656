"""Writes the README's picture, docs/picture-light.svg and docs/picture-dark.svg: a model's text beside its diagram.

python docs/make_picture.py
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from transformula.diagram.svg import DARK, FIXED, LIGHT, draw_svg
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.words import vocabulary

HERE = Path(__file__).parent
TEXT = """\
depth: 4
width: 256
heads: 4
layer: |
  x = x + attention(norm(x))
  x = x + mlp(norm(x))
after: x = norm(x)
"""
SIZE, LETTER, LINE, MARGIN, GAP = 14, 8.45, 23, 20, 24
"""Of the text: the font's size, the width of a letter, the height of a line; then the margins, in pixels."""


def pictures() -> dict[str, str]:
    """File name -> SVG."""
    architecture = check(read_text(TEXT, "model.yaml"), vocabulary())
    return {f"picture-{name}.svg": beside(draw_svg(architecture, dark=name == "dark")) for name in ("light", "dark")}


def beside(diagram: str) -> str:
    """The text at the left, the diagram at the right, on one ground."""
    palette = DARK if DARK["ground"] in diagram else LIGHT
    rows = TEXT.splitlines()
    width, height = (float(re.search(rf'<svg[^>]* {key}="(\d+)"', diagram)[1]) for key in ("width", "height"))
    text = max(map(len, rows)) * LETTER + 2 * MARGIN
    whole, tall = text + GAP + width + MARGIN / 2, max(height, len(rows) * LINE + 3 * MARGIN)
    top = (tall - len(rows) * LINE) / 2
    lines = [
        f'<text x="{MARGIN}" y="{top + LINE * (n + 0.7):.1f}" xml:space="preserve">{escape(row, quote=False)}</text>'
        for n, row in enumerate(rows)
    ]
    inner = re.sub(r' role="img" aria-labelledby="[^"]*"', "", diagram)
    inner = re.sub(r"<title.*?</title>\n|<desc.*?</desc>\n", "", inner, flags=re.DOTALL)
    inner = inner.replace("<svg ", f'<svg x="{text + GAP:.0f}" y="{(tall - height) / 2:.0f}" ', 1)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole:.0f} {tall:.0f}" width="{whole:.0f}"'
        f' height="{tall:.0f}" role="img" aria-labelledby="title">',
        '<title id="title">A model of two lines of text, and the diagram drawn from it</title>',
        f'<rect width="100%" height="100%" rx="8" fill="{palette["ground"]}"/>',
        f'<g font-family="{escape(FIXED)}" font-size="{SIZE}" fill="{palette["ink"]}">', *lines, "</g>",
        f'<path d="M{text + GAP / 2:.0f} {MARGIN} V{tall - MARGIN:.0f}" stroke="{palette["frame"]}"/>',
        inner.rstrip(), "</svg>", "",
    ])  # fmt: skip


if __name__ == "__main__":
    for name, svg in pictures().items():
        (HERE / name).write_text(svg, encoding="utf-8")
        print(f"wrote {HERE / name}")
