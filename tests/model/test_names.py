"""Names of parameters as committed text: a change of them is seen as a diff, and breaks stored weights.

To write the file anew after a change that is meant: `python tests/model/test_names.py`.
"""

from __future__ import annotations

from pathlib import Path

from tests.model.helpers import architecture_of, built
from transformula.model import build

FILE = Path(__file__).parents[1] / "golden" / "parameter_names.txt"


def names() -> str:
    """For each model its parameters' names and shapes; of equal layers the first."""
    rows = []
    for model in built():
        rows.append(f"{model}:")
        seen: set[str] = set()
        for name, parameter in build(architecture_of(model), device="meta").named_parameters():
            parts = name.split(".")
            at = parts.index("layers") if "layers" in parts else len(parts)
            general = ".".join([*parts[: at + 1], *parts[at + 2 :]])
            if general not in seen:
                seen.add(general)
                rows.append(f"  {name} {'x'.join(map(str, parameter.shape))}")
    return "\n".join(rows) + "\n"


def test_names_are_as_committed() -> None:
    assert names() == FILE.read_text(encoding="utf-8")


if __name__ == "__main__":
    FILE.write_text(names(), encoding="utf-8")
