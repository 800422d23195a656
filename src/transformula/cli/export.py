"""`transformula export`: a trained model as a folder in the format of another program."""

from __future__ import annotations

from collections.abc import Sequence

from .options import NO_VERIFY, Given, Parser
from .output import as_json

WHAT = """\
Write a trained model in another format: its text, its weights and what else its folder holds, such as a tokenizer.
pytorch is a plain state dict, which torch.load(FILE, weights_only=True) reads in any program."""

EXAMPLES = [
    "transformula export runs/first --to pytorch --out exported",
]


def make_parser(_: Sequence[str]) -> Parser:
    """Its options."""
    parser = Parser("export", WHAT, EXAMPLES, "RUN")
    parser.add_argument("run", metavar="RUN", help="a run's folder (its best model) or a model's")
    parser.add_argument("--to", metavar="FORMAT", required=True, help="the format that is written, such as pytorch")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="the folder that is written")
    parser.add_use()
    parser.add_argument("--no-verify", action="store_false", dest="verify", help=NO_VERIFY)
    return parser


def run(given: Given) -> int:
    """Export one model."""
    from ..api.reading import import_packages, model_folder

    import_packages(given["use"])
    from ..interop.folder import convert

    folder = convert(model_folder(given["run"]), given["out"], write=given["to"], verify=given["verify"])
    print(as_json({"folder": folder, "format": given["to"]}) if given["json"] else f"wrote {folder}")
    return 0
