"""What the arms write from the same prompts."""

from __future__ import annotations

from ...records import Outcome, Results
from ..document import Item, Literally, Paragraph, ReportSection, section

MOST = 3  # samples an arm
LONGEST = 1200  # characters of a sample


@section(130)
def samples(results: Results) -> ReportSection | None:
    for size in reversed(results.sizes):
        chosen = {name: writer for name in results.names if (writer := first_writer(results, name, size))}
        if chosen:
            break
    else:
        return None
    several = f" at the {size} size" if len(results.sizes) > 1 else ""
    text = f"From the same prompts and with the same sampling seeds, by the first run of each arm{several}."
    without = [name for name in results.names if name not in chosen]
    text += f" No run of {', '.join(without)} came far enough to write." if without else ""
    items: list[Item] = [Paragraph(text)]
    count = min(MOST, max(len(writer.samples) for writer in chosen.values()))
    for n in range(count):
        for name, writer in chosen.items():
            if n < len(writer.samples):
                items.append(Literally(f"{n + 1}. {name}", writer.samples[n][:LONGEST]))
    return ReportSection("What they write", items)


def first_writer(results: Results, name: str, size: str) -> Outcome | None:
    return next((outcome for outcome in results.outcomes_of(name, size) if outcome.samples), None)
