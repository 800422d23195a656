"""What holds for all tests."""

from __future__ import annotations

import gc
import getpass
import os
import tempfile
import time

import pytest

from tests import hurry

# torch's compiler finds what it compiled by the model alone: code for another CPU, or for one that is pretended, would
# be taken for this one's, and gives wrong numbers.
os.environ.setdefault(
    "TORCHINDUCTOR_CACHE_DIR",
    f"{tempfile.gettempdir()}/transformula-compiled-{getpass.getuser()}-{os.environ.get('ATEN_CPU_CAPABILITY', 'own')}",
)

TOO_LATE = "the time for the tests was over"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=float, help="begin no test that long after the run began, and skip what is left")


def pytest_configure(config: pytest.Config) -> None:
    config.begun = time.monotonic()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True, scope="session")
def hurried() -> None:
    hurry.leave_out()


def pytest_collection_finish() -> None:
    """Twelve thousand tests are some millions of objects: from here on the garbage collector passes over them. It
    took a twelfth of the suite's time, most of it in passes over all that is alive: these come more seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("--seconds")
    if seconds is not None and time.monotonic() - item.config.begun > seconds:  # type: ignore[attr-defined]
        pytest.skip(TOO_LATE)


def pytest_sessionfinish() -> None:
    gc.freeze()  # pytest collects five times as it ends


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left = [report for report in terminalreporter.stats.get("skipped", []) if TOO_LATE in str(report.longrepr)]
    if left:
        terminalreporter.write_line(f"{len(left)} tests were not begun: {TOO_LATE}")
