"""A registry: names, aliases, the nearest known name; and keys of settings in an earlier spelling."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from transformula.errors import ConfigError, InputError, UnknownName
from transformula.registry import Registry
from transformula.settings import with_current_keys
from transformula.training.settings import TrainingSettings


def test_an_alias_is_understood_and_not_listed() -> None:
    colors: Registry[str] = Registry("color")
    colors.register("gray", aliases=["grey"])("#888")
    assert colors.get("grey") == colors.get("gray") == "#888"
    assert colors.name_of("grey") == "gray" and "grey" in colors and colors.names() == ["gray"]
    assert colors.need("grey") == "#888"
    with pytest.raises(UnknownName, match="did you mean gray") as caught:
        colors.get("graay")
    assert caught.value.known == ["gray"]


@pytest.fixture
def painted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[Callable[[], None]]]:
    """A registry of a package with a file for each color, one of which names another's."""
    folder = tmp_path / "painted"
    folder.mkdir()
    made = "from transformula.registry import Registry\ncolors = Registry('color', __name__, '@colors.register(')\n"
    (folder / "__init__.py").write_text(made)
    for file, text in {
        "a": "# unlike 'red', a dark color",
        "blue": "@colors.register('blue', aliases=['azure'], record={'cold': True})",
        "red": "@colors.register(\n    'red', record=dict(cold=False)\n)  # 'warm'",
        "z": "@colors.register('-'.join(['dark', 'gray']))",
    }.items():
        (folder / f"{file}.py").write_text(f"from . import colors\n{text}\ndef {file}(): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    import painted  # type: ignore[import-not-found]

    yield painted.colors
    for name in [name for name in sys.modules if name.startswith("painted")]:
        del sys.modules[name]


def imported() -> set[str]:
    return {name.removeprefix("painted.") for name in sys.modules if name.startswith("painted.")}


def test_of_a_package_the_file_that_states_a_name_is_imported(painted: Registry[Callable[[], None]]) -> None:
    assert "azure" in painted and painted.records()["blue"] == {"cold": True} and imported() == set()
    assert painted.get("azure").__name__ == "blue" and painted.name_of("azure") == "blue" and imported() == {"blue"}
    assert painted.get("red").__name__ == "red" and imported() == {"blue", "red"}
    assert painted.get("dark-gray").__name__ == "z" and imported() == {"blue", "red", "z"}, "a name that no file states"
    with pytest.raises(UnknownName) as caught:
        painted.get("green")
    assert caught.value.known == ["blue", "dark-gray", "red"] == painted.names()
    assert imported() == {"blue", "red", "z"}


def test_of_all_names_only_what_states_none_is_imported(painted: Registry[Callable[[], None]]) -> None:
    assert painted.names() == ["blue", "dark-gray", "red"] and imported() == {"z"}


def test_a_name_of_the_package_is_taken(painted: Registry[Callable[[], None]]) -> None:
    painted.register("red")(print)
    with pytest.raises(InputError, match="two of the kind 'color' are called 'red'"):
        painted.get("red")


@pytest.mark.parametrize("name", ["gray", "grey"])
def test_two_things_of_one_name(name: str) -> None:
    colors: Registry[str] = Registry("color")
    colors.register("gray", aliases=["grey"])("#888")
    with pytest.raises(InputError, match=name):
        colors.register(name)("#999")


def test_a_key_in_its_earlier_spelling() -> None:
    assert TrainingSettings.read({"optimiser": "adamw"}).optimizer == "adamw"
    assert with_current_keys({"optimiser": "adamw", "lr": 1}) == {"optimizer": "adamw", "lr": 1}
    with pytest.raises(ConfigError, match="optimizer now"):
        with_current_keys({"optimiser": "adamw", "optimizer": "muon"})


ROOMS = """
import gc, importlib, json, pkgutil, sys
from transformula.registry import Registry, Statement
import transformula
for room in sys.argv[1:]:
    for each in pkgutil.iter_modules(importlib.import_module(f"transformula.{room}").__path__, f"transformula.{room}."):
        importlib.import_module(each.name)
wrong = {
    one.kind: sorted(set(one._known) ^ {each.name for each in one._statements if isinstance(each, Statement)})
    for one in gc.get_objects()
    if isinstance(one, Registry) and one.package and one.decorator
}
print(json.dumps(wrong))
"""


def test_what_the_files_state_is_what_they_register() -> None:
    """Of every registry: a name that is registered in a way that is not read would not be known until its file is
    imported for another reason."""
    rooms = [
        "training.optimizers", "model.hooks", "tokenizers", "data.sets", "data.formats", "tasks", "tasks.pipelines",
        "comparison.engines", "inspection.gates", "interop.formats", "runs.recorders",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ROOMS, *rooms], check=True, capture_output=True, text=True
    )
    wrong = json.loads(done.stdout)
    assert len(wrong) >= 15 and not any(wrong.values()), {kind: names for kind, names in wrong.items() if names}
