"""Sets with labels that every Python carries: tokens of its source, names of characters, docstrings of its modules."""

import tokenize
import unicodedata

import pytest

from transformula.data.built_in import built_in_names
from transformula.data.records import read_records
from transformula.data.sets import python_modules, python_tokens
from transformula.data.sets.python_modules import docstrings_of, labeled_docstrings
from transformula.data.sets.python_tokens import drawn_statements, statements
from transformula.errors import DataError

SOURCE = """\
# Above.
x = f(1, 'a b')  # beside

if x:
    return [
        x,  # inside
    ]
y = (
"""


def test_statements_with_the_kinds_of_their_tokens():
    first, second, third = statements(SOURCE)
    assert first == (
        1,
        ["# Above.", "x", "=", "f", "(", "1", ",", "'a b'", ")", "# beside"],
        ["COMMENT", "NAME", "OP", "NAME", "OP", "NUMBER", "OP", "STRING", "OP", "COMMENT"],
    )
    assert second == (4, ["if", "x", ":"], ["NAME", "NAME", "OP"])
    assert third[0] == 5 and third[1] == ["return", "[", "x", ",", "# inside", "]"]


def test_equal_statements_come_once_and_a_hash_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(python_tokens, "module_of", lambda path: path.stem)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text("".join(f"x = {n} + {n}\n" for n in range(400)) + "x\n")
    rows = drawn_statements([tmp_path / "a.py", tmp_path / "b.py"])
    taken = list(rows.rows)
    assert 60 < len(taken) < 140 and all(place.startswith("a:") for place, _, _ in taken)
    assert sum(rows.left_out.values()) + len(taken) == 802 and rows.left_out[python_tokens.SAME] == 400
    assert taken == list(drawn_statements([tmp_path / "a.py"]).rows)


EGGS = """\
class A:
    "An A of eggs and of ham for all."

    def m(self):
        "Fry the A in the pan."
"""


def test_docstrings_without_the_names_of_modules(tmp_path, monkeypatch):
    monkeypatch.setattr(python_modules, "module_of", lambda path: ".".join(path.relative_to(tmp_path).parts)[:-3])
    monkeypatch.setattr(python_modules, "MIN_DOCSTRINGS", 2)
    said = 'def f{0}():\n    """Send the mail number {0} with Ham, if one is there."""\n'
    for name, source in {
        "ham.py": '"""Hello."""\n' + said.format(1) + said.format(1) + said.format(2),
        "eggs/a.py": EGGS,
        "rare.py": said.format(3),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    rows = labeled_docstrings([tmp_path / "eggs/a.py", tmp_path / "ham.py", tmp_path / "rare.py"])
    assert list(rows.rows) == [
        ("eggs.a.A:2", "An A of and of for all.", "eggs"),
        ("eggs.a.A:5", "Fry the A in the pan.", "eggs"),
        ("ham.f1:3", "Send the mail number 1 with , if one is there.", "ham"),
        ("ham.f2:7", "Send the mail number 2 with , if one is there.", "ham"),
    ]
    assert list(rows.left_out.values()) == [1, 1, 1]
    assert list(docstrings_of("no python (")) == []


def test_names_of_characters():
    rows = list(read_records("unicode-names"))
    assert len(rows) > 30_000 and len({row.group for row in rows}) > 400
    by_name = {str(row["text"]): row for row in rows}
    assert by_name["LATIN SMALL LETTER A WITH ACUTE"]["label"] == "Ll"
    assert by_name["DIGIT TWO"]["label"] == "Nd" and "HANGUL SYLLABLE GA" not in by_name
    assert all(row["label"] == unicodedata.category(unicodedata.lookup(str(row["text"]))) for row in rows[::500])
    with pytest.raises(DataError, match="unicode-names: there is one such set; leave out :de"):
        list(read_records("unicode-names:de"))


def test_they_are_named_where_rows_with_labels_are():
    assert built_in_names("labeled") == ["python-modules", "python-tokens", "unicode-names"]


@pytest.mark.slow
def test_sets_of_the_library_are_what_the_page_says():
    tokens = read_records("python-tokens", kinds={"tokens": "list", "tags": "list"})
    rows = list(tokens)
    assert len(rows) > 10_000 and len({row.group for row in rows}) > 250
    assert {tag for row in rows for tag in row["tags"]} <= set(tokenize.tok_name.values())
    assert all(len(row["tokens"]) == len(row["tags"]) for row in rows)
    texts = list(read_records("python-modules"))
    labels = {str(row["label"]) for row in texts}
    assert len(labels) >= 15 and len(texts) > 2500
    words = {word.lower() for row in texts for word in str(row["text"]).split()}
    assert not labels & words
