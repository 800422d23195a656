"""The verb that looks inside a model: inspect."""

from __future__ import annotations

from ..errors import InputError
from .options import RUN, Given, Parser, machine, option, verb
from .output import check_output


def looks(parser: Parser) -> None:
    """What can be looked at, as a table of the help."""
    from ..api.inspect import LOOKS

    parser.add("look", "LOOK", f"{', '.join(LOOKS)}: see below")
    parser.add_table("looks", LOOKS)


@verb(
    "look inside a trained model: attention, norms, gradients, lens, ablate, patch, collapse, training",
    "RUN LOOK",
    option("run", "RUN", RUN),
    looks,
    option("--text", "TEXT", "look at this text; of a model of pictures, the name of a file"),
    option("--target", "TEXT", "the target of --text, of a model that writes one (default: what it writes)"),
    option("--data", "FILE", "look at this data, in the place of the run's validation set; may be repeated",
           action="append"),
    option("--rows", "N", "rows that are looked at (default: 8; of ablate 64)", type=int),
    option("--at", "PLACE", "attention, ablate, patch: only this place, as layers.3 or layers.3.attention; of ablate"
           " any place or edge; may be repeated", action="append"),
    option("--head", "N", "attention: show only this head", type=int),
    option("--stack", "NAME", "lens: the stack whose layers are skipped (default: the last)"),
    option("--with", "VALUE", "ablate: zero or mean, in the place of what is silenced (default: zero)", dest="instead"),
    option("--edges", None, "ablate: silence each edge of the layers, not each sublayer", default=None),
    option("--other", "TEXT", "patch: the corrupted text, of as many tokens as --text"),
    option("--figure", "FILE", "write the picture there: .svg, .png, or .html with the table"),
    machine,
    examples=[
        "transformula inspect runs/demo attention",
        "transformula inspect runs/demo norms --figure norms.svg",
        'transformula inspect runs/demo lens --text "The with statement"',
        "transformula inspect runs/demo ablate --with mean --rows 32 --json",
        'transformula inspect runs/demo patch --text "def first" --other "def other" --figure patch.html',
        'transformula inspect runs/demo attention --text "The with statement" --at layers.2 --head 1 --figure head.svg',
    ],
)  # fmt: skip
def inspect(given: Given) -> int:
    """Look inside a trained model, whatever its formula: at rows of its validation set, or at a text."""
    from ..api.inspect import OPTIONS, inspect
    from ..data.preview import counting

    check_output(given["figure"], "--figure")
    if given["figure"] is not None and not given["figure"].endswith((".svg", ".png", ".html")):
        raise InputError(f"--figure {given['figure']}: a picture is written as .svg, .png or .html")
    with counting("looking") as progress:
        shown = given.call(inspect, progress=progress, **given.some(*OPTIONS))
    if given["figure"] is None:
        return given.show(shown)
    path = shown.save(given["figure"])
    return given.show(f"{shown}\nwrote {path}", {**shown.data, "picture": path})
