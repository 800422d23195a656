"""Write the gallery as one page for a browser: `python docs/make_gallery_page.py [FILE]` (build/gallery.html).

Standalone: no network, no framework. Each entry with its equation, its diagram, its paper and claim with their marks of
certainty, what it costs beside pre-norm of the same size by our own accounting, what `explain` says of it, and what it
was checked against. `gallery_page/page.css` and `page.js` go into the page; diagrams take their colours from it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from make_gallery import formulas, sentence

from transformula import gallery
from transformula.analysis.accounting import summary
from transformula.analysis.analysis import Analysis
from transformula.analysis.warning_table import Remedy, Warning
from transformula.diagram.parts import diagrams
from transformula.diagram.svg import DARK, LIGHT, colors, draw_diagrams
from transformula.gallery import KINDS, Entry, in_order
from transformula.inspection.explanation import explanation_of
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.model_text import ModelText
from transformula.words import vocabulary

HERE = Path(__file__).parent
PAGE = HERE.parent / "build" / "gallery.html"
BASELINE = "pre-norm"
COSTS = {
    "parameters_without_embeddings": "parameters without embeddings",
    "flops_per_token": "FLOPs a token",
    "activation_bytes": "saved activations",
}
"""What is compared with the baseline, and its words."""

WIDE = 460
"""Diagrams wider than so many pixels are not made smaller on a phone, where letters would be too small to read: they
scroll by themselves."""

NORMINGS = {"pre-norm": "pre-norm", "post-norm": "post-norm", "neither": "neither", "several": "differs by layer"}
NOTHING = '<p id="nothing" hidden role="status"></p>'
NORM_CHIPS = {"neither": "neither pre-norm nor post-norm"}
VERDICTS = {"sound": "none", "note": "a note", "warned": "a warning"}


def tag(name: str, inside: str, /, **attributes: Any) -> str:
    """An element; `cls` stands for class, `_` in names of attributes for `-`; None leaves an attribute out."""
    given = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{inside}</{name}>"


def code(text: str) -> str:
    """Text of the language."""
    return tag("code", escape(text))


def prose(text: str) -> str:
    """Words of the program, in which `backticks` mark text of the language."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def rows_of(text: Iterable[str]) -> str:
    """Rows of text, each of which hangs where it is broken."""
    return tag("code", "\n".join(tag("span", escape(row), cls="row") for row in text))


def links(names: Iterable[str]) -> str:
    """Names of entries as links within the page."""
    return ", ".join(tag("a", escape(name), href=f"#{name}") for name in names)


# What an entry says.


def equation_rows(text: ModelText) -> Iterator[str]:
    """The formulas of a model file, without its numbers."""
    for name, source in text.words.items():
        yield from keyed(name, source.text)
    for stack in text.stacks:
        indent = "  " if stack.name else ""
        if stack.name:
            yield f"{stack.name}:"
        parts = {"before": stack.before, **stack.layers, "after": stack.after}
        for key, source in parts.items():
            if source is not None:
                yield from keyed(f"{indent}{key}", source.text)
        if stack.order is not None:
            listed = (
                f"[{', '.join(o.text for o in stack.order)}]" if isinstance(stack.order, tuple) else stack.order.text
            )
            yield f"{indent}order: {listed}"
    if text.output is not None:
        yield from keyed("output", text.output.text)


def keyed(key: str, text: str) -> Iterator[str]:
    """`key: line`, or the key and its lines below."""
    rows = [row.rstrip() for row in text.splitlines() if row.strip()]
    if len(rows) == 1:
        yield f"{key}: {rows[0].strip()}"
        return
    yield f"{key}:"
    indent = " " * (len(key) - len(key.lstrip()) + 2)
    yield from (indent + row for row in rows)


