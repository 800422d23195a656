"""`transformula sample`: text from a trained model, shown while it is written."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .explain import USE
from .options import NO_VERIFY, Given, Parser
from .output import as_json

WHAT = """\
Write text with a trained model. Several prompts are gone on from at once, and shown one after the other; without one,
a text is begun. Filters act in the order in which they are listed here."""

EXAMPLES = [
    'transformula sample runs/demo "The with statement" --temperature 0.8 --max-tokens 100',
    'transformula sample runs/demo "def" "class" --top-k 20 --seed 7 --json',
]


def make_parser(_: Sequence[str]) -> Parser:
    """Its options."""
    from ..generation.settings import SamplingSettings

    parser = Parser("sample", WHAT, EXAMPLES, "RUN [PROMPT ...]")
    parser.add_argument("run", metavar="RUN", help="a run's folder (its best model) or a model's")
    parser.add_argument("prompts", metavar="PROMPT", nargs="*", help="what the text begins with")
    parser.add_argument("--device", metavar="TEXT", default="cpu", help="cpu, cuda, cuda:1, ... (default: cpu)")
    parser.add_argument("--threads", metavar="N", type=int, help="CPU threads (default: torch's choice)")
    parser.add_argument("--use", action="append", metavar="PACKAGE", default=[], help=USE)
    parser.add_argument("--no-verify", action="store_false", dest="verify", help=NO_VERIFY)
    parser.add_settings("sampling", SamplingSettings)
    return parser


def run(given: Given) -> int:
    """Sample from one model."""
    from ..generation.settings import SamplingSettings

    settings = given.read(SamplingSettings)

    from ..api.model import Model
    from ..api.reading import set_threads

    set_threads(given["threads"])
    model = Model.from_folder(given["run"], device=given["device"], use=given["use"], verify=given["verify"])
    prompts = given["prompts"] or [""]
    stream = len(prompts) == 1 and not given["json"]
    before = prompts[0]

    def show(_: int, piece: str) -> None:
        nonlocal before  # the prompt waits for the first piece: a refusal prints nothing else
        sys.stdout.write(before + piece)
        sys.stdout.flush()
        before = ""

    texts = model.generate(prompts, on_text=show if stream else None, **settings.plain())
    if given["json"]:
        rows = [{"prompt": prompt, "text": text} for prompt, text in zip(prompts, texts, strict=True)]
        print(as_json({"texts": rows, "settings": settings.plain()}))
    elif stream:
        print(before)
    else:
        for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True), 1):
            print(f"--- {number}\n{prompt}{text}")
    return 0
