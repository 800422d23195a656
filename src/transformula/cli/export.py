"""`transformula export`: a trained model as a folder in the format of another program."""

from __future__ import annotations

from .options import RUN, Given, Parser

WHAT = """\
Write a trained model in another format: its text, its weights and what else its folder holds, such as a tokenizer.
pytorch is a plain state dict, which torch.load(FILE, weights_only=True) reads in any program."""

EXAMPLES = ["transformula export runs/first --to pytorch --out exported"]


def make_parser(*_: str) -> Parser:
    parser = Parser("export", WHAT, EXAMPLES, "RUN")
    parser.add("run", "RUN", RUN)
    parser.add("--to", "FORMAT", "the format that is written, such as pytorch", required=True)
    parser.add("--out", "FOLDER", "the folder that is written", required=True)
    parser.add_use()
    parser.add_no_verify()
    return parser


def run(given: Given) -> int:
    from ..api.reading import import_packages, model_folder

    import_packages(given["use"])
    from ..interop.folder import convert

    folder = convert(model_folder(given["run"]), given["out"], write=given["to"], verify=given["verify"])
    return given.show(f"wrote {folder}", {"folder": folder, "format": given["to"]})
