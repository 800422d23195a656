"""Where the docs' figures come from: each benchmark keeps what it measured, and the pages that show it are rewritten.

A page shows the figures of `speed` between two comments:

    <!-- figures: speed -->
    ...
    <!-- end of figures -->
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import torch

    name = platform.processor()
    try:
        rows = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(row.split(":")[1].strip() for row in rows if row.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "processor": name,
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "bf16 instructions": bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    }


def keep(name: str, data: Mapping[str, Any], shown: Sequence[str]) -> Path:
    """Write `benchmarks/results/NAME.json`, and put `shown` (Markdown lines) into every page that asks for it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **data}, indent=2) + "\n", encoding="utf-8")
    block = re.compile(rf"(<!-- figures: {re.escape(name)} -->\n).*?(<!-- end of figures -->)", re.DOTALL)
    for page in [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        new = block.sub(lambda found: found.group(1) + "\n".join(shown) + "\n" + found.group(2), text)
        if new != text:
            page.write_text(new, encoding="utf-8")
    return path
