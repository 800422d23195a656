"""The gallery as a page for a browser: what stands in it, and, where Chromium is installed, how it behaves there."""

from __future__ import annotations

import functools
import html
import http.server
import importlib
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.pace import PATIENCE
from transformula import gallery
from transformula.analysis.analysis import Analysis, analyze
from transformula.gallery import KNOWN
from transformula.language.check import check
from transformula.words import vocabulary

EMPTY = {"meta", "input", "br", "img", "link", "rect", "path", "circle", "polygon"}
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


SOME = (
    "attention-residuals b2t conformer dlcl highway mla no-skip normformer post-norm pre-norm residual skip-2-dropout"
    " skip-2-half skip-2-pre skip-2-pre-dropout transparent-attention unet value-residual vaswani gpt2 gemma3"
).split()
"""Entries of every look, for the everyday run: several stacks, history, definitions, warnings, wide diagrams."""


class Elements(HTMLParser):
    """All elements with their attributes, ids, links, and whether every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.slow)])
def entries(request: pytest.FixtureRequest) -> list[gallery.Entry]:
    """What the page is made of: entries that the index holds."""
    return [entry for entry in gallery.indexed() if request.param == "all" or entry.name in SOME]


@pytest.fixture(scope="module")
def page(entries: list[gallery.Entry]) -> Iterator[str]:
    """The page, made anew."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        made: str = importlib.import_module("make_gallery_page").page(entries)
    finally:
        sys.path.remove(str(ROOT / "docs"))
    yield made


@pytest.fixture(scope="module")
def analyses(entries: list[gallery.Entry]) -> dict[str, Analysis]:
    """What `explain` finds of each entry, made once for all widths."""
    return {entry.name: analyze(check(entry.text, vocabulary()), vocabulary()) for entry in entries}


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    parser = Elements()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_every_entry_has_its_article_and_diagram(page: str, elements: Elements, entries: list[gallery.Entry]) -> None:
    names = [attributes["id"] for attributes in elements.all("article")]
    assert sorted(names) == sorted(entry.name for entry in entries)
    for article in re.findall(r"<article.*?</article>", page, flags=re.DOTALL):
        assert article.count("<svg") >= 1 and "<h3>" in article and 'class="equation"' in article
        for fact in ("Norms", "Initial scale of the residual path", "Cost", "Checked", "Tested against"):
            assert f"<dt>{fact}</dt>" in article
        assert ("<dt>Same wiring</dt>" in article) != ("<dt>Most similar</dt>" in article)
        assert article.count("<td>") == 3 and "nan ×" not in article


def test_facts_are_the_entries_own(page: str, entries: list[gallery.Entry]) -> None:
    for entry in entries:
        shown = html.unescape(re.sub("<[^>]+>", "", page[page.index(f'id="{entry.name}"') :].split("</article>")[0]))
        for key in ("title", "paper", "authors", "claim", "claim_source", "equation"):
            assert entry.about.get(key, "").replace("`", "") in shown, (entry.name, key)
        assert f"tests/references/{entry.name.replace('-', '_')}.py" in shown


def test_ids_are_unique_and_links_lead_somewhere(elements: Elements, entries: list[gallery.Entry]) -> None:
    others = {entry.name for entry in gallery.indexed()} - {entry.name for entry in entries}
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for link in elements.all("a"):
        assert link["href"].startswith("https://arxiv.org/abs/") or link["href"][1:] in {*ids, *others}, link
    for svg in elements.all("svg"):
        assert set(svg["aria-labelledby"].split()) <= set(ids)


def test_nothing_is_loaded_and_no_colour_is_fixed(page: str, elements: Elements) -> None:
    assert not elements.all("link") and not elements.all("img") and not elements.all("iframe")
    assert all("src" not in attributes for _, attributes in elements.found)
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style and "@import" not in style and style.count("prefers-color-scheme: dark") == 2
    assert not re.search(r'(fill|stroke)="#', page), "diagrams take their colours from the page"
    script = page.split("<script>")[1].split("</script>")[0]
    assert not re.search(r"fetch|XMLHttpRequest|import", script)


def test_fields_have_labels_and_headings_their_order(page: str, elements: Elements) -> None:
    form = page.split('<form id="filter"')[1].split("</form>")[0]
    assert form.count("<label>") == len(re.findall(r"<(?:input|select) ", form)) == 4
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))
    assert 'lang="en"' in page and 'name="viewport"' in page


def test_the_page_begins_with_models_that_people_know(page: str) -> None:
    names = re.findall(r'<article id="([^"]+)"', page)
    headings = re.findall(r"<h2>([^<]+)</h2>", page.split("<main")[1])
    assert headings[0] == "Models" and headings[-1] == "For teaching"
    known = [name for name in KNOWN if name in names]
    assert names[: len(known)] == known


def test_labels_are_plain(page: str) -> None:
    """No kind, choice or fact is called by a name that only insiders read."""
    shown = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    for label in ("source notes", "explain finds", "Gain, branches", "Held to be", "from nothing"):
        assert label not in shown


def test_entries_are_found_by_the_names_of_the_field(page: str, entries: list[gallery.Entry]) -> None:
    for entry in entries:
        article = page[page.index(f'id="{entry.name}"') :].split(">")[0]
        names = html.unescape(article).split('data-names="')[1].split('"')[0]
        assert names == " ".join(entry.field_names)


def test_the_unsound_is_named_with_its_sound_relative(page: str) -> None:
    article = page[page.index('id="skip-2-pre"') :].split("</article>")[0]
    assert "scale-compounds" in article and "0.5 * (x + y) + mlp(norm(y))" in article
    assert 'href="#skip-2-half"' in article and 'data-verdict="warned"' in article


