"""The report as a browser, a notebook and a renderer of Markdown have it: nothing that a user typed gets out of its
place, nothing is loaded, and the page shows what results.json holds."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.comparison.fake import fake_results
from tests.comparison.rendered import Page, links_lead_to_pictures
from tests.pace import PATIENCE
from transformula.comparison.records import Results, Variant
from transformula.comparison.report import html_of, markdown_of, notebook_html_of, text_of, write_report
from transformula.comparison.report.document import Picture
from transformula.comparison.report.sections.forest import forest_of

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = 'x = x + "</pre><script>alert(1)</script><img src=http://evil/x.png onerror=alert(1)>" | `a` [b](http://evil)'


def hostile(results: Results) -> Results:
    """The same results, with all that a user or a model could have written replaced by something that wants out."""

    def name(known: str) -> str:
        return EVIL if known == "rezero" else known

    def renamed(records):
        return [replace(record, variant=name(record.variant)) for record in records]

    outcomes = [
        replace(o, samples=(EVIL,) * 3, reason=o.reason and EVIL, learned={EVIL: [1.0, 2.0]}) for o in results.outcomes
    ]
    return replace(
        results,
        name=EVIL,
        unit="</style><script>alert(2)</script>",
        variants=[replace(v, name=name(v.name), typed=EVIL, model=EVIL) for v in results.variants],
        arms=[replace(arm, adjusted=EVIL) for arm in renamed(results.arms)],
        gates=[replace(gate, text=EVIL, title=EVIL) for gate in renamed(results.gates)],
        outcomes=renamed(outcomes),
        verdicts=[replace(v, sentence=EVIL, may=EVIL, may_not=EVIL) for v in renamed(results.verdicts)],
        rates={},
        settings={EVIL: EVIL},
        environment={EVIL: {EVIL: EVIL}},
        notes=[EVIL],
    )  # fmt: skip


def test_texts_of_users_stay_texts(monkeypatch):
    monkeypatch.setattr(Picture, "svg", "<svg/>")
    page = Page(html_of(hostile(fake_results(("pre-norm", "rezero"), sizes=("only",), points=8))))
    assert [tag for tag, _ in page.elements].count("script") == 1 and "alert(1)" in "".join(page.text)
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    loads(page)


def test_names_in_pictures_are_as_written():
    results = fake_results(("pre-norm", "rezero"), sizes=("only",), points=8)
    name = "<b>$x_{$ & co"
    odd = replace(results, verdicts=[replace(results.verdicts[0], variant=name)], variants=[Variant(name, name, "")])
    svg = forest_of(odd, "only").svg
    assert f">{html.escape(name, quote=False)}</text>" in svg


def loads(page: Page) -> None:
    """Nothing refers outside the page."""
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        for name in ("src", "href", "srcset", "action", "data"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:image/svg+xml,")), address[:60]
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and "http-equiv" in a)
    assert policy and "default-src 'none'" in policy and "http" not in policy


def test_the_page_loads_nothing_and_says_what_its_pictures_show(folder):
    page_stands_alone(folder)


def page_stands_alone(folder: Path) -> None:
    style = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(style)
    loads(page)
    assert "@import" not in style and all(at.startswith("%23") for at in re.findall(r"url\((...)", style))
    pictures = [attributes for tag, attributes in page.elements if tag == "img"]
    assert len(pictures) > 10 and all(len(picture["alt"] or "") > 20 for picture in pictures)
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert {f"#{a['id']}" for tag, a in page.elements if tag == "section"} == set(links)


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_is_wide_enough(results, width):
    lines = text_of(results, width).splitlines()
    assert max(map(len, lines)) <= width
    long = replace(
        results, variants=[*results.variants, replace(results.variants[1], name=EVIL)], notes=["\x1b[31mred"]
    )
    assert "\x1b" not in text_of(long, width)


def test_markdown_keeps_texts_in_their_cells(results):
    markdown = markdown_of(hostile(results))
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert not re.search(r"(?<!\\)[<`\[]", line)
    widths = [
        len(re.findall(r"(?<!\\)\|", row)) for row in markdown.splitlines() if row.startswith("| variant | size |")
    ]
    assert widths and "<script>" not in re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)


def test_a_notebook_shows_the_verdicts_and_one_picture(results):
    shown = notebook_html_of(results)
    page = Page(shown)
    assert len(shown) < 2**20
    assert [tag for tag, _ in page.elements].count("img") == 1
    assert not [tag for tag, _ in page.elements if tag in ("script", "style", "link")]
    assert [row["variant"][0] for row in page.table("difference")] == [arm.variant for arm in results.arms]


@pytest.mark.slow
def test_a_large_report_is_small(tmp_path):
    names = ("pre-norm", "post-norm", "rezero", "parallel", "e", "f", "g", "h")
    written = write_report(fake_results(names, seeds=10, points=200), tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 2_000_000 and len(written) > 20
    links_lead_to_pictures(tmp_path)
    page_stands_alone(tmp_path)


PROBE = """<!doctype html><body>
<iframe id="page" src="report.html" style="width:WIDTHpx;height:3000px;border:0"></iframe>
<script>
document.getElementById("page").onload = () => {
  const frame = document.getElementById("page"), page = frame.contentDocument;
  const rows = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  const tables = [...page.querySelectorAll("table")].map(rows);
  const head = [...page.querySelectorAll("#verdicts th button")].find((b) => b.textContent === "bits per byte");
  if (head) head.click();
  const sorted = rows(page.querySelector("#verdicts table"));
  const pictures = [...page.images].map((image) => [image.naturalWidth, image.getBoundingClientRect().width]);
  const beyond = [...page.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > frame.contentWindow.innerWidth + 1)
    .filter((e) => !e.closest(".scroll, figure")).map((e) => e.outerHTML.slice(0, 80));
  const scroll = page.documentElement.scrollWidth;
  document.title = JSON.stringify({ tables, sorted, pictures, beyond, scroll });
};
</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")
@pytest.mark.parametrize("width", [360, 1280])
def test_in_a_browser_from_the_disk_without_a_network(results, tmp_path, width):
    """The page fits, its pictures are there, its tables sort, and the numbers in them are those of the JSON."""
    write_report(results, tmp_path)
    (tmp_path / "probe.html").write_text(PROBE.replace("WIDTH", str(width)))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=20000",
        f"--user-data-dir={tmp_path}/own",
    ]
    command += ["--dump-dom", (tmp_path / "probe.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert title, done.stdout[:500] + done.stderr[-500:]
    seen = json.loads(html.unescape(title.group(1)))
    assert seen["scroll"] <= width and seen["beyond"] == [], "no sideways scrolling"
    assert len(seen["pictures"]) > 20 and all(min(sizes) > 100 for sizes in seen["pictures"])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert seen["tables"] == [[[text for text, _ in row] for row in table] for table in page.tables]
    data = json.loads((tmp_path / "results.json").read_text())
    (differences,) = [table for table in seen["tables"] if "95 % interval" in table[0] and "verdict" in table[0]]
    at = differences[0].index("difference")
    shown = {(row[0], row[1]): row[at] for row in differences[1:]}
    for verdict in data["verdicts"]:
        if verdict["mean"] is not None:
            assert abs(float(shown[verdict["variant"], verdict["size"]]) - verdict["mean"]) < 6e-4
    column = seen["sorted"][0].index("bits per byte")
    scores = [float(row[column]) for row in seen["sorted"][1:]]
    assert scores == sorted(scores), "a click on a head sorts"
