"""`transformula gallery`: wirings and whole models by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError, UnknownName, nearest
from .options import Given, Parser

WHAT = """\
Wirings and whole models by name, each with its paper.

  list               all entries
  search WORDS       entries whose name, paper or text has these words, or that have what the field calls so
  show NAME          the text of an entry
  draw MODEL         its diagram: plain text, or an SVG file with --out
  diff MODEL MODEL   what differs between two models

--like MODEL         the entries nearest to a formula, a file or a name, and what differs from the first"""

EXAMPLES = [
    "transformula gallery search sliding window",
    "transformula gallery show pre-norm",
    "transformula gallery draw pre-norm --out pre-norm.svg",
    "transformula gallery diff pre-norm post-norm",
    'transformula gallery --like "x = norm(x + attention(x)); x = x + mlp(x)"',
]

ACTIONS = {"list": 0, "search": None, "show": 1, "draw": 1, "diff": 2}
"""Action -> how many names follow it; None: one or more."""


def make_parser(*_: str) -> Parser:
    parser = Parser("gallery", WHAT, EXAMPLES, "[ACTION] [NAME ...]")
    parser.add("action", "ACTION", f"{', '.join(ACTIONS)} (default: list)", nargs="?")
    parser.add("names", "NAME", "what to search, show, draw or compare", nargs="*")
    parser.add("--like", "MODEL", "the nearest entries")
    parser.add("--count", "N", "how many entries --like shows (default: 5)", type=int)
    parser.add("--out", "FILE", "where `draw`, `diff` and --like write an SVG")
    parser.add_argument("--whole", action="store_true", help="draw what stands before and after the layers too")
    parser.add("--open", "WORD", "draw inside this definition too", action="append", default=[])
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_use()
    parser.add_model_options()
    return parser


def run(given: Given) -> int:
    action, names, see = given["action"], given["names"], f"; see: {given.parser.prog} --help"
    if given["like"] is not None:
        if action is not None:
            raise InputError(f"--like takes no action beside it (got {action}){see}")
        from ..api.model import nearest

        count = 5 if given["count"] is None else given["count"]
        nearby = nearest(given["like"], count=count, use=given["use"], **given.model)
        if given["out"] is not None:
            return write(given, nearby.difference.svg())
        return given.show(nearby.text(ascii=given.ascii), nearby.data)
    if given["count"] is not None:
        raise InputError(f"--count says how many entries --like shows{see}")
    action = known(action) if action is not None else "list"
    wanted = ACTIONS[action]
    if (wanted is None and not names) or (wanted is not None and len(names) != wanted):
        count = "words" if wanted is None else ("no name", "one name", "two names")[wanted]
        raise InputError(f"gallery {action} takes {count}, and got {len(names)}{see}")
    return {"list": entries, "search": entries, "show": show, "draw": draw, "diff": diff}[action](names, given)


def known(action: str) -> str:
    """The action, if it is one; a name of the gallery in its place is told how to be shown."""
    from .. import gallery

    if action in ACTIONS:
        return action
    names = [action] if action in gallery.names() else nearest(action, gallery.names(), 1)
    if names and not nearest(action, ACTIONS):
        raise InputError(f"unknown action {action!r}; did you mean: gallery show {names[0]}?", near=names)
    raise UnknownName("action", action, ACTIONS)


def entries(words: Sequence[str], given: Given) -> int:
    """List the entries, or those that have all the words."""
    from .. import gallery

    query = " ".join(words)
    found = gallery.search(query) if words else gallery.entries()
    near = gallery.near_words(query) if words and not found else ""
    width = max((len(entry.name) for entry in found), default=0)
    rows = [f"{entry.name:<{width}}  {entry.title}" for entry in found]
    if words and not found:
        suggestion = f"did you mean: gallery search {near}?" if near else "all entries: gallery list"
        rows = [f"nothing in the gallery has: {query}; {suggestion}"]
    return given.show("\n".join(rows), {"entries": [entry.data for entry in found], "near": near})


def show(names: Sequence[str], given: Given) -> int:
    """The file of an entry as it is written; with numbers or formulas changed, its text."""
    from .. import gallery
    from ..api.reading import read_model
    from ..language.model_writing import write_text

    entry = gallery.entry(names[0])
    text = write_text(read_model(entry.text, given.model)) if given.model else entry.source
    return given.show(text.rstrip("\n"), {**entry.data, "text": text})


def draw(names: Sequence[str], given: Given) -> int:
    """The diagram of a model: plain text, or an SVG."""
    from ..analysis.budget import Budget
    from ..api.reading import check_model
    from ..diagram import draw_svg, draw_text
    from ..inspection.explanation import drawable

    architecture = check_model(names[0], given.model, given["use"])
    if not drawable(architecture, Budget()):
        raise InputError("the diagram would have too many parts; draw some of the lines, or smaller layers")
    if given["out"] is not None:
        return write(given, draw_svg(architecture, whole=given["whole"], opened=given["open"]))
    diagram = draw_text(architecture, ascii=given.ascii, whole=given["whole"], opened=given["open"])
    return given.show(diagram, {"name": names[0], "diagram": diagram})


def diff(names: Sequence[str], given: Given) -> int:
    """What differs between two models: equations, parts, edges; both diagrams where their parts differ."""
    from ..api.reading import check_model
    from ..diagram import difference

    found = difference(*(check_model(name, given.model, given["use"]) for name in names))
    return write(given, found.svg()) if given["out"] is not None else given.show(found.text(given.ascii), found.data)


def write(given: Given, svg: str) -> int:
    """Write a diagram to --out and say so."""
    path = Path(given["out"])
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    return given.show(f"wrote {path}", {"wrote": path})
