"""The pages in a browser and in Node: the static editor answers as the command line does, a formula is written with a
mistake and repaired, trained, written with, and nothing is wider than the screen."""

from __future__ import annotations

import functools
import http.server
import importlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_exporting import LABELED
from tests.serving.conftest import waiting_for
from tests.serving.test_studio import KEY, OWN, Page, page  # noqa: F401
from transformula import gallery, train
from transformula.api.editing import answer

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import make_editor  # noqa: E402

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NODE = shutil.which("node")
playwright = importlib.import_module("playwright.sync_api") if BROWSER and find_spec("playwright") else None
needs_modules = pytest.mark.skipif(
    not (make_editor.PYODIDE / "pyodide.mjs").is_file(), reason="needs Pyodide: npm ci --prefix web"
)
needs_browser = pytest.mark.skipif(playwright is None, reason="needs Chromium, and pip install playwright")
WIDTHS, SCHEMES = (390, 1280, 1920), ("light", "dark")
WRONG, RIGHT = "x = x + attenion(norm(x))\nx = x + mlp(norm(x))", "x = x + attention(norm(x))\nx = x + mlp(norm(x))"


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_editor.make(tmp_path_factory.mktemp("editor"))


def test_what_is_built_is_of_these_sources(tmp_path: Path) -> None:
    """The built files in the package are what the bundler makes of web/src; and they are small."""
    built = [make_editor.PAGE / name for name in ("studio.js", "python.js")]
    assert sum(path.stat().st_size for path in built) < 400_000
    if NODE is None or not (ROOT / "web" / "node_modules" / "esbuild").is_dir():
        pytest.skip("needs Node and the bundler: npm ci --prefix web")
    copy = tmp_path / "web"
    shutil.copytree(ROOT / "web" / "src", copy / "src")
    for name in ("build.mjs", "package.json", "tsconfig.json"):
        shutil.copyfile(ROOT / "web" / name, copy / name)
    (copy / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    subprocess.run([NODE, "build.mjs"], cwd=copy, check=True, capture_output=True)
    for path in built:
        assert (tmp_path / "src/transformula/serving/page" / path.name).read_bytes() == path.read_bytes(), (
            "build the page again: npm run build --prefix web"
        )
    checked = subprocess.run([NODE, "node_modules/typescript/bin/tsc", "--noEmit"], cwd=copy, capture_output=True)
    assert checked.returncode == 0, checked.stdout.decode()


PROGRAM = """
import { readFileSync } from "node:fs";
import { loadPyodide } from "%s/pyodide/pyodide.mjs";
const python = await loadPyodide({ indexURL: "%s/pyodide/" });
for (const name of ["transformula.zip", "yaml.zip"])
  python.unpackArchive(new Uint8Array(readFileSync("%s/" + name)), "zip", { extractDir: "/packages" });
const ask = python.runPython(
  "import sys; sys.path.insert(0, '/packages')\\nfrom transformula.api.editing import answer_json\\nanswer_json");
const requests = JSON.parse(readFileSync("%s/requests.json", "utf8"));
console.log(JSON.stringify(requests.map((request) => JSON.parse(ask(JSON.stringify(request))))));
"""


def in_node(static: Path, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert NODE is not None
    script = static / "ask.mjs"
    script.write_text(PROGRAM % (static, static, static, static))
    (static / "requests.json").write_text(json.dumps(requests))
    made = subprocess.run([NODE, str(script)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(made.stdout.splitlines()[-1])
    return answers


def check_equal(static: Path, names: list[str]) -> None:
    texts = [str(answer({"call": "entry", "name": name})["text"]) for name in names]
    requests: list[dict[str, Any]] = [{"call": "explain", "text": text, "other": RIGHT} for text in texts]
    requests += [{"call": "explain", "text": WRONG}, {"call": "words"}, {"call": "entries"}]
    asked = (
        "import json, sys; from transformula.api.editing import answer as a;"
        " print(json.dumps([*map(a, json.load(sys.stdin))]))"
    )
    own = subprocess.run(  # where no other test has added a word
        [sys.executable, "-c", asked], input=json.dumps(requests), capture_output=True, text=True, check=True
    )
    for request, found, expected in zip(requests, in_node(static, requests), json.loads(own.stdout), strict=True):
        assert found == expected, str(request)[:200]


@needs_modules
@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_python_in_the_browser_answers_alike(static: Path) -> None:
    check_equal(static, ["pre-norm", "llama", "vaswani"])


@pytest.mark.slow
@needs_modules
@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_it_does_for_the_whole_gallery(static: Path) -> None:
    check_equal(static, gallery.names())


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def offline(static: Path) -> Iterator[str]:
    """The static page, of a server that knows nothing but files."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(static)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    assert playwright is not None
    with playwright.sync_playwright() as tool:
        opened = tool.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


def visited(browser: Any, link: str, width: int = 1280, scheme: str = "light") -> tuple[Any, list[str]]:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab, errors = context.new_page(), list[str]()
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    tab.on("request", lambda sent: errors.append(sent.url) if "127.0.0.1" not in sent.url[:30] and
           not sent.url.startswith(("data:", "blob:")) else None)  # fmt: skip
    tab.goto(link)
    tab.wait_for_selector("#picture svg", timeout=60_000)
    return tab, errors


def write(tab: Any, text: str) -> None:
    tab.evaluate("window.scrollTo(0, 0)")
    until(tab, "window.scrollY === 0")
    tab.click(".cm-content")
    tab.keyboard.press("Control+a")
    tab.keyboard.insert_text(text)


def until(tab: Any, expression: str, timeout: float = 60_000) -> None:
    """Wait until an expression is true; the page itself may evaluate no texts."""
    waiting_for(lambda: tab.evaluate(expression), timeout / 1000)


def mistake_and_repair(tab: Any) -> None:
    write(tab, WRONG)
    until(tab, "document.querySelector('#mistake').textContent.includes('did you mean attention')")
    assert tab.locator(".cm-lintRange-error").count() == 1
    assert tab.locator(".cm-lintRange-error").inner_text() == "attenion"
    write(tab, RIGHT.replace("norm(x))\nx", "norm(x))\ny = x\nx").replace("mlp(norm(x))", "mlp(norm(y))"))
    until(tab, "!document.querySelector('#mistake').textContent")
    write(tab, RIGHT)
    until(tab, "document.querySelector('#difference').textContent.includes('nothing')")


@pytest.mark.slow
@needs_modules
@needs_browser
def test_the_static_page(browser: Any, offline: str) -> None:
    tab, errors = visited(browser, offline)
    mistake_and_repair(tab)
    write(tab, "x = norm(x + attention(x))\nx = norm(x + mlp(x))")
    button = tab.locator("#warnings button").first
    button.wait_for()
    button.click()
    until(tab, "!document.querySelector('#warnings').textContent.includes('residual path')")
    tab.select_option("#gallery", "llama")
    until(tab, "document.querySelector('#page').textContent.includes('llama')")
    write(tab, RIGHT)
    tab.locator("#depth").fill("8")  # the ninth step: 32 layers
    until(tab, "document.querySelector('#command').textContent.includes('--depth')")
    tab.click("#share")
    until(tab, "location.hash.startsWith('#f=')")
    link = tab.evaluate("location.href")
    other, _ = visited(browser, link)
    assert other.locator(".cm-content").inner_text().split("\n") == RIGHT.split("\n")
    assert other.inner_text("#depth-shown") == tab.inner_text("#depth-shown")
    assert not errors and not tab.is_visible("#studio")


def answered(tab: Any, page: Page) -> None:  # noqa: F811
    """A run of another task: its model answers what is typed."""
    rows = page.studio.folder.parent / "rows.jsonl"
    rows.write_text("\n".join(map(json.dumps, LABELED)), encoding="utf-8")
    sizes: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2, "steps": 3, "tokenizer": "bytes", "quiet": True}
    train("pre-norm", task="classification", data=str(rows), out=str(page.studio.folder / "labels"), **sizes)
    tab.reload()
    tab.click("#runs button:text('labels')")
    tab.fill("#try-input", "it's <b>grand</b>")
    tab.click("#try button")
    until(tab, "document.querySelector('#answers').textContent.includes('probabilities')")
    assert "transformula classify" in tab.inner_text("#try-command") and tab.locator("#answers b").count() == 0
    assert not tab.is_visible("#write") and tab.is_visible("#try")


@pytest.mark.slow
@needs_browser
def test_the_studio(browser: Any, page: Page) -> None:  # noqa: F811
    tab, errors = visited(browser, f"{page.address}/#key={KEY}")
    assert KEY not in tab.evaluate("location.href"), "the key is not passed on with the address"
    mistake_and_repair(tab)
    for name, step in (("depth", 0), ("width", 0), ("context", 0)):
        tab.locator(f"#{name}").fill(str(step))
    until(tab, "document.querySelector('#command').textContent.includes('--width 64')")
    tab.select_option("#source", "own")
    tab.fill("#own-text", OWN)
    tab.fill("#minutes", "0.1")
    tab.click("#train button[type=submit]")
    tab.wait_for_selector("#curve path.training", timeout=60_000)
    until(tab, "document.querySelector('#run-name').textContent.includes('ended')", timeout=60_000)
    assert "transformula train --resume" in tab.inner_text("#run-command")
    tab.fill("#prompt", "the cat")
    tab.click("#write-go")
    until(tab, "document.querySelector('#written').textContent.length > 20", timeout=60_000)
    tab.click("#evaluate")
    until(tab, "document.querySelector('#scores').textContent.includes('bits_per_byte')", timeout=60_000)
    tab.click("#inside button")
    until(
        tab, "document.querySelector('#inside-picture image')?.getAttribute('xlink:href')?.startsWith('data:image/png')"
    )
    tab.select_option("#look", "ablate")
    tab.select_option("#silence", "layers.1.line1.add.left")
    tab.click("#inside button")
    until(tab, "document.querySelector('#inside-said').textContent.includes('layers.1.line1.add.left')")
    assert tab.locator("#inside-picture svg").count() == 1
    edge = tab.locator('#picture path[data-place="layers.1.attention.input"]')
    edge.scroll_into_view_if_needed()
    edge.dispatch_event("click")
    until(tab, "document.querySelector('#inside-said').textContent.includes('layers.1.attention.input')")
    tab.locator('#picture g[data-place="layers.1.mlp.output"]').dispatch_event("click")
    until(tab, "document.querySelector('#inside-said').textContent.includes('layers.1.mlp.output')")
    tab.click("#resume")
    until(tab, "document.querySelector('#run-name').textContent.includes('running')")
    tab.click("#stop")
    until(tab, "!document.querySelector('#run-name').textContent.includes('running')", timeout=60_000)
    write(tab, "x = norm(x + attention(x))\nx = norm(x + mlp(x))")
    until(tab, "document.querySelector('#command').textContent.includes('norm(x + mlp(x))')")
    tab.fill("#minutes", "0.05")
    tab.click("#train-both")
    tab.wait_for_selector("#curve path.beside", timeout=60_000)
    until(tab, "document.querySelector('#run-name').textContent.split('ended').length === 3")
    answered(tab, page)
    folder = page.studio.folder / "better"
    folder.mkdir(exist_ok=True)
    (folder / "report.html").write_text("<h1>better</h1><script>parent.document.title = 'taken'</script>")
    tab.reload()
    tab.click("#reports button")
    assert tab.frame_locator("iframe").locator("h1").inner_text() == "better"
    assert tab.title() == "transformula studio" and not tab.inner_text("#trouble")
    write(tab, "x = x + attention(norm(x)")
    until(tab, "document.querySelector('#mistake').textContent")
    assert not [error for error in errors if "sandboxed" not in error]


@pytest.mark.slow
@needs_modules
@needs_browser
def test_six_lessons_are_walked_through(browser: Any, offline: str) -> None:
    tab, errors = visited(browser, offline)
    until(tab, "document.querySelectorAll('#lesson option').length === 7")
    for number, lesson in enumerate(answer({"call": "lessons"})["lessons"]):
        tab.select_option("#lesson", str(number))
        asked = 0
        while not tab.locator("#course .mistake").count():
            if tab.locator("#course .step button", has_text="Go on").count():
                tab.locator("#course .step button", has_text="Go on").click()
                continue
            assert tab.locator("#course fieldset").count() == asked + 1
            step = [each for each in lesson["steps"] if "ask" in each][asked]
            tab.locator("#course fieldset").nth(asked).locator("input").nth(step["right"] - 1).check()
            told = tab.locator("#course fieldset").nth(asked).locator("[role=status]").inner_text()
            assert told.split() == ["Yes.", *step["answer"].split()]
            asked += 1
        assert asked == len([step for step in lesson["steps"] if "ask" in step])
        until(tab, "!document.querySelector('#mistake').textContent")
    tab.click("#lesson-close")
    assert not tab.is_visible("#course") and not errors


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(browser: Any, page: Page, width: int, scheme: str) -> None:  # noqa: F811
    tab, _ = visited(browser, f"{page.address}/#key={KEY}", width, scheme)
    tab.select_option("#gallery", "vaswani")
    until(tab, "document.querySelector('#page').textContent.includes('encoder')")
    if tab.locator("#runs button").count():  # one that was trained by a test before
        tab.locator("#runs button").first.click()
        tab.wait_for_selector("#run:not([hidden])")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    small = """[...document.querySelectorAll('button, select, input, textarea')].filter((e) =>
      e.offsetParent && !e.labels?.length && !e.getAttribute('aria-label') && !e.textContent.trim()).length"""
    assert tab.evaluate(small) == 0, "each control has a name"
