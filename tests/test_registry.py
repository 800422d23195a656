"""A registry: names, aliases, the nearest known name; and keys of settings in an earlier spelling."""

from __future__ import annotations

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
