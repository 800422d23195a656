"""Data sets of the hub: the real package datasets reads from a hub on the loopback, which has good and bad days."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.data.hub_server import (
    COLUMNS,
    HubServer,
    Repository,
    fineweb_edu,
    long_pages,
    page,
    parquet,
    point_to,
    silence,
)
from transformula.data.conversations import read_conversations
from transformula.data.corpus import read_corpus
from transformula.data.hub import HubName, HubSet, Patience
from transformula.data.records import read_records
from transformula.errors import ConfigError, DataError, InputError, MissingExtra, RunError

pytest.importorskip("datasets")

EDU = "hf:HuggingFaceFW/fineweb-edu:sample-10BT"
PAGES = [page(number) for number in range(120)]  # of the sample's three files
LONG = long_pages()
CALLED = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rom"}}}
CHATS = [
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]}
    for call in (CALLED, {**CALLED, "function": {"name": "clock", "arguments": {"zone": "CET"}}})
]
README = b"---\nconfigs:\n- {config_name: a, data_files: a.jsonl}\n- {config_name: b, data_files: b.jsonl}\n---\n"


@pytest.fixture(scope="module")
def server() -> Iterator[HubServer]:
    repositories = {
        "HuggingFaceFW/fineweb-edu": fineweb_edu(),
        "gated/edu": fineweb_edu(gated="hf_let_me_in"),
        "o/long": Repository({"train.parquet": parquet(LONG, group=6)}),
        "o/cut": Repository({"train.parquet": parquet(PAGES)[:-100]}),
        "o/two": Repository(
            {"README.md": README, "a.jsonl": b'{"text": "a"}\n{"text": "b"}\n', "b.jsonl": b'{"c": 1}'}
        ),
        "o/chat": Repository({"train.parquet": parquet(CHATS)}),
        "o/empty": Repository({"README.md": b"nothing"}),
    }
    with HubServer(repositories, page=2) as hub:
        yield hub
        assert hub.unknown == [], "the libraries asked for more than the hub here knows"


@pytest.fixture
def hub(server: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HubServer:
    server.asked.clear()
    server.faulted.clear()
    server.ranges.clear()
    point_to(server, monkeypatch, tmp_path / "hub")
    return server


def all_rows(name: str) -> list[dict]:
    """The rows of all files."""
    known = HubSet(name)
    return [dict(row) for file in range(len(known.files)) for row in known.rows(file)]


class TestReading:
    def test_rows_files_and_columns(self, hub: HubServer) -> None:
        known = HubSet(EDU)
        assert known.files == [f"sample/10BT/00{n}_00000.parquet" for n in range(3)]
        assert known.columns == list(COLUMNS)
        assert known.commit == hub.repositories["HuggingFaceFW/fineweb-edu"].sha
        assert all_rows(EDU) == PAGES
        listings = [line for line in hub.asked if line.endswith("/tree/" + known.commit + "/sample/10BT")]
        assert [hub.asked[line] for line in listings] == [2], "a listing of three files has two pages here"

    def test_from_any_row_on(self, hub: HubServer) -> None:
        known = HubSet(EDU)
        for start in (0, 1, 9, 10, 11, 29, 39, 40, 50):
            assert list(known.rows(1, start)) == PAGES[40 + start : 80]

    def test_of_row_groups_before_nothing_is_fetched(
        self, hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        point_to(hub, monkeypatch, tmp_path, block=1000)
        size = len(hub.repositories["o/long"].files["train.parquet"])
        known = HubSet("hf:o/long")
        hub.ranges.clear()
        assert list(known.rows(0, 55)) == LONG[55:]
        assert not [(first, end) for _, first, end in hub.ranges if first < size / 3]

    def test_other_formats_and_configs(self, hub: HubServer) -> None:
        assert all_rows("hf:o/two:a") == [{"text": "a"}, {"text": "b"}] and all_rows("hf:o/two:b:train") == [{"c": 1}]
        assert list(HubSet("hf:o/two:a").rows(0, 1)) == [{"text": "b"}]

    def test_a_folder_of_this_machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "train.jsonl").write_text('{"translation": {"de": "a", "en": "b"}}\n' * 3)
        (tmp_path / "set" / "test.jsonl").write_text('{"translation": {"de": "c", "en": "d"}}\n')
        name = f"hf:{tmp_path / 'set'}"
        records = list(read_records(name, {"s": "translation.de"}))
        assert [record["s"] for record in records] == ["a"] * 3 and records[0].place == f"{name}, row 1"
        assert [dict(r) for r in read_records(f"{name}:default:test", {"s": "translation.en"})] == [{"s": "d"}]

    def test_a_commit_a_branch_and_no_other(self, hub: HubServer) -> None:
        commit = HubSet(EDU).commit
        for revision in (commit, "main"):
            assert HubSet(f"hf:HuggingFaceFW/fineweb-edu@{revision}:sample-10BT").commit == commit
        with pytest.raises(DataError, match="has no such revision; name a commit, a branch or a tag after the @"):
            all_rows("hf:HuggingFaceFW/fineweb-edu@v9:sample-10BT")

    def test_gated(self, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(DataError, match="is gated: accept its terms on its page at http.* then set HF_TOKEN"):
            all_rows("hf:gated/edu:sample-10BT")
        monkeypatch.setenv("HF_TOKEN", "hf_let_me_in")
        assert all_rows("hf:gated/edu:sample-10BT") == PAGES

    def test_tasks_read_it(self, hub: HubServer) -> None:
        assert read_corpus(EDU).documents == [row["text"] for row in PAGES]
        kept = [row["text"] for row in PAGES if row["int_score"] >= 3 and row["language"] == "en"]
        corpus = read_corpus(EDU, where="int_score >= 3 and language == en")
        assert 0 < len(kept) < 120 and corpus.documents == kept and corpus.unkept == 120 - len(kept)
        records = read_records(EDU, {"source": "text", "target": "language"}, where="language == de")
        assert [record["source"] for record in records] == [row["text"] for row in PAGES if row["language"] == "de"]
        assert records.tally.unkept == 96

    def test_null_keys_of_structs_are_no_keys(self, hub: HubServer) -> None:
        """A column of messages gives each call the arguments of all tools."""
        name = "hf:o/chat"
        (row, _) = all_rows(name)
        assert row["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"city": "Rom", "zone": None}
        assert [record["messages"] for record in read_conversations(name)] == [one["messages"] for one in CHATS]

    def test_the_first_rows_alone(self, hub: HubServer) -> None:
        assert len(read_corpus(f"{EDU}:train[:50]").documents) == 50
        assert not [line for line in hub.asked if "002_00000" in line], "no more is fetched"


class TestFaults:
    @pytest.mark.parametrize(
        "faults",
        [
            *(pytest.param(one, marks=pytest.mark.slow) for one in (["drop"], ["stall"], [503, 429, 502])),
            ["drop", 500, "stall", *[503] * 7, "drop"],
        ],
        ids=str,
    )
    @pytest.mark.filterwarnings("ignore:hf:UserWarning")
    def test_nothing_is_lost_or_seen_twice(
        self, hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faults: list[int | str]
    ) -> None:
        point_to(hub, monkeypatch, tmp_path, timeout=silence())
        known = HubSet(EDU)
        assert known.columns
        for file in ("000_00000", "001_00000", "002_00000"):
            hub.fail(file, *faults)
        assert [row for file in range(3) for row in known.rows(file)] == PAGES
        # The head of the first file was read before.
        assert len(hub.faulted) in (2 * len(faults), 3 * len(faults))

    @pytest.mark.filterwarnings("ignore:hf:UserWarning")
    @pytest.mark.parametrize(
        "whole", [pytest.param(whole, marks=pytest.mark.slow) for whole in (2, 9, 20)]
    )
    def test_a_break_within_a_file(
        self, hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, whole: int
    ) -> None:
        """After some answers, of which a row group takes a few, the hub is gone until the library gives up."""
        point_to(hub, monkeypatch, tmp_path, block=1000, timeout=silence())
        known = HubSet("hf:o/long")
        assert known.columns
        hub.fail("train.parquet", *[None] * whole, *[500] * 6, "drop", "stall", *[503] * 6)
        assert list(known.rows(0, 1)) == LONG[1:]
        assert len(hub.faulted) == 14

    @pytest.mark.filterwarnings("ignore:hf:UserWarning")
    def test_reading_goes_on_at_the_row_that_was_next(self, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        known, read, begun = HubSet(EDU), HubSet._from, []

        def broken(self: HubSet, file: int, start: int) -> Iterator[Mapping[str, Any]]:
            begun.append(start)
            for number, row in enumerate(read(self, file, start)):
                if number == 7 and len(begun) < 5:
                    raise ConnectionError("gone")
                yield row

        monkeypatch.setattr(HubSet, "_from", broken)
        assert list(known.rows(1, 3)) == PAGES[43:80]
        assert begun == [3, 10, 17, 24, 31]

    def test_the_end_of_patience(self, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRANSFORMULA_HUB_RETRIES", "2")
        known = HubSet(EDU)
        assert known.columns
        hub.fail("001_00000", *[500] * 18)
        with warnings.catch_warnings(record=True) as told, pytest.raises(RunError) as error:
            warnings.simplefilter("always")
            list(known.rows(1))
        said = str(error.value)
        assert said.startswith(f"{EDU}: sample/10BT/001_00000.parquet, row 1: HfHubHTTPError: Server error '500 ")
        assert "Tried 3 times" in said and hub.url in said and "--resume" in said and "TRANSFORMULA_HUB_RETRIES" in said
        assert error.value.exit_status == 1
        ours = [str(one.message) for one in told if one.category is UserWarning]
        assert [text.partition("; ")[2] for text in ours] == [
            "trying again in 0 s (1 of 2)",
            "trying again in 0 s (2 of 2)",
        ]
        assert list(known.rows(1)) == PAGES[40:80], "it can be read when the hub is back"

    def test_waits_double_and_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slept: list[float] = []
        monkeypatch.setattr("transformula.data.hub.time.sleep", slept.append)
        monkeypatch.setenv("TRANSFORMULA_HUB_RETRIES", "8")
        monkeypatch.setenv("TRANSFORMULA_HUB_WAIT", "0.5")
        patience = Patience("hf:o/n")
        with warnings.catch_warnings(), pytest.raises(RunError, match=r"Tried 9 times, with 123.5 s of waiting"):
            warnings.simplefilter("ignore")
            for _ in range(9):
                patience.wait(TimeoutError("silent"), "row 3")
        assert slept == [0.5, 1, 2, 4, 8, 16, 32, 60]

    def test_a_row_that_comes_makes_patience_new(self) -> None:
        patience = Patience("hf:o/n")
        patience.retries, patience.first_wait = 1, 0
        for _ in range(3):
            with pytest.warns(UserWarning, match=r"\(1 of 1\)"):
                patience.wait(ConnectionError("gone"), "row 3")
            patience.over()

    def test_a_hub_that_is_not_there(self, hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        with HubServer({}) as gone:
            pass
        point_to(gone, monkeypatch, tmp_path)
        monkeypatch.setenv("TRANSFORMULA_HUB_RETRIES", "1")
        with pytest.warns(UserWarning, match="looking for it: ConnectionError"), pytest.raises(RunError) as error:
            all_rows(EDU)
        assert f"Tried 2 times, with 0 s of waiting, and the hub ({gone.url}) did not answer" in str(error.value)

    def test_without_a_network_it_ends_soon(
        self, hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Of seven tries each made six requests, with 224 s of waiting."""
        with HubServer({}) as gone:
            pass
        point_to(gone, monkeypatch, tmp_path)
        monkeypatch.delenv("TRANSFORMULA_HUB_WAIT")
        ours, theirs = Clock(), Clock()
        monkeypatch.setattr("transformula.data.hub.time", ours)
        monkeypatch.setattr("huggingface_hub.utils._http.time", theirs)
        with pytest.warns(UserWarning, match="looking for it: "), pytest.raises(RunError) as error:
            all_rows(EDU)
        assert (ours.slept, theirs.slept) == ([3, 6], [])
        assert "Tried 3 times, with 9 s of waiting" in str(error.value)
        remedy = f"HF_HUB_OFFLINE=1 reads the copy that datasets.load_dataset keeps: there is none of it in {tmp_path}"
        assert remedy in str(error.value)

    def test_a_network_that_is_silent_is_not_waited_for_again_and_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        monkeypatch.setattr("transformula.data.hub.time", clock)

        def silent() -> None:
            clock.now += 20
            raise TimeoutError("silent")

        with pytest.raises(RunError, match="Tried once, with 0 s"):
            Patience("hf:o/n", retries=2, wait=3, seconds=30).until_done(silent, "looking for it")
        assert clock.now == 20

    def test_what_the_library_tries_while_it_reads_stays(self, hub: HubServer) -> None:
        """A break of half a minute ends no run that had begun."""
        from huggingface_hub.utils import http_backoff

        before = dict(http_backoff.__kwdefaults__)
        assert HubSet(EDU).columns and http_backoff.__kwdefaults__ == before and before["max_retries"] == 5
        assert Patience("hf:o/n").retries == 6

    @pytest.mark.parametrize("value", ["soon", "-1", "nan"])
    def test_settings_of_the_environment(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("TRANSFORMULA_HUB_WAIT", value)
        with pytest.raises(InputError, match=f"TRANSFORMULA_HUB_WAIT is '{value}'; expected a number from 0 on"):
            HubSet(EDU)

    def test_files_that_lost_their_end(self, hub: HubServer) -> None:
        """No other try mends them, and none is made."""
        with pytest.raises(DataError, match="hf:o/cut: .* is not a whole file .*; name another revision"):
            all_rows("hf:o/cut")
        known = HubSet(EDU)
        assert known.columns
        hub.fail("002_00000", "short")
        with pytest.raises(DataError, match="sample/10BT/002_00000.parquet, row 1: is not a whole file"):
            list(known.rows(2))
        assert hub.faulted == ["short sample/10BT/002_00000.parquet"]


class Clock:
    """A clock that goes by what is slept; see `time`."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, []

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class TestCopy:
    """Without a network the copy is read that `datasets.load_dataset` keeps. It was said to have no split."""

    @pytest.fixture
    def commit(self, hub: HubServer) -> str:
        import datasets

        assert datasets.load_dataset("HuggingFaceFW/fineweb-edu", "sample-10BT", split="train").num_rows == 120
        return hub.repositories["HuggingFaceFW/fineweb-edu"].sha

    @pytest.fixture(params=["offline", "unreachable"])
    def away(self, request: pytest.FixtureRequest, commit: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
        import datasets
        from huggingface_hub import constants

        if request.param == "offline":
            monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
            monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        else:
            with HubServer({}) as gone:
                pass
            point_to(gone, monkeypatch, tmp_path / "hub")
        return commit

    @pytest.mark.filterwarnings("ignore:Couldn't cache:UserWarning")
    def test_it_is_read_without_a_network(self, away: str) -> None:
        known = HubSet(EDU)
        with pytest.warns(UserWarning, match=f"reads the copy on this machine, of commit {away}"):
            assert known.commit == away
        assert known.files == ["train"] and known.columns == list(COLUMNS)
        assert [list(known.rows(0, start)) for start in (0, 110, 120)] == [PAGES, PAGES[110:], []]

    def test_another_revision_is_not_taken_for_it(self, away: str) -> None:
        with pytest.raises(DataError, match=f"is of commit {away}, and v2 is asked for: leave the revision out"):
            all_rows("hf:HuggingFaceFW/fineweb-edu@v2:sample-10BT")
        with pytest.warns(UserWarning, match="the copy on this machine"):
            assert HubSet(f"hf:HuggingFaceFW/fineweb-edu@{away[:9]}:sample-10BT").commit == away

    @pytest.mark.filterwarnings("ignore:hf:UserWarning")
    def test_a_split_that_it_lacks_is_named(self, away: str) -> None:
        with pytest.raises(DataError, match="has no split 'test'; it has: train"):
            all_rows(f"{EDU}:test")


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("hf:no/such", "there is no such data set at http.*nor such a folder here.*OWNER/NAME.*HF_TOKEN"),
            (
                "hf:HuggingFaceFW/fineweb-edu:sample-10B",
                "has no config 'sample-10B'; did you mean sample-10BT",
            ),
            ("hf:HuggingFaceFW/fineweb-edu:train", "has no config 'train';.*config stands before the split"),
            ("hf:o/two", "has several configs, name one: it has: a, b; .*hf:o/two:a:train"),
            (f"{EDU}:test", "has no split 'test'; it has: train"),
            ("hf:o/empty", "looking for it: EmptyDatasetError"),
        ],
    )
    def test_what_is_not_there(self, hub: HubServer, name: str, said: str) -> None:
        with pytest.raises(DataError, match=said):
            all_rows(name)
        assert max(hub.asked.values()) <= 4, "it is not tried again"

    def test_columns_that_are_not_there(self, hub: HubServer) -> None:
        with pytest.raises(DataError, match="has no column 'body'; .*it has: text, id, dump, url, file_path, language"):
            read_corpus(EDU, column="body")
        with pytest.raises(DataError, match="row 1: where: has no column 'int_scor'; did you mean int_score"):
            read_corpus(EDU, where="int_scor >= 3")
        with pytest.raises(DataError, match="none of its 120 rows fulfills: int_score >= 9"):
            read_corpus(EDU, where="int_score >= 9")

    def test_offline(self, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        import datasets
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        with pytest.raises(DataError, match="HF_HUB_OFFLINE forbids to ask the hub: unset it, or name files"):
            all_rows(EDU)

    def test_without_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "datasets", None)
        with pytest.raises(MissingExtra, match="pip install 'transformula\\[hub\\]'"):
            list(read_records("hf:o/n"))


class TestNames:
    def test_parts(self) -> None:
        assert HubName.parse("hf:o/n") == HubName("hf:o/n", "o/n")
        text = "hf:o/n@refs/convert/parquet:de-en:train[:9]"
        assert HubName.parse(text) == HubName(text, "o/n", "refs/convert/parquet", "de-en", "train", 9)

    @pytest.mark.parametrize("wrong", ["hf:", "hf:a:b:c:d", "hf:a::c", "hf:a:b:train[1:9]", "hf:a:train[9]", "hf::a"])
    def test_other_forms(self, wrong: str) -> None:
        with pytest.raises(DataError, match="expected hf:OWNER/NAME, hf:OWNER/NAME:CONFIG or"):
            read_corpus(wrong)

    def test_the_earlier_spelling_is_refused(self) -> None:
        with pytest.raises(DataError, match="is named with hf: in place of hub:"):
            read_corpus("hub:o/n")


def test_what_has_no_meaning_is_refused(hub: HubServer) -> None:
    with pytest.raises(ConfigError, match="header: has no meaning for hf:"):
        read_records(EDU, header=True)
