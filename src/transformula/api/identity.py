"""What decides a run's numbers, whatever its files are called and wherever it is written: two runs of one identity, one
learning rate and one seed are equal, bit for bit.

It has the model's meaning (its canonical text, with the names of its parameters, which decide their initial values),
all settings that change numbers, the content of the data, the program's code and the versions of the libraries.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..analysis.canonical import canonical
from ..data.sources import SOURCES, files_of, parallel_files, split_label, visible_files
from ..language.model_writing import content_of
from ..plain import several
from ..runs.identity import code_identity, content_hash, digest, package_identity, versions
from .plan import Plan, plan_run
from .reading import model_folder, path_of
from .recipe import is_file

OF_THE_RUN = ("out", "lr", "seed")  # not in the identity
TEXT_ONLY = ("language", "name", "about")  # of a model's text, what changes nothing that is computed


def settled(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's configuration whose numbers do not depend on what a short measurement finds: the precision is float32 on
    a CPU and bf16 on a GPU that has it, unless it is stated; and one thread, so that runs do not slow each other."""
    from ..training.machine import BF16, FLOAT32, pick_device

    known = {key: value for key, value in config.items() if value is not None}
    device = pick_device(str(known.get("device", "auto")))
    if known.get("precision", "auto") == "auto":
        import torch

        fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
        known["precision"] = BF16 if fast else FLOAT32
    return {"threads": 1, **known, "device": str(device)}


def identity_of(config: Mapping[str, Any]) -> str:
    """What all runs of a configuration have in common that decides their numbers, as a hash."""
    use = tuple(several(config.get("use")))
    plan = plan_run({key: value for key, value in config.items() if key not in OF_THE_RUN}, use)
    facts = plan.training.facts()
    return digest(
        {
            "model": model_identity(plan),
            "task": plan.task,
            "data": data_identity(plan),
            "training": {
                key: value
                for key, value in plan.training.plain().items()
                if facts[key].numbers and key not in (*OF_THE_RUN, "teacher")
            },
            "start": start_identity(config),
            **teacher_identity(plan),
            "code": code_identity(),
            "packages": {name: package_identity(name) for name in use},
            "versions": versions(),
        }
    )


def model_identity(plan: Plan) -> Any:
    """The meaning of a model's text, and what else it says."""
    architecture = plan.architecture
    rest = {key: value for key, value in content_of(architecture.text).items() if key not in TEXT_ONLY}
    hooks = {key: rest[key] for key in (*architecture.text.hooks, "extra", "inputs") if key in rest}
    return [canonical(architecture), dict(architecture.numbers), architecture.carry, hooks]


def data_identity(plan: Plan) -> dict[str, Any]:
    """The settings of the data, with the content of files in the place of their names."""
    settings = plan.data.plain()
    for key in SOURCES:
        if settings.get(key) is not None:
            settings[key] = [source_identity(str(source)) for source in several(settings[key])]
    tokenizer = settings.get("tokenizer")
    if isinstance(tokenizer, str) and Path(tokenizer).expanduser().exists():
        settings["tokenizer"] = folder_identity(Path(tokenizer).expanduser())
    return settings


def source_identity(source: str) -> Any:
    """What a source holds: the content of its files. A set that is built in, or of the hub, is its name, with the
    version of Python, whose documentation one of them is."""
    if not is_file(source) and not Path(source).expanduser().exists():
        return [source, platform.python_version()]
    parallel = parallel_files(source)
    if parallel:
        return {column: content_hash(Path(file).expanduser()) for column, file in parallel.items()}
    label, name = split_label(source)
    file = Path(name).expanduser()
    return [label, folder_identity(file) if file.exists() else [content_hash(path) for path in files_of(str(file))]]


def start_identity(config: Mapping[str, Any]) -> Any:
    """The weights that a run begins with, by their content; None where they are initialized."""
    if config.get("init_from") is None:
        return None
    return [config.get("init_stack"), folder_identity(model_folder(path_of(config["init_from"], "init_from")))]


def teacher_identity(plan: Plan) -> dict[str, Any]:
    """The teacher's folder, by its content; {} without one: so the identities of such runs are what they were."""
    named = plan.training.teacher
    return {} if named is None else {"teacher": folder_identity(model_folder(path_of(named, "teacher")))}


def folder_identity(path: Path) -> Any:
    """The content of a file, or of each file of a folder by its name there."""
    if path.is_file():
        return content_hash(path)
    return {str(file.relative_to(path)): content_hash(file) for file in visible_files(path)}
