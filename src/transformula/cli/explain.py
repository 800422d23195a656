"""`transformula explain`: what a formula says, from its text alone."""

from __future__ import annotations

from .options import MODEL, Given, Parser

WHAT = """\
Explain a formula from its text alone: what each line reads, what is carried between layers, skips and branches, the
initial scale of the residual path, history, receptive field, relatives in the gallery, and warnings with remedies."""

EXAMPLES = [
    'transformula explain "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)"',
    "transformula explain pre-norm --depth 12 --json",
]


def make_parser(*_: str) -> Parser:
    parser = Parser("explain", WHAT, EXAMPLES, "MODEL")
    parser.add("model", "MODEL", MODEL)
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_use()
    parser.add_model_options()
    return parser


def run(given: Given) -> int:
    from ..api.model import explain

    return given.show(explain(given["model"], ascii=given.ascii, use=given["use"], **given.model))