def figures(architecture: Architecture) -> tuple[list[str], list[str]]:
    """A diagram of the layers of each stack, and one of the inside of each definition."""
    names = {f.name for s in architecture.sections() for v in s.values for f in v.frames}
    shown = diagrams(architecture, opened=names)
    layers = [p for p in shown if p.where != "words"]
    name = f"figure-{architecture.name}"
    stacks = [
        draw_diagrams(
            [picture for picture in layers if picture.stack == stack],
            f"{architecture.name}: {stack or 'its layers'}",
            figure=f"{name}-{stack}" if stack else name,
        )
        for stack in dict.fromkeys(picture.stack for picture in layers)
    ]
    inside = [p for p in shown if p.where == "words"]
    definitions = [
        draw_diagrams([picture], f"{architecture.name}: {picture.title}", figure=f"{name}-inside-{n}")
        for n, picture in enumerate(inside, 1)
    ]
    return stacks, definitions


def drawing(drawn: list[str], look: str, label: str) -> str:
    """Diagrams beside each other; they can be scrolled by keys too."""
    if not drawn:
        return ""
    if max(width_of(figure) for figure in drawn) > WIDE:
        look += " wide"
    return tag("div", "".join(drawn), cls=f"drawing {look}", role="group", aria_label=label, tabindex="0")


def width_of(figure: str) -> int:
    """How wide a diagram is, in pixels."""
    return int(figure.split('width="', 1)[1].split('"', 1)[0])


def costs(architecture: Architecture) -> tuple[dict[str, float], str]:
    """How many times the baseline's costs are, and the baseline in words: pre-norm with as many layers in all."""
    numbers = architecture.main.numbers
    same = {key: int(numbers[key]) for key in ("width", "heads", "vocab", "context") if key in numbers}
    same["depth"] = sum(stack.depth for stack in architecture.stacks)
    if "heads" in same:  # where heads have a size of their own they may not divide the width
        same["heads"] = next(heads for heads in range(same["heads"], 0, -1) if same["width"] % heads == 0)
    baseline = check(gallery.load(BASELINE).override(same), vocabulary())
    mine, other = (summary(a, length=same["context"]).data["totals"] for a in (architecture, baseline))
    size = ", ".join(f"{key} {same[key]:,}" for key in ("depth", "width", "heads", "context") if key in same)
    return {key: mine[key] / other[key] for key in COSTS}, size


def norming_of(analysis: Analysis) -> str:
    """The kind of all layers, or "several"."""
    kinds = {group.norms.kind for stack in analysis.stacks for group in stack.layers}
    return kinds.pop() if len(kinds) == 1 else "several"


def verdict_of(analysis: Analysis) -> str:
    """Whether there are warnings."""
    return "warned" if any(not w.note for w in analysis.warnings) else "note" if analysis.warnings else "sound"


# Parts of the page.


def mark(text: str) -> str:
    """A mark of certainty."""
    return tag("span", prose(text), cls="mark memory" if "memory" in text else "mark")


def norm_words(analysis: Analysis) -> str:
    """pre-norm, post-norm or neither, of each group of layers that read alike."""
    rows = []
    for stack in analysis.stacks:
        groups = stack.layers if len({group.norms for group in stack.layers}) > 1 else stack.layers[:1]
        for group in groups:
            where = ", ".join(filter(None, [stack.title, group.title if len(groups) > 1 else ""]))
            head = f"{where}: " if where else ""
            rows.append(f"{escape(head)}<strong>{group.norms.kind}</strong>, {prose(group.norms.words)}")
    return "<br>".join(rows)


def scale_words(analysis: Analysis) -> str:
    """The initial scale of every stream."""
    rows = []
    for stack in analysis.stacks:
        many = len(stack.stream_scales) > 1
        for scale in stack.stream_scales:
            where = ", ".join(filter(None, [stack.title, scale.stream if many else ""]))
            rows.append(prose(f"{where}: {scale}" if where else str(scale)))
    return "<br>".join(rows) or "not predicted: no stream is carried on, layers read history"


def cost_table(architecture: Architecture, about: dict[str, str]) -> str:
    """Costs beside the baseline."""
    found, size = costs(architecture)
    rows = "".join(
        tag("tr", tag("th", escape(COSTS[key]), scope="row") + tag("td", f"{ratio:.2f} ×"))
        for key, ratio in found.items()
    )
    said = tag("p", prose(sentence(about["cost"]))) if "cost" in about else ""
    return tag("table", tag("caption", f"compared with {BASELINE} of {size}") + rows) + said


