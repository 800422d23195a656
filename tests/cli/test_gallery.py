"""`gallery` on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from transformula import gallery
from transformula.cli import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["gallery", *arguments]) == status
    shown = capsys.readouterr()
    return shown.out if status == 0 else shown.err


def test_list_has_every_entry(capsys: pytest.CaptureFixture[str]) -> None:
    rows = printed(capsys).splitlines()
    assert [row.split()[0] for row in rows] == list(gallery.names())
    assert [entry["name"] for entry in json.loads(printed(capsys, "list", "--json"))["entries"]] == list(
        gallery.names()
    )


def test_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert "pre-norm" in printed(capsys, "search", "Xiong")
    assert "nothing in the gallery has: zyzzyva; all entries: gallery list" in printed(capsys, "search", "zyzzyva")
    for typed, meant in (("slidng window", "sliding window"), ("atention", "attention")):
        near = re.search(r"did you mean: gallery search (.+)\?", printed(capsys, "search", *typed.split()))
        assert near and meant.split()[0] in near[1] and gallery.search(near[1]), "what is offered finds something"


def test_an_empty_search_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "search", "slidng", "--json")) == {"entries": [], "near": "sliding"}
    assert json.loads(printed(capsys, "search", "xiong", "--json"))["near"] == ""


def found(*words: str) -> set[str]:
    return {entry.name for entry in gallery.search(" ".join(words))}


def test_search_by_the_names_of_the_field() -> None:
    """The names of the field lead to the entries that have what they name, and to no others."""
    assert {"gemma2", "gemma3"} <= found("sliding", "window") and "gpt2" not in found("sliding", "window")
    assert {"llama", "mixtral", "qwen3"} <= found("gqa") and not {"gpt2", "bert"} & found("gqa")
    assert "falcon" in found("mqa") and "llama" not in found("mqa")
    assert "gpt2" in found("weight", "tying") and "llama" not in found("weight", "tying")
    assert {"mixtral", "switch"} <= found("moe") and "llama" in found("swiglu") and "gpt2" not in found("rope")
    assert {"albert", "universal"} <= found("layer", "sharing")
    assert {"bert", "vit"} <= found("bidirectional") and "gpt2" not in found("bidirectional")
    assert {"t5", "bart"} <= found("seq2seq") and "llama" not in found("seq2seq")


def test_what_is_said_of_an_entry_comes_before_what_it_has() -> None:
    assert gallery.search("alibi")[0].name == "alibi"
    names = [entry.name for entry in gallery.search("relative position bias")]
    assert names.index("relative-bias") < names.index("deberta") if "deberta" in names else True


def test_show_is_the_file_and_changes_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "show", "pre-norm").strip() == gallery.entry("pre-norm").source.strip()
    assert "depth: 3\n" in printed(capsys, "show", "pre-norm", "--depth", "3")


def test_diff(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = printed(capsys, "diff", "pre-norm", "post-norm").splitlines()
    assert any(row.startswith("-") and "attention(norm(x))" in row for row in rows)
    assert json.loads(printed(capsys, "diff", "pre-norm", "pre-norm", "--json"))["equal"] is True
    assert json.loads(printed(capsys, "diff", "pre-norm", "post-norm", "--json"))["equal"] is False
    printed(capsys, "diff", "pre-norm", "post-norm", "--out", str(tmp_path / "diff.svg"))
    assert "<svg" in (tmp_path / "diff.svg").read_text(encoding="utf-8")


def test_a_misspelt_name_and_a_missing_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean pre-norm" in printed(capsys, "show", "prenorm", status=2)
    assert "two names" in printed(capsys, "diff", "pre-norm", status=2)


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("serch", "did you mean search?"),
        ("lst", "did you mean list"),
        ("prenorm", "did you mean: gallery show pre-norm?"),
        ("b2t", "did you mean: gallery show b2t?"),
        ("zyzzyva", "known: diff, draw, list, search, show"),
    ],
)
def test_a_misspelt_action(capsys: pytest.CaptureFixture[str], typed: str, wanted: str) -> None:
    assert wanted in printed(capsys, typed, status=2)


POST = "x = norm(x + attention(x)); x = norm(x - mlp(x))"


def test_like(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = printed(capsys, "--like", POST, "--count", "3").splitlines()
    assert rows[1].split()[1] == "post-norm"
    assert rows[4] == "" and "- post-norm" in rows and "+ yours" in rows and "+ x = norm(x - mlp(x))" in rows
    assert max(map(len, rows)) <= 100
    data = json.loads(printed(capsys, "--like", POST, "--json"))
    assert len(data["neighbours"]) == 5 and data["neighbours"][0]["name"] == "post-norm"
    assert data["neighbours"][0]["distance"] > 0 and data["difference"]["models"] == ["post-norm", "yours"]
    path = tmp_path / "like.svg"
    assert "wrote" in printed(capsys, "--like", POST, "--out", str(path)) and "<svg" in path.read_text(encoding="utf-8")
    assert printed(capsys, "--like", POST, "--ascii").isascii()


def test_like_a_file_and_a_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("layer: x = x + norm(attention(x)); x = x + norm(mlp(x))\nheads: 4\n", encoding="utf-8")
    assert "res-post" in printed(capsys, "--like", str(path)).splitlines()[1]
    first = printed(capsys, "--like", "rezero").splitlines()[1]
    assert first.split()[:2] == ["0", "skipinit"], "an entry is not near itself"
    assert json.loads(printed(capsys, "--like", "rezero", "--json"))["neighbours"][0]["differs"] == [
        "each call has weights of its own",
    ]
    assert "did you mean" in printed(capsys, "--like", "x = x + attenion(x)", status=2)


@pytest.mark.parametrize(
    "arguments", [("list", "--like", "b2t"), ("list", "--count", "3"), ("--like", "b2t", "--count", "0")]
)
def test_what_does_not_go_with_like(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert "error" in printed(capsys, *arguments, status=2)


def test_draw_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "draw", "pre-norm", "--ascii", "--whole")
    assert shown.isascii() and "[attention]" in shown and "unembed" in shown
    assert "[mlp]" in printed(capsys, "draw", "x = x + mlp(norm(x))")


def test_draw_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "pre-norm.svg"
    assert str(path) in printed(capsys, "draw", "pre-norm", "--out", str(path))
    assert path.read_text(encoding="utf-8").lstrip().startswith(("<svg", "<?xml"))
    assert "cannot be written" in printed(capsys, "draw", "pre-norm", "--out", str(tmp_path / "no" / "a.svg"), status=2)
