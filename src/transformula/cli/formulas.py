"""Verbs that read formulas: explain, summary, words, gallery."""

from __future__ import annotations

from ..errors import InputError, UnknownName, nearest
from .options import MODEL, USE, Given, Parser, option, verb
from .output import write_bytes

ASCII = option("--ascii", None, "draw with ASCII characters only")


@verb(
    "explain a formula: what each line reads, skips, initial scale, warnings",
    "MODEL",
    option("model", "MODEL", MODEL),
    ASCII,
    USE,
    Parser.add_model_options,
    examples=[
        'transformula explain "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)"',
        "transformula explain pre-norm --depth 12 --json",
    ],
)
def explain(given: Given) -> int:
    """Explain a formula from its text alone: what each line reads, what is carried between layers, skips and branches,
    the initial scale of the residual path, history, receptive field, relatives in the gallery, and warnings with
    remedies."""
    from ..api.model import explain

    return given.show(given.call(explain, ascii=given.ascii))


@verb(
    "shapes, parameters, FLOPs and memory of each line",
    "MODEL",
    option("model", "MODEL", MODEL),
    option("--length", "N", "positions of a sequence (default: the context; of a model of pictures its positions)",
           type=int),
    option("--batch", "N", "sequences (default: 1)", type=int, default=1),
    option("--tp", "N", "add how its matrices are split among N devices (tensor parallelism)", type=int),
    USE,
    Parser.add_model_options,
    examples=[
        'transformula summary "x = x + attention(norm(x)); x = x + mlp(norm(x))" --depth 12 --width 768 --heads 12',
        "transformula summary llama --tp 8",
        "transformula summary gpt2 --json",
    ],
)  # fmt: skip
def summary(given: Given) -> int:
    """Shapes, parameters, FLOPs per token (forward and backward), and memory of activations and cache, for each line of
    the formula; with --tp, which matrices are split among devices, how, and why the others are not."""
    from ..api.model import summary

    return given.show(given.call(summary))


@verb(
    "the words of the language, or one word with its options",
    "[NAME]",
    option("name", "NAME", "a word (default: all, by kind)", nargs="?"),
    USE,
    examples=["transformula words", "transformula words attention", "transformula words mlp --json"],
)
def words(given: Given) -> int:
    """The words of the language by kind; with NAME what a word takes: equation, streams, options with their defaults,
    parameters, source, an example. A name that the field uses for it is answered with ours."""
    from ..analysis.word_reference import data_of, find, index_data, index_text, word_text
    from ..api.reading import known_words

    vocabulary = known_words(given["use"])
    if given["name"] is None:
        return given.show(index_text(vocabulary), index_data(vocabulary))
    record = find(vocabulary, given["name"])
    return given.show(word_text(record), data_of(record))


ACTIONS = {"list": 0, "search": None, "show": 1, "draw": 1, "diff": 2}
"""Action of `gallery` -> how many names follow it; None: one or more."""


@verb(
    "named architectures: list, search, show, draw, compare, find the nearest to yours",
    "[ACTION] [NAME ...]",
    option("action", "ACTION", f"{', '.join(ACTIONS)} (default: list)", nargs="?"),
    option("names", "NAME", "what to search, show, draw or compare", nargs="*"),
    option("--like", "MODEL", "the nearest entries"),
    option("--count", "N", "how many entries --like shows (default: 5)", type=int),
    option("--out", "FILE", "where `draw`, `diff` and --like write an SVG"),
    option("--whole", None, "draw what stands before and after the layers too"),
    option("--open", "WORD", "draw inside this definition too", action="append", default=[]),
    ASCII,
    USE,
    Parser.add_model_options,
    examples=[
        "transformula gallery search sliding window",
        "transformula gallery show pre-norm",
        "transformula gallery draw pre-norm --out pre-norm.svg",
        "transformula gallery diff pre-norm post-norm",
        'transformula gallery --like "x = norm(x + attention(x)); x = x + mlp(x)"',
    ],
)
def gallery(given: Given) -> int:
    """Wirings and whole models by name, each with its paper.

      list               all entries
      search WORDS       entries whose name, paper or text has these words, or that have what the field calls so
      show NAME          the text of an entry
      draw MODEL         its diagram: plain text, or an SVG file with --out
      diff MODEL MODEL   what differs between two models

    --like MODEL         the entries nearest to a formula, a file or a name, and what differs from the first"""
    action, names, see = given["action"], given["names"], f"; see: {given.parser.prog} --help"
    if given["like"] is not None:
        if action is not None:
            raise InputError(f"--like takes no action beside it (got {action}){see}")
        from ..api.model import nearest

        nearby = given.call(nearest, model=given["like"], count=5 if given["count"] is None else given["count"])
        if given["out"] is not None:
            return write(given, nearby.difference.svg())
        return given.show(nearby.text(ascii=given.ascii), nearby.data)
    if given["count"] is not None:
        raise InputError(f"--count says how many entries --like shows{see}")
    action = "list" if action is None else known_action(action)
    wanted = ACTIONS[action]
    if (wanted is None and not names) or (wanted is not None and len(names) != wanted):
        count = "words" if wanted is None else ("no name", "one name", "two names")[wanted]
        raise InputError(f"gallery {action} takes {count}, and got {len(names)}{see}")
    return {"list": list_entries, "search": list_entries, "show": show, "draw": draw, "diff": diff}[action](given)


