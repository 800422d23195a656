"""`transformula import`: a folder in the format of another program as a model's folder."""

from __future__ import annotations

from .options import Given, Parser

WHAT = """\
Make a model's folder of a folder in another format, so that every verb that takes a RUN takes it. Nothing that is read
is executed. pytorch is model.yaml and weights.pt, as torch.save(module.state_dict(), "weights.pt") writes it."""

EXAMPLES = ["transformula import exported --format pytorch --out models/first"]


def make_parser(*_: str) -> Parser:
    parser = Parser("import", WHAT, EXAMPLES, "FOLDER")
    parser.add("folder", "FOLDER", "the folder that is read")
    parser.add("--format", "FORMAT", "its format, such as pytorch", required=True)
    parser.add("--out", "FOLDER", "the model's folder that is written", required=True)
    parser.add_use()
    return parser


def run(given: Given) -> int:
    from ..api.reading import import_packages

    import_packages(given["use"])
    from ..interop.folder import convert

    folder = convert(given["folder"], given["out"], read=given["format"])
    return given.show(f"wrote {folder}", {"folder": folder, "format": "transformula"})
