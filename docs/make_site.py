"""Write docs/ as a site: `python docs/make_site.py [FOLDER]` (build/site). Needs the extra `site`.

The pages stay plain Markdown; what a site needs beyond it is made in a copy of them, in build/site-source. The
navigation is docs/README.md: its headings, the rows of its tables, and the pages that these link to. A page that the
README of a folder links to stands below that README. Files outside docs/ that a page links to become pages too. Nothing
of the site is fetched from a network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import make_editor
from make_gallery_page import page as gallery_page

HERE = Path(__file__).parent
ROOT = HERE.parent
BUILD = ROOT / "build"
GALLERY = "gallery.html"
PICTURES = (".svg", ".png")
BROWSE = f"[Browse the gallery](../{GALLERY}): diagrams, costs and warnings, to be searched and filtered."
OPEN_EDITOR = '<a href="../editor/index.html">Open the editor in this browser</a>; nothing is installed.'
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
FENCED = re.compile(r"(^(?:````.*?^````|```.*?^```)$)", flags=re.DOTALL | re.MULTILINE)
LEXERS = {".py": "python", ".yaml": "yaml"}
"""Files beside pages that the site shows, and the language in which it colors them."""

GENERIC = re.compile(r"^## (?!In plain words|The question)(.+)$", flags=re.MULTILINE)
UNSEARCHED = r"## \1 { data-search-exclude }"
"""Sections that are much the same in every report of a study: the search would list them all before the pages."""


def pages() -> list[Path]:
    """The pages of docs/."""
    return sorted(HERE.rglob("*.md"))


def linked(page: Path, text: str) -> Iterator[Path]:
    """The other pages that a text of a page links to, not to a heading of theirs, in order."""
    for target in re.findall(r"\]\(([^)\s#:]+\.md)\)", text):
        yield (page.parent / target).resolve()


def navigation() -> list[Any]:
    """The navigation, as Zensical has it: paths, and {title: [what stands below it]}. Every page has one place.

    Raises ValueError that names the pages which docs/README.md does not lead to.
    """
    start = HERE / "README.md"
    left = {page: None for page in pages() if page != start}

    def take(text: str) -> list[Any]:
        found: list[Any] = []
        for page in linked(start, text):
            if page in left:
                del left[page]
                found.append(entry(page))
            if placed(page) == "reference/gallery.md":
                found.append({"Browse the gallery": GALLERY})
        return found

    def entry(page: Path) -> Any:
        if page.name != "README.md":
            return placed(page)
        below = [other for other in linked(page, page.read_text("utf-8")) if other.parent.is_relative_to(page.parent)]
        inside = [other for other in dict.fromkeys(below) if other in left]
        for other in inside:
            del left[other]
        return {title(page): [placed(page), *map(placed, inside)]}

    contents: list[Any] = [placed(start)]
    for section in re.split(r"^## ", start.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        inside: list[Any] = []
        for row in body.splitlines():
            name = re.match(r"\| ([^|]+) \| ", row)
            of_row = take(row)
            inside += [{name[1][:1].upper() + name[1][1:]: of_row}] if name and of_row else of_row
        contents.append(inside[0] if len(inside) == 1 and isinstance(inside[0], dict) else {heading.strip(): inside})
    if left:
        names = ", ".join(placed(page) for page in left)
        raise ValueError(f"docs/README.md, and the READMEs that it links to, do not lead to {names}: add a link")
    return contents


def placed(page: Path) -> str:
    """A page's path within the site's pages."""
    return page.relative_to(HERE).as_posix()


def title(page: Path) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    assert found, page
    return found[1].replace("`", "")


def toml(value: Any) -> str:
    """Lists, strings and {title: list or string} as TOML."""
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(inside)}" for key, inside in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def place(path: Path) -> Path:
    """Where the site's pages have a file of this repository, or what a folder holds."""
    inside = path.relative_to(HERE) if path.is_relative_to(HERE) else Path("files", path.relative_to(ROOT))
    return inside if path.suffix in (".md", *PICTURES) else inside.with_name(inside.name + ".md")


