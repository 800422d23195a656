"""What gallery entries say of the code that they were compared with."""

from __future__ import annotations

import pytest

from tests.peers.case import cases, held
from transformula import gallery


@pytest.mark.parametrize("name", sorted({case.entry for case in cases().values() if case.entry}))
def test_entries_say_what_they_were_checked_against(name: str) -> None:
    """If this fails: python docs/make_checked_against.py, and then docs/make_gallery.py."""
    assert gallery.load(name).about["checked_against"] == held(name)


def test_entries_name_no_reference_that_is_not_compared() -> None:
    compared = {case.entry for case in cases().values()}
    assert {name for name in gallery.names() if "checked_against" in gallery.load(name).about} <= compared
