"""Dates and numbers in two languages."""

import sys
from collections import Counter

import pytest

from transformula.data.records import read_records
from transformula.data.sets import cldr
from transformula.data.sets.cldr import Amounts, Things, dates_and_times, numbers_and_amounts
from transformula.data.splits import find_overlap, split_records
from transformula.errors import DataError, MissingExtra

SETS = {"cldr-dates": dates_and_times, "cldr-numbers": numbers_and_amounts}


def pairs(name: str, source: str, target: str, **options) -> list[cldr.Pair]:
    from babel import Locale

    return list(cldr.pairs(name, SETS[name](), Locale.parse(source), Locale.parse(target), **options))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("ja", "fr"), ("zh_Hant", "ar")])
def test_a_source_has_one_target_and_comes_once(name, source, target):
    rows = pairs(name, source, target, count=3000)
    assert len(rows) == 3000
    assert len({source for _, source, _ in rows}) == 3000
    assert all(source.strip() and target.strip() for _, source, target in rows)
    different = sum(source != target for _, source, target in rows)
    assert different > 1500


@pytest.mark.parametrize("name", SETS)
def test_a_pair_is_a_function_of_its_index_and_the_seed(name):
    rows = pairs(name, "en", "de", count=500)
    assert rows == pairs(name, "en", "de", count=500)
    assert len(set(rows) & set(pairs(name, "en", "de", count=500, seed=2))) < 50
    back = pairs(name, "de", "en", count=500)
    assert {(s, t) for _, s, t in rows} & {(t, s) for _, s, t in back}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("cldr-dates", [("Saturday, ", "Samstag, "), ("PM", ":"), (" weeks", " Wochen"), ("Oct ", " Okt. ")]),
        (
            "cldr-numbers",
            [(" percent", " Prozent"), ("%", " %"), (" million", " Millionen"), ("€", " €")]
            + [(" US dollars", " US-Dollar"), (" kilo", " Kilo"), (" kg", " kg"), ("B", " Mrd.")],
        ),
    ],
)
def test_every_way_of_writing(name, written):
    rows = pairs(name, "en", "de", count=2000)
    for source, target in written:
        assert any(source in s and target in t.replace("\xa0", " ") for _, s, t in rows), source


def test_a_way_that_a_language_does_not_have_is_left_out():
    japanese = Counter(target for _, _, target in pairs("cldr-numbers", "en", "ja", count=900))
    assert sum(japanese.values()) == 900
    sources = [source for _, source, _ in pairs("cldr-numbers", "en", "ja", count=900)]
    assert not any(source.endswith((" million", " billion", " thousand")) for source in sources)


def test_where_two_ways_are_written_alike_the_target_is_the_first():
    def word(number, locale):
        return f"{number} {locale['word']}"

    def sign(number, locale):
        return f"{number} {locale['sign']}"

    english, other = {"word": "m", "sign": "m"}, {"word": "Meter", "sign": "m"}
    things = [Things("lengths", 100, (word, sign))]
    forth = cldr.pairs("lengths", things, english, other, count=100)
    assert all(target == source.replace("m", "Meter") for _, source, target in forth)
    back = cldr.pairs("lengths", things, other, english, count=100)
    assert {source.split()[1] for _, source, _ in back} == {"Meter", "m"}
    with pytest.raises(DataError, match="101 pairs are more than there are lengths"):
        list(cldr.pairs("lengths", things, english, other, count=101))
    with pytest.raises(DataError, match="CLDR has nothing of the kind"):
        list(cldr.pairs("lengths", things, {}, other))


def test_amounts_are_all_different():
    amounts = Amounts(999, -2, 3)
    assert len({amounts[n] for n in range(len(amounts))}) == len(amounts) == 900 * 6
    assert str(max(amounts[n] for n in range(len(amounts)))) == "999000"
    assert min(amounts[n] for n in range(len(amounts))) * 100 == 1


def test_as_records_whose_held_out_part_is_of_its_own():
    records = read_records("cldr-dates:en-de")
    rows = list(records)
    assert len(rows) == 20_000 and rows[0].place == "cldr-dates:en-de, pair 1" and rows[0].group == ""
    training, held = split_records(rows, 0.05)
    assert 800 < len(held) < 1200
    assert find_overlap(training, held, compared=["source"]).rows == 0


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("", "name two languages after it, as in cldr-dates:en-de"),
        (":en", "name two languages"),
        (":en-de-fr", "name two languages"),
        (":en-", "name two languages"),
        (":en-en", "cldr-dates:en-en: these are the same language"),
        (":en-deu", "cldr-dates:en-deu: CLDR has no language 'deu'; did you mean .*de"),
        (":en-../../x", "CLDR has no language"),
    ],
)
def test_what_is_no_pair_of_languages(variant, said):
    with pytest.raises(DataError, match=said):
        list(read_records(f"cldr-dates{variant}"))


def test_without_babel(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(MissingExtra, match=r"making cldr-dates needs the package babel.*'transformula\[cldr\]'"):
        list(read_records("cldr-dates:en-de"))
