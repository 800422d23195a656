"""Studies that come with the program: a question, the variants and settings that answer it, and what papers claim.

title: Where the norm stands
question: Does it matter whether norms stand before a sublayer, after the sum, or on both sides?
variants: [pre-norm, post-norm, sandwich, peri]
settings: {data: tinyshakespeare/input.txt, depth: 6, budget: 60m}
differences: {post-norm: [layer, output norm], sandwich: [layer], peri: [layer, before]}
claims:
  - {says: Post-norm needs a warm-up; pre-norm trains without one., source: "Xiong et al. 2020, arXiv 2002.04745"}
parts:                                  # further settings, each a comparison of its own
  short: {context: 32}
  long: {context: 256}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ..api.configuration import read_keys
from ..errors import InputError, UnknownName, setting
from ..settings import Settings

if TYPE_CHECKING:
    from .records import Audit

FOLDER = Path(__file__).parent / "studies"
SUFFIX = ".yaml"


class Claim(Settings):
    """What a paper says, beside which the report puts what was measured."""

    says: str = Field(description="the claim, in one sentence")
    source: str = Field(description="the paper, with its year and number")


class Study(Settings):
    """A study. `parts`: name -> settings of a comparison of its own; {}: the study is one comparison."""

    title: str = Field(description="what it is about, in a few words")
    question: str = Field(description="what it asks")
    variants: list[str | dict[str, Any]] = Field(min_length=1, description="what is compared, the base first")
    settings: dict[str, Any] = Field({}, description="settings of `compare` and of its runs")
    differences: dict[str, list[str]] = Field(
        {}, description="variant -> in what it differs from the base, by name: what the study means to change"
    )
    claims: list[Claim] = Field([], description="what papers say")
    parts: dict[str, dict[str, Any]] = Field({}, description="further settings, of several comparisons")

    def comparisons(self, root: str | Path | None, given: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The name ("" where there is one) and the settings of each comparison.

        root   the folder in which the study's data lies
        given  settings that take the place of the study's own; beside a rate, what would tune one is left out

        Raises InputError where a file of the study's data is not there.
        """
        from ..data.sources import SOURCES, source_exists

        for part, own in (self.parts or {"": {}}).items():
            settings = {**self.settings, **own}
            if root is not None:
                files = {key: settings[key] for key in SOURCES if Path(settings.get(key) or "").suffix}
                settings |= {key: str(Path(root) / name) for key, name in files.items()}
            tuning = () if given.get("lr") in (None, "tune", "shared") else ("lr_points", "lr_seeds")
            settings = {**{key: value for key, value in settings.items() if key not in tuning}, **given}
            for name in (settings.get(key) for key in SOURCES):
                if isinstance(name, str) and Path(name).suffix and not source_exists(name):
                    where = setting("root", "FOLDER")
                    other = f", or take other data, such as {setting('data', 'python-docs')}, which is built in"
                    raise InputError(
                        f"{name}: this study's data is not there; say in which folder it lies ({where})"
                        + ("" if "task" in settings else other)
                    )
            yield part, settings

    def unstated(self, audit: Sequence[Audit]) -> list[str]:
        """Where variants differ from the base in other things than the study states, in sentences."""
        return [
            f"{one.variant} differs in {', '.join(one.names) or 'nothing'}; the study states: {', '.join(stated)}"
            for one in audit
            if (stated := self.differences.get(one.variant)) and sorted(stated) != sorted(one.names)
        ]


def study_names() -> list[str]:
    """All studies that come with the program."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def read_study(study: str | Path) -> Study:
    """A study by its name, or from a file. Raises UnknownName, ConfigError."""
    path = Path(study)
    if path.suffix != SUFFIX:
        path = FOLDER / f"{study}{SUFFIX}"
        if not path.is_file():
            raise UnknownName("study", str(study), study_names())
    content = read_keys(path, "a study", "`variants: [pre-norm, post-norm]`")
    return Study.read(content, source=str(path))
