"""The house: which room may import which, and that `import transformula` and the text rooms cost no torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rules import RULES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "transformula"
DOCS = ROOT / "docs"

FOUNDATION: dict[str, set[str]] = {
    "errors": set(),
    "atomic_io": {"errors"},
    "extras": {"errors"},
    "field_names": {"errors", "structured"},
    "figure": {"plain"},
    "notebook": set(),
    "ownership": {"atomic_io", "errors", "structured"},
    "plain": {"notebook"},
    "registry": {"errors", "extras", "plain"},
    "settings": {"errors", "field_names", "plain", "structured"},
    "structured": set(),
}


def rooms_of_the_page() -> dict[str, set[str]]:
    """The table of CONTRIBUTING.md: room -> rooms it may import, the foundation apart."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \| [^|]+ \| ([^|]+) \|$", page, flags=re.MULTILINE)
    return {room: set() if others == "the foundation" else set(others.split(", ")) for room, others in rows}


ROOMS = rooms_of_the_page()
MAY_IMPORT = {**FOUNDATION, **ROOMS, "__main__": {"cli"}, "": {"comparison"}}
"""Room -> rooms it may import; what those may import, it may import too. "" is the package itself."""

TEXT = ["cost", "language", "analysis", "families", "diagram"]
WITHOUT_TORCH = [*TEXT, "gallery", "cli"]
HEAVY = {"torch", "numpy", "pydantic", "rich", "tokenizers", "safetensors", "matplotlib"}


def allowed(room: str) -> set[str]:
    """The room, the foundation, and all that the room may import."""
    found, ahead = {room}, [room]
    while ahead:
        for other in MAY_IMPORT[ahead.pop()]:
            if other not in found:
                found.add(other)
                ahead.append(other)
    return found | (FOUNDATION.keys() if room not in FOUNDATION else set())


def room_of(path: Path) -> str:
    """'language' for language/graph.py, 'errors' for errors.py, '' for __init__.py."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path, nested: bool = True) -> Iterator[tuple[int, str]]:
    """(line, full name) of everything a file imports; with `nested`, inside functions too, else at its top level.

    Lines under `if TYPE_CHECKING:` are read too when nested: a room's types are its business as well."""
    package = ["transformula", *path.relative_to(PACKAGE).parts[:-1]]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if nested else top_level(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{start}.{alias.name}"


def top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements that run on import: not those in functions, nor under `if TYPE_CHECKING:`."""
    ahead: list[ast.AST] = list(tree.body)
    while ahead:
        node = ahead.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        ahead.extend(ast.iter_child_nodes(node))


def test_the_page_has_every_room_and_no_other() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (first,) = re.findall(r"^\| (.+) \| the foundation \| each other \|$", page, flags=re.MULTILINE)
    assert {file.strip("`") for file in first.split()} == {f"{room}.py" for room in FOUNDATION}
    assert {f"{room}.py" for room in FOUNDATION} == {p.name for p in PACKAGE.glob("[!_]*.py")}
    assert set(ROOMS) == {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}


def test_rooms_import_those_above_them() -> None:
    """So the table is read from top to bottom, and has no circle."""
    names = list(ROOMS)
    for at, room in enumerate(names):
        assert ROOMS[room] <= set(names[:at]), f"{room}: {ROOMS[room] - set(names[:at])} stand below it, or nowhere"


def test_the_files_to_read_first_are_files() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    numbered = re.findall(r"^(\d)\. `([^`]+)`: ", page.split("## Six files to read first")[1], flags=re.MULTILINE)
    assert [number for number, _ in numbered] == list("123456")
    assert all((ROOT / path).is_file() for _, path in numbered)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_table(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{path.name}: the room {room!r} is not in the table"
    may = allowed(room)
    broken = []
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] != "transformula":
            continue
        other = parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else ""
        if other not in may and name != "transformula.__version__":
            broken.append(f"line {line}: {name}")
    assert not broken, f"{room or 'transformula'} may not import: {broken}"


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_text_rooms_name_no_torch_at_their_top(room: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line} {name}"
        for path in modules()
        if room_of(path) == room
        for line, name in imports(path, nested=False)
        if name.split(".")[0] == "torch"
    ]
    assert not found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rules_read_from_the_source(rule: Callable[[], set[str]]) -> None:
    """One thing a class name, 25 methods a class, no circle of imports, nothing written twice: see tests/rules.py."""
    assert sorted(rule()) == []


def test_no_function_of_ours_is_too_complex() -> None:
    """Ruff, which runs before the tests, holds all of src/ to a complexity of 12."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "C901" in lint["select"] and lint["mccabe"]["max-complexity"] <= 12
    assert not [path for path in lint["per-file-ignores"] if path.startswith(("src", "*"))]


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh Python has loaded after `statement`."""
    program = f"{statement}\nimport sys; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("room", ["", *(f".{room}" for room in TEXT), ".gallery", ".words", ".cli", ".api"])
def test_importing_a_room_is_cheap(room: str) -> None:
    """Every `__init__` is lazy: importing it loads nothing heavy."""
    assert not loaded_by(f"import transformula{room}") & HEAVY


def test_text_rooms_load_no_torch() -> None:
    """Each module of these rooms is imported, one after the other, in one fresh Python."""
    paths = [p for p in modules() if room_of(p) in TEXT]
    names = [".".join(["transformula", *p.relative_to(PACKAGE).with_suffix("").parts]) for p in paths]
    names = [name.removesuffix(".__init__") for name in names]
    program = f"import importlib, sys\nfor name in {names}:\n    importlib.import_module(name)\n"
    done = subprocess.run(
        [sys.executable, "-c", program + "    assert 'torch' not in sys.modules, name"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_public_names_are_documented() -> None:
    """`transformula.__all__` is what docs/reference/api.md has a heading for, and all of it exists."""
    import transformula

    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## `(\w+)", page, flags=re.MULTILINE)
    assert sorted(headings) == sorted(transformula.__all__)
    for name in transformula.__all__:
        assert getattr(transformula, name) is not None
