"""A model that says `carry`, through the door: trained, gone on with, scored and written with as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from transformula import Model, evaluate, train
from transformula.errors import CheckpointError, InputError
from transformula.tasks.language_modeling import LanguageModeling

FORMULA = "x = x + attention(norm(x), rotary=100); x = x + mlp(norm(x))"
SIZES = {"depth": 1, "width": 16, "heads": 2, "context": 8, "batch": 4, "device": "cpu", "precision": "float32"}


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{i} and {i + 1} are {2 * i + 1}\n" for i in range(150)))
    return str(path)


def test_a_run_its_resume_and_its_scores(tmp_path: Path, text: str) -> None:
    out = str(tmp_path / "run")
    train(FORMULA, data=text, out=out, steps=4, carry=12, quiet=True, **SIZES)
    run = train(resume=out, steps=8, quiet=True)
    assert "carry: 12" in (run.folder / "best" / "model.yaml").read_text()
    found = evaluate(out)
    assert found.scores["loss"] == pytest.approx(run.scores["loss"], rel=1e-6)
    assert len(Model.from_folder(out).generate("3 and", max_tokens=30, temperature=0, window=True)) > 5
    with pytest.raises(CheckpointError, match="carry was 12, is 6"):
        train(resume=out, steps=9, carry=6, quiet=True)
    with pytest.raises(InputError, match="stride"):
        evaluate(out, stride=4)


def test_what_cannot_carry_is_refused_before_data_is_read(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="'positions' has learned the first ones only"):
        train("x = x + attention(norm(x))", data=str(tmp_path / "none.txt"), carry=8, steps=1, quiet=True, **SIZES)
    monkeypatch.setattr(LanguageModeling, "carries", False)
    with pytest.raises(InputError, match="batches of language-modeling do not go on from step to step"):
        train(FORMULA, data=str(tmp_path / "none.txt"), carry=8, steps=1, quiet=True, **SIZES)
