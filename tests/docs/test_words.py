"""Pages, `--help` texts, messages and docstrings use the words of the field, in American spelling.

docs/reference/cli.md holds every `--help`. The source is searched too, since it holds the messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, pages

BRITISH = (
    r"(optimi|summari|initiali|normali|generali|tokeni|recogni|organi|minimi|maximi|speciali|seriali|regulari|factori"
    r"|vectori|reali|utili|parametri|quanti|categori|seriali|emphasi|standardi|memori|visuali|finali|synchroni"
    r"|customi|prioriti|randomi|penali|equali|lineari|binari|capitali|characteri)s(e|es|ed|er|ers|ing|able|ation|ations)"
    r"|colou?rs?(?<=colour)|colours?|coloured|behaviours?|licences?|learnt|spelt|misspelt|centred?|centres|neighbours?"
    r"|neighbouring|neighbourhoods?|favours?|favourites?|honours?|labell(ed|ing)|modell(ed|ing|er)|cancell(ed|ing)"
    r"|analys(e|ed|ing)|catalogues?|whilst|programmes?|signall(ed|ing)|grey"
)
DIALECT = (
    r"left out, so (this|these)|rows? that measures?|(rows|that) (are|were) learned from"
    r"|the share of `?data`? that|memory of the (mean|squared)"
    r"|(is|are) announced|hypotheses that are kept|what a score is divided by|write together|begins? anew|made anew"
    r"|what is made small|fewest likeliest|what of texts|silent (branch|sublayer)(es|s)?"
    r"|random streams?|hold(s)? its claim against"
)
KEPT = (
    r"`neighbours`|copying-summariser|renormalise|summarisation/\w+|--task summarisation|task: summarisation"
    r"|`(summaris\w+|optimis\w+)`|\"(summaris\w+|optimiser|language-modelling)\"|[Nn]eighbours?|catalogue"
)
"""Names of formulas, files, programs and earlier versions: a gallery entry, a word's option, a key of --json."""


def offences(path: Path, pattern: str) -> list[str]:
    """FILE:LINE WORD for each match that is not a name which has to stay."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for match in re.finditer(rf"(?<![A-Za-z])({pattern})(?![A-Za-z])", re.sub(KEPT, "", line), flags=re.IGNORECASE):
            found.append(f"{path.relative_to(ROOT)}:{number} {match[0]}")
    return found


def texts() -> list[Path]:
    """All that people read: pages, gallery notes, examples, recipes."""
    package = ROOT / "src" / "transformula"
    return [
        *pages(),
        ROOT / "Makefile", *sorted((ROOT / ".github").rglob("*.md")), *sorted((ROOT / "examples").glob("*.*")),
        *sorted((package / "gallery" / "entries").glob("*.yaml")), *sorted((package / "recipes").rglob("*.yaml")),
    ]  # fmt: skip


def test_no_page_keeps_the_markers_of_a_merge() -> None:
    assert [offence for path in texts() for offence in offences(path, r"^(<{7} .*|={7}|>{7} .*)$")] == []


@pytest.mark.parametrize("pattern", [BRITISH, DIALECT], ids=["spelling", "words of the field"])
def test_what_people_read(pattern: str) -> None:
    assert [offence for path in texts() for offence in offences(path, pattern)] == []


@pytest.mark.parametrize("pattern", [BRITISH, DIALECT], ids=["spelling", "words of the field"])
def test_the_source(pattern: str) -> None:
    source = sorted((ROOT / "src" / "transformula").rglob("*.py"))
    assert [offence for path in source for offence in offences(path, pattern)] == []
