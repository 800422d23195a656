"""Studies that come with the program are whole: each can be read, and its variants and settings are what they say."""

import itertools
import re
from pathlib import Path

import pytest

from tests.comparison.arms import write_text
from transformula.comparison.audit import differences
from transformula.comparison.compare import StudyReport, compare
from transformula.comparison.planning import make_plan
from transformula.comparison.records import Audit
from transformula.comparison.settings import ComparisonSettings
from transformula.comparison.study import read_study, study_names
from transformula.comparison.variants import read_variants
from transformula.errors import ConfigError, InputError, UnknownName


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with what studies read there."""
    for folder in ("tinyshakespeare", "multi30k"):
        (tmp_path / folder).mkdir()
    write_text(tmp_path / "tinyshakespeare").rename(tmp_path / "tinyshakespeare/input.txt")
    for part, numbers in (("train", range(60)), ("val", range(100, 120))):
        for language, line in (("de", "{} ist {}\n"), ("en", "{} is {}\n")):
            lines = [line.format(number, number * number) for number in numbers]
            (tmp_path / f"multi30k/{part}.{language}").write_text("".join(lines))
    return tmp_path


@pytest.mark.parametrize("name", study_names())
def test_its_variants_and_settings_can_be_read(name: str, root: Path) -> None:
    study = read_study(name)
    assert study.claims, "what papers say stands beside what is measured"
    for _, settings in study.comparisons(str(root), {}):
        fields = ComparisonSettings.model_fields
        own = ComparisonSettings.read({key: value for key, value in settings.items() if key in fields})
        rest = {key: value for key, value in settings.items() if key not in fields}
        variants = read_variants(study.variants, own, rest)
        assert len({variant.name for variant in variants}) == len(variants) > 1


WATCHED = {"activation", "hidden", "gated", "heads", "output", "output norm", "dropout", "initial values", "causal"}
WATCHED |= {what for name in study_names() for names in read_study(name).differences.values() for what in names}


@pytest.mark.parametrize("name", study_names())
def test_variants_differ_in_what_the_study_states_and_in_nothing_else(name: str, root: Path) -> None:
    """The base and each variant in all of it; two variants in no more than the two state together. Options of words
    that the base lacks belong to the layer."""
    study = read_study(name)
    met = set()
    for _, settings in study.comparisons(str(root), {"sizes": 1, "steps": 20, "budget": None, "match": "tokens"}):
        fields = ComparisonSettings.model_fields
        own = ComparisonSettings.read({key: value for key, value in settings.items() if key in fields})
        plan, _ = make_plan(study.variants, own, {key: value for key, value in settings.items() if key not in fields})
        assert {audit.variant: audit.names for audit in plan.audit}.items() <= study.differences.items()
        assert not study.unstated(plan.audit) and not plan.same
        met |= {audit.variant for audit in plan.audit}
        for one, two in itertools.combinations(range(1, len(plan.variants)), 2):
            arms, pair = (plan.arms[two], plan.arms[one]), (plan.variants[one].name, plan.variants[two].name)
            found = {difference.what for difference in differences(plan.variants[two], *arms)}
            assert found & WATCHED <= {what for each in pair for what in study.differences[each]}, pair
    assert met == study.differences.keys()


def test_a_study_says_where_it_is_mistaken() -> None:
    study = read_study("norms")
    found = [Audit("RMSNorm", (("norm", "a", "b"), ("output norm", "a", "b"))), Audit("rezero", ())]
    assert study.unstated(found) == [
        "RMSNorm differs in norm, output norm; the study states: norm",
        "rezero differs in nothing; the study states: layer, output norm",
    ]


def test_settings_that_are_given_take_the_place_of_the_studys() -> None:
    study = read_study("mixers")
    parts = dict(study.comparisons(None, {"budget": "1m"}))
    assert [settings["budget"] for settings in parts.values()] == ["1m"] * len(study.parts)
    assert [settings["longest"] for settings in parts.values()] == [4, 16, 48]


def test_data_that_is_missing_is_named_with_the_remedy(tmp_path: Path) -> None:
    """Built-in data may take the place of a text, not that of a task's own data."""
    file = tmp_path / "study.yaml"
    for task, data, other in (("", "a/text.txt", True), ("task: translation, ", "a/train.{de,en}", False)):
        file.write_text(f"title: a\nquestion: b\nvariants: [c, d]\nsettings: {{{task}data: '{data}'}}\n")
        with pytest.raises(InputError, match=f"nowhere/{re.escape(data)}.*root=FOLDER") as raised:
            list(read_study(file).comparisons("nowhere", {}))
        assert ("python-docs" in str(raised.value)) is other


def test_built_in_data_needs_no_folder() -> None:
    for root in (None, "nowhere"):
        assert [settings["data"] for _, settings in read_study("swiglu").comparisons(root, {})] == ["python-docs"]


def test_an_unknown_study_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="skips"):
        read_study("skip")
    with pytest.raises(ConfigError, match="no such file"):
        read_study(tmp_path / "none.yaml")
    file = tmp_path / "study.yaml"
    file.write_text("title: a\nquestion: b\nvariant: [c]\n")
    with pytest.raises(ConfigError, match=r"variant.*variants"):
        read_study(file)


SMALL = {"depth": 1, "width": 8, "heads": 2, "steps": 4, "batch_tokens": 256, "sizes": 1, "seeds": 2, "lr": 0.01,
         "rows": 200, "validation_rows": 20, "test_rows": 20}  # fmt: skip


def test_each_part_is_a_comparison_of_its_own(tmp_path: Path) -> None:
    where = {"out": str(tmp_path / "mixers"), "store": str(tmp_path / "runs")}
    studied = compare(study="mixers", dry_run=True, quiet=True, **SMALL, **where)
    assert isinstance(studied, StudyReport)
    assert [*studied.parts] == [*read_study("mixers").parts] == [*studied.data["parts"]]
    assert all(name in repr(studied) for name in studied.parts)
    assert "distance 48" in studied._repr_html_()


def test_a_rate_that_is_given_takes_the_place_of_a_study_s_tuning() -> None:
    (_, tuned), (_, given) = (next(read_study("norms").comparisons(None, each)) for each in ({}, {"lr": 0.01}))
    assert "lr_points" in tuned and "lr_points" not in given and given["lr"] == 0.01
    assert "lr_points" in next(read_study("norms").comparisons(None, {"lr": "shared"}))[1]


def test_a_study_has_its_own_variants_and_a_root_needs_a_study() -> None:
    with pytest.raises(InputError, match="own variants"):
        compare(["pre-norm"], study="mixers")
    with pytest.raises(InputError, match="name the study"):
        compare(["pre-norm", "post-norm"], root=".")


def test_the_page_lists_every_study() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/compare.md").read_text()
    table = page.partition("| study | question |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)`", table, re.M)) == study_names()


def test_reports_that_are_shipped_name_no_place_of_a_machine() -> None:
    pages = [*(Path(__file__).parents[2] / "docs" / "studies").rglob("*.md")]
    assert pages and not [page for page in pages if re.search(r"^\| given \w+ \| /", page.read_text("utf-8"), re.M)]
