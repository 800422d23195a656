"""What the arms write from the same prompts."""

from __future__ import annotations

from ...records import Results
from ..document import Item, Literally, Paragraph, ReportSection, section

MAX_SAMPLES = 3  # an arm
MAX_SAMPLE_CHARACTERS = 1200


@section(130)
def samples(results: Results) -> ReportSection | None:
    for size in reversed(results.sizes):
        writers = {name: [o for o in results.outcomes_of(name, size) if o.samples] for name in results.names}
        chosen = {name: own[0] for name, own in writers.items() if own}
        if chosen:
            break
    else:
        return None
    several = f" at the {size} size" if len(results.sizes) > 1 else ""
    text = f"From the same prompts and with the same sampling seeds, by the first run of each arm{several}."
    without = [name for name in results.names if name not in chosen]
    text += f" No run of {', '.join(without)} came far enough to write." if without else ""
    items: list[Item] = [Paragraph(text)]
    count = min(MAX_SAMPLES, max(len(writer.samples) for writer in chosen.values()))
    for n in range(count):
        for name, writer in chosen.items():
            if n < len(writer.samples):
                items.append(Literally(f"{n + 1}. {name}", writer.samples[n][:MAX_SAMPLE_CHARACTERS]))
    return ReportSection("What they write", items)
