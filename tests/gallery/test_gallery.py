"""The reader, what every entry must say, and the committed index and page."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.invariants.harness import every_day
from transformula import gallery
from transformula.analysis.audit import model_differences
from transformula.errors import UnknownName
from transformula.gallery.catalogue import index_text, make_index
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text
from transformula.words import vocabulary

ROOT = Path(__file__).parents[2]
CHECKED = re.compile(r"(checked in|from memory|as unpublished notes give it|exact|measured)")
REQUIRED = {"title", "kind", "why", "equation"}
OPTIONAL = {"checked_against", "paper", "authors", "year", "arxiv", "claim", "claim_source", "sound", "cost"}
"""The keys of `about`."""


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """docs/make_gallery.py."""
    spec = importlib.util.spec_from_file_location("make_gallery", ROOT / "docs" / "make_gallery.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", gallery.names())
def test_an_entry_says_what_it_must(name: str) -> None:
    entry = gallery.entry(name)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert entry.text.name == name, "the key `name` and the file's name agree"
    about = entry.text.about
    assert REQUIRED <= set(about) <= REQUIRED | OPTIONAL
    assert all(value.strip() == value and value for value in about.values())
    assert about["kind"] in gallery.KINDS
    assert CHECKED.match(about["equation"])
    if "paper" in about:
        assert {"authors", "year"} <= set(about) and 1980 < int(about["year"]) < 2100
    else:
        assert about["kind"] == "teaching"
    assert ("claim" in about) == ("claim_source" in about)
    assert CHECKED.match(about.get("claim_source", "exact"))
    assert re.fullmatch(r"\d{4}\.\d{4,5}", about.get("arxiv", "0000.00000"))
    if "sound" in about:
        relative = gallery.entry(about["sound"])
        assert "sound" not in relative.about or relative.about["sound"] != name, "a sound relative is sound"
    assert not about["why"].endswith("..") and len(about["why"]) < 300


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_an_entry_fits_a_laptop_or_is_a_whole_model(name: str) -> None:
    entry = gallery.entry(name)
    numbers = check(entry.text, vocabulary()).numbers
    if entry.about["kind"] not in ("whole model", "teaching"):
        assert 4 <= numbers["depth"] <= 12
        assert (numbers["width"], numbers["heads"]) == (256, 4)


@pytest.mark.parametrize("name", gallery.names())
def test_an_entry_is_written_as_it_is_read(name: str) -> None:
    text = gallery.load(name)
    again = read_text(write_text(text))
    assert write_text(again) == write_text(text)
    assert again.about == text.about


def test_index_has_all_entries() -> None:
    """If this fails: python docs/make_gallery.py."""
    assert list(gallery.index()) == list(gallery.names())


@pytest.mark.slow
def test_index_is_made_of_the_entries() -> None:
    """If this fails: python docs/make_gallery.py."""
    assert gallery.INDEX.read_text(encoding="utf-8") == index_text(make_index(vocabulary()))


def test_page_is_made_of_the_entries(maker: ModuleType) -> None:
    """If this fails: python docs/make_gallery.py."""
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page()


def test_wiring_keys_find_relatives() -> None:
    """Other norms, dropout, sizes and names of lines do not matter; where a norm or a skip stands does."""
    key = {name: gallery.entry(name).wiring for name in gallery.names()}
    assert {"pre-norm", "skip-1", "gpt2", "llama", "shakespeare", "droppath", "scalenorm"} <= set(
        gallery.relatives(key["pre-norm"])
    )
    assert {"sandwich", "peri", "gemma3"} <= set(gallery.relatives(key["sandwich"]))
    assert {"res-post", "olmo2"} <= set(gallery.relatives(key["res-post"]))
    assert key["skip-2"] == key["skip-2-dropout"]
    different = [
        "pre-norm",
        "post-norm",
        "skip-2",
        "skip-2-pre",
        "skip-2-half",
        "b2t",
        "parallel",
        "parallel-two-norms",
    ]
    different += ["no-skip", "skip-1-normed", "sandwich", "res-post", "lns", "deepnorm", "keel", "macaron", "mix-ln"]
    assert len({key[name] for name in different}) == len(different)
    twice = ("skip-1", "pre-norm", "roberta", "sroberta")
    hashes = [gallery.entry(name).hash for name in gallery.names() if name not in twice]
    assert len(set(hashes)) == len(hashes)
    assert gallery.entry("roberta").hash == gallery.entry("sroberta").hash, "outputs do not count"
    assert gallery.entry("skip-1").hash == gallery.entry("pre-norm").hash, "the same model in other lines"


def test_search() -> None:
    assert gallery.search("Vaswani")[0].name == "vaswani"
    assert "post-norm" in {e.name for e in gallery.search("Vaswani")}
    assert {e.name for e in gallery.search("DROPOUT skip-2")} >= {"skip-2-dropout"}
    assert gallery.search("reversible")[0].name == "reversible"
    assert gallery.search("no such thing at all") == []
    assert len(gallery.search("")) == len(gallery.entries()) == len(gallery.names()) >= 24


@pytest.mark.parametrize("name", ["pre_norm", "prenorm", "Pre-Norm"])
def test_an_unknown_entry_names_the_nearest(name: str) -> None:
    with pytest.raises(UnknownName, match="gallery entry") as caught:
        gallery.entry(name)
    assert "pre-norm" in caught.value.near


@pytest.mark.parametrize("name", ["", "../reader", "entries/pre-norm", "pre-norm.yaml", "/etc/passwd"])
def test_only_names_are_read(name: str) -> None:
    with pytest.raises(UnknownName):
        gallery.load(name)


def test_listing_loads_no_torch_and_no_entry() -> None:
    program = (
        "import sys; from transformula import gallery;"
        "rows = [(e.name, e.title, e.year, e.data) for e in gallery.entries()];"
        "gallery.search('norm'); assert len(rows) > 23; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_entry_that_the_index_lacks_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("about: {title: Mine}\nlayer: x = x + mlp(x)\n", encoding="utf-8")
    monkeypatch.setattr(gallery, "FOLDER", tmp_path)
    gallery.names.cache_clear()
    try:
        assert gallery.names() == ("mine",)
        assert gallery.entry("mine").title == "Mine" and gallery.entry("mine").year is None
        assert gallery.entry("mine").wiring == ""
    finally:
        monkeypatch.undo()
        gallery.names.cache_clear()


@pytest.mark.parametrize(
    "name, base, differences",
    [
        ("post-norm", "pre-norm", ["layer", "output norm"]),
        ("sandwich", "pre-norm", ["layer"]),
        ("rezero", "pre-norm", ["layer", "output norm"]),
        ("deepnorm", "post-norm", ["layer", "initial values"]),
        ("admin", "post-norm", ["layer", "calibration"]),
        ("skip-2", "skip-1", ["layer"]),
        ("skip-2-dropout", "skip-2", ["dropout"]),
        ("scalenorm", "pre-norm", ["norm"]),
        ("droppath", "pre-norm", ["droppath"]),
    ],
)
def test_an_entry_differs_from_its_family_in_what_its_name_says(name: str, base: str, differences: list[str]) -> None:
    """Post-norm and Admin had ReLU and dropout where pre-norm has GELU: a comparison answered several questions."""
    sizes = {"depth": 6}
    one, other = (check(gallery.load(each), vocabulary(), sizes) for each in (name, base))
    assert [difference.what for difference in model_differences(one, other)] == differences