def known_action(action: str) -> str:
    """The action, if it is one; a name of the gallery in its place is told how to be shown."""
    from .. import gallery

    if action in ACTIONS:
        return action
    names = [action] if action in gallery.names() else nearest(action, gallery.names(), 1)
    if names and not nearest(action, ACTIONS):
        raise InputError(f"unknown action {action!r}; did you mean: gallery show {names[0]}?", near=names)
    raise UnknownName("action", action, ACTIONS)


def list_entries(given: Given) -> int:
    """List the entries, or those that have all the words."""
    from .. import gallery

    query = " ".join(given["names"])
    entries = gallery.search(query) if query else gallery.entries()
    near = "" if entries else gallery.near_words(query)
    width = max((len(entry.name) for entry in entries), default=0)
    rows = [f"{entry.name:<{width}}  {entry.title}" for entry in entries]
    if not entries:
        suggestion = f"did you mean: gallery search {near}?" if near else "all entries: gallery list"
        rows = [f"nothing in the gallery has: {query}; {suggestion}"]
    return given.show("\n".join(rows), {"entries": [entry.data for entry in entries], "near": near})


def show(given: Given) -> int:
    """The file of an entry as it is written; with numbers or formulas changed, its text."""
    from .. import gallery
    from ..api.reading import read_model
    from ..language.model_writing import write_text

    entry = gallery.entry(given["names"][0])
    text = write_text(read_model(entry.text, given.model)) if given.model else entry.source
    return given.show(text.rstrip("\n"), {**entry.data, "text": text})


def draw(given: Given) -> int:
    """The diagram of a model: plain text, or an SVG."""
    from ..analysis.budget import Budget
    from ..api.reading import check_model
    from ..diagram.svg import draw_svg
    from ..diagram.text import draw_text
    from ..inspection.explanation import drawable

    (name,), parts = given["names"], {"whole": given["whole"], "opened": given["open"]}
    architecture = check_model(name, given.model, given["use"])
    if not drawable(architecture, Budget()):
        raise InputError("the diagram would have too many parts; draw some of the lines, or smaller layers")
    if given["out"] is not None:
        return write(given, draw_svg(architecture, **parts))
    diagram = draw_text(architecture, ascii=given.ascii, **parts)
    return given.show(diagram, {"name": name, "diagram": diagram})


def diff(given: Given) -> int:
    """What differs between two models: equations, parts, edges; both diagrams where their parts differ."""
    from ..api.reading import check_model
    from ..diagram.differences import difference

    apart = difference(*(check_model(name, given.model, given["use"]) for name in given["names"]))
    return write(given, apart.svg()) if given["out"] is not None else given.show(apart.text(given.ascii), apart.data)


def write(given: Given, svg: str) -> int:
    """Write a diagram to --out and say so."""
    write_bytes(given["out"], svg.encode("utf-8"), "--out")
    return given.show(f"wrote {given['out']}", {"wrote": given["out"]})
