"""Write the gallery's index and its reference page from the entries: `python docs/make_gallery.py`.

A test makes both again and compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from transformula.gallery import INDEX, KINDS, Entry, entries, in_order, index, relatives
from transformula.gallery.catalogue import index_text, make_index
from transformula.words import vocabulary

PAGE = Path(__file__).parent / "reference" / "gallery.md"

OPENING = """\
# Gallery

Wirings and whole models, each a text file with its paper; every one of them is built, compared with its equation
written by hand, decoded step by step and compiled by the tests. *From memory* means that nobody has yet held it
against the paper. A name is used wherever a model is: `transformula train pre-norm --data ...`,
`Model("pre-norm", depth=12)`. How to [add one](../how-to/add-a-wiring.md).

`transformula gallery --like FORMULA` names the nearest entries to a wiring of yours, and what differs. `make gallery`
writes it as one page for a browser, with diagrams, costs and what `explain` finds, to be searched and filtered."""


def formulas(entry: Entry) -> str:
    """An entry's file without what stands in the page's own words."""
    rows = entry.source.splitlines()
    begin = next(n for n, row in enumerate(rows) if row == "about:") + 1
    while rows[begin].startswith(" "):
        begin += 1
    return "\n".join(rows[begin:])


def listed(names: list[str]) -> str:
    """[a](#a), [b](#b)."""
    return ", ".join(f"[{name}](#{name})" for name in names)


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def part(entry: Entry) -> list[str]:
    """The page's rows of one entry."""
    about = entry.about
    rows = ["", f"### {entry.name}", "", f"**{entry.title}**", ""]
    rows += ["```yaml", formulas(entry), "```", "", sentence(about["why"]), ""]
    if "paper" in about:
        arxiv = f", [arXiv {about['arxiv']}](https://arxiv.org/abs/{about['arxiv']})" if "arxiv" in about else ""
        rows.append(f"- Source: {about['authors']}, {about['paper']}, {about['year']}{arxiv}.")
    rows.append(f"- Equation: {about['equation']}.")
    if "checked_against" in about:
        rows.append(f"- Equal, with the same weights, to: {about['checked_against']}.")
    if "claim" in about:
        rows.append(f"- Result: {about['claim']} ({about['claim_source']}).")
    if "cost" in about:
        rows.append(f"- Cost: {about['cost']}.")
    if "sound" in about:
        rows.append(f"- Its sound relative: {listed([about['sound']])}.")
    same = [name for name in relatives(entry.wiring) if name != entry.name]
    if same:
        rows.append(f"- Same wiring: {listed(same)}.")
    return rows


def page() -> str:
    """docs/reference/gallery.md."""
    rows = [OPENING]
    for kind, heading in KINDS.items():
        rows += ["", f"## {heading}"]
        for entry in in_order(kind, entries()):
            rows += part(entry)
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    INDEX.write_text(index_text(make_index(vocabulary())), encoding="utf-8")
    index.cache_clear()
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {INDEX}\nwrote {PAGE}", file=sys.stderr)
