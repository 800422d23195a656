"""`transformula evaluate`: a trained model's scores."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .explain import USE
from .options import Parser

WHAT = """\
Score a trained model on a whole validation split, in nats a token, perplexity and bits per byte, beside n-grams of the
same text. With --data all of that text is scored; the n-grams still learn from what the run was trained on."""

EXAMPLES = ["transformula evaluate runs/demo", "transformula evaluate runs/demo --data other.txt --json"]


def run(arguments: Sequence[str]) -> int:
    """Evaluate one model."""
    from ..data.settings import DataSettings

    parser = Parser("evaluate", WHAT, EXAMPLES, "RUN")
    parser.add_argument("run", metavar="RUN", help="a run's folder (its best model) or a model's")
    parser.add_argument("--data", action="append", metavar="VALUE", help="other text; may be given again")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object")
    parser.add_argument("--device", metavar="TEXT", default="auto", help="cpu, cuda, cuda:1, ... (default: auto)")
    parser.add_argument("--threads", metavar="N", type=int, help="CPU threads (default: torch's choice)")
    parser.add_argument("--use", action="append", metavar="PACKAGE", default=[], help=USE)
    parser.add_settings("data", DataSettings, without=("data", "validation", "tokenizer"))
    given = parser.parse(arguments)
    settings = {key: value for key, value in given.of(DataSettings).items() if key != "data"}

    from ..api.run import evaluate

    found = evaluate(
        given["run"], data=given["data"], device=given["device"], threads=given["threads"], use=given["use"], **settings
    )
    print(json.dumps(found.data, indent=1) if given["json"] else found)
    return 0
