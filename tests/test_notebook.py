"""What a notebook shows: one piece of HTML, which needs nothing else, for each thing; a progress line."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from tests.pace import PATIENCE
from transformula import Model, explain, gallery, nearest, notebook, summary
from transformula.training.progress import Progress

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"

SHOWN = {
    "model": lambda: Model(LAYER, depth=2, width=32),
    "explanation": lambda: explain(LAYER),
    "summary": lambda: summary(LAYER),
    "entry": lambda: gallery.entry("parallel"),
    "nearest": lambda: nearest("x = x + attention(norm(x)) + mlp(norm(x))", count=2),
    "difference": lambda: nearest("x = x + attention(norm(x)) + mlp(x)", count=2).difference,
}


def pictures(html: str) -> list[str]:
    """The SVGs in a piece of HTML."""
    return [base64.b64decode(code).decode() for code in re.findall(r"data:image/svg\+xml;base64,([^\"]+)\"", html)]


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_is_whole_and_refers_to_nothing_outside(name):
    html = SHOWN[name]()._repr_html_()
    ElementTree.fromstring("<all>" + re.sub(r"(<img[^>]*)>", r"\1/>", html) + "</all>")  # well-formed
    for text in [html, *pictures(html)]:
        assert "<script" not in text
        assert not set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org"}
    assert len(html) < 200_000


@pytest.mark.parametrize("name", [name for name in SHOWN if name != "summary"])
def test_diagrams_are_shown_in_light_and_dark(name):
    (svg,) = pictures(SHOWN[name]()._repr_html_())
    assert "prefers-color-scheme: dark" in svg
    ElementTree.fromstring(svg)


def test_text_is_escaped():
    html = notebook.page("a < b & <script>alert(1)</script>", [('"><script>', "<svg/>")])
    assert "<script" not in html and "a &lt; b &amp;" in html


def test_an_explanation_says_in_a_notebook_what_it_says_in_a_terminal():
    explanation = explain(LAYER)
    html = explanation._repr_html_()
    assert repr(explanation).endswith("\n".join(explanation.rows()))
    assert "parameters" in html and "pre-norm" in html


class Handle:
    """Stands for what IPython's `display` returns; keeps what was shown."""

    def __init__(self) -> None:
        self.contents: list[dict[str, str]] = []

    def update(self, content: dict[str, str], raw: bool) -> None:
        self.contents.append(content)


@pytest.fixture
def kernel(monkeypatch):
    """A notebook's kernel, as far as `notebook` looks at it."""
    import sys

    handle = Handle()

    def display(content, raw, display_id):
        handle.update(content, raw)
        return handle

    shell = SimpleNamespace(kernel=object())
    python = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setattr(notebook, "EVERY", 0.0)
    return handle


def test_only_a_kernel_is_a_notebook(kernel):
    import sys

    assert notebook.in_notebook()
    sys.modules["IPython"].get_ipython = lambda: SimpleNamespace()  # a terminal's IPython
    assert not notebook.in_notebook()


def test_progress_is_a_bar_in_one_line(kernel, capsys):
    with Progress("tokens") as progress:
        progress.say("a line that stays")
        progress.step(5, 0.25, 2.0, 100.0, 0.5, 3.0, 0.001, {})
        progress.step(10, 0.5, 1.5, 100.0, 0.5, 2.0, 0.001, {})
    values = [re.findall(r'value="([\d.]+)"', content["text/html"]) for content in kernel.contents]
    assert values == [["0.2500"], ["0.5000"], []]
    assert "step 10" in kernel.contents[1]["text/plain"] and kernel.contents[-1]["text/plain"] == ""
    assert capsys.readouterr().out == "a line that stays\n"


def test_quiet_is_quiet_in_a_notebook_too(kernel, capsys):
    with Progress("tokens", quiet=True) as progress:
        progress.step(5, 0.25, 2.0, 100.0, 0.5, 3.0, 0.001, {})
    assert not kernel.contents and not capsys.readouterr().out


SHORTER = {"budget=BUDGET": "steps=8", "lr_points=3": "lr=0.01", "depth=8": "depth=3"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pictures", "shorter"), [("first_hour", 5, {}), ("skips", 10, SHORTER)])
def test_a_notebook_of_the_examples_runs(name, pictures, shorter, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    path = Path(__file__).parents[1] / "examples" / f"{name}.ipynb"
    book = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "the notebook is committed without outputs"
    for setting, instead in shorter.items():
        assert any(setting in cell.source for cell in book.cells)
        for cell in book.cells:
            cell.source = cell.source.replace(setting, instead)
    nbclient.NotebookClient(book, timeout=PATIENCE, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert sum(len(str(output)) for output in outputs) < 2_000_000
    shown = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert sum(html.count("image/svg+xml") for html in shown) >= pictures
    assert not any("ipywidgets" in str(output) for output in outputs)
