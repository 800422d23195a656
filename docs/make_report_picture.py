"""Draw docs/how-to/report-differences.svg, the picture of differences in a comparison's report, from made-up results:
python docs/make_report_picture.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "how-to" / "report-differences.svg"


def picture() -> str:
    sys.path.insert(0, str(ROOT))
    from tests.comparison.fake import fake_results
    from transformula.comparison.report.sections.forest import forest_of

    return forest_of(fake_results(sizes=("only",), points=8), "only").svg


if __name__ == "__main__":
    FILE.write_text(picture(), encoding="utf-8")
    print(f"wrote {FILE}")
