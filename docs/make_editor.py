"""Write the editor as a static page: `python docs/make_editor.py [FOLDER]` (build/site/editor). No server answers it.

The page runs this package's own Python in the browser, by Pyodide: the rooms that need no torch, and PyYAML. Pyodide
comes with `npm ci` in web/, and nothing is fetched from a network when the page is open.
"""

from __future__ import annotations

import argparse
import shutil
import zipfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "transformula"
PAGE = SOURCE / "serving" / "page"
PYODIDE = ROOT / "web" / "node_modules" / "pyodide"
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
ROOMS = ("analysis", "api", "cost", "diagram", "families", "gallery", "inspection", "language", "words")
KINDS = (".py", ".yaml", ".json")


def make(folder: Path) -> Path:
    """The page's folder. Raises FileNotFoundError where Pyodide is not there."""
    if not (PYODIDE / RUNTIME[0]).is_file():
        raise FileNotFoundError(f"{PYODIDE} is not there; run: npm ci --prefix web")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyodide").mkdir(exist_ok=True)
    for name in RUNTIME:
        shutil.copyfile(PYODIDE / name, folder / "pyodide" / name)
    for path in PAGE.iterdir():
        shutil.copyfile(path, folder / path.name)
    ours = [path for path in SOURCE.glob("*") if path.suffix in KINDS]
    for room in ROOMS:
        ours += [path for path in (SOURCE / room).rglob("*") if path.suffix in KINDS]
    pack(folder / "transformula.zip", SOURCE.parent, ours)
    parsers = Path(yaml.__file__).parent
    pack(folder / "yaml.zip", parsers.parent, [path for path in parsers.glob("*.py") if path.name != "cyaml.py"])
    return folder


def pack(target: Path, base: Path, paths: list[Path]) -> None:
    """A zip of files, the same bytes each time."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path in sorted(paths):
            file.writestr(zipfile.ZipInfo(path.relative_to(base).as_posix()), path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site" / "editor")
    place = make(parser.parse_args().folder)
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(f"wrote {place}, {size / 2**20:.1f} MiB")
