"""What holds for the tests of comparisons: no run draws its loss curve, and no plan tries how fast this machine
is, since both take longer than all else; and made-up results with their report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.fake import fake_results
from transformula.comparison.records import Results
from transformula.comparison.report import document, write_report
from transformula.cost.ratio import Ratio


@pytest.fixture(scope="module", autouse=True)
def without_pictures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("transformula.training.report.draw", lambda *_: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def known_speed() -> Iterator[None]:
    """A step takes as long as its model has parameters: nothing depends on this machine."""

    def seconds(prepared: Sequence[Any], rounds: int = 0, most: float = 0) -> list[tuple[float, Ratio]]:
        from transformula.comparison.costs import costs_of

        times = [1e-7 * float(costs_of(one, 1).parameters) for one in prepared]
        return [(each, Ratio(*[each / times[0]] * 3)) for each in times]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("transformula.comparison.arms.step_seconds", seconds)
        patched.setattr("transformula.comparison.planning.step_seconds", seconds)
        yield


@pytest.fixture(scope="session")
def results() -> Results:
    return fake_results(points=8)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of one size. All its pictures are drawn; the first one is rendered, the others would take seconds."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(document, "svg_of", once(document.svg_of, "<svg/>"))
        patched.setattr(document, "png_of", once(document.png_of, b"\x89PNG"))
        write_report(fake_results(("pre-norm", "post-norm", "rezero"), sizes=("only",), points=8), folder)
    return folder


def once(render: Callable[[Any], Any], otherwise: str | bytes) -> Callable[[Any], Any]:
    """The same, and `otherwise` after its first call."""
    calls = []

    def rendered(figure: Any) -> Any:
        calls.append(figure)
        return render(figure) if len(calls) == 1 else otherwise

    return rendered
