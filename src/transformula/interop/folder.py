"""A model's folder: `model.yaml` (its text), `weights.safetensors`, and what its task needs (a tokenizer's file).

Nothing in it is executed when it is loaded: the text is parsed and checked like a formula typed by hand, the weights
are numbers, the tokenizer is JSON. Other formats are read and written alike: see `interop/exchange.py`.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, reduce
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..atomic_io import disk_errors, follow_umask, sync, whole_folder
from ..errors import CheckpointError, InputError, did_you_mean, nearest, setting
from ..language.check import check
from ..language.graph import Architecture
from ..language.model_file import read_file, read_text
from ..model import build
from ..ownership import MARKER, foreign_files, mark, names_in, refuse_strangers
from ..tokenizers.base import FILE as TOKENIZER
from ..tokenizers.base import check_rows, load
from ..tokenizers.published import is_tokenizer
from ..words import vocabulary
from .card import CARD, model_card
from .exchange import EXPORTERS, IMPORTERS, PIPELINE, TEXT, Exporter, ModelFiles
from .formats.transformula import WEIGHTS as WEIGHTS
from .named import is_theirs
from .weights import check_finite, in_float32, put_tensors

OURS = "transformula"
THEIRS = "transformers"
CODE = ("*.py", "*.pyc", "*.pyd", "*.so", "*.dll")  # what Python would import from a folder
TYPES = ("float32", "bfloat16", "float16", "float64")  # of weights, by torch's names


def save_model(
    folder: Path | str,
    model: nn.Module,
    extras: Callable[[Path], Any] | None = None,
    format: str = OURS,
    dtype: torch.dtype | None = None,
    finish: Callable[[nn.Module, Path], Any] | None = None,
    in_run: bool = False,
) -> Path:
    """Write a model's folder, whole or not at all; one that this program wrote there is replaced. Returns the folder.

    `extras(folder)` writes further files, e.g. `tokenizer.save` or `task.save`; `dtype` is the type of the weights, by
    default the format's own; `finish(model, folder)` is called before the folder is put in its place; `in_run` keeps
    what else lies in the folder, where a run writes its own. Raises UnknownName for a format that is not registered,
    InputError for one that has its own type, CheckpointError for a folder with a file of others.
    """
    folder, write = Path(folder), writer(format, dtype)
    if not in_run:
        refuse_strangers(folder)
    with whole_folder(folder) as new:
        if extras is not None:
            extras(new)
        write(model, new)
        if finish is not None:
            finish(model, new)
        mark(new)
        others = set(names_in(new)) - {WEIGHTS}
        if (new / WEIGHTS).exists() and others == set(filecmp.cmpfiles(new, folder, others, shallow=False)[0]):
            # Only numbers changed: one rename of one file, and no moment at which the folder is not there.
            follow_umask(new / WEIGHTS, new)
            sync(new / WEIGHTS)
            os.replace(new / WEIGHTS, folder / WEIGHTS)
            sync(folder)
            shutil.rmtree(new)
        elif in_run:
            for name in foreign_files(folder):
                if not (new / name).exists():
                    (new / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(folder / name, new / name, follow_symlinks=False)
    return folder


def writer(format: str, dtype: torch.dtype | None) -> Exporter:
    """The exporter of a format, which writes weights of this type. Raises UnknownName, InputError."""
    write = EXPORTERS.need(format)
    if dtype is None:
        return write
    if "dtype" not in signature(write).parameters:
        name = str(dtype).removeprefix("torch.")
        raise InputError(f"{setting('dtype', name)}: the format {format} has a type of its own; leave the option out")
    return partial(write, dtype=dtype)


def type_named(name: str | None) -> torch.dtype | None:
    """The type of weights by its name. Raises InputError, with those that are known."""
    if name is None:
        return None
    if name not in TYPES:
        near = nearest(str(name), TYPES)
        what = f"{setting('dtype', name)}: expected one of {', '.join(TYPES)};{did_you_mean(near)}"
        raise InputError(what, near=near)
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def format_of(folder: Path | str) -> str:
    """The format of a folder, by its files: that of transformers, or ours."""
    return THEIRS if is_theirs(Path(folder)) else OURS


def load_model(
    folder: Path | str,
    device: torch.device | str = "cpu",
    verify: bool = True,
    format: str | None = None,
    dtype: torch.dtype | None = None,
    adapter: Path | str | None = None,
) -> tuple[nn.Module, Architecture]:
    """The model of a folder, with its weights, evaluating; and the architecture that its text says.

    verify   compare the weights with the hash in their file, and refuse those that are not finite
    format   by default the folder's files say it
    dtype    of the weights; by default as they are stored, which is float32 in our folders
    adapter  the folder of a low-rank adapter, or a file of llama.cpp with one, which is merged into the weights

    Raises CheckpointError that names the file and what to do, FormulaError where the text is not a formula, UnknownName
    for a format that is not registered.
    """
    format = format or format_of(folder)
    files = read_files(folder, verify, format) if adapter is None else adapted_files(folder, verify, format, adapter)
    for note in files.notes:
        warnings.warn(note, stacklevel=2)
    model, architecture = build_model(files, verify, dtype)
    return model.to(device).eval(), architecture


def convert(
    source: Path | str, out: Path | str, *, read: str | None = None, write: str = OURS, verify: bool = True,
    report: Path | None = None, dtype: torch.dtype | None = None, extras: Callable[[Path], Any] | None = None,
    finish: Callable[[nn.Module, Path], Any] | None = None,
) -> Path:  # fmt: skip
    """Write the model of a folder as a folder of another format; what else is in it, such as a tokenizer, goes along,
    but for code. A folder of transformers gets a model card, README.md.

    report  what a run says of itself, for the model card
    dtype   of the weights, by default the format's own
    extras  writes further files, before the model: (folder)
    finish  is called with (model, folder) before the folder is put in its place

    Raises CheckpointError, also for a tokenizer with more ids than the model; UnknownName for a format that is not
    registered, InputError for one that has its own type, RunError for a disk that refuses it.
    """
    source, out = Path(source), Path(out)
    with disk_errors(out):
        writer(write, dtype)
        files = read_files(source, verify, read or format_of(source))
        if out.exists() and out.samefile(source):
            raise CheckpointError(f"{out}: is the folder that is read, and would be replaced; name another")
        refuse_strangers(out)
        for note in files.notes:
            warnings.warn(note, stacklevel=2)
        model, architecture = build_model(files, verify)
        check_tokenizer(source, architecture)
        code = sorted(path.name for path in source.iterdir() if any(map(path.match, CODE)))
        if code:
            what = "nothing of what was sent is run, here or by a script that an export writes"
            warnings.warn(f"{source}: code is left out: {', '.join(code)}; {what}", stacklevel=2)
        stays = {path.name for path in (files.text, files.weights) if isinstance(path, Path)}
        stays |= {MARKER, PIPELINE, *files.files, *code}

        def others(new: Path) -> None:
            for path in sorted(source.iterdir()):
                if path.is_file() and path.name not in stays:
                    shutil.copyfile(path, new / path.name)
                elif path.is_dir() and (path / TOKENIZER).is_file():  # that of what is read, where another is written
                    shutil.copytree(path, new / path.name, ignore=shutil.ignore_patterns(*CODE))
            if write == THEIRS and not (new / CARD).exists():
                (new / CARD).write_text(model_card(model, report), encoding="utf-8")
            if extras is not None:
                extras(new)

        return save_model(out, model, others, write, dtype, finish)


def check_tokenizer(folder: Path, architecture: Architecture) -> None:
    """Raise CheckpointError where a folder's tokenizer has more ids than the model; one that cannot be read is no
    matter of the model's."""
    if not is_tokenizer(folder) or "vocab" not in architecture.numbers:
        return
    try:
        tokenizer = load(folder)
    except CheckpointError:
        return
    check_rows(tokenizer, int(architecture.numbers["vocab"]), folder)


