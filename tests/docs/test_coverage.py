"""The page of the families of transformers: as it is made, and as the data files say."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from tests.docs.test_reference import loaded


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return loaded("make_coverage")


def test_the_page_has_each_family_that_is_read(maker: ModuleType) -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| data \| (.+) \|$", maker.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {kind: files.split(", ") for kind, files in rows} == maker.known_types(), "python docs/make_coverage.py"


@pytest.mark.slow
def test_the_page_is_as_made(maker: ModuleType) -> None:
    transformers = pytest.importorskip("transformers")
    written = maker.PAGE.read_text(encoding="utf-8")
    if f"of transformers {transformers.__version__}," not in written:
        pytest.skip("the page is of another version of transformers")
    assert written == maker.page(), "python docs/make_coverage.py"
