"""Names that want out of a page: whatever HTML is made of them, a parser finds no script, no event and no address that
is not ours, and every picture is XML."""

from __future__ import annotations

import base64
import importlib
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import torch

import transformula
from tests.comparison.fake import fake_results
from tests.docs.blocks import ROOT
from transformula import Model, explain, gallery, inspect, nearest, notebook, summary
from transformula.comparison.compare import StudyReport
from transformula.comparison.report.page import html_of, notebook_html_of
from transformula.inspection.attention import attention
from transformula.inspection.lens import lens
from transformula.inspection.patching import patch
from transformula.inspection.shown import Shown

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</title></style></pre></svg><img src=x onerror=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "' onload='alert(1)",
    "javascript:alert(1)",
    "<a href=javascript:alert(1)>x</a>",
    "--><svg/onload=alert(1)>",
    "]]><script>alert(1)</script>",
    "&lt;script&gt;&#x3c;b&#x3e;",
    "$x_{$ \\frac{$",
    "a\x00b\x07c\x1bd\ufffe",
    "\u202egnp.exe",
]
EVIL = "".join(HOSTILE)
LOADS = ("src", "href", "srcset", "action", "data", "formaction", "poster", "background", "xlink:href")
ELEMENTS = {"script", "iframe", "object", "embed", "base", "form", "link", "meta", "applet", "frame", "foreignobject"}


