"""Folders as people download them are used as they come: labels, spans and vectors are those of transformers."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.interop.named.test_companions import bert_folder
from transformula import Model, evaluate
from transformula.cli import main
from transformula.errors import CheckpointError, InputError
from transformula.interop.folder import convert
from transformula.interop.named.sentences import KEY, sentence_keys

transformers = pytest.importorskip("transformers")

TEXTS = ["a cat sleeps on the mat", "two dogs run in the park and a bird sings", "the man reads", "who is it"]
POOLING = {f"pooling_mode_{name}": False for name in ("cls_token", "mean_tokens", "max_tokens", "lasttoken")}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("folders") / "mlm", TEXTS * 20)


Shipped = Callable[..., Path]


@pytest.fixture
def shipped(pretrained: Path, tmp_path: Path) -> Shipped:
    """The folder of a class of BERT, as `save_pretrained` writes it, with the tokenizer's files."""

    def make(name: str, **config: Any) -> Path:
        torch.manual_seed(1)
        folder = tmp_path / name
        getattr(transformers, name).from_pretrained(pretrained, **config).save_pretrained(folder)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(pretrained / file, folder / file)
        return folder

    return make


def opened(folder: Path, **options: Any) -> Model:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*left out, since no logits depend on them")
        return Model.from_folder(folder, **options)


@torch.no_grad()
def theirs(folder: Path, kind: str, *texts: str) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(*texts, return_tensors="pt", return_token_type_ids=True)
    return getattr(transformers, kind).from_pretrained(folder).eval()(**encoded)


def label_of(folder: Path, given: Any) -> Any:
    """The `Label` of a text, or of two."""
    model = opened(folder)
    kind: Any = model.predictor
    ((label,),) = kind.predict([model.module], kind.opened([given]), kind.settings())
    return label


def test_a_classifier_says_its_own_labels_of_a_text_and_of_a_pair(shipped: Shipped) -> None:
    kind, names = "BertForSequenceClassification", {0: "no", 1: "maybe", 2: "yes"}
    folder = shipped(kind, num_labels=3, id2label=names)
    for given, texts in ((TEXTS[0], TEXTS[:1]), (f"{TEXTS[1]}\t{TEXTS[2]}", TEXTS[1:3]), (tuple(TEXTS[:2]), TEXTS[:2])):
        expected = theirs(folder, kind, *texts).logits[0].softmax(-1)
        label = label_of(folder, given)
        torch.testing.assert_close(
            torch.tensor([label.probabilities[name] for name in names.values()]), expected, atol=1e-5, rtol=0
        )
        assert label.text == names[int(expected.argmax())]


def test_a_classifier_of_several_labels(shipped: Shipped) -> None:
    kind = "BertForSequenceClassification"
    folder = shipped(kind, num_labels=4, problem_type="multi_label_classification")
    chosen = theirs(folder, kind, TEXTS[0]).logits[0].sigmoid() > 0.5
    assert [*label_of(folder, TEXTS[0]).labels] == [f"LABEL_{n}" for n, yes in enumerate(chosen.tolist()) if yes]


def test_a_regression_is_no_classifier(shipped: Shipped) -> None:
    with pytest.warns(UserWarning, match="its output is a number of its own"):
        model = Model.from_folder(shipped("BertForSequenceClassification", num_labels=1))
    with pytest.raises(InputError):
        model.predict(TEXTS[0])


@pytest.mark.parametrize("names", [{0: "yes", 1: "yes"}, {0: "yes", 2: "no"}], ids=str)
def test_labels_that_are_not_numbered_or_not_told_apart(names: dict[int, str], shipped: Shipped) -> None:
    folder = shipped("BertForSequenceClassification", num_labels=2)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "id2label": names}))
    with pytest.warns(UserWarning, match=r"id2label is .* expected another name for each of 0 to 1"):
        assert Model.from_folder(folder).predictor is None


def test_a_tagger_says_its_own_tags(shipped: Shipped) -> None:
    kind, names = "BertForTokenClassification", {0: "O", 1: "B-PER", 2: "I-PER", 3: "I-LOC"}
    folder = shipped(kind, id2label=names)
    words = "the man reads and a cat sleeps".split()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        best = transformers.BertForTokenClassification.from_pretrained(folder).eval()(**encoded).logits[0].argmax(-1)
    firsts = [encoded.word_ids(0).index(n) for n in range(len(words))]
    (tagged,) = opened(folder).predict([" ".join(words)])
    assert tagged.text == " ".join(f"{word}/{names[int(best[n])]}" for word, n in zip(words, firsts, strict=True))


def test_an_answer_is_the_best_span(shipped: Shipped) -> None:
    kind, question, context = "BertForQuestionAnswering", "who is it", "the man reads and a cat sleeps on the mat"
    folder = shipped(kind)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(
        question, context, return_tensors="pt", return_offsets_mapping=True, return_token_type_ids=True
    )
    places = encoded.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        output = transformers.BertForQuestionAnswering.from_pretrained(folder).eval()(**encoded)
    own = [n for n, sequence in enumerate(encoded.sequence_ids(0)) if sequence == 1]
    spans = [(i, j) for i in own for j in own if i <= j]
    start, end = max(spans, key=lambda span: float(output.start_logits[0, span[0]] + output.end_logits[0, span[1]]))
    assert opened(folder).predict({"question": question, "context": context}) == context[
        places[start][0] : places[end][1]
    ]


