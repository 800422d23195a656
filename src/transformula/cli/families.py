"""The verb about families of other programs' models: check-family."""

from __future__ import annotations

from .options import QUIET, USE, Given, option, verb


@verb(
    "hold a family's data file to transformers",
    "FAMILY FOLDER ...",
    option("family", "FAMILY", "its data file, FILE.yaml, or the name of a family that is known"),
    option("folders", "FOLDER", "a folder of such a model, or a config.json whose weights are drawn", nargs="+"),
    option("--fast", None, "leave out the changes of config.json, which take most of the time"),
    option("--one-length", None, "compare rows of one length only: for a model of transformers that reads its padding"),
    USE,
    QUIET,
    examples=[
        "transformula check-family mine.yaml tiny-folder",
        "transformula check-family mine.yaml tiny/config.json windowed/config.json --use my_words",
        "transformula check-family llama llama-folder --fast",
    ],
)
def check_family(given: Given) -> int:
    """Hold a family's data file to transformers, which has to be installed: the same results of tiny folders in float32
    and float64, with padding and in decoding, the same greedy tokens, the folder written back bit for bit. Then each
    key of config.json is changed, one at a time: each change is computed alike, or refused with the key's name.
    A folder that is no more than a config.json gets drawn weights; small sizes take seconds. Exits with 3 where
    something does not hold."""
    from ..api.families import check_family
    from ..data.preview import counting

    with counting("changes of config.json", show=not given["quiet"]) as progress:
        checked = given.call(check_family, progress=progress, changes=not given["fast"], padded=not given["one_length"])
    given.show(checked)
    return 0 if checked.holds else 3
