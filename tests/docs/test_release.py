"""What `make release` refuses, and what it prints of the changelog. That a wheel is built: tests/test_package.py."""

from __future__ import annotations

import importlib
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import transformula
from tests.docs.blocks import ROOT

CHANGELOG = "# Changelog\n\n## 1.2.0, unreleased\n\n### Added\n\n- this\n\n## 1.1.0, 2026-01-31\n\n- that\n"


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("make_release")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository of a version, all of it committed."""
    root = tmp_path / "clone"
    (root / "src" / "transformula").mkdir(parents=True)
    (root / "src" / "transformula" / "__init__.py").write_text('"""It."""\n\n__version__ = "1.2.0"\n')
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def test_the_section_of_this_version_alone(maker: ModuleType, clone: Path) -> None:
    assert maker.checked(clone) == ("1.2.0", "unreleased", "### Added\n\n- this")
    (clone / "CHANGELOG.md").write_text(CHANGELOG.replace("## 1.2.0, unreleased\n\n### Added\n\n- this\n\n", ""))
    assert maker.newest(clone) == ("1.1.0", "2026-01-31", "- that")


def test_another_version_is_refused(maker: ModuleType, clone: Path) -> None:
    (clone / "src" / "transformula" / "__init__.py").write_text('__version__ = "1.3.0"\n')
    with pytest.raises(maker.Refused, match=r"1\.3\.0 \(src/.*\), but CHANGELOG.md begins with 1\.2\.0"):
        maker.checked(clone)


@pytest.mark.parametrize("text", ["# Changelog\n", CHANGELOG.replace("## 1.2.0,", "## Next\n\n- more\n\n## 1.2.0,")])
def test_a_changelog_that_begins_with_no_version_is_refused(text: str, maker: ModuleType, clone: Path) -> None:
    (clone / "CHANGELOG.md").write_text(text)
    with pytest.raises(maker.Refused, match="its first section is no release"):
        maker.checked(clone)


@pytest.mark.parametrize("name", ["CHANGELOG.md", "new.txt"])
def test_a_tree_that_is_not_clean_is_refused(name: str, maker: ModuleType, clone: Path) -> None:
    with (clone / name).open("a") as file:
        file.write("more\n")
    with pytest.raises(maker.Refused, match=f"no commit has these changes: {name}; "):
        maker.checked(clone)


def test_a_folder_without_a_repository_is_refused(
    maker: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(clone.parent))
    (clone / ".git").rename(clone / "git")
    with pytest.raises(maker.Refused, match="from a clone of the repository"):
        maker.checked(clone)


def test_what_is_built_is_checked_and_told(
    maker: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names, checked = ["transformula-1.2.0-py3-none-any.whl", "transformula-1.2.0.tar.gz"], []

    def run(what: str, module: str, *arguments: str) -> None:
        if module == "build":
            for name in names:
                Path(arguments[arguments.index("--outdir") + 1], name).write_text("new")
        else:
            assert (module, *arguments[:2]) == ("twine", "check", "--strict")
            checked.extend(Path(file).name for file in arguments[2:] if Path(file).read_text() == "new")

    (clone / "dist").mkdir()
    (clone / ".git" / "info" / "exclude").write_text("dist\n")
    (clone / "dist" / names[0]).write_text("old")
    (clone / "dist" / "transformula-1.2.0-py3-none-other.whl").write_text("of another machine")
    monkeypatch.setattr(maker, "run", run)
    maker.release(clone)
    files = [f"{clone}/dist/{name}" for name in names]
    assert checked == names and [Path(file).read_text() for file in files] == ["new", "new"]
    assert {path.name for path in clone.iterdir()} == {".git", "src", "CHANGELOG.md", "dist"}, "no folder between"
    told = capsys.readouterr().out
    assert "### Added\n\n- this\n" in told and "- that" not in told and told.endswith(f"upload {' '.join(files)}\n")
    assert "write the day in its place" in told


def test_a_step_that_fails_is_named(maker: ModuleType) -> None:
    with pytest.raises(maker.Refused, match="the build failed"):
        maker.run("the build", "this_module_is_not_there")


def test_the_parts_of_the_changelog_are_known(maker: ModuleType) -> None:
    """Those of keepachangelog: what somebody has to do stands first."""
    parts = [row for row in maker.newest(ROOT).text.splitlines() if row.startswith("### ")]
    known = [f"### {name}" for name in ("Changed", "Deprecated", "Removed", "Added", "Fixed", "Security")]
    assert parts == [name for name in known if name in parts] and parts


def test_the_version_stands_in_one_place(maker: ModuleType) -> None:
    assert maker.version_of(ROOT) == transformula.__version__ == maker.newest(ROOT).version
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in about["project"] and about["project"]["dynamic"] == ["version"]
    assert about["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "transformula.__version__"}
    others = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "how-to").glob("*.md")]
    named = f"transformula-{transformula.__version__}"
    assert [path.name for path in others if named in path.read_text(encoding="utf-8")] == []
