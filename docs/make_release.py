"""Build what a release uploads, check it, and print what the changelog says of it: `make release`.

The version stands in one place, `__version__` of the package. Nothing is built where the changelog begins with another
version, or where the tree has a change that no commit has. Nothing is uploaded.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
HEADING = re.compile(r"^## (?P<version>\d\S*), (?P<day>unreleased|\d{4}-\d{2}-\d{2})$", re.MULTILINE)


class Refused(Exception):
    """There is nothing to release: what is wrong, and what to do."""


class Section(NamedTuple):
    """A release in the changelog. `day` is "unreleased" until somebody writes the day."""

    version: str
    day: str
    text: str


def version_of(root: Path) -> str:
    """`__version__`, which pyproject.toml reads, too."""
    place = root / "src" / "transformula" / "__init__.py"
    (found,) = re.findall(r'^__version__ = "(.+)"$', place.read_text(encoding="utf-8"), re.MULTILINE)
    return str(found)


def newest(root: Path) -> Section:
    """The first release of CHANGELOG.md. Raises Refused where it has none."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = list(HEADING.finditer(text))
    first = re.search(r"^## .*$", text, re.MULTILINE)
    if first is None or not headings or headings[0].start() != first.start():
        raise Refused("CHANGELOG.md: its first section is no release; write '## 1.2.3, unreleased' above it")
    end = headings[1].start() if len(headings) > 1 else len(text)
    return Section(headings[0]["version"], headings[0]["day"], text[headings[0].end() : end].strip())


def uncommitted(root: Path) -> list[str]:
    """What git sees changed or new. Raises Refused where there is no repository."""
    done = subprocess.run(
        ["git", "-C", str(root), "status", "--porcelain", "--", "."], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Refused(f"{root}: a release is made from a clone of the repository; git says: {done.stderr.strip()}")
    return [row[3:] for row in done.stdout.splitlines()]


def checked(root: Path) -> Section:
    """The section of the release. Raises Refused where versions differ or the tree is not clean."""
    version, section = version_of(root), newest(root)
    if section.version != version:
        raise Refused(f"the package is version {version} (src/transformula/__init__.py), but CHANGELOG.md begins with"
                      f" {section.version}: make them the same")  # fmt: skip
    if changed := uncommitted(root):
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise Refused(f"no commit has these changes: {', '.join(changed[:5])}{more}; commit them or take them back")
    return section


def run(what: str, module: str, *arguments: str) -> None:
    """Run a module of Python, what it prints shown. Raises Refused where it fails."""
    if subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode:
        raise Refused(f"{what} failed; its own words stand above")


def release(root: Path) -> Section:
    """Build both files of a release, check them, and put them into dist/. Raises Refused."""
    section, folder = checked(root), root / "dist"
    with tempfile.TemporaryDirectory(dir=root, prefix=".dist-") as built:  # dist/ may hold the wheels of other machines
        run("the build", "build", "--no-isolation", "--outdir", built, str(root))
        names = sorted(os.listdir(built))  # the wheel, then the source distribution
        run("the check of the files", "twine", "check", "--strict", *(f"{built}/{name}" for name in names))
        folder.mkdir(exist_ok=True)
        files = [str(Path(built, name).replace(folder / name)) for name in names]
    print(f"\ntransformula {section.version}, {section.day}\n\n{section.text}\n")
    if section.day == "unreleased":
        print("note: CHANGELOG.md calls this version unreleased; write the day in its place before you upload")
    print("to upload: python -m twine upload", *files)
    return section


def main() -> int:
    try:
        release(ROOT)
    except Refused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