def relative(offered: Remedy) -> str:
    """A remedy that a warning offers."""
    rows = "".join(
        tag("div", f"{escape(key)}: {code('; '.join(text.strip().splitlines()))}")
        for key, text in offered.parts.items()
    )
    head = "better" if offered.left else "sound"
    said = [escape(offered.words)] if offered.words else []
    said += [f"still {escape(' and '.join(offered.left))}"] if offered.left else []
    said += [f"the wiring of {links(offered.names)}"] if offered.names else []
    more = f" ({'; '.join(said)})" if said else ""
    return tag("div", f"<strong>{head}</strong>{more}{rows}", cls="relative")


def warning(found: Warning) -> str:
    """A warning or a note, with its remedies."""
    rows = [tag("p", f"{tag('strong', found.code)}: {prose(found.what)}")]
    if found.line:
        rows.append(tag("p", f"{escape(found.where)}: {code(found.line)}"))
    rows.append(tag("p", prose(f"{found.why} {found.more}".strip())))
    rows += [relative(offered) for offered in found.remedies]
    if found.entries:
        rows.append(tag("p", f"in the gallery: {links(found.entries)}"))
    return tag("div", "".join(rows), cls="note" if found.note else "warning", role="note")


def terms(rows: Iterable[tuple[str, Any]]) -> str:
    """A list of what and its words."""
    return tag("dl", "".join(tag("dt", what) + tag("dd", said) for what, said in rows if said))


def folded(items: list[str]) -> str:
    """A list; a long one is opened by a click."""
    if len(items) <= 6:
        return ", ".join(items)
    return tag("details", tag("summary", f"{len(items)} entries") + ", ".join(items))


def source_words(about: dict[str, str]) -> str:
    """The paper."""
    if "paper" not in about:
        return ""
    arxiv = ""
    if "arxiv" in about:
        arxiv = ", " + tag("a", escape(f"arXiv {about['arxiv']}"), href=f"https://arxiv.org/abs/{about['arxiv']}")
    return f"{escape(about['authors'])}, {tag('cite', escape(about['paper']))}, {escape(about['year'])}{arxiv}"


def article(entry: Entry) -> str:
    """One entry."""
    about = dict(entry.about)
    architecture = check(entry.text, vocabulary())
    said = explanation_of(architecture, vocabulary())
    analysis: Analysis = said.analysis
    norming, verdict = norming_of(analysis), verdict_of(analysis)
    chips = [about["year"]] if "year" in about else []
    chips += [
        KINDS[about["kind"]],
        "norms differ by layer" if norming == "several" else NORM_CHIPS.get(norming, norming),
    ]
    codes = {w.code: ("chip noted" if w.note else "chip warned") for w in analysis.warnings}
    head = tag("h3", tag("a", escape(entry.name), href=f"#{entry.name}")) + tag("p", escape(entry.title), cls="title")
    marks = [tag("li", escape(chip), cls="chip") for chip in chips]
    marks += [tag("li", name, cls=look) for name, look in codes.items()]
    head += tag("ul", "".join(marks), cls="chips") + tag("p", prose(sentence(about["why"])), cls="why")
    equation = tag("pre", rows_of(equation_rows(entry.text)), cls="equation", tabindex="0")
    stacks, definitions = figures(architecture)
    row = len(stacks) > 1 or width_of(stacks[0]) > WIDE
    drawn = drawing(stacks, "row" if row else "", f"diagram of {entry.name}")
    drawn += drawing(definitions, "definitions", f"definitions of {entry.name}")
    by_hand = f"its equation by hand, {code(f'tests/references/{entry.name.replace(chr(45), chr(95))}.py')}"
    against = [by_hand, *(map(escape, about["checked_against"].split("; ")) if "checked_against" in about else [])]
    claim = f"{prose(about['claim'])} {mark(about['claim_source'])}" if "claim" in about else ""
    alike = [
        f"{links([n.name])}{escape(' (' + ', '.join(n.differs) + ')') if n.differs else ''}" for n in said.relatives
    ]
    near = [f"{links([n.name])} ({n.distance:.3g} edits in a layer)" for n in said.nearest]
    titled = [(f"{s.title}: " if s.title else "", s) for s in analysis.stacks]
    order = [f"{title}{'; '.join(map(str, s.positional_encodings)) or 'nothing'}" for title, s in titled]
    sees = [f"{title}{s.receptive_field}" for title, s in titled]
    facts = terms(
        [
            ("Norms", norm_words(analysis)),
            ("Initial scale of the residual path", scale_words(analysis)),
            ("Receptive field", "<br>".join(map(prose, sees))),
            ("Positions encoded by", "<br>".join(map(prose, order))),
            ("Cost", cost_table(architecture, about)),
            ("Source", source_words(about)),
            ("Result", claim),
            ("Checked", mark(about["equation"])),
            ("Tested against", "; ".join(against)),
            ("A version without the warning", links([about["sound"]]) if "sound" in about else ""),
            ("Same wiring", folded(alike)),
            ("Most similar", near and ", ".join(near)),
        ]
    )
    warnings = "".join(warning(w) for w in analysis.warnings)
    file = tag("details", tag("summary", "The file") + tag("pre", rows_of(formulas(entry).splitlines()), tabindex="0"))
    right = tag("div", warnings + facts + file, cls="facts")
    words = " ".join([entry.name, *about.values(), *codes, norming, *equation_rows(entry.text)]).lower()
    names = " ".join(entry.field_names)
    return tag(
        "article",
        tag("header", head) + tag("div", equation + drawn + right, cls="body"),
        id=entry.name,
        data_norming=norming,
        data_verdict=verdict,
        data_words=" ".join(words.split()),
        data_names=names,
    )


