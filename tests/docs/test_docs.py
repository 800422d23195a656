"""What the pages show is run, and comes out as shown; links between pages lead somewhere."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, commands, fits, pages, plain_arguments, renew, run_page


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def empty(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a cache that no other process sees."""
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def marked(path: Path, mark: str) -> bool:
    return f"<!-- {mark}:" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [path for path in pages() if not marked(path, "slow page")], ids=named)
def test_page(path: Path, empty: Path) -> None:
    run_page(path, empty, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in pages() if marked(p, "slow") or marked(p, "slow page")], ids=named)
def test_page_with_its_longer_blocks(path: Path, empty: Path) -> None:
    if re.search(r"^\$ espeak-ng", path.read_text("utf-8"), re.MULTILINE) and shutil.which("espeak-ng") is None:
        pytest.skip("needs the program espeak-ng: apt-get install espeak-ng")
    run_page(path, empty, slow=True)


@pytest.mark.parametrize("path", pages(), ids=named)
def test_links(path: Path) -> None:
    """Links to files of this repository lead to files, and `#headings` to headings."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        assert other.exists(), f"{named(path)}: {target} leads nowhere"
        if heading:
            titles = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert heading in {anchor(title) for title in titles}, f"{named(path)}: no heading for {target}"


def test_the_page_of_benchmarks_has_each_with_its_first_sentence() -> None:
    folder = ROOT / "benchmarks"
    described = {path.name: ast.get_docstring(ast.parse(path.read_text("utf-8"))) for path in folder.glob("*.py")}
    first = {name: " ".join((text or "").split("\n\n")[0].split()) for name, text in described.items()}
    rows = re.findall(r"^\| \[`(\S+)`\]\(\1\) \| (.+) \|$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    scripts = {path.name for path in folder.glob("*.py") if "argparse" in path.read_text("utf-8")}
    assert dict(rows) == {name: first[name] for name in scripts} and [name for name, _ in rows] == sorted(scripts)


def anchor(title: str) -> str:
    """The anchor that a heading gets on the web."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


RUN = """\
step 1: validation (24 of 62 windows) loss 2.1559
step 20: validation (all) loss 0.9115 (better than step 1 by no more than noise)
precision: bf16
  | the bird

1,020 steps in 0.7 s, layers.1 at 1e-05
  name   9.5  -2
  -----------------
run: runs/first
"""
"""What a page shows of one run."""

OTHER = """\
step 7: validation (24 of 62 windows) loss 3
precision: float32
step 20: validation (all) loss 2.5
evaluation took 1 s

20 steps in 12.25 s, layers.1 at 2
  name  10.25  3
  ------
run: runs/first
"""


def test_what_another_run_prints_fits_what_one_printed() -> None:
    """Numbers by their shape, and without the lines that depend on a machine's speed; nothing else may differ."""
    training = {"training": "of one run"}
    assert fits(RUN, OTHER, training) and fits(OTHER, RUN, training)
    assert not fits(RUN, OTHER) and not fits(RUN, OTHER, {"numbers": "of one run"})
    for changed in (
        OTHER.replace("run: runs/first\n", ""),
        OTHER.replace("in 12", "after 12"),
        OTHER.replace("20 steps", "steps"),
        OTHER.replace("layers.1 at", "layers.2 at"),
        OTHER.replace("  name", "a line\n  name"),
        OTHER.replace("first", "second"),
        OTHER.replace("at 2", "at nan"),
    ):
        assert changed != OTHER and not fits(RUN, changed, training), changed


def test_numbers_are_not_the_digits_of_names() -> None:
    numbers = {"numbers": "of one run"}
    assert fits("lr 1e-3, 12 % of 1,000 (-0.5 to +2)", "lr 2, 0.1 % of 3 (1 to -2)", numbers)
    for name in ("bf16", "layers.1", "skip-1", "a_1", "v0.1"):
        assert fits(name, name, numbers) and not fits(name, re.sub(r"\d+$", "7", name), numbers)


def test_what_is_not_compared_is_named() -> None:
    marks = {"not compared": r"^the .*|(?<=loss ).+"}
    assert fits("the cat\nloss 1\n\nend", "loss 2\n\nend", marks) and fits("the cat\nend", "the dog\nend", marks)
    assert fits("good\t0.9\n", "good\t0.8\n", {"not compared": r"(?<=^good\t).*"})
    assert not fits("the cat\nend", "a cat\nend", marks) and not fits("loss 1\nend", "end", marks)


def test_every_command_shows_some_of_what_it_prints() -> None:
    """`...` leaves lines out; alone it would hide all of them."""
    hidden = [
        f"{named(path)}:{block.line} {command}"
        for path in pages()
        for block in blocks(path.read_text(encoding="utf-8"))
        if block.kind == "console" and "not run" not in block.marks
        for command, shown in commands(block.text)
        if shown.strip() and not shown.replace("...", "").strip()
    ]
    assert hidden == []


def test_a_page_is_renewed(empty: Path) -> None:
    """What was printed takes the place of what a page shows, but where it shows `...` or nothing."""
    page = "```console\n$ echo a\nb\n$ echo c d\nc ...\n$ echo e\n```\n\nText\n\n"
    page += "```python\nprint(1)\n```\n```output\n2\n```\n"
    path = empty / "page.md"
    path.write_text(page, encoding="utf-8")
    renew(path, wholly=False)
    made = page.replace("\nb\n", "\na\n").replace("2", "1")
    assert path.read_text(encoding="utf-8") == made
    renew(path, wholly=True)
    assert path.read_text(encoding="utf-8") == made.replace("c ...", "c d")


def test_the_harness_itself(empty: Path) -> None:
    """A page that shows what does not come out fails; marks and wildcards do what they say."""
    page = '```python\nprint("a 1 b")\n```\n```output\na ... b\n```\n<!-- not run: no -->\n```python\n1/0\n```\n'
    assert [b.kind for b in blocks(page)] == ["python", "output", "python"]
    assert list(blocks(page))[2].marks == {"not run": "no"}
    assert list(commands("$ a \\\n  b\nx\ny\n$ c\n")) == [("a \\\n  b", "x\ny"), ("c", "")]
    assert fits("a\n...\nz", "a\nb\nc\nz\n") and fits("a ... z", "a 123 z") and not fits("a\nz", "a\nb\nz")
    assert plain_arguments("transformula train \"x = x; y\" --a \\\n  --b 'c.{d,e}'") == [
        "train",
        "x = x; y",
        "--a",
        "--b",
        "c.{d,e}",
    ]
    for shell in ("ls", "transformula a | head", "transformula a > b", "transformula c.{d,e}", 'transformula "$HOME"'):
        assert plain_arguments(shell) is None
    path = empty / "page.md"
    path.write_text(page, encoding="utf-8")
    assert run_page(path, empty, slow=False) == 1
    path.write_text(page.replace("a ... b", "c"), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"page.md:\d+: printed"):
        run_page(path, empty, slow=False)
