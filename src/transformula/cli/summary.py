"""`transformula summary`: what a model costs, line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .explain import MODEL, USE
from .options import Parser

WHAT = """\
Shapes, parameters, FLOPs a token (forward and backward), activation and cache memory, for each line of the formula."""

EXAMPLES = [
    'transformula summary "x = x + attention(norm(x)); x = x + mlp(norm(x))" --depth 12 --width 768 --heads 12',
    "transformula summary gpt2 --json",
]


def run(arguments: Sequence[str]) -> int:
    """Summarise one model."""
    parser = Parser("summary", WHAT, EXAMPLES, "MODEL")
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--length", metavar="N", type=int, help="tokens in a row (default: the context)")
    parser.add_argument("--batch", metavar="N", type=int, default=1, help="rows (default: 1)")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object")
    parser.add_argument("--use", action="append", metavar="PACKAGE", default=[], help=USE)
    parser.add_model_options()
    given = parser.parse(arguments)

    from ..api import summary

    result = summary(given["model"], length=given["length"], batch=given["batch"], use=given["use"], **given.model)
    print(json.dumps(result.data, indent=1) if given["json"] else result)
    return 0
