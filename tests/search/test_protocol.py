"""The server of the Model Context Protocol, asked by the official client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.search.test_race import no_gates, plan_of, planted, simulated
from transformula.comparison.board import Board
from transformula.comparison.store import Store
from transformula.search.admission import Admission
from transformula.search.hunt import Hunt
from transformula.search.inbox import FILE, waiting
from transformula.search.protocol import results_of, tools_of
from transformula.search.race import Race
from transformula.training.progress import Progress

__all__ = ["no_gates"]  # a fixture that all tests here have

FORMULA = "x = x + attention(norm(x))\nx = x + 0.25 * mlp(norm(x))"


def asked(arguments: list[str], talk: Callable[[Any], Awaitable[Any]]) -> Any:
    """What a client gets of a server that was started with some arguments."""
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = StdioServerParameters(
        command=sys.executable, args=["-m", "transformula", "mcp", *arguments], env=dict(os.environ)
    )

    async def run() -> Any:
        async with stdio_client(command, errlog=quiet) as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            return await talk(session)

    with open(os.devnull, "w") as quiet:
        return asyncio.run(run())


def said(result: Any) -> Any:
    """The object that a tool answered with."""
    return json.loads(result.content[0].text)


def test_a_client_checks_a_formula_and_proposes_it(tmp_path: Path) -> None:
    plan_of(tmp_path).write(tmp_path / "hunt")

    async def talk(session: Any) -> Any:
        tools = await session.list_tools()
        right = await session.call_tool("explain", {"formula": FORMULA})
        wrong = await session.call_tool("explain", {"formula": "x = x + atention(norm(x))"})
        proposed = await session.call_tool("propose", {"formula": FORMULA, "reason": "smaller steps"})
        results = await session.call_tool("results", {})
        return [one.name for one in tools.tools], *map(said, (right, wrong, proposed, results))

    names, right, wrong, proposed, results = asked(["--hunt", str(tmp_path / "hunt")], talk)
    assert names == ["explain", "words", "word", "entries", "entry", "propose", "results"]
    assert len(right["hash"]) == 16 and "attention" in json.dumps(wrong["error"])
    assert proposed == {"proposals": 1, "hash": right["hash"]}
    assert waiting(tmp_path / "hunt") == [(FORMULA, "smaller steps")]
    assert "mlp(norm(x))" in results["base"]


@pytest.mark.parametrize("formula", ["/etc/passwd", "pre-norm", "import os", "x = open('/etc/passwd')", ""])
def test_what_is_no_formula_is_not_proposed(tmp_path: Path, formula: str) -> None:
    plan_of(tmp_path).write(tmp_path / "hunt")
    tools = tools_of(tmp_path / "hunt")
    assert "error" in tools["propose"](formula=formula)
    assert waiting(tmp_path / "hunt") == []


def test_a_search_reads_what_was_left_in_its_folder(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, rounds=1, tuning=False)
    folder = tmp_path / "hunt"
    plan.write(folder)
    tools_of(folder)["propose"](formula=FORMULA, reason="smaller steps")
    with open(folder / FILE, "a") as file:
        file.write("{half a line")
    board = Board(Progress("runs", quiet=True), Store(tmp_path / "store"))
    hunt = Hunt(plan, folder, Race(plan, Admission(plan), simulated(planted)), board)
    hunt.run(None)
    first = hunt.candidates[0]
    assert (first.proposer, first.reason, first.refused) == ("outside", "smaller steps", "")
    shown = results_of(folder)
    assert shown["unit"] == "bits per byte" and "smaller steps" in {one["reason"] for one in shown["wirings"]}
