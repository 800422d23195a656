"""The Python face: `Model`, `train`, `evaluate`, `explain`. It joins the rooms and decides nothing of its own.

Importing this file loads no torch; what needs it is imported where it is used.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from .errors import CheckpointError, InputError

if TYPE_CHECKING:
    from torch import nn

    from .language.graph import Architecture
    from .language.model_file import ModelText
    from .language.vocabulary import Vocabulary
    from .tokenizers.base import Tokenizer

MODEL_FILE = "model.yaml"


def gallery_names() -> list[str]:
    """The names of the gallery's entries."""
    from .gallery import names

    return list(names())


def read_model(given: str | Path, changes: Mapping[str, Any] | None = None) -> ModelText:
    """The text of what a person calls a model, with numbers and formulas changed.

    A text with `=` is a formula (the `layer`), a name that ends in .yaml is a file, a folder is a model's or a run's,
    anything else is the name of a gallery entry. Raises FormulaError, UnknownName, CheckpointError.
    """
    from .language.model_file import from_formula, read_file

    name = str(given)
    if "=" in name and not Path(name).exists():
        text = from_formula(name)
    elif name.endswith((".yaml", ".yml")):
        text = read_file(name)
    elif Path(name).is_dir() or "/" in name:
        text = read_file(model_folder(name) / MODEL_FILE)
    else:
        from .gallery import load

        text = load(name)
    changes = dict(changes or {})
    # A number that a formula mentions and its file lacks, such as `rank` in a typed formula, is given as an option too.
    new = {key: changes.pop(key) for key in list(changes) if key not in text.numbers and mentioned(text, key)}
    if new:
        from .language.source import Source

        sources = {key: Source(f"number {key}", str(value)) for key, value in new.items()}
        text = dataclasses.replace(text, numbers={**text.numbers, **sources})
    return text.override(changes)


def mentioned(text: ModelText, key: str) -> bool:
    """Whether a formula holds `key` as a name, and it is no key of every model."""
    from .language.model_file import FREE_NUMBERS, MODEL_KEYS

    if key in MODEL_KEYS or key in FREE_NUMBERS:
        return False
    sources = [source for stack in text.stacks for source in (stack.before, stack.after, *stack.layers.values())]
    sources += [text.output, *text.words.values(), *text.numbers.values()]
    return any(source is not None and re.search(rf"\b{re.escape(key)}\b", source.text) for source in sources)


def model_folder(path: str | Path) -> Path:
    """The folder with the model of a run (its best, else its last), or `path` itself if it is a model's."""
    path = Path(path)
    for folder in (path, path / "best", path / "last"):
        if (folder / MODEL_FILE).is_file():
            return folder
    if not path.exists():
        raise CheckpointError(f"{path}: there is no such folder; expected a run's, as `train` leaves it, or a model's")
    if (path / "config.yaml").is_file():
        raise CheckpointError(f"{path}: the run has saved no model yet; go on with it by: train --resume {path}")
    raise CheckpointError(f"{path}: holds no {MODEL_FILE}, so it is neither a model's folder nor a run's")


def known_words(use: Sequence[str] = ()) -> Vocabulary:
    """All words, those of the packages `use` included. Nothing is imported: their files are read."""
    from .words import vocabulary

    if use and "" not in sys.path and str(Path.cwd()) not in sys.path:
        # Last, so that a file which happens to lie here hides no installed package.
        sys.path.append(str(Path.cwd()))
    return vocabulary(*use)


def check_model(
    given: str | Path | ModelText, changes: Mapping[str, Any] | None = None, use: Sequence[str] = ()
) -> Architecture:
    """Read a model and check it; needs no torch."""
    from .language.check import check
    from .language.model_file import ModelText

    text = given.override(dict(changes or {})) if isinstance(given, ModelText) else read_model(given, changes)
    return check(text, known_words(use))


def explain(model: str | Path | Model, *, use: Sequence[str] = (), **changes: Any) -> Any:
    """What a formula says: what each line reads, what is carried, skips and branches, gain, warnings.

    The result's `repr` is the text that a person reads, `.data` what a program reads. Needs no torch.
    """
    architecture = model.architecture if isinstance(model, Model) else check_model(model, changes, use)
    from .inspection.explain import explain as explained

    return explained(architecture)