class Seen(HTMLParser):
    """The elements of a page, and those that run or load something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    handle_startendtag = handle_starttag


def pictures(seen: Seen) -> list[str]:
    """The SVGs that a page holds as the addresses of its images."""
    found = []
    for tag, given in seen.elements:
        kind, _, content = given.get("src", "").partition(",")
        if tag == "img" and kind.startswith("data:image/svg+xml"):
            found.append(base64.b64decode(content).decode() if kind.endswith("base64") else unquote(content))
    return found


def harmless(html: str, ours: int = 0, metas: tuple[str, ...] = ()) -> None:
    """`ours`: how many scripts are; `metas`: names of the elements meta that are."""
    html.encode("utf-8")
    seen = Seen(html)
    assert sum(tag == "script" for tag, _ in seen.elements) == ours
    for tag, given in seen.elements:
        assert tag not in ELEMENTS - {"script", "meta"}, tag
        if tag == "meta":
            assert (given.get("name") or given.get("http-equiv", "").lower() or "charset") in metas, given
        for name, value in given.items():
            assert not name.startswith("on"), (tag, name)
            if name in LOADS:
                assert value.startswith(("#", "data:image/svg+xml", "data:image/png", "https://arxiv.org/")), value[:80]
    for svg in pictures(seen):
        harmless_picture(svg)


def harmless_picture(svg: str) -> None:
    ElementTree.fromstring(svg)
    harmless(re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>", "", svg, flags=re.DOTALL))


PAGE = ("charset", "viewport", "color-scheme", "content-security-policy")


def saved(shown: Shown, folder: Path) -> None:
    harmless(shown._repr_html_())
    harmless_picture(shown.svg)
    for name in ("a.html", "a.png"):
        shown.save(folder / name)
    harmless((folder / "a.html").read_text(encoding="utf-8"), metas=PAGE)


@pytest.mark.parametrize("name", HOSTILE)
def test_loss_curves_of_runs(tmp_path: Path, name: str) -> None:
    runs = []
    for number in range(2):
        folder = tmp_path / f"{number}{name.replace('/', '|').replace(chr(0), '')}"
        folder.mkdir()
        (folder / "config.yaml").write_text("task: language-modeling\n")
        (folder / "manifest.json").write_text(json.dumps({"task": {"name": name, "identity": name}}))
        rows = [{"event": kind, "step": n, "units": n, "seconds": 1.0 * n, "loss": 1.0 / n, "sample": name, name: 1.0}
                for n in (1, 2) for kind in ("step", "evaluation")]  # fmt: skip
        (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        runs.append(folder)
    saved(transformula.curves(runs), tmp_path)


def model_of(name: str = "pre-norm") -> Model:
    return Model(name, depth=1, width=8, heads=2, vocab=len(HOSTILE) + 1, context=16)


def test_looks_with_hostile_tokens(tmp_path: Path) -> None:
    model = model_of()
    pieces = [*HOSTILE, EVIL]
    ids = list(range(len(pieces)))
    given = {"tokens": torch.tensor([ids])}
    saved(attention(model.module, [given], labels={"tokens": pieces}), tmp_path)
    saved(lens(model.module, [given], pieces=lambda token: pieces[token], inputs=pieces), tmp_path)
    saved(patch(model.module, given, {"tokens": given["tokens"].flip(1)}, labels={"tokens": pieces},
                pieces=lambda token: pieces[token]), tmp_path)  # fmt: skip


def test_the_page_of_the_gallery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    made = importlib.import_module("make_gallery_page")
    entry = next(entry for entry in gallery.indexed() if entry.name == "pre-norm")
    about = {key: EVIL if key not in ("kind", "sound") else value for key, value in entry.about.items()}
    harmless(made.article(replace(entry, about={**about, "paper": EVIL, "arxiv": EVIL, "claim": EVIL})))


def evil_results() -> Any:
    results = fake_results(("pre-norm", "rezero"), sizes=("only",), points=8)

    def name(known: str) -> str:
        return EVIL if known == "rezero" else known

    def renamed(records: Any) -> Any:
        return [replace(record, variant=name(record.variant)) for record in records]

    return replace(
        results,
        name=EVIL,
        unit=EVIL,
        variants=[replace(v, name=name(v.name), typed=EVIL, model=EVIL) for v in results.variants],
        arms=[replace(arm, adjusted=EVIL) for arm in renamed(results.arms)],
        gates=[replace(gate, text=EVIL, title=EVIL) for gate in renamed(results.gates)],
        outcomes=renamed([replace(o, samples=(EVIL,) * 3, reason=o.reason and EVIL) for o in results.outcomes]),
        verdicts=[replace(v, sentence=EVIL, may=EVIL, may_not=EVIL) for v in renamed(results.verdicts)],
        rates={},
        settings={EVIL: EVIL},
        environment={EVIL: {EVIL: EVIL}},
        notes=[EVIL],
    )


def test_a_report() -> None:
    results = evil_results()
    html = html_of(results)
    harmless(html, ours=1, metas=PAGE)
    assert pictures(Seen(html))
    harmless(notebook_html_of(results))


class Part:
    """Stands for a part of a study."""

    def __repr__(self) -> str:
        return EVIL


def test_a_study() -> None:
    harmless(StudyReport(EVIL, {EVIL: Part()})._repr_html_())  # type: ignore[dict-item]


def test_what_a_notebook_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    harmless(notebook.page(EVIL, [(EVIL, "<svg/>")]))
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, content: dict[str, str], raw: bool) -> None:
            shown.append(content)

    def display(content: dict[str, str], **_: object) -> Handle:
        shown.append(content)
        return Handle()

    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setattr(sys.modules["IPython"], "display", SimpleNamespace(display=display), raising=False)
    line = notebook.ProgressLine()
    line.show(EVIL, 0.5, now=True)
    line.show(EVIL, now=True)
    assert len(shown) == 2
    for content in shown:
        harmless(content["text/html"])


def named(tmp_path: Path, name: str) -> Path:
    """A model file of that name, which says the name in its comments and its numbers too."""
    path = tmp_path / f"{name.replace('/', '|').replace(chr(0), '')}.yaml"
    path.write_text("layer: x = x + attention(norm(x)); x = x + mlp(norm(x))\nafter: x = norm(x)\n")
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_models_by_hostile_names(tmp_path: Path, name: str) -> None:
    path = named(tmp_path, name)
    model = Model(path, depth=1, width=8, heads=2, vocab=11, context=16)
    look = inspect(model, "attention", tokens=[1, 2, 3])
    for shown in (model, explain(path), summary(path), look):
        harmless(shown._repr_html_())
    near = nearest(path, count=2)
    harmless(near._repr_html_())
    harmless(near.difference._repr_html_())
    entry = gallery.entry("parallel")
    harmless(replace(entry, name=name, about={key: EVIL for key in entry.about})._repr_html_())