def with_steps(folder: Path, mode: str = "mean_tokens", normalize: bool = False, **limits: Any) -> Path:
    """The files of sentence-transformers, as its version 5 writes them."""
    steps = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{step}" if n else "", "type": f"sentence_transformers.models.{step}"}
        for n, step in enumerate(steps)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": 64, **POOLING, f"pooling_mode_{mode}": True, "include_prompt": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    said = {"max_seq_length": 64, "do_lower_case": False, **limits}
    (folder / "sentence_bert_config.json").write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("mode", ["mean_tokens", "cls_token"])
def test_vectors_are_pooled_as_the_folder_says(mode: str, normalize: bool, shipped: Shipped) -> None:
    folder = with_steps(shipped("BertModel"), mode, normalize)
    vectors = opened(folder).predict(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        hidden = theirs(folder, "BertModel", text).last_hidden_state[0]
        expected = hidden.mean(0) if mode == "mean_tokens" else hidden[0]
        expected = expected / expected.norm() if normalize else expected
        torch.testing.assert_close(torch.tensor(vector, dtype=torch.float32), expected, atol=1e-5, rtol=1e-5)


def test_a_text_is_cut_where_sentence_transformers_cuts_it(shipped: Shipped) -> None:
    folder = with_steps(shipped("BertModel"), max_seq_length=6)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        ids = tokenizer(TEXTS[1], return_tensors="pt", truncation=True, max_length=6)
        hidden = transformers.BertModel.from_pretrained(folder).eval()(**ids).last_hidden_state[0]
    with pytest.warns(UserWarning):
        vector = opened(folder).predict(TEXTS[1])
    torch.testing.assert_close(torch.tensor(vector, dtype=torch.float32), hidden.mean(0), atol=1e-5, rtol=1e-5)


def test_what_is_written_again_says_the_same(shipped: Shipped, tmp_path: Path) -> None:
    folder = with_steps(shipped("BertModel"), "cls_token", True, max_seq_length=20)
    model, out = opened(folder), tmp_path / "out"
    convert(folder, out, read="transformers", write="transformers")
    assert sentence_keys(out) == sentence_keys(folder)
    assert KEY not in json.loads((out / "config.json").read_text())
    again = opened(out)
    for one, other in zip(model.predict(TEXTS), again.predict(TEXTS), strict=True):
        torch.testing.assert_close(torch.tensor(one), torch.tensor(other), atol=0, rtol=0)


MISTAKES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a mode": (lambda f: with_steps(f, "max_tokens"), "by pooling_mode_max_tokens; known: pooling_mode_mean_tokens"),
    "two modes": (
        lambda f: (f / "1_Pooling" / "config.json").write_text(
            json.dumps({**POOLING, "pooling_mode_cls_token": True, "pooling_mode_max_tokens": True})
        ),
        "pooling_mode_cls_token, pooling_mode_max_tokens; known",
    ),
    "a step": (
        lambda f: (f / "modules.json").write_text(
            json.dumps([{"path": "", "type": f"a.{n}"} for n in ("Transformer", "Pooling", "Dense")])
        ),
        "its steps are Transformer, Pooling, Dense; expected Transformer and Pooling",
    ),
    "no pooling": (lambda f: (f / "1_Pooling" / "config.json").unlink(), "1_Pooling.config.json: cannot be read"),
    "a prompt": (
        lambda f: (f / "config_sentence_transformers.json").write_text(json.dumps({"default_prompt_name": "query"})),
        "default_prompt_name is 'query'",
    ),
    "no list": (lambda f: (f / "modules.json").write_text('{"a": 1}'), "modules.json: its steps are none"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_sentence_transformers_would_make_otherwise_is_refused(name: str, shipped: Shipped) -> None:
    folder = with_steps(shipped("BertModel"))
    change, said = MISTAKES[name]
    change(folder)
    with pytest.raises(CheckpointError, match=said):
        Model.from_folder(folder)


@pytest.mark.filterwarnings("ignore")
def test_a_folder_without_a_pooler(shipped: Shipped) -> None:
    folder = shipped("BertModel")
    whole = opened(folder).predict(TEXTS[0])
    transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).save_pretrained(folder)
    assert torch.equal(torch.tensor(opened(folder).predict(TEXTS[0])), torch.tensor(whole))


@pytest.mark.filterwarnings("ignore")
def test_an_empty_text_without_marks_has_an_answer(shipped: Shipped) -> None:
    """The tokenizer puts nothing around texts."""
    assert label_of(shipped("BertForSequenceClassification", num_labels=2), "").text in ("LABEL_0", "LABEL_1")


@pytest.mark.filterwarnings("ignore")
def test_it_is_scored_on_rows_of_its_task(shipped: Shipped, tmp_path: Path) -> None:
    folder = shipped("BertForSequenceClassification", num_labels=3, id2label={0: "no", 1: "maybe", 2: "yes"})
    own = [label_of(folder, text).text for text in TEXTS]
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, own, strict=True)))
    assert evaluate(folder, data=str(rows)).data["scores"]["accuracy"]["score"] == 100


