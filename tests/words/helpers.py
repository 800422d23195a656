"""Words made by hand: options resolved from the record, as the language does it."""

from __future__ import annotations

from typing import Any

import torch

from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.numbers import evaluate_text
from transformula.language.vocabulary import WordRecord
from transformula.model import build
from transformula.words import vocabulary
from transformula.words.word import At, fill_word, module_of, word_class

VOCABULARY = vocabulary()
FILE = {"width": 32, "heads": 4, "vocab": 11, "context": 24}


def generator_for(name: str) -> torch.Generator:
    """A stream of random numbers for each name."""
    return torch.Generator().manual_seed(sum(name.encode()))


def names_of(record: WordRecord, widths: dict[str, int], options: dict[str, Any], entries: int = 0) -> dict[str, Any]:
    """All names of the record's expressions: the file's numbers, widths (0 where there is no stream), options."""
    names: dict[str, Any] = {**FILE, **{f.lstrip("*"): 0 for form in record.forms for f in form}, **widths}
    names |= dict.fromkeys(record.ports, False)
    names |= {"entries": entries, "entry": widths.get("entries", 0)}
    for option in record.options.values():
        if option.name in options:
            names[option.name] = options[option.name]
        elif isinstance(option.default, str) and option.type in ("whole", "number", "flag"):
            try:
                names[option.name] = evaluate_text(option.default, names)
            except KeyError:
                assert option.absent is not None, f"{record.name}: {option.name}"
                names[option.name] = option.absent
        else:
            assert option.default is not None, f"{record.name} needs {option.name}"
            names[option.name] = option.default
    return names


def make(
    name: str, widths: dict[str, int] | None = None, entries: int = 0, causal: bool = True, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """(module, filled; the names of its record's expressions)."""
    record = VOCABULARY[name]
    widths = widths or {}
    names = names_of(record, widths, options, entries)
    for condition, message in record.checks.items():
        assert evaluate_text(condition, names), message
    given: dict[str, Any] = {o: names[o] for o in record.options}
    if record.family != "table" or "x" in widths:
        given |= {s: w for s, w in widths.items() if s != "entries"}
    if any(f.startswith("*") for form in record.forms for f in form):
        given |= {"entries": entries, "entry": names["entry"]}
    if record.reach == "past":
        given["causal"] = causal
    inner = {role: evaluate_text(text, names) for role, text in record.inner.items()}
    if any(inner.values()):
        given["inner"] = {role: make("norm", {"x": width})[0] for role, width in inner.items() if width}
    made = word_class(record)
    if hasattr(made, "function"):
        function = made.function
        constants = {o: names[o] for o in record.options}
        if record.kind == "chance":
            constants["training"] = True
        return lambda *streams: function(*streams, **constants), names
    module = module_of(made, given)
    fill_word(module, generator_for)
    return module, names


def random_weights(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Every parameter drawn anew: at their initial values wrong equations can agree."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return module


def at(lengths: list[int], new: list[int] | None = None) -> At:
    """Where rows stand; `start` if they agree."""
    return At(
        torch.tensor(lengths),
        lengths[0] if len(set(lengths)) == 1 else None,
        None if new is None else torch.tensor(new),
    )


def rows_of_a_grid_are_as_alone(text: str) -> None:
    """A model of tokens that are a grid of 4 columns: a row beside a longer one gives what it gives alone."""
    model = random_weights(build(check(read_text(text), VOCABULARY), dtype=torch.float64)).eval()
    ids = torch.randint(9, (2, 32), generator=torch.Generator().manual_seed(3))
    together = model(ids, lengths=torch.tensor([32, 16]))
    torch.testing.assert_close(together[0], model(ids[:1])[0])
    torch.testing.assert_close(together[1], model(ids[1:, :16])[0])


def one_graph_for_every_size(model: Any) -> None:
    """A model of pictures is compiled whole, forward and backward, and gives the same for pictures of another size."""
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for side in (16, 32):
        image = torch.randn(2, 1, side, side, generator=generator_for("image"), dtype=torch.float64)
        compiled(image=image).square().sum().backward()
        torch.testing.assert_close(compiled(image=image), model(image=image))
