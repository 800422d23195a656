"""`transformula explain`: what a formula says, from its text alone."""

from __future__ import annotations

from collections.abc import Sequence

from .options import Given, Parser, prints
from .output import as_json

WHAT = """\
Explain a formula from its text alone: what each line reads, what is carried between layers, skips and branches, the
initial scale of the residual path, history, receptive field, relatives in the gallery, and warnings with remedies."""

EXAMPLES = [
    'transformula explain "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)"',
    "transformula explain pre-norm --depth 12 --json",
]

MODEL = "a formula (a text with =), a model file (.yaml), a run's or a model's folder, or a name of the gallery"


def make_parser(_: Sequence[str]) -> Parser:
    """Its options."""
    parser = Parser("explain", WHAT, EXAMPLES, "MODEL")
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_use()
    parser.add_model_options()
    return parser


def run(given: Given) -> int:
    """Explain one model."""
    from ..api import explain

    result = explain(given["model"], ascii=given["ascii"] or not prints("│"), use=given["use"], **given.model)
    print(as_json(result.data) if given["json"] else result)
    return 0