def test_predict_is_the_verb_of_its_task(shipped: Shipped, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shipped("BertForSequenceClassification", num_labels=2, id2label={0: "no", 1: "yes"})
    assert main(["predict", str(folder), TEXTS[0]]) == 0
    assert capsys.readouterr().out.strip() == label_of(folder, TEXTS[0]).text


@pytest.mark.filterwarnings("ignore")
def test_what_is_imported_keeps_its_task(
    shipped: Shipped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shipped("BertForSequenceClassification", num_labels=2, id2label={0: "bad", 1: "good"})
    assert main(["import", str(folder), "--format", "transformers", "--out", str(tmp_path / "ours")]) == 0
    capsys.readouterr()
    answers = []
    for model in (folder, tmp_path / "ours"):
        assert main(["classify", str(model), *TEXTS, "--scores"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] and len(re.findall("bad|good", answers[0])) == len(TEXTS)


def test_what_the_files_say_of_vectors_concerns_no_other_family(shipped: Shipped) -> None:
    """A language model that sentence-transformers pools by its last token is a language model here."""
    folder = with_steps(shipped("BertForMaskedLM"), "lasttoken")
    assert opened(folder).architecture.name == "bert"


def test_the_pooling_as_later_versions_write_it(shipped: Shipped) -> None:
    folder = with_steps(shipped("BertModel"))
    expected = sentence_keys(with_steps(folder, "cls_token"))
    said = {"embedding_dimension": 64, "pooling_mode": "cls", "include_prompt": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    assert sentence_keys(folder) == expected
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({**said, "pooling_mode": "max"}))
    with pytest.raises(CheckpointError, match="the vector of a text is by max; known"):
        sentence_keys(folder)


SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
CONVOLUTIONS = {"conv_dim": [16, 16], "conv_kernel": [3, 3], "conv_stride": [2, 2], "num_feat_extract_layers": 2}
SOUND = {**SMALL, **CONVOLUTIONS, "num_conv_pos_embedding_groups": 2, "num_conv_pos_embeddings": 4}
UNANSWERED = [
    ("ElectraForPreTraining", {**SMALL, "embedding_size": 16}, True, "no verb .* replaced-token-detection"),
    ("ElectraForPreTraining", {**SMALL, "embedding_size": 16}, False, "reads texts, and the folder holds no tokenizer"),
    ("GPT2Model", {"n_embd": 16, "n_layer": 1, "n_head": 2}, True, "no verb .* hidden-states"),
    ("ViTModel", {**SMALL, "image_size": 32, "patch_size": 8}, False, "no verb .* hidden-states"),
    ("Wav2Vec2ForSequenceClassification", {**SOUND, "classifier_proj_size": 8}, False, "preprocessor_config.json"),
    ("Wav2Vec2ForCTC", SOUND, False, "how sound becomes numbers is not said: preprocessor_config.json is not there"),
    ("HubertForSequenceClassification", {**SOUND, "classifier_proj_size": 8}, False, "preprocessor_config.json"),
]


@pytest.mark.parametrize(("kind", "config", "texts", "why"), UNANSWERED, ids=lambda value: str(value)[:40])
def test_a_folder_by_which_no_verb_answers_says_what_it_holds(
    kind: str, config: dict[str, Any], texts: bool, why: str, pretrained: Path, tmp_path: Path, capsys: Any
) -> None:
    """Whatever verb is asked, in one line; its module gives outputs as before, and its tokenizer is known."""
    theirs_kind = getattr(transformers, kind)
    rows = transformers.AutoConfig.from_pretrained(pretrained).vocab_size
    vocabulary = {} if kind == "ViTModel" else {"vocab_size": rows}
    theirs_kind(theirs_kind.config_class(**config, **vocabulary)).save_pretrained(tmp_path / kind)
    if texts:
        shutil.copy(pretrained / "tokenizer.json", tmp_path / kind)
    verbs = ("predict", "classify", "sample") if texts else ("predict", "classify")
    for verb in verbs:
        assert main([verb, str(tmp_path / kind), "a cat"]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
        outputs = re.escape("load(FOLDER).module gives its outputs")
        assert re.search(f"holds {kind}, .*{why}.*{outputs}", line)
    model = opened(tmp_path / kind)
    assert (model.tokenizer is not None) == texts and model.module is not None
    with pytest.raises(InputError, match=f"holds {kind}"):
        model.predict("a cat")
    if texts:
        with pytest.raises(InputError, match=f"ours: holds {kind}"):
            opened(model.save(tmp_path / "ours")).predict("a cat")