def read_files(folder: Path | str, verify: bool, format: str) -> ModelFiles:
    folder, read = Path(folder), IMPORTERS.need(format)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "there is no such folder"
        raise CheckpointError(f"{folder}: {what}; expected a folder with a model, which holds {TEXT}")
    return read(folder, verify)


def adapted_files(folder: Path | str, verify: bool, format: str, adapter: Path | str) -> ModelFiles:
    """What `read_files` reads, with a low-rank adapter merged into it: that of a folder of peft, or of a file of
    llama.cpp. Raises CheckpointError for an adapter of another model, and for a format that has none."""
    from .gguf_adapter import GgufAdapter, file_of
    from .peft import PeftAdapter

    if (path := file_of(Path(adapter))) is not None:
        files = read_files(folder, verify, format)
        module = files.module or build(architecture_of(files), device="meta")
        return replace(files, tensors=GgufAdapter(path).merged(module, files.tensors))
    if format == THEIRS:
        from .named.reading import open_folder

        return open_folder(Path(folder), PeftAdapter(Path(adapter), verify))
    if format != OURS:
        what = f"{folder}: of the format {format}, whose tensors an adapter does not name"
        raise CheckpointError(f"{what}; import the model first (transformula import)")
    files = read_files(folder, verify, format)
    return replace(files, tensors=PeftAdapter(Path(adapter), verify).merged(files.tensors))


