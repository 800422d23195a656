"""The diagrams of the variants, and what differs from the base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ....diagram.differences import ModelDifference, difference
from ....diagram.svg import draw_svg
from ....errors import TransformulaError
from ....language.check import check
from ....language.graph import Architecture
from ....language.model_file import read_text
from ....words import vocabulary
from ...records import Results, Variant
from ..document import Item, Literally, Paragraph, Picture, ReportSection, section


@section(120)
def diagrams(results: Results) -> ReportSection | None:
    variants = {variant.name: variant for variant in results.variants}
    base = variants.get(results.base)
    if base is None:
        return None
    first = architecture_of(base)
    items: list[Item] = [Literally(base.name, base.model)]
    if first is not None:
        items.append(Picture("diagram-1", f"Diagram of the layers of {base.name}", partial(draw_svg, first)))
    for n, variant in enumerate((v for v in results.variants if v.name != base.name), 2):
        items += beside_base(first, base, variant, n)
    return ReportSection("The variants", items)


def beside_base(first: Architecture | None, base: Variant, variant: Variant, number: int) -> list[Item]:
    """How a variant's text differs: its lines, and both diagrams."""
    other = architecture_of(variant)
    if first is None or other is None:
        return [Literally(variant.name, variant.model)]
    change = difference(first, other)
    if change.equal:
        return [Paragraph(f"{variant.name}: the equations of {base.name}")]
    lines = Literally(f"{variant.name} beside {base.name}", "\n\n".join(equations(change)))
    alt = f"What differs between {base.name} and {variant.name}"
    return [lines, Picture(f"diagram-{number}", alt, change.svg)]


def equations(change: ModelDifference) -> Iterator[str]:
    """What both have, what only the base has (-) and what only the variant has (+), section by section."""
    for part in change.data["changes"]:
        yield "\n".join([f"{part['where']}:", *(f"{mark} {line}" for mark, line in part["equations"])])


def architecture_of(variant: Variant) -> Architecture | None:
    """What the text of a variant means; None where it needs words that are not loaded here."""
    try:
        return check(replace(read_text(variant.model), name=variant.name), vocabulary())
    except TransformulaError:
        return None
