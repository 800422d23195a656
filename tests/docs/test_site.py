"""The site: its navigation and its copy of the pages, and, where its generator and Chromium are, what people see."""

from __future__ import annotations

import html
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.blocks import ROOT
from tests.docs.test_gallery_page import BROWSER
from tests.pace import PATIENCE

DOCS = ROOT / "docs"
LINKS = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def maker() -> Iterator[ModuleType]:
    sys.path.insert(0, str(DOCS))
    yield importlib.import_module("make_site")
    sys.path.remove(str(DOCS))


def paths(contents: Any) -> list[str]:
    """All that stands in a navigation."""
    if isinstance(contents, str):
        return [contents]
    inside = contents.values() if isinstance(contents, dict) else contents
    return [path for part in inside for path in paths(part)]


def test_the_navigation_has_every_page_once_and_the_gallery(maker: ModuleType) -> None:
    found = paths(maker.navigation())
    assert found[0] == "README.md"
    assert sorted(found) == sorted([*(maker.placed(page) for page in maker.pages()), "gallery.html"])


def test_a_page_that_is_linked_nowhere_is_named(maker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = DOCS / "how-to" / "lost.md"
    listed = [*maker.pages(), lost]
    monkeypatch.setattr(maker, "pages", lambda: listed)
    with pytest.raises(ValueError, match=r"do not lead to how-to/lost\.md: add a link"):
        maker.navigation()


def test_every_page_is_two_clicks_from_the_start() -> None:
    """By links of the pages alone, as on a disk or where a repository is shown."""
    clicks = {DOCS / "README.md": 0}
    for page in (left := list(clicks)):  # which grows
        for target in LINKS.findall(page.read_text("utf-8")) if clicks[page] < 2 else ():
            other = (page.parent / target.split("#")[0]).resolve()
            if other.suffix == ".md" and other.is_file() and other not in clicks:
                clicks[other] = clicks[page] + 1
                left.append(other)
    assert set(DOCS.rglob("*.md")) - set(clicks) == set()


def test_what_it_writes_for_the_generator_is_toml(maker: ModuleType) -> None:
    contents = ["a.md", {'It\'s "b"': ["é.md", {"c": "d.html"}]}]
    assert tomllib.loads(f"nav = {maker.toml(contents)}") == {"nav": contents}
    config = tomllib.loads((DOCS / "site" / "zensical.toml").read_text("utf-8"))
    assert config["project"]["theme"]["font"] is False and "nav = []" in (DOCS / "site" / "zensical.toml").read_text()


@pytest.fixture(scope="module")
def copied(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as the generator reads them."""
    folder = tmp_path_factory.mktemp("pages")
    maker.copy(DOCS / "README.md", folder)
    return folder


def test_the_copy_leads_nowhere_outside(copied: Path) -> None:
    """Files that pages link to, such as recipes, have become pages; folders list them; notebooks have their cells."""
    for page in copied.rglob("*.md"):
        for target in LINKS.findall(re.sub(r"(`{3,4}).*?\1", "", page.read_text("utf-8"), flags=re.DOTALL)):
            other = (page.parent / target.split("#")[0]).resolve()
            inside = other.is_relative_to(copied) and (other.is_file() or other == page.parent)
            assert inside or ":" in target, (page, target)
    recipe = (copied / "files/src/transformula/recipes/built-in/digits.yaml.md").read_text("utf-8")
    assert "exclude: true" in recipe and "````yaml\nrecipe:" in recipe
    assert "](recipes/mnist.yaml.md)" in (copied / "files/src/transformula/recipes.md").read_text("utf-8")
    assert "```python\n" in (copied / "files/examples/skips.ipynb.md").read_text("utf-8")


def test_the_copy_says_the_same(copied: Path) -> None:
    """Only links, bars in the code of tables, and what of reports the search leaves out are other than in docs/."""
    for page in DOCS.rglob("*.md"):
        written, copy = (path.read_text("utf-8") for path in (page, copied / page.relative_to(DOCS)))
        plain = LINKS.sub("]()", copy).replace(" { data-search-exclude }", "").replace("\\|", "|")
        assert plain == LINKS.sub("]()", written).replace("\\|", "|"), page
    report = (copied / "studies" / "norms" / "report.md").read_text("utf-8")
    assert "\n## In plain words\n" in report and "\n## Verdicts { data-search-exclude }\n" in report
    assert "`transformula completion fish | source`" in (copied / "how-to" / "install.md").read_text("utf-8")


class Page(HTMLParser):
    """Ids, links, and what else a page loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id":
                self.ids.add(value or "")
            elif key in ("href", "src", "srcset", "data"):
                (self.links if tag == "a" else self.loaded).append(value or "")


@pytest.fixture(scope="module")
def site(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("zensical") is None:
        pytest.skip("needs the extra `site`, which `make site` installs")
    folder = tmp_path_factory.mktemp("site") / "html"
    maker.build(folder)
    return folder


@pytest.mark.slow
def test_the_site_is_whole_and_loads_nothing_from_a_network(site: Path, maker: ModuleType) -> None:
    shown = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in shown.items():
        assert [source for source in page.loaded if re.match(r"(\w+:)?//", source)] == [], path
        for target in [*page.links, *page.loaded]:
            name, _, heading = target.partition("#")
            other = (path.parent / name).resolve() if name else path
            if re.match(r"\w+:", target):
                continue
            assert other.is_file(), (path, target)
            assert not heading or other not in shown or heading in shown[other].ids, (path, target)
    found = [re.sub(r"README\.md$", "index.md", path) for path in paths(maker.navigation())]
    assert [path for path in found if not (site / path).with_suffix(".html").is_file()] == []
    searched = json.loads((site / "search.json").read_text("utf-8"))["items"]
    titles = {(item["location"].partition("#")[0], item["title"]) for item in searched}
    assert {("reference/api.html", "<code>Model.from_folder</code>"), ("glossary.html", "Glossary")} <= titles
    assert not [place for place, title in titles if place.startswith("files/src/")]


PROBE = """<!doctype html><meta charset="utf-8"><body><iframe style="border:0;height:900px;width:WIDTHpx"></iframe>
<script>
const frame = document.querySelector("iframe"), found = { beyond: [], hidden: [], empty: [], offered: [] };
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const shown = (e) => e && e.getClientRects().length > 0;
const open = (name) => new Promise((done) => { frame.onload = done; frame.src = name; });
(async () => {
  for (const name of PAGES) {
    await open(name);
    const page = frame.contentDocument;
    if (page.documentElement.scrollWidth > frame.contentWindow.innerWidth) found.beyond.push(name);
    if (!shown(page.querySelector("h1"))) found.hidden.push(name);
    if ([...page.querySelectorAll("thead")].some((e) => shown(e) && !e.innerText.trim())) found.empty.push(name);
  }
  await open("tutorial/first-model.html");
  const page = frame.contentDocument;
  const code = page.querySelector("pre > code");
  code.setAttribute("data-md-copying", "");
  found.copied = code.innerText;
  [...page.querySelectorAll(".md-search__button, [for=__search]")].filter(shown)[0].click();
  for (let tries = 0; tries < 100 && !found.offered.length; tries++) {
    await wait(100);
    const dialog = [...page.querySelectorAll("body > div")].map((e) => e.shadowRoot).filter((e) => e)[0];
    const field = dialog && dialog.querySelector("input");
    if (!field) continue;
    if (!field.value) {
      field.value = "learning rate";
      field.dispatchEvent(new frame.contentWindow.Event("input", { bubbles: true }));
    }
    found.offered = [...dialog.querySelectorAll("a[role=option] h2")].map((e) => e.innerText);
  }
  document.title = JSON.stringify(found);
})();
</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium, to see the site as people do: apt-get install chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(site: Path, maker: ModuleType, width: int, tmp_path: Path) -> None:
    """From a folder, without a server or a network: nothing scrolls sideways, the search finds, commands are copied."""
    names = [re.sub(r"README\.md$", "index.md", path) for path in paths(maker.navigation())]
    few = [name for name in names if not re.match("studies/.*/|reference/words/[a-z]", name) or "norm" in name]
    addresses = json.dumps([str(Path(name).with_suffix(".html")) for name in few])
    probe = site / f"probe-{width}.html"
    probe.write_text(PROBE.replace("WIDTH", str(width)).replace("PAGES", addresses), encoding="utf-8")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=100000", f"--user-data-dir={tmp_path}"]
    done = subprocess.run(
        [*command, "--dump-dom", probe.as_uri()], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert title, done.stdout[:500] + done.stderr[-500:]
    found = json.loads(html.unescape(title[1]))
    assert found["beyond"] == found["hidden"] == found["empty"] == []
    assert "Which learning rate?" in found["offered"]
    assert found["copied"].startswith("transformula explain ") and "layers 1" not in found["copied"]
