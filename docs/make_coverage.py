"""Say of each family of transformers whether it is read: `python docs/make_coverage.py` writes the page.

The families are those of the installed transformers, what they lack is found in their code. A test holds the page to
the data files, and makes it again where that version is installed.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.peers.case import cases  # noqa: E402
from transformula.interop.named import entries  # noqa: E402

PAGE = Path(__file__).parent / "reference" / "transformers-families.md"
NO_WORD: Mapping[str, str] = {
    "pictures resized before they are read": r"interpolate\(\s*(?:pixel_values|normalized_input_features)",
    "values sampled at computed places": r"grid_sample|roi_align",
    "a convolution in three dimensions": r"nn\.Conv3d\(",
    "a transposed convolution that overlaps": r"nn\.ConvTranspose\w*\((?!\s*[^,()]+,\s*[^,()]+,\s*"
    r"(?:kernel_size=)?([\w.\[\]]+),\s*(?:stride=)?\1[,\s)])",
    "codebooks (vector quantization)": r"[cC]odebook|VectorQuanti",
    "positions of several axes (M-RoPE)": r"mrope",
    "parts that any other family may be": r"Auto\w*Model\w*\.from_config|AutoBackbone|load_backbone",
    "hashes of vectors or of characters": r"_hash",
}
"""What no word computes -> where it stands in the code of a family.

Most code that calls `interpolate` resizes a table of positions, which a picture of the size in config.json never needs,
or a grid, as `upsample` does. A transposed convolution whose squares do not overlap is `linear` and `depth_to_space`.
"""
DATA, TEXT, PART, NOT = "data", "text", "part", "not yet"
HEAD = "| `model_type` | read as | data files, or what no word computes |\n| --- | --- | --- |"
OPENING = """\
# The families of transformers

Each value of `model_type` of transformers {version}, and whether its folders are read here. Made by
`python docs/make_coverage.py` from that version.

- *data*: folders are read and written, by a data file that [named models](named-models.md) lists: {data} of {all}.
- *part*: the `model_type` of a part of such a folder, such as its picture's encoder: {part}.
- *text*: a text computes the same, which [checked against](checked-against.md) shows; its folders are not read: {text}.
- *not yet*: {not yet}. The last column says what stands in its code that no word here computes; where it is empty, none
  of these was found: [a data file](../how-to/add-a-family.md) may be all that is needed.

| what no word computes | families not yet read whose code has it |
| --- | --- |
"""


def code_of(folder: Path) -> str:
    """The code of a family's models, "" for one that has none of its own."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("modeling_*.py")))


def model_types() -> Mapping[str, str]:
    """Each `model_type` of the installed transformers, with the code of its models."""
    from transformers.models import auto

    mapping: Any = auto.configuration_auto
    folder = Path(auto.__file__).parents[1]
    return {kind: code_of(folder / mapping.model_type_to_module_name(kind)) for kind in mapping.CONFIG_MAPPING_NAMES}


def parts_of(kind: str) -> set[str]:
    """The model types of the parts of a family's configuration."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    parts = getattr(CONFIG_MAPPING[kind], "sub_configs", {})
    return {part.model_type for part in parts.values() if getattr(part, "model_type", "")}


def as_text() -> set[str]:
    """The model types whose equations a text is held to."""
    import transformers

    classes = {case.reference.split("(")[0].split()[0] for case in cases().values() if case.package == "transformers"}
    known = [getattr(transformers, name, None) for name in classes]
    return {kind.config_class.model_type for kind in known if getattr(kind, "config_class", None) is not None}


def known_types() -> dict[str, list[str]]:
    """The model types that data files read -> the names of these files."""
    known: dict[str, list[str]] = {}
    for name in entries.names():
        for kind in entries.named_model(name).model_type:
            known.setdefault(kind, []).append(name)
    return known


def page() -> str:
    import transformers

    warnings.simplefilter("ignore")
    known, texts, code = known_types(), as_text(), model_types()
    parts = {part for kind in known.keys() & code.keys() for part in parts_of(kind)}
    rows, states, lacking = [], Counter[str](), Counter[str]()
    for kind in sorted(code, key=str.lower):
        missing = [what for what, pattern in NO_WORD.items() if re.search(pattern, code[kind])]
        state = DATA if kind in known else PART if kind in parts else TEXT if kind in texts else NOT
        states[state] += 1
        if state == NOT:
            lacking.update(missing)
        said = "; ".join(missing) if state == NOT else ", ".join(known.get(kind, ()))
        rows.append(f"| `{kind}` | {state} | {said} |")
    counts = {state: states[state] for state in (DATA, PART, TEXT, NOT)}
    opening = OPENING.format_map({"version": transformers.__version__, "all": len(code), **counts}).rstrip("\n")
    found = [f"| {what} | {number} |" for what, number in lacking.most_common()]
    return "\n".join([opening, *found, "", HEAD, *rows, ""])


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
