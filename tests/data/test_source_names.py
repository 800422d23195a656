"""Names of sources: each name that a file may have is one name, never a list of its characters."""

import pytest

from transformula.data.corpus import read_corpus
from transformula.data.settings import DataSettings
from transformula.errors import ConfigError

NAMES = [
    "my notes.txt",
    'it\'s "so".txt',
    "a, b.txt",
    "a [1].txt",
    "-a.txt",
    "--steps.txt",
    "\N{GRINNING FACE}.txt",
    "a\r\n.txt",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("several", [False, True])
def test_a_name_is_taken_as_it_is(tmp_path, name, several):
    path = tmp_path / name
    path.write_text("some text\n")
    settings = DataSettings.read({"data": [str(path)] if several else str(path)})
    assert len(read_corpus(settings.data).documents) == 1


@pytest.mark.parametrize("name", ["", "  ", [], ["a.txt", " "]])
def test_a_blank_name_is_refused(name):
    with pytest.raises(ConfigError, match="a source without a name"):
        DataSettings.read({"data": name})