def copy(path: Path, folder: Path) -> None:
    """Write a file, and all that it leads to, where the site's pages have it."""
    to = folder / place(path)
    if to.exists():
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in PICTURES:
        shutil.copyfile(path, to)
        return
    text = path.read_text("utf-8") if path.suffix == ".md" else shown(path)
    parts = FENCED.split(text)
    targets = {target for part in parts[::2] for target in LINK.findall(part) if ":" not in target}
    leads = {target: (path.parent / target).resolve() for target in sorted(targets)}
    moved = {target: os.path.relpath(folder / place(other), to.parent) for target, other in leads.items()}
    parts[::2] = [rows(LINK.sub(lambda match: moved.get(match[1], match[1]), part)) for part in parts[::2]]
    to.write_text(GENERIC.sub(UNSEARCHED, "".join(parts)) if path.name == "report.md" else "".join(parts), "utf-8")
    for other in leads.values():
        copy(other, folder)


def rows(text: str) -> str:
    """A text in which code within a table has its bars without the backslash that Markdown elsewhere asks for."""

    def plain(row: re.Match[str]) -> str:
        return re.sub(r"`[^`]+`", lambda code: code[0].replace(r"\|", "|"), row[0])

    return re.sub(r"^\|.*", plain, text, flags=re.MULTILINE)


def shown(path: Path) -> str:
    """A file that is no page, or a folder, as a page that the search leaves out."""
    name = path.relative_to(ROOT).as_posix()
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in LEXERS)
        return head + "".join(f"- [{file.name}]({path.name}/{file.name})\n" for file in files)
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text("utf-8"))["cells"]
        texts = [("".join(cell["source"]), cell["cell_type"] == "markdown") for cell in cells]
        return head + "\n\n".join(text if plain else f"```python\n{text}\n```" for text, plain in texts) + "\n"
    return head + f"````{LEXERS.get(path.suffix, 'text')}\n{path.read_text('utf-8')}````\n"


def browsed() -> str:
    """The gallery's page for a browser, with a way back."""
    opening = '<header class="opening">'
    return gallery_page().replace(opening, opening + '\n<p><a href="index.html">transformula</a></p>', 1)


def build(folder: Path) -> None:
    """Write the site into a folder."""
    source = BUILD / "site-source"
    shutil.rmtree(source, ignore_errors=True)
    pages = source / "pages"
    copy(HERE / "README.md", pages)
    for name in ("site.css", "iframe-worker.js"):
        shutil.copyfile(HERE / "site" / name, pages / name)
    (pages / GALLERY).write_text(browsed(), encoding="utf-8")
    listed = pages / place(HERE / "reference" / "gallery.md")
    listed.write_text(listed.read_text("utf-8").replace("\n\n", f"\n\n{BROWSE}\n\n", 1), encoding="utf-8")
    editor = (make_editor.PYODIDE / make_editor.RUNTIME[0]).is_file()
    if editor:
        studio = pages / place(HERE / "how-to" / "studio.md")
        studio.write_text(studio.read_text("utf-8").replace("\n\n", f"\n\n{OPEN_EDITOR}\n\n", 1), encoding="utf-8")
    config = (HERE / "site" / "zensical.toml").read_text("utf-8")
    (source / "zensical.toml").write_text(config.replace("nav = []", f"nav = {toml(navigation())}"), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(command, cwd=source, check=True)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.move(source / "html", folder)
    if editor:
        make_editor.make(folder / "editor")
    else:
        print("the editor was left out: it needs Pyodide, by Node: npm ci --prefix web")
    print(f"{folder / 'index.html'}")


if __name__ == "__main__":
    if find_spec("zensical") is None:
        sys.exit("error: the site needs Zensical: pip install -c constraints.txt '.[site]'")
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "site")
