"""Write docs/studies: the reports of the studies that come with the program, from the folder in which they were run.
The verdict of one of them is written into the README, too:

transformula compare --study skips --out studies/skips
python docs/make_studies.py studies
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from transformula.comparison.records import Results
from transformula.comparison.report.document import Item, pictures_of, sections_of
from transformula.comparison.report.files import read_results
from transformula.comparison.report.markdown import FIGURES, escaped, markdown
from transformula.comparison.report.sections.plain_words import lead_of, plain_words, what_was_found
from transformula.comparison.report.terminal import item_lines
from transformula.comparison.study import read_study, study_names

FOLDER = Path(__file__).parent / "studies"
PARTS = ("what-differs", "plain-words", "costs", "verdicts", "claims", "forest", "other-contexts",
         "effects-of-settings", "every-seed", "rates", "curves", "compute", "loss-by-token", "by-depth",
         "trained-models", "diagrams", "gates", "environment",
         "notes")  # fmt: skip
"""The sections of a report that are shipped: without what models wrote."""
END = "<!-- end of reports -->"
README = Path(__file__).parents[1] / "README.md"
WIDTH = 96
"""How wide a verdict in the README is: as that of `compare` in a terminal."""


def shareable(results: Results) -> Results:
    """Results without the places of one machine."""
    settings = {key: value for key, value in results.settings.items() if key not in ("store", "out")}
    given = dict(results.environment["given"])
    for key in {"data", "validation"} & given.keys():
        given[key] = "/".join(Path(given[key]).parts[-2:])
    return replace(results, settings=settings, environment={**results.environment, "given": given})


def reports_of(folder: Path, name: str) -> dict[str, Results]:
    """The results of a study that was run: by part, "" where it has none."""
    parts = [part.replace(" ", "-") for part in read_study(name).parts] or [""]
    return {part: shareable(read_results(folder / name / part)) for part in parts}


def write(name: str, reports: dict[str, Results]) -> None:
    """The pages of a study, each with its pictures."""
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    for part, results in reports.items():
        place = FOLDER / name / part
        (place / FIGURES).mkdir(parents=True)
        sections = sections_of(results, PARTS)
        (place / "report.md").write_text(markdown(results.name, sections), encoding="utf-8")
        for picture in pictures_of(sections):
            (place / FIGURES / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")


def entry(name: str, reports: dict[str, Results]) -> str:
    """A study in the list: its question, and what each part found."""
    study = read_study(name)
    lines = [f"### {study.title}", "", f"{study.question} `transformula compare --study {name}`", ""]
    for part, results in reports.items():
        link = f"[{part.replace('-', ' ') or 'report'}]({'/'.join(filter(None, (name, part)))}/report.md)"
        lines += [f"- {link}: {escaped(' '.join([lead_of(results), *what_was_found(results)]).strip())}"]
    return "\n".join([*lines, ""])


def verdict(name: str, said: Iterable[Item]) -> str:
    """What the README shows of a study: the command, and the lines that it prints."""
    lines = [line for item in said for line in item_lines(item, WIDTH)]
    return "\n".join(["```text", f"$ transformula compare --study {name}", "...", *lines, "...", "```"])


def show_verdict(name: str, results: Results) -> None:
    """Put it where the README asks for it: what was found, and how sure it is."""
    section, text = plain_words(results), README.read_text("utf-8")
    shown = verdict(name, section.items[: 3 if lead_of(results) else 2] if section else [])
    begin, end = f"<!-- verdict: {name} -->", "<!-- end of verdict -->"
    README.write_text(re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n\n{shown}\n\n{end}", text, flags=re.S), "utf-8")


def main() -> None:
    folder, page = Path(sys.argv[1]), FOLDER / "README.md"
    text = page.read_text("utf-8")
    for name in study_names():
        if not (folder / name).is_dir():
            print(f"{name}: not run in {folder}; its page stays as it is")
            continue
        reports = reports_of(folder, name)
        write(name, reports)
        show_verdict(name, next(iter(reports.values())))
        begin, end = f"<!-- study: {name} -->", f"<!-- end of {name} -->"
        if begin not in text:
            text = text.replace(END, f"{begin}\n{end}\n\n{END}")
        content = f"{begin}\n\n{entry(name, reports)}\n{end}"
        text = re.sub(f"{begin}.*{end}", lambda _, content=content: content, text, flags=re.S)
    page.write_text(text, "utf-8")
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