class Model:
    """A model: its text, its weights, and the tokenizer if it has learned from text.

        Model("pre-norm", depth=12, width=768, heads=12)          # from the gallery
        Model("x = x + attention(norm(x))", after="x = norm(x)")  # a formula: the layer
        Model.from_file("gpt2.yaml")
        Model.from_folder("runs/first")                           # trained

    Numbers and formulas of the text are keywords. The text is checked at once; weights are made when first needed.
    Raises FormulaError, with the place underlined.
    """

    def __init__(self, text: str | Path, *, seed: int = 0, use: Sequence[str] = (), **changes: Any) -> None:
        self.architecture: Architecture = check_model(text, changes, use)
        self.tokenizer: Tokenizer | None = None
        self._seed = seed
        self._module: nn.Module | None = None

    @classmethod
    def from_file(cls, path: str | Path, *, seed: int = 0, use: Sequence[str] = (), **changes: Any) -> Model:
        """The model of a file, with fresh weights."""
        from .language.model_file import read_file

        return cls._of(check_model(read_file(path), changes, use), seed=seed)

    @classmethod
    def from_folder(cls, path: str | Path, *, device: str = "cpu", use: Sequence[str] = ()) -> Model:
        """A trained model: a run's folder (its best model) or a model's. Nothing in it is executed."""
        from .interop.folder import load_model

        import_words(use)
        folder = model_folder(path)
        module, architecture = load_model(folder, device=device)
        return cls._of(architecture, module, load_tokenizer(folder))

    @classmethod
    def _of(
        cls,
        architecture: Architecture,
        module: nn.Module | None = None,
        tokenizer: Tokenizer | None = None,
        seed: int = 0,
    ) -> Model:
        made = cls.__new__(cls)
        made.architecture, made.tokenizer, made._module, made._seed = architecture, tokenizer, module, seed
        return made

    @property
    def module(self) -> nn.Module:
        """The model as a PyTorch module: `module(tokens) -> logits (batch, length, vocab)`."""
        if self._module is None:
            from .model import build

            self._module = build(self.architecture, seed=self._seed)
        return self._module

    @property
    def text(self) -> str:
        """The model file's text."""
        from .language.model_file import write_text

        return write_text(self.architecture.text)

    @overload
    def generate(self, prompt: str = "", **sampling: Any) -> str: ...
    @overload
    def generate(self, prompt: Sequence[str], **sampling: Any) -> list[str]: ...
    def generate(
        self, prompt: str | Sequence[str] = "", *, on_text: Callable[[int, str], None] | None = None, **sampling: Any
    ) -> str | list[str]:
        """Go on from a prompt, or from several at once; the text is returned without its prompt.

        sampling  the fields of SamplingSettings: max_tokens, temperature, top_k, top_p, min_p, repetition_penalty,
                  stop, seed, window
        on_text   called with (row, piece of text) as the text is written

        Raises ConfigError, InputError (past learned positions; a model that has no tokenizer).
        """
        from .generation import SamplingSettings, StoppingStream, generate

        settings = SamplingSettings.read(sampling)
        tokenizer = self.tokenizer
        if tokenizer is None:
            raise InputError("this model has learned from no text, so it has no tokenizer: train it first")
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        end = tokenizer.end_of_document
        streams = [StoppingStream(tokenizer.stream(), stop=settings.stop, end=end) for _ in prompts]

        def heard(row: int, token: int) -> None:
            shown = streams[row].push(token)
            if shown and on_text is not None:
                on_text(row, shown)

        tokens = [begin(tokenizer, text) for text in prompts]
        generate(self.module, tokens, settings, finished=lambda row, _: streams[row].finished, on_token=heard)  # type: ignore[arg-type]
        for row, stream in enumerate(streams):
            rest = stream.close()
            if rest and on_text is not None:
                on_text(row, rest)
        texts = [stream.text for stream in streams]
        return texts[0] if isinstance(prompt, str) else texts

    def explain(self) -> Any:
        """What the formula says; see `transformula.explain`."""
        return explain(self)

    def summary(self, **sizes: Any) -> Any:
        """Shapes, parameters, FLOPs and memory, line by line."""
        from .inspection.summary import summary

        return summary(self.architecture, **sizes)

    def save(self, folder: str | Path) -> Path:
        """Write a model's folder: its text, its weights, its tokenizer."""
        from .interop.folder import save_model

        return save_model(folder, self.module, None if self.tokenizer is None else self.tokenizer.save)

    def __repr__(self) -> str:
        return f"Model of {self.architecture.name or 'a formula'}\n{self.text}"


def begin(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """The tokens of a prompt. An empty one begins as documents do: after the end of another, or after a new line."""
    if prompt:
        return tokenizer.encode(prompt)
    if tokenizer.end_of_document is not None:
        return [tokenizer.end_of_document]
    return tokenizer.encode("\n")


def load_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer in a model's folder, if there is one."""
    from .tokenizers.base import FILE, load

    return load(folder) if (folder / FILE).is_file() else None


def import_words(use: Iterable[str]) -> None:
    """Import the words of packages that the user named, so that models made of them can be built."""
    packages = list(use)
    if packages:
        from .words import word_class

        for record in known_words(packages).values():
            if not record.module.startswith("transformula."):
                word_class(record)