PROBE = """<!doctype html><meta charset="utf-8"><body><iframe src="gallery.html" style="border:0;height:900px"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.style.width = "WIDTHpx";
frame.onload = () => {
  const page = frame.contentDocument, found = {}, form = page.getElementById("filter");
  const shown = () => [...page.querySelectorAll("article")].filter((a) => a.getClientRects().length).map((a) => a.id);
  const set = (name, value) => {
    form.elements[name].value = value;
    form.elements[name].dispatchEvent(new frame.contentWindow.Event("input", { bubbles: true }));
  };
  const type = (key) => {
    const event = new frame.contentWindow.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    page.activeElement.dispatchEvent(event);
  };
  found.inner = frame.contentWindow.innerWidth;
  found.scroll = page.documentElement.scrollWidth;
  found.beyond = [...page.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > found.inner + 1 && !e.closest(".drawing, .skip"))
    .map((e) => e.outerHTML.slice(0, 80));
  found.all = shown();
  found.drawings = [...page.querySelectorAll("svg")].map((svg) => {
    const box = svg.getBoundingClientRect(), inner = svg.getBBox();
    const letters = [...svg.querySelectorAll("text")].slice(0, 1).map((t) => t.getBoundingClientRect().height);
    return [svg.closest("article").id, box.width, box.height, inner.width, letters[0] || 0];
  });
  set("words", "skip dropout"); found.words = shown(); found.count = form.elements.count.value;
  set("words", ""); set("norming", "post-norm"); found.norming = shown();
  set("norming", ""); set("verdict", "warned"); found.verdict = shown();
  set("kind", "depth"); found.both = shown();
  found.headings = [...page.querySelectorAll("main h2")].filter((h) => h.getClientRects().length).length;
  form.reset(); form.elements.words.value = ""; set("kind", ""); set("verdict", "");
  set("words", "sliding window"); found.window = shown();
  set("words", "attenshun"); found.none = shown();
  const offered = page.querySelector("#nothing");
  found.offered = offered.hidden ? "" : offered.textContent;
  offered.querySelector("button").click(); found.after = [form.elements.words.value, shown().length];
  const boxes = [...form.querySelectorAll("button, output")].map((e) => e.getBoundingClientRect());
  found.line = boxes.map((box) => Math.round(box.top + box.height / 2));
  set("words", ""); page.body.focus(); type("/"); found.focus = page.activeElement.name;
  frame.contentWindow.location.hash = "#pre-norm";
  setTimeout(() => { found.revealed = shown().includes("pre-norm"); document.title = JSON.stringify(found); }, 500);
};
</script></body>"""


@pytest.fixture(scope="module")
def site(page: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server on this machine that has the page."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "gallery.html").write_text(page, encoding="utf-8")
    for width in (390, 1280):
        (folder / f"probe-{width}.html").write_text(PROBE.replace("WIDTH", str(width)), encoding="utf-8")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def probed(site: str, width: int, folder: Path) -> dict[str, object]:
    """What the browser finds at a width."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    command += [f"--user-data-dir={folder}", "--dump-dom", f"{site}/probe-{width}.html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert title, done.stdout[:500] + done.stderr[-500:]
    found: dict[str, object] = json.loads(html.unescape(title.group(1)))
    return found


@pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium, to see the page as a person does: apt-get install chromium"
)
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(
    site: str, entries: list[gallery.Entry], analyses: dict[str, Analysis], width: int, tmp_path: Path
) -> None:
    found = probed(site, width, tmp_path)
    names = [entry.name for entry in entries]
    assert found["inner"] == width
    assert found["scroll"] <= width and found["beyond"] == [], "no sideways scrolling"  # type: ignore[operator]
    assert sorted(found["all"]) == sorted(names)  # type: ignore[type-var, arg-type]
    drawings = found["drawings"]
    assert {row[0] for row in drawings} == set(names)  # type: ignore[attr-defined]
    for name, wide, high, inner, letter in drawings:  # type: ignore[attr-defined]
        assert wide > 100 and high > 40 and inner > 50, name
        assert letter >= 9, f"{name}: too small to read"

    def fitting(**wanted: str) -> set[str]:
        page = importlib.import_module("make_gallery_page")
        read = {"norming": page.norming_of, "verdict": page.verdict_of}
        return {n for n in names if all(read[key](analyses[n]) == value for key, value in wanted.items())}

    assert {"skip-2-dropout", "skip-2-pre-dropout"} <= set(found["words"]) < set(names)  # type: ignore[call-overload]
    assert found["count"] == f"{len(found['words'])} of {len(names)} entries"  # type: ignore[arg-type]
    assert set(found["norming"]) == fitting(norming="post-norm")  # type: ignore[call-overload]
    assert set(found["verdict"]) == fitting(verdict="warned")  # type: ignore[call-overload]
    kinds = {entry.name: entry.about["kind"] for entry in entries}
    assert set(found["both"]) == {n for n in found["verdict"] if kinds[n] == "depth"}  # type: ignore[attr-defined, call-overload]
    assert found["headings"] == (1 if found["both"] else 0), "empty groups vanish"
    windows = {entry.name for entry in entries if "sliding window" in entry.field_names}
    assert set(found["window"]) >= windows and found["none"] == []  # type: ignore[call-overload]
    assert "No entry has: attenshun." in found["offered"] and "Search for: attention" in found["offered"]  # type: ignore[operator]
    assert found["after"][0] == "attention" and found["after"][1] > 0  # type: ignore[index]
    middles = found["line"]
    assert width < 500 or abs(middles[0] - middles[1]) <= 2, "the counter stands in line"  # type: ignore[index]
    assert found["focus"] == "words", "/ goes to the search"
    assert found["revealed"] is True, "a link leads to its entry even if the filter hides it"
