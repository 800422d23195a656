"""`transformula curves`: the loss curves of several runs in one picture."""

from __future__ import annotations

from .options import Given, Parser

WHAT = """\
Draw the loss curves of several runs in one picture, SVG or PNG, and print where each was best. Runs that still train
can be drawn, too."""

EXAMPLES = [
    "transformula curves runs/first runs/second",
    "transformula curves runs/first runs/second --x minutes --score bits_per_byte --out curves.png",
]


def make_parser(*_: str) -> Parser:
    parser = Parser("curves", WHAT, EXAMPLES, "RUN ...")
    parser.add("runs", "RUN", "a run's folder", nargs="+")
    parser.add_argument("--x", default="steps", metavar="AXIS", help="steps, tokens or minutes (default: steps)")
    parser.add("--score", "NAME", "loss, or a score of the evaluations (default: loss)", default="loss")
    parser.add("--out", "FILE", "the picture, .svg or .png (default: curves.svg)", default="curves.svg")
    return parser


def run(given: Given) -> int:
    from ..inspection.curves import curves

    drawn = curves(given["runs"], x=given["x"], score=given["score"])
    path = drawn.save(given["out"])
    return given.show(f"{drawn}\nwrote {path}", {**drawn.data, "picture": path})
