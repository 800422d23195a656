"""`transformula summary`: what a model costs, line by line."""

from __future__ import annotations

from .options import MODEL, Given, Parser

WHAT = """\
Shapes, parameters, FLOPs per token (forward and backward), and memory of activations and cache, for each line of the
formula."""

EXAMPLES = [
    'transformula summary "x = x + attention(norm(x)); x = x + mlp(norm(x))" --depth 12 --width 768 --heads 12',
    "transformula summary gpt2 --json",
]


def make_parser(*_: str) -> Parser:
    parser = Parser("summary", WHAT, EXAMPLES, "MODEL")
    parser.add("model", "MODEL", MODEL)
    parser.add("--length", "N", "tokens per sequence (default: the context)", type=int)
    parser.add("--batch", "N", "sequences (default: 1)", type=int, default=1)
    parser.add_use()
    parser.add_model_options()
    return parser


def run(given: Given) -> int:
    from ..api.model import summary

    counted = summary(given["model"], length=given["length"], batch=given["batch"], use=given["use"], **given.model)
    return given.show(counted)
