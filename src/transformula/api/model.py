"""`Model`, and what a formula says, costs and resembles: `explain`, `summary`, `nearest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..errors import InputError
from .reading import check_model, import_packages, known_words, model_folder
from .writing import check_alike, must_write, verb_of, write

if TYPE_CHECKING:
    from torch import nn

    from ..language.graph import Architecture
    from ..tasks.writing import Writing
    from ..tokenizers.base import Tokenizer


def explain(model: str | Path | Model, *, ascii: bool = False, use: Sequence[str] = (), **changes: Any) -> Any:
    """What a formula says: what each line reads, what is carried, skips and branches, gain, warnings.

    ascii  draw its diagram in ASCII

    The result's `repr` is the page that a person reads, `.data` what a program reads. Needs no torch.
    """
    architecture = model.architecture if isinstance(model, Model) else check_model(model, changes, use)
    from ..inspection import explained

    return explained(architecture, known_words(use), ascii=ascii)


def summary(
    model: str | Path | Model, *, length: int | None = None, batch: int = 1, use: Sequence[str] = (), **changes: Any
) -> Any:
    """Shapes, parameters, FLOPs a token and memory, for each line of the formula.

    length, batch  of the tokens that memory and FLOPs are counted for; by default the context, and one row

    The result's `repr` is the table that a person reads, `.data` what a program reads. Needs no torch.
    """
    from ..language.accounting import summary as count

    architecture = model.architecture if isinstance(model, Model) else check_model(model, changes, use)
    return count(architecture, length=length, batch=batch)


def nearest(model: str | Path | Model, *, count: int = 5, use: Sequence[str] = (), **changes: Any) -> Any:
    """The entries of the gallery nearest to a wiring, by edits of its layers' graphs, and what differs from the first.

    count  how many entries

    The result's `repr` is the page that a person reads, `.data` what a program reads. Needs no torch.
    """
    from ..inspection import nearest as find

    if count < 1:
        raise InputError(f"count must be at least 1; given: {count}")
    architecture = model.architecture if isinstance(model, Model) else check_model(model, changes, use)
    return find(architecture, known_words(use), count)


class Model:
    """A model: its text, its weights, the tokenizer if it has learned from text, and how it is asked for a target.

        Model("pre-norm", depth=12, width=768, heads=12)          # from the gallery
        Model("x = x + attention(norm(x))", after="x = norm(x)")  # a formula: the layer
        Model("post-norm", family="encoder-decoder")              # turned into two stacks; or family="encoder"
        Model.from_file("gpt2.yaml")
        Model.from_folder("runs/first")                           # trained

    Numbers and formulas of the text are keywords. The text is checked at once; weights are made when first needed.
    Raises FormulaError, with the place underlined.
    """

    def __init__(self, text: str | Path, *, seed: int = 0, use: Sequence[str] = (), **changes: Any) -> None:
        self.architecture: Architecture = check_model(text, changes, use)
        self.tokenizer: Tokenizer | None = None
        self.writing: Writing | None = None
        self.folder: Path | None = None  # that it was read from
        self._seed = seed
        self._module: nn.Module | None = None

    @classmethod
    def from_file(cls, path: str | Path, *, seed: int = 0, use: Sequence[str] = (), **changes: Any) -> Model:
        """The model of a file, with fresh weights."""
        from ..language.model_file import read_file

        return cls._of(check_model(read_file(path), changes, use), seed=seed)

    @classmethod
    def from_folder(
        cls, path: str | Path, *, device: str = "cpu", use: Sequence[str] = (), verify: bool = True
    ) -> Model:
        """A trained model: a run's folder (its best model) or a model's. Nothing in it is executed.

        verify  compare the weights with the hash in their file (about a second for 300 million parameters), and refuse
                those that are not finite

        Raises CheckpointError, FormulaError.
        """
        folder = model_folder(path)
        from ..interop.folder import load_model
        from ..training.machine import pick_device

        import_packages(use)
        module, architecture = load_model(folder, pick_device(device), verify)
        return cls._in(folder, architecture, module)

    @classmethod
    def _in(cls, folder: Path, architecture: Architecture, module: nn.Module) -> Model:
        """A model with what else lies in its folder."""
        made = cls._of(architecture, module)
        made.folder = folder
        made.tokenizer, made.writing = load_tokenizer(folder), load_writing(folder)
        return made

    @classmethod
    def _of(cls, architecture: Architecture, module: nn.Module | None = None, seed: int = 0) -> Model:
        made = cls.__new__(cls)
        made.architecture, made._module, made._seed = architecture, module, seed
        made.tokenizer = made.writing = made.folder = None
        return made

    @property
    def module(self) -> nn.Module:
        """The model as a PyTorch module: `module(tokens) -> logits (batch, length, vocab)`."""
        if self._module is None:
            from ..model import build

            self._module = build(self.architecture, seed=self._seed)
        return self._module

    @property
    def text(self) -> str:
        """The model file's text."""
        from ..language.model_writing import write_text

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
        from ..generation import SamplingSettings, StoppingStream, generate

        settings = SamplingSettings.read(sampling)
        if self.writing is not None and self.writing.input != "tokens":
            raise InputError(
                "this model does not go on with a text, it writes one for a source: use `write` (on the command line:"
                f" transformula {verb_of(self.writing)})"
            )
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

    def write(
        self,
        source: Any,
        *,
        prefix: str | Sequence[str] | None = None,
        scores: bool = False,
        models: Sequence[str | Path | Model] = (),
        progress: Callable[[int, int], None] | None = None,
        **search: Any,
    ) -> Any:
        """Write the target for a source: translate, summarise, caption, whatever the model was trained for.

            model.write("Zwei Hunde.")                            # a text
            model.write(["Zwei Hunde.", "Eine Katze."])           # a list of texts
            model.write("cat.png")                                # of a model that reads pictures: a file, or a tensor
            model.write("Zwei Hunde.", n_best=3, beam=10)         # a list of Written, best first
            model.write("Zwei Hunde.", models=["runs/second"])    # two models write together

        source    a text; or a picture, as the name of its file or (channels, height, width) uint8; or a list of these
        prefix    what the target begins with: for all, or one for each source
        scores    give a Written for each source: text, score, log_probability, tokens
        models    others that write together with it; their tokenizers must be the same
        progress  called with (done, in all)
        search    fields of SearchSettings: beam, penalty, alpha, n_best, min_length, max_length, max_ratio,
                  block_ngrams, ensemble, batch_tokens

        A source without a word has an empty target. Raises ConfigError, InputError, DataError.
        """
        given = {"prefix": prefix, "scores": scores, "progress": progress, **search}
        return write(must_write(self.writing), self.together(models), source, **given)

    def together(
        self, others: Sequence[str | Path | Model], *, device: str = "cpu", use: Sequence[str] = (), verify: bool = True
    ) -> list[nn.Module]:
        """The modules that write together: this model's, and others', which are models or their folders.

        Raises InputError where one was not trained to write targets, or reads or writes by other tokens.
        """
        first, modules = must_write(self.writing), [self.module]
        for other in others:
            named = str(other) if isinstance(other, (str, Path)) else f"model {len(modules) + 1}"
            loaded = other
            if not isinstance(loaded, Model):
                loaded = Model.from_folder(loaded, device=device, use=use, verify=verify)
            check_alike(first, must_write(loaded.writing), named)
            modules.append(loaded.module)
        return modules

    def explain(self) -> Any:
        """What the formula says; see `transformula.explain`."""
        return explain(self)

    def summary(self, **sizes: Any) -> Any:
        """Shapes, parameters, FLOPs and memory, line by line; see `transformula.summary`."""
        return summary(self, **sizes)

    def save(self, folder: str | Path) -> Path:
        """Write a model's folder: its text, its weights, its tokenizer, and how it is asked for a target."""
        from ..interop.folder import save_model

        kept = self.writing or self.tokenizer
        return save_model(folder, self.module, None if kept is None else kept.save)

    def _repr_html_(self) -> str:
        from ..language.accounting import parameters_in_words
        from ..language.diagram import draw_svg
        from ..notebook import page

        name = self.architecture.name or "a formula"
        size = parameters_in_words(self.summary().data["totals"])
        return page(f"Model of {name}: {size}\n\n{self.text}", [(f"diagram of {name}", draw_svg(self.architecture))])

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
    from ..tokenizers.base import FILE, load

    return load(folder) if (folder / FILE).is_file() else None


def load_writing(folder: Path) -> Writing | None:
    """How the model in a folder is asked for a target, if it was trained for that."""
    from ..tasks.writing import FILE, Writing

    return Writing.load(folder) if (folder / FILE).is_file() else None
