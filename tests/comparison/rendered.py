"""What tests of a report read it with: the elements and tables of its page, and where its links lead."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and the fields of its tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[tuple[str, str | None]]]] = []
        self.text: list[str] = []
        self.inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(("", given.get("data-value")))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self.inside in ("td", "th"):
            text, value = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (text + data, value)

    def table(self, *columns: str) -> list[dict[str, tuple[str, str | None]]]:
        """The rows of the first table that has these columns: column -> (text, value)."""
        for table in self.tables:
            names = [text for text, _ in table[0]]
            if set(columns) <= set(names):
                return [dict(zip(names, row, strict=True)) for row in table[1:]]
        raise AssertionError(f"no table has {columns}")


def links_lead_to_pictures(folder: Path) -> None:
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    links = re.findall(r"!\[[^\n]*\]\((\S+)\)", markdown)
    assert len(links) > 10 and all((folder / link).is_file() for link in links)
    for picture in (folder / "figures").iterdir():
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG") if picture.suffix == ".png" else b"<svg" in content
