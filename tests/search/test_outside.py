"""A command from outside proposes wirings: what it answers is text that is checked, and a bad answer costs nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from transformula.errors import InputError
from transformula.search.outside import FAILURES, OutsideProposer, read_answer
from transformula.structured import Malformed

REQUEST = {"count": 2, "task": "language-modeling", "base": "x = x + mlp(norm(x))", "leaders": [], "refused": []}


def proposer(folder: Path, code: str, wait: float = 20.0) -> OutsideProposer:
    (folder / "mine.py").write_text("import json, sys, time\n" + code)
    return OutsideProposer(f"{sys.executable} {folder / 'mine.py'}", wait)


def test_it_is_asked_again_and_again(tmp_path: Path) -> None:
    code = """
for n, line in enumerate(sys.stdin):
    count = json.loads(line)["count"]
    rows = [{"model": f"x = x + {n}.5 * mlp(norm(x))", "reason": "why  not"}] * count
    print(json.dumps({"proposals": rows}), flush=True)
"""
    outside = proposer(tmp_path, code)
    assert outside.ask(REQUEST) == [("x = x + 0.5 * mlp(norm(x))", "why not")] * 2
    assert outside.ask({**REQUEST, "count": 1}) == [("x = x + 1.5 * mlp(norm(x))", "why not")]
    outside.close()


BAD = {
    "garbage": ("print('hello', flush=True); time.sleep(60)", "no JSON"),
    "a list": ("print('[]', flush=True); time.sleep(60)", "proposals"),
    "no text": ("""print('{"proposals": [{"model": 3}]}', flush=True); time.sleep(60)""", "no text under `model`"),
    "its end": ("sys.exit(4)", "exit status 4"),
    "silence": ("time.sleep(60)", "did not answer"),
    "no end of a line": ("sys.stdout.write('x' * 3_000_000); sys.stdout.flush(); time.sleep(60)", "larger than"),
    "deep": ("print('[' * 100_000, flush=True); time.sleep(60)", "nested|JSON"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_answer_costs_nothing(tmp_path: Path, kind: str) -> None:
    code, said = BAD[kind]
    outside = proposer(tmp_path, code, wait=2.0 if kind == "silence" else 20.0)
    assert outside.ask(REQUEST) == []
    assert pytest.importorskip("re").search(said, outside.failed)
    outside.close()


def test_after_some_failures_it_is_no_longer_asked(tmp_path: Path) -> None:
    outside = proposer(tmp_path, "sys.exit(1)")
    for _ in range(FAILURES):
        assert not outside.silent
        outside.ask(REQUEST)
    assert outside.silent


def test_more_than_was_asked_for_is_not_read() -> None:
    rows = ", ".join('{"model": "x = x"}' for _ in range(10_000))
    assert len(read_answer('{"proposals": [' + rows + "]}", 3)) == 3


def test_a_model_of_enormous_length_is_refused() -> None:
    with pytest.raises(Malformed, match="longer than 20,000"):
        read_answer('{"proposals": [{"model": "' + "x" * 30_000 + '"}]}', 3)


def test_a_command_that_is_none() -> None:
    with pytest.raises(InputError, match="proposer"):
        OutsideProposer('python "mine.py')
    with pytest.raises(InputError, match="there is no program '/no/such/command'"):
        OutsideProposer("/no/such/command")
