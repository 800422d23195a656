"""A registry: names, aliases, the nearest known name; and keys of settings in an earlier spelling."""

from __future__ import annotations

import sys
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
def painted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[str]:
    """A registry of a package with a file for each color, one of which names another's."""
    folder = tmp_path / "painted"
    folder.mkdir()
    made = "from transformula.registry import Registry\ncolors = Registry('color', __name__)\n"
    (folder / "__init__.py").write_text(made)
    for file, text in {
        "a": "# unlike 'red', a dark color", "blue": "colors.register('blue', aliases=['azure'])('#00f')",
        "red": "colors.register('red')('#f00')", "z": "colors.register('-'.join(['dark', 'gray']))('#444')",
    }.items():  # fmt: skip
        (folder / f"{file}.py").write_text(f"from . import colors\n{text}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import painted  # type: ignore[import-not-found]

    for name in [name for name in sys.modules if name.startswith("painted")]:
        monkeypatch.setitem(sys.modules, name, sys.modules[name])  # taken away afterwards
    return painted.colors  # type: ignore[no-any-return]


def imported() -> set[str]:
    return {name.removeprefix("painted.") for name in sys.modules if name.startswith("painted.")}


def test_of_a_package_the_files_that_state_a_name_are_imported(painted: Registry[str]) -> None:
    assert painted.get("azure") == "#00f" and imported() == {"blue"}
    assert "red" in painted and imported() == {"blue", "a", "red"}, "the first that has the name does not register it"
    assert painted.get("dark-gray") == "#444" and imported() == {"blue", "a", "red", "z"}, "a name that no file states"
    with pytest.raises(UnknownName) as caught:
        painted.get("green")
    assert caught.value.known == ["blue", "dark-gray", "red"] == painted.names()


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
