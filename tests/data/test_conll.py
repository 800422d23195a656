"""Sentences by lines: CoNLL columns and CoNLL-U, with what stands in such files beside the words."""

import gzip
from pathlib import Path

import pytest

from transformula.data.records import read_records
from transformula.errors import DataError

UD = Path(__file__).parents[2].parent / "shared" / "data" / "ud_ewt"
LISTS = {"tokens": "list", "tags": "list"}


def sentences(path: Path, content: str, **options) -> list[tuple[list[str], list[str]]]:
    path.write_bytes(content.encode())
    records = read_records(path, ["tokens", "tags"], kinds=LISTS, **options)
    return [(record["tokens"], record["tags"]) for record in records]


SAME = [(["EU", "rejects"], ["B-ORG", "O"]), (["Peter"], ["B-PER"])]


CONTENTS = {
    "conll 2003": "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n\n",
    "no end": "EU B-ORG\nrejects O\n\nPeter B-PER",
    "tabs": "EU\tB-ORG\nrejects\tO\n\n\nPeter\tB-PER\n",
    "windows": "EU\tB-ORG\r\nrejects\tO\r\n\r\nPeter\tB-PER\r\n",
    "blank lines of blanks": "EU B-ORG \nrejects  O\n \t\nPeter B-PER\n\t\t\n",
    "documents without empty lines": "EU B-ORG\nrejects O\n-DOCSTART- O\nPeter B-PER\n",
    "comments": "# id 1 domain=news\nEU B-ORG\nrejects O\n\n# sent_id = 2\n#Peter\nPeter B-PER\n\n#end document\n",
    "a comment of as many columns": "EU _ _ B-ORG\nrejects _ _ O\n\n# sent_id = 2\nPeter _ _ B-PER\n",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_columns_however_they_are_parted(tmp_path, content):
    assert sentences(tmp_path / "a.conll", content) == SAME


def test_tokens_come_out_unchanged(tmp_path):
    content = '#\tO\nNew York\tB-LOC\n\xa0\tO\n\u2028\tO\n"\tO\n1\tO\n\n'
    assert sentences(tmp_path / "a.iob2", "EU\tO\n\n" + content)[1:] == [
        (["#", "New York", "\xa0", "\u2028", '"', "1"], ["O", "B-LOC", "O", "O", "O", "O"])
    ]
    assert sentences(tmp_path / "a.bio", "# id\n1\xa0000 O\n# O\n") == [(["1\xa0000", "#"], ["O", "O"])]


def test_columns_by_number_and_other_names_of_files(tmp_path):
    (tmp_path / "eng.train").write_text("EU NNP B-ORG\nrejects VBZ O\n")
    records = read_records(tmp_path / "eng.train", {"x": 1, "y": 2, "z": 3}, join=" ", file_format="conll")
    assert [dict(record) for record in records] == [{"x": "EU rejects", "y": "NNP VBZ", "z": "B-ORG O"}]
    with pytest.raises(DataError, match=r"eng.train:1: has no column number 4; it has 3: tokens, 2, tags"):
        list(read_records(tmp_path / "eng.train", [4], file_format="conll"))
    (tmp_path / "a.conll2003.gz").write_bytes(gzip.compress("é O\n".encode("latin-1")))
    assert list(read_records(tmp_path / "a.conll2003.gz", ["tokens"], kinds={"tokens": "list"}, encoding="latin-1"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("EU NNP O\nrejects O\n", ":2: has 2 columns; expected 3 parted by blanks, as in line 1: 'rejects O'"),
        ("# a\n\nEU\tO\nNew York O\n", ":4: has 1 columns; expected 2 parted by tabs, as in line 3: 'New York O'"),
        ("EU\tO\nrejects\t\n", ":2: column 2 is empty; expected 2 parted by tabs"),
        ("EU O\n# NNP B O\n", ":2: has 4 columns; expected 2"),
    ],
)
def test_a_line_of_other_columns_is_shown(tmp_path, content, said):
    with pytest.raises(DataError) as error:
        sentences(tmp_path / "a.iob", content)
    assert f"a.iob{said}" in str(error.value)


def word(number: str, form: str, tag: str = "X") -> str:
    return "\t".join([number, form, form.lower(), tag, "_", "_", "0", "root", "_", "_"]) + "\n"


CONLL_U = (
    "# newdoc id = 7\n# text = Let's go = now\n"
    + word("1-2", "Let's", "_")
    + word("1", "Let", "VERB")
    + word("2", "'s", "PRON")
    + word("3", "go = now", "VERB")
    + word("3.1", "unsaid", "VERB")
    + "\n"
    + word("1", "#", "SYM")
    + word("2", "10 000", "NUM")
)


def test_words_of_universal_dependencies(tmp_path):
    """Ranges and empty nodes are no words, a form may hold a blank, and the last sentence has no empty line."""
    path = tmp_path / "a.conllu"
    path.write_text(CONLL_U)
    kinds = dict.fromkeys(["tokens", "lemma", "upos", "xpos", "feats", "head", "deprel"], "list")
    first, second = read_records(path, kinds=kinds)
    assert first["text"] == "Let's go = now" and first["tokens"] == ["Let", "'s", "go = now"]
    assert first["upos"] == ["VERB", "PRON", "VERB"] and first["lemma"] == ["let", "'s", "go = now"]
    assert second["tokens"] == ["#", "10 000"] and second["text"] == "# 10 000" and second["head"] == ["0", "0"]
    assert second.place == f"{path}:9"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            word("1", "a") + word("2", "b").replace("\t_\n", "\n"),
            ":2: has 9 columns; expected 10 parted by tabs (ID FORM",
        ),
        (word("1", "a") + word("1", "b"), ":2: its number is '1'; expected 2, or an empty line above: '1\\tb"),
        (word("1", "a").replace("\t", "  "), ":1: has 1 columns; expected 10"),
    ],
)
def test_what_is_no_word(tmp_path, content, said):
    (tmp_path / "a.conllu").write_text(content)
    with pytest.raises(DataError) as error:
        list(read_records(tmp_path / "a.conllu", ["tokens"], kinds={"tokens": "list"}))
    assert f"a.conllu{said}" in str(error.value)


@pytest.mark.skipif(not UD.is_dir(), reason=f"the data beside the project is not here: {UD}")
def test_a_treebank():
    records = list(read_records(UD / "dev.conllu", ["tokens", "upos"], kinds={"tokens": "list", "upos": "list"}))
    assert len(records) == 2001 and all(len(record["tokens"]) == len(record["upos"]) for record in records)
    assert {tag for record in records for tag in record["upos"]} <= set(
        "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
    )