def folder_tensors(folder: Path | str) -> tuple[dict[str, Tensor], Path]:
    """The tensors of a model's folder, ours or one of transformers, by the names of ours, in float32; and the file or
    folder that holds them. Raises CheckpointError."""
    files = read_files(folder, True, format_of(folder))
    check_finite(files.tensors.items(), files.weights)
    return in_float32(files.tensors), files.weights


def build_model(
    files: ModelFiles, verify: bool = True, dtype: torch.dtype | None = None
) -> tuple[nn.Module, Architecture]:
    """The model of a text, with the tensors that were read. Raises CheckpointError for a text of a newer language."""
    if files.module is not None:
        model = with_tensors(files.module, files.tensors, dtype)
        if verify:
            check_finite(model.named_parameters(), files.weights)
        return model, model.architecture
    architecture = architecture_of(files)
    model = build(architecture, device="meta")
    kept = model.state_dict()
    if any(name not in kept and buffer.numel() for name, buffer in model.named_buffers()):
        model = build(architecture)  # tables that are computed and not stored
    else:
        # No time is lost on initial values. Not by `to_empty`: its empty_like of a tensor without memory is Python that
        # imports sympy, which takes 33 MB and a second.
        model = model._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype))  # type: ignore[no-untyped-call]
    put_tensors(model, files.tensors, files.weights)
    if verify:
        check_finite(model.named_parameters(), files.weights)
    return (model if dtype is None else model.to(dtype)), architecture


def architecture_of(files: ModelFiles) -> Architecture:
    """What the text of a folder says, checked. Raises CheckpointError, FormulaError."""
    text = read_file(files.text) if isinstance(files.text, Path) else read_text(files.text, TEXT)
    return check(text, vocabulary())


def check_adapter(adapter: Path) -> None:
    """Raise CheckpointError for an adapter that cannot be read, whatever its base model is."""
    from .gguf_adapter import GgufAdapter, file_of
    from .peft import PeftAdapter

    path = file_of(adapter)
    if path is None:
        PeftAdapter(adapter)
    else:
        GgufAdapter(path)


def with_tensors(model: Any, tensors: Mapping[str, Tensor], dtype: torch.dtype | None) -> Any:
    """A model without memory with these tensors as its own, in `dtype`, else in the widest of their types: some folders
    keep norms in float32."""
    kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    dtype = dtype or reduce(torch.promote_types, kinds)
    model.load_state_dict({n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}, assign=True)
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_meta:  # of no elements: it tells a device and a type
                setattr(module, name, torch.empty(buffer.shape, dtype=dtype))
    return model
