"""Models in the formats of other programs: an importer reads a folder, an exporter writes one. Each registers itself.

    @exporter("numpy")
    def write_numpy(model, folder):
        (folder / TEXT).write_text(text_of(model), encoding="utf-8")
        np.savez(folder / "weights.npz", **{name: t.numpy() for name, t in model_tensors(model).items()})

    @importer("numpy")
    def read_numpy(folder, verify):
        arrays = np.load(need_file(folder, "weights.npz"))
        return ModelFiles(need_file(folder, TEXT), {name: torch.from_numpy(arrays[name]) for name in arrays.files},
                          folder / "weights.npz")

As a file of `interop/formats/` the format is found by its place, from outside through `--use`. Our own folder,
`interop/formats/transformula.py`, is read and written through the same registry. `interop/folder.py` does the rest:
the folder is written whole or not at all, the text is checked, and tensors are compared with what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from ..errors import CheckpointError
from ..language.model_writing import write_text
from ..registry import Registry

PIPELINE = "pipeline.json"  # of an export: how text becomes what the model reads, and what it gives an answer
TEXT = "model.yaml"  # the file with a model's text, which our own format has and others may have


@dataclass(frozen=True)
class ModelFiles:
    """What an importer reads.

    text     the model file, or its text where the format has no such file
    tensors  parameters and kept buffers by the names that the model has
    weights  the file or folder that they were read from, to be named in errors
    module   the model of the text on the meta device, where the reader has built it: it takes the tensors as they are,
             in their types, without a copy. None: it is built, in float32, and the tensors are copied into it
    files    names of the files that were read beside these: they do not go along when the folder is converted
    notes    what who loads it should know, such as tensors that are no part of the text
    """

    text: Path | str
    tensors: Mapping[str, Tensor]
    weights: Path
    module: nn.Module | None = None
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Importer = Callable[[Path, bool], ModelFiles]
"""Reads a model from a folder that is there. The second: check what can be checked, such as a hash. Nothing that is
read may be executed. Raises CheckpointError, with the file and what to do."""

Exporter = Callable[..., None]
"""Writes a model, the first argument, into the folder that is the second: it holds what goes along, such as a
tokenizer's file, and nothing else. One that can write weights in another type than the model's takes it as `dtype`,
None for the model's own. Raises CheckpointError for what the format cannot hold."""

Condition = Callable[[nn.Module, Path | None], None]
"""What must hold of a model for a format, as the exporter asks it, too: raises CheckpointError for one that it cannot
hold. The folder has the tokenizer; None: there is none yet. It looks at no weights; of a model without memory (on the
meta device) only at what takes no time."""

FORMATS = "transformula.interop.formats"
IMPORTERS: Registry[Importer] = Registry("format to import", FORMATS, "@importer(")
EXPORTERS: Registry[Exporter] = Registry("format to export", FORMATS, "@exporter(")
CONDITIONS: Registry[Condition] = Registry("condition of a format", FORMATS, "@condition(")

importer, exporter, condition = IMPORTERS.register, EXPORTERS.register, CONDITIONS.register
"""Decorators that register one under the name of its format. Raise InputError for a second one of the same name."""


def need_file(folder: Path, name: str) -> Path:
    """The file of that name in a model's folder. Raises CheckpointError where it is missing."""
    if not (folder / name).is_file():
        what = f"{folder / name}: the file is missing; the folder is no whole model of this format"
        raise CheckpointError(f"{what}. Copy it again from where it was made, or name another format")
    return folder / name


def text_of(model: nn.Module) -> str:
    """The text of a model's file. Models made by hand may carry a plain string as `text`."""
    text = getattr(model, "text", None)
    if text is None:
        what = f"a model of the class {type(model).__name__} has no text, so its folder could not be loaded again"
        raise CheckpointError(f"{what}; build it from a formula, or set `model.text` to the text of a model file")
    return text if isinstance(text, str) else write_text(text)