def choices(name: str, label: str, options: dict[str, str]) -> str:
    """A labelled list to choose from."""
    inside = "".join(tag("option", escape(words), value=value) for value, words in options.items())
    return tag("label", f"{label} {tag('select', inside, name=name)}")


def page(entries: list[Entry] | None = None) -> str:
    """The page, of all entries or of these."""
    shown = gallery.entries() if entries is None else entries
    kinds = {kind: in_order(kind, shown) for kind in KINDS}
    kinds = {kind: found for kind, found in kinds.items() if found}
    style = (HERE / "gallery_page" / "page.css").read_text(encoding="utf-8")
    style += f"{colors(LIGHT)}\n@media (prefers-color-scheme: dark) {{{colors(DARK)}}}\n"
    script = (HERE / "gallery_page" / "page.js").read_text(encoding="utf-8")
    fields = tag("label", 'Search <input type="search" name="words" autocomplete="off" placeholder="sliding window">')
    fields += choices("kind", "Kind", {"": "all", **{kind: KINDS[kind] for kind in kinds}})
    fields += choices("norming", "Norms", {"": "all", **NORMINGS})
    fields += choices("verdict", "Warnings", {"": "all", **VERDICTS})
    fields += tag(
        "div", '<button type="reset">Clear</button><output name="count" aria-live="polite"></output>', cls="end"
    )
    index = "".join(
        tag("div", tag("h2", KINDS[kind]) + tag("ul", "".join(tag("li", links([e.name])) for e in found)))
        for kind, found in kinds.items()
    )
    sections = "".join(
        tag("section", tag("h2", KINDS[kind]) + "\n".join(article(e) for e in found), data_kind=kind)
        for kind, found in kinds.items()
    )
    opening = (HERE / "gallery_page" / "opening.html").read_text(encoding="utf-8").replace("COUNT", str(len(shown)))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Transformer wirings</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#entries">Skip to the entries</a>\n{opening}\n'
        f'<form id="filter" role="search">{fields}</form>\n'
        '<details class="index"><summary>All entries by name</summary>'
        f'<nav aria-label="Entries">{index}</nav></details>\n'
        f'<main id="entries" tabindex="-1">\n{sections}\n{NOTHING}\n</main>\n'
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), encoding="utf-8")
    print(f"wrote {target}", file=sys.stderr)
