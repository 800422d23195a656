"""BLEU counts words as the script of the targets has them; which tokenizer it was, a run records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from transformula import evaluate, train
from transformula.api.plan import plan_resume
from transformula.errors import ConfigError, MissingExtra
from transformula.structured import load_yaml
from transformula.tasks import bleu_tokenizer
from transformula.tasks.bleu_tokenizer import BleuSettings, choose_bleu_tokenizer, with_bleu_tokenizer
from transformula.tasks.scores.measured import bleu

SENTENCES = {
    "Chinese": ("我们今天去北京大学看书。", "zh", ""),
    "Chinese with names": ("我用 Python 和 PyTorch 写程序", "zh", ""),
    "Japanese": ("私は東京で本を読みました。", "char", "ja-mecab"),
    "Korean": ("나는 서울에서 책을 읽었다.", "char", "ko-mecab"),
    "Thai": ("ฉันชอบอ่านหนังสือมาก", "char", ""),
    "Khmer": ("ខ្ញុំចូលចិត្តអានសៀវភៅ", "char", ""),
    "Burmese": ("ကျွန်တော်စာအုပ်ဖတ်သည်", "char", ""),
    "Tibetan": ("བོད་ཡིག་བཀླགས།", "char", ""),
    "English": ("I use 北京 now, and that is it.", "13a", ""),
    "Hindi": ("मैं हर दिन हिन्दी पढ़ता हूँ।", "13a", ""),
    "Arabic": ("شُكرًا جزيلًا لكَ يا صديقي", "13a", ""),
    "Russian": ("Я читаю книгу каждый день.", "13a", ""),
    "numbers": ("12 3 4 5", "13a", ""),
}


@pytest.fixture(autouse=True)
def _without_mecab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bleu_tokenizer, "is_installed", lambda name: False)


@pytest.mark.parametrize(("text", "name", "usual"), SENTENCES.values(), ids=SENTENCES)
def test_by_the_script_of_the_targets(text: str, name: str, usual: str) -> None:
    assert choose_bleu_tokenizer([text] * 3000 + ["ok"]) == (name, usual)
    assert bleu([text], [text], tokenize=name).score == pytest.approx(100)
    options, note = with_bleu_tokenizer({"bleu_tokenizer": "auto"}, [[text]])
    assert options == {"bleu_tokenizer": name}
    assert bool(note) == (name != "13a") and (f"sacrebleu[{usual[:2]}]" in note) == bool(usual)


def test_mecab_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bleu_tokenizer, "is_installed", lambda name: True)
    found = [choose_bleu_tokenizer([SENTENCES[each][0]]) for each in ("Japanese", "Korean", "Chinese")]
    assert found == [("ja-mecab", ""), ("ko-mecab", ""), ("zh", "")]


def test_a_tokenizer_that_is_not_there_is_refused_before_work() -> None:
    with pytest.raises(MissingExtra, match=r"bleu_tokenizer: ja-mecab needs .* pip install 'sacrebleu\[ja\]'"):
        BleuSettings.read({"bleu_tokenizer": "ja-mecab"}).need()
    with pytest.raises(MissingExtra, match=r"sacrebleu\[ko\]"):
        with_bleu_tokenizer({"bleu_tokenizer": "ko-mecab"}, [["a"]])
    assert choose_bleu_tokenizer([]) == ("13a", "")


SIGNS = "一二三四五六七八九十"


def written(path: Path, rows: Sequence[str]) -> None:
    path.write_text("".join(f"{row}\t{row}\n" for row in rows), encoding="utf-8")


def test_a_run_records_its_tokenizer_and_all_scores_are_by_it(tmp_path: Path) -> None:
    rows = [SIGNS[n % 10 :] + SIGNS[: n % 7 + 2] for n in range(60)]
    written(tmp_path / "train.tsv", rows)
    given: dict[str, Any] = {
        "depth": 1,
        "width": 8,
        "heads": 1,
        "context": 64,
        "family": "encoder-decoder",
    }
    given |= {
        "precision": "float32",
        "task": "translation",
        "overlap": "keep",
        "written": 2,
        "batch_tokens": 256,
        "tokenizer": "bpe",
    }
    data = str(tmp_path / "train.tsv")
    out = tmp_path / "run"
    run = train("pre-norm", data=data, steps=1, evaluate_every=1, out=str(out), quiet=True, **given)
    recorded = load_yaml(out / "config.yaml")
    assert recorded["bleu_tokenizer"] == "zh" and run.task.baselines()["copy"] == pytest.approx(100)
    report = evaluate(out)
    assert "tok:zh" in report.data["scores"]["BLEU"]["signature"] and "tok:zh" in repr(report)
    assert report.data["scores"]["BLEU"]["baselines"]["copy"] == pytest.approx(100)
    # rows of another script, and none said: that of the run; else what is said
    other = tmp_path / "other.tsv"
    written(other, [" ".join(row) for row in rows[:4]])
    assert "tok:zh" in evaluate(out, data=str(other)).data["scores"]["BLEU"]["signature"]
    assert "tok:13a" in repr(evaluate(out, bleu_tokenizer="13a"))
    with pytest.raises(ConfigError, match="bleu_tokenizer: 'char', and the run began with 'zh'"):
        train(resume=out, steps=2, bleu_tokenizer="char", quiet=True)

    # a run from before there was the setting goes on as it began, and is evaluated by the script
    config = out / "config.yaml"
    config.write_text("\n".join(line for line in config.read_text().splitlines() if "bleu_tokenizer" not in line))
    assert plan_resume(out, {}, ()).data.bleu_tokenizer == "13a"  # type: ignore[attr-defined]
    assert "tok:zh" in repr(evaluate(out))
