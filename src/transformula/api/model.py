"""`Model`, and what a formula says, costs and resembles: `explain`, `summary`, `nearest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, overload

from ..errors import InputError
from ..plain import several
from .inputs import (
    check_fits,
    checked_tables,
    ids_of,
    must_predict,
    must_write,
    predict,
    predictor_in,
    texts_of,
    tokenizer_of,
)
from .reading import check_model, import_packages, known_words, model_folder

if TYPE_CHECKING:
    from torch import nn

    from ..generation.settings import SamplingSettings
    from ..language.graph import Architecture
    from ..tasks.best_of import BestOf
    from ..tasks.predictor import Predictor
    from ..tokenizers.base import Tokenizer


def explain(model: str | Path | Model, *, ascii: bool = False, use: Sequence[str] = (), **changes: Any) -> Any:
    """What a formula says: what each line reads, what is carried, skips and branches, gain, warnings.

    ascii  draw its diagram in ASCII

    The result's `repr` is the page that a person reads, `.data` what a program reads. Needs no torch.
    """
    architecture = model.architecture if isinstance(model, Model) else check_model(model, changes, use)
    from ..inspection.explanation import explanation_of

    return explanation_of(architecture, known_words(use), ascii=ascii)


def summary(
    model: str | Path | Model, *, length: int | None = None, batch: int = 1, tp: int | None = None,
    use: Sequence[str] = (), **changes: Any,
) -> Any:  # fmt: skip
    """Shapes, parameters, FLOPs a token and memory, for each line of the formula.

    length, batch  of the tokens that memory and FLOPs are counted for; by default the context, and one row
    tp             add how its matrices are split among so many devices (tensor parallelism)

    The result's `repr` is the table that a person reads, `.data` what a program reads. Needs no torch.
    """
    from ..analysis.accounting import summary as count
    from ..analysis.tensor_plan import tensor_plan

    architecture = model.architecture if isinstance(model, Model) else check_model(model, changes, use)
    counted = count(architecture, length=length, batch=batch)
    return counted if tp is None else replace(counted, split=tensor_plan(architecture, tp))


def nearest(model: str | Path | Model, *, count: int = 5, use: Sequence[str] = (), **changes: Any) -> Any:
    """The entries of the gallery nearest to a wiring, by edits of its layers' graphs, and what differs from the first.

    count  how many entries

    The result's `repr` is the page that a person reads, `.data` what a program reads. Needs no torch.
    """
    from ..inspection.explanation import nearest as find

    if count < 1:
        raise InputError(f"count must be at least 1; given: {count}")
    architecture = model.architecture if isinstance(model, Model) else check_model(model, changes, use)
    return find(architecture, known_words(use), count)


_BUILDING = RLock()


def load(path: str | Path, **settings: Any) -> Model:
    """The model of a folder: a run's, a model's, or one of transformers. `Model.from_folder(path, ...)`."""
    return Model.from_folder(path, **settings)


def check_path(given: Any, what: str) -> Path:
    """Raise InputError unless `given` is the name of a file or folder."""
    if not isinstance(given, (str, Path)) or not str(given):
        raise InputError(f"expected {what}; this is {given!r:.40}")
    return Path(given)


class Model:
    """A model: its text, its weights, and its predictor, which says what a trained model does with an input.

        Model("pre-norm", depth=12, width=768, heads=12)          # from the gallery
        Model("x = x + attention(norm(x))", after="x = norm(x)")  # a formula: the layer
        Model("post-norm", family="encoder-decoder")              # turned into two stacks; or family="encoder"
        Model.from_file("gpt2.yaml")
        Model("pre-norm", tokenizer="bytes")                      # that reads and writes text at once
        Model.from_folder("runs/first")                           # trained

    tokenizer  a tokenizer, a folder that holds one, or "bytes"; `vocab` is then the tokenizer's, unless it is given

    Numbers and formulas of the text are keywords. The text is checked at once; weights are made when first needed.
    Raises FormulaError, with the place underlined, and InputError for a tokenizer that does not fit.
    """

    def __init__(
        self, text: str | Path | Architecture, *, seed: int = 0, use: Sequence[str] = (),
        tokenizer: Tokenizer | str | Path | None = None, **changes: Any,
    ) -> None:  # fmt: skip
        own = None if tokenizer is None else tokenizer_of(tokenizer)
        if own is not None:
            changes.setdefault("vocab", own.vocab)
        self.architecture: Architecture = check_model(text, changes, use)
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise InputError(f"seed: expected a whole number from 0; this is {seed!r:.40}")
        self._seed = seed
        self._module: nn.Module | None = None
        self._predictor: Predictor | None = None
        self.folder: Path | None = None  # that it was read from
        self.tokenizer = own

    @classmethod
    def from_file(cls, path: str | Path, *, seed: int = 0, use: Sequence[str] = (), **changes: Any) -> Model:
        """The model of a file, with fresh weights."""
        from ..language.model_file import read_file

        text = read_file(check_path(path, "the name of a model file"))
        return cls(check_model(text, changes, use), seed=seed)

    @classmethod
    def from_folder(
        cls, path: str | Path, *, device: str = "cpu", use: Sequence[str] = (), verify: bool = True,
        dtype: str | None = None, adapter: str | Path | None = None,
    ) -> Model:  # fmt: skip
        """A trained model: a run's folder (its best model), a model's, or a folder of transformers (config.json and
        safetensors) of a family that is a named model; such a one of the hub by its name, "hf:OWNER/NAME" or
        "hf:OWNER/NAME@REVISION". Nothing in it is executed.

        verify   compare the weights with the hash in their file (about a second for 300 million parameters), and refuse
                 those that are not finite
        dtype    "float32", "bfloat16", "float16" or "float64"; by default as the weights are stored. They are mapped
                 from the files, and take memory only where their type changes
        adapter  the folder of a low-rank adapter, as `export(RUN, FOLDER, to="peft")` or peft's `save_pretrained` write
                 it, or one for llama.cpp (FILE.gguf, or its folder): it is merged into the weights

        Raises CheckpointError, FormulaError; of the hub InputError, RunError.
        """
        folder = model_folder(check_path(path, "the name of a model's folder, or of a run's"))
        from ..interop.folder import load_model, type_named
        from ..interop.hub import local_folder
        from ..training.machine import pick_device

        import_packages(use)
        if adapter is not None:
            adapter = local_folder(check_path(adapter, "the name of an adapter's folder or file"))
        where = pick_device(device)
        return cls._in(folder, *load_model(folder, where, verify, dtype=type_named(dtype), adapter=adapter))

    @classmethod
    def _in(cls, folder: Path, module: nn.Module, architecture: Architecture) -> Model:
        """A model with what else lies in its folder."""
        model = cls(architecture)
        model._module, model.folder = module, folder
        model.predictor = checked_tables(predictor_in(folder, architecture), architecture, folder)
        return model

    @property
    def tokenizer(self) -> Tokenizer | None:
        """What turns text into the model's tokens; None for a model that was not trained on text. It may be set to a
        tokenizer, a folder that holds one, "bytes" or None, and saved with the model.

        Raises InputError for one whose ids are not those of the model's `vocab`.
        """
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, given: Tokenizer | str | Path | None) -> None:
        self._tokenizer = None if given is None else check_fits(tokenizer_of(given), self.architecture)

    @property
    def predictor(self) -> Predictor | None:
        """What the model does with an input, as the task says on which it was trained: it goes on with a text, writes a
        target, tells a class; None for a model that was not trained. It is saved with the model."""
        if self._predictor is None and self._tokenizer is not None:
            from ..tasks.writing import generator_of

            return generator_of(self._tokenizer)
        return self._predictor

    @predictor.setter
    def predictor(self, predictor: Predictor | None) -> None:
        self._tokenizer = None if predictor is None else predictor.tokenizer
        # What goes on with texts is no more than its tokenizer, which may be set to another.
        self._predictor = None if predictor is None or predictor.method == "generate" else predictor

    @property
    def module(self) -> nn.Module:
        """The model as a PyTorch module: `module(tokens) -> logits (batch, length, vocab)`."""
        if self._module is None:
            from ..model import build

            with _BUILDING:  # threads that ask at once get one module
                if self._module is None:
                    self._module = build(self.architecture, seed=self._seed)
        return self._module

    def __getattr__(self, name: str) -> Any:
        # asked only for what is not there: the methods of a module are looked for here first
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not name.startswith("_"):
            from torch import nn

            if hasattr(nn.Module, name):
                message += f"; the PyTorch module is `model.module`: model.module.{name}"
        raise AttributeError(message)

    @property
    def text(self) -> str:
        """The model file's text."""
        from ..language.model_writing import write_text

        return write_text(self.architecture.text)

    @overload
    def generate(self, prompt: str = "", **sampling: Any) -> str: ...
    @overload
    def generate(self, prompt: Sequence[str], **sampling: Any) -> list[str]: ...
    @overload
    def generate(self, *, tokens: Any, **sampling: Any) -> Any: ...
    def generate(
        self, prompt: str | Sequence[str] = "", *, tokens: Any = None, draft: str | Path | Model | None = None,
        best_of: int | None = None, reward_model: str | Path | Model | None = None,
        on_text: Callable[[int, str], None] | None = None, **sampling: Any,
    ) -> Any:  # fmt: skip
        """Go on from a prompt, or from several at once; the text is returned without its prompt.

            model.generate("The with statement")                 # a text
            model.generate(["The with", "The for"])              # a list of texts
            model.generate(tokens=[5, 2, 7])                     # a list of token ids; no tokenizer is needed

        tokens    ids instead of a prompt: a list, a tensor (length,), a list of these or a tensor (batch, length); the
                  ids that are written are returned, without those of the prompt and of the end of a document
        draft     a smaller model that reads the same tokens, or its folder: it guesses some, by default four at a time,
                  which this one computes in one pass. The text is the same
        best_of   draw so many texts, and return the one to which `reward_model`, a model or its folder, gives the
                  highest score as the reply to the prompt
        sampling  the fields of SamplingSettings: max_tokens, temperature, top_k, top_p, min_p, repetition_penalty,
                  speculate, stop, seed, json_schema, regex, grammar, one_of, window, engine, weights
        on_text   called with (row, piece of text) as the text is written

        The module's mode (`train`, `eval`) is neither changed nor asked: there is no dropout here.

        Raises ConfigError, InputError (past learned positions; a text for a model that has no tokenizer), NotFinite.
        """
        from ..generation.settings import DRAFT_TOKENS, SamplingSettings

        settings = SamplingSettings.read(sampling)
        if draft is not None and not settings.speculate:
            settings = settings.model_copy(update={"speculate": DRAFT_TOKENS})
        predictor = self.predictor
        if predictor is not None and not predictor.continues:
            must_predict(predictor, self.folder)
            instead = f"use `{predictor.method}` (on the command line: transformula {predictor.verb})"
            raise InputError(f"this model does not go on with a text, it answers a source: {instead}")
        best = self._best_of(best_of, reward_model)
        if tokens is not None:
            if best is not None:
                raise InputError("tokens: a reward model reads texts: give prompts, or leave best_of out")
            if prompt != "" or on_text is not None or settings.stop or settings.forms:
                what = "`prompt`, `on_text`, `stop` and the forms (`regex`, ...) are of texts"
                raise InputError(f"tokens: ids are given and returned: {what}")
            return self._generate_tokens(tokens, settings, self._draft(draft))
        if on_text is not None and not callable(on_text):
            raise InputError(f"on_text: expected a function of (row, piece of text); this is {on_text!r:.40}")
        prompts, one = texts_of(prompt)
        if self.tokenizer is None:
            if "tokens" not in self.architecture.inputs:
                must_predict(None, self.folder)
            remedy = "train it, set `model.tokenizer`, or give token ids as tokens="
            raise InputError(f"this model has no tokenizer, since it was not trained on text: {remedy}")
        from ..tasks.writing import TextGenerator

        writer, module, guessing = TextGenerator(self.tokenizer), self._with_weights(), self._draft(draft)
        if best is None:
            texts = writer.generate(module, prompts, settings, on_text, guessing)
        else:
            texts = best.texts(prompts, lambda one: writer.generate(module, prompts, one, None, guessing), settings)
            show = on_text or (lambda *_: None)
            for row, text in enumerate(texts):
                show(row, text)
        return texts[0] if one else texts

    def _best_of(self, count: int | None, reward_model: str | Path | Model | None) -> BestOf | None:
        """What chooses among texts that are drawn; None where neither is said. Raises InputError where one of the two
        is missing, and for a model that scores no replies."""
        if count is None and reward_model is None:
            return None
        from ..generation.steps import device_of
        from ..tasks.best_of import best_of

        if reward_model is None:
            return best_of(count, None, None, "")
        if isinstance(reward_model, Model):
            return best_of(count, reward_model.predictor, reward_model._with_weights(), "the reward model")
        model = Model.from_folder(reward_model, device=str(device_of(self.module)))
        return best_of(count, model.predictor, model.module, str(reward_model))

    def _draft(self, draft: str | Path | Model | None) -> Any:
        """The module of a draft model. Raises InputError where it reads other tokens."""
        from ..generation.steps import device_of

        if draft is None:
            return None
        model = draft if isinstance(draft, Model) else Model.from_folder(draft, device=str(device_of(self.module)))
        vocabularies = [int(each.architecture.numbers["vocab"]) for each in (self, model)]
        identities = {each.tokenizer.identity for each in (self, model) if each.tokenizer is not None}
        if len({*vocabularies}) > 1 or len(identities) > 1:
            named = "the draft model" if isinstance(draft, Model) else str(draft)
            remedy = "train a draft model with the first one's: --tokenizer RUN/best"
            raise InputError(f"{named} reads by another tokenizer than the model that it guesses for; {remedy}")
        return model._with_weights()

    def _generate_tokens(self, tokens: Any, settings: SamplingSettings, draft: Any) -> Any:
        """What `generate` does with token ids."""
        from ..generation import generate

        prompts, one = ids_of(tokens, int(self.architecture.numbers["vocab"]))
        ends = frozenset() if self.tokenizer is None else self.tokenizer.ends
        module: Any = self._with_weights()
        rows = generate(module, prompts, settings, draft=draft, finished=lambda _, written: written[-1] in ends)
        rows = [row[:-1] if row[-1] in ends else row for row in rows]
        return rows[0] if one else rows

    def _with_weights(self) -> nn.Module:
        """The module. Raises InputError where it was moved to the device without numbers."""
        if any(parameter.is_meta for parameter in self.module.parameters()):
            raise InputError(
                'the module is on the device "meta", where parameters have shapes and no numbers: move it by'
                ' `to_empty(device="cpu")` and load its weights'
            )
        return self.module

    def write(
        self, source: Any, *, prefix: str | Sequence[str] | None = None, scores: bool = False,
        models: Sequence[str | Path | Model] = (), progress: Callable[[int, int], None] | None = None, **search: Any,
    ) -> Any:  # fmt: skip
        """Write the target for a source: translate, summarize, caption, whatever the model was trained for.

            model.write("Zwei Hunde.")                            # a text
            model.write(["Zwei Hunde.", "Eine Katze."])           # a list of texts
            model.write("cat.png")                                # of a model that reads pictures: a file, or a tensor
            model.write("Zwei Hunde.", n_best=3, beam=10)         # a list of Written, best first
            model.write("Zwei Hunde.", models=["runs/second"])    # an ensemble of two models

        source    a text; or a picture, as the name of its file or (channels, height, width) uint8; or a list of these
        prefix    what the target begins with: for all, or one for each source
        scores    give a Written for each source: text, score, log_probability, tokens
        models    the other models of an ensemble; their tokenizers must be the same
        progress  called with (done, in all)
        search    fields of SearchSettings: beam, penalty, alpha, n_best, min_length, max_length, max_ratio,
                  early_stopping, block_ngrams, ensemble, batch_tokens

        A source without a word has an empty target. Raises ConfigError, InputError, DataError.
        """
        predictor = must_write(self.predictor)
        settings, modules = predictor.settings.read(search), self.together(models)
        return predict(predictor, modules, source, settings, prefix=prefix, scores=scores, progress=progress)

    def predict(
        self, source: Any, *, scores: bool = False, models: Sequence[str | Path | Model] = (),
        progress: Callable[[int, int], None] | None = None, bad_rows: Literal["stop", "skip"] = "stop",
        best_of: int | None = None, reward_model: str | Path | Model | None = None, **settings: Any,
    ) -> Any:  # fmt: skip
        """Answer an input, or a list of inputs, as the task says on which the model was trained: a text is gone on
        with, translated, told its class.

            model.predict("Zwei Hunde.")                          # a text
            model.predict(["Zwei Hunde.", "Eine Katze."])         # a list of texts
            model.predict("Zwei Hunde.", scores=True).score       # an Answer: text, score, and what else is known

        scores    give an Answer for each input
        models    others that answer together with it, where that can be
        progress  called with (done, in all)
        bad_rows  "skip": an input that cannot be answered has the answer None, and a warning counts these
        best_of   of a model that replies: draw so many replies, and give the one to which `reward_model`, a model or
                  its folder, gives the highest score
        settings  fields of the class `model.predictor.settings`

        Raises ConfigError, InputError, DataError.
        """
        predictor = must_predict(self.predictor, self.folder)
        chosen = predictor.settings.read(settings)
        modules, best = self.together(models), self._best_of(best_of, reward_model)
        predictor = predictor if best is None else best.replying(predictor)
        return predict(predictor, modules, source, chosen, scores=scores, progress=progress, bad_rows=bad_rows)

    def together(
        self, others: Sequence[str | Path | Model], *, device: str = "cpu", use: Sequence[str] = (), verify: bool = True
    ) -> list[nn.Module]:
        """The modules that answer together: this model's, and others', which are models or their folders.

        Raises InputError where one was trained on another task, or, unless these are labels, reads by other tokens.
        """
        modules = [self._with_weights()]
        for other in several(others):
            named = str(other) if isinstance(other, (str, Path)) else f"model {len(modules) + 1}"
            if not isinstance(other, Model):
                other = Model.from_folder(other, device=device, use=use, verify=verify)
            kind = must_predict(other.predictor, other.folder)
            modules.append(must_predict(self.predictor, self.folder).beside(kind, other.module, named))
        return modules

    def explain(self) -> Any:
        """What the formula says; see `transformula.explain`."""
        return explain(self)

    def summary(self, **sizes: Any) -> Any:
        """Shapes, parameters, FLOPs and memory, line by line; see `transformula.summary`."""
        return summary(self, **sizes)

    def save(self, folder: str | Path) -> Path:
        """Write a model's folder: its text, its weights, its tokenizer, and how it is asked for a target. Raises
        InputError, CheckpointError, and RunError for a disk that refuses it."""
        from ..atomic_io import disk_errors
        from ..interop.folder import save_model
        from ..model import build

        folder = check_path(folder, "the name of a folder")
        expected = build(self.architecture, device="meta").state_dict().keys()
        odd = sorted(self._with_weights().state_dict().keys() ^ expected)
        if odd:
            raise InputError(
                f"the module is no longer what the model's text says ({odd[0]} is one of {len(odd)} parameters that"
                " only one of the two has), so it could not be loaded again: merge adapters first (`merge_and_unload`"
                " of peft's model), or save the module by torch.save"
            )
        predictor = self.predictor
        with disk_errors(folder):
            return save_model(folder, self.module, None if predictor is None else predictor.save)

    def _repr_html_(self) -> str:
        from ..analysis.accounting import parameters_in_words
        from ..diagram.svg import draw_svg
        from ..notebook import page

        name = self.architecture.name or "a formula"
        size = parameters_in_words(self.summary().data["totals"])
        return page(f"Model of {name}: {size}\n\n{self.text}", [(f"diagram of {name}", draw_svg(self.architecture))])

    def __repr__(self) -> str:
        return f"Model of {self.architecture.name or 'a formula'}\n{self.text}"
