"""A trained model in the format of another program, with what it takes to use it there: `export`."""

from __future__ import annotations

import copy
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, InputError, setting
from .inputs import predictor_in
from .reading import model_folder

if TYPE_CHECKING:
    import torch
    from torch import nn

    from ..tasks.predictor import Predictor


SAMPLE = re.compile(r"## What it writes\n\n(`{3,})\n(.*?)\n\1", re.DOTALL)  # of a run's summary
GGUF_ADAPTER = "gguf-lora"
ADAPTERS = ("peft", GGUF_ADAPTER)  # formats of adapters alone
ON_THE_HUB = ("transformers", "transformula", "peft")  # formats that are read there by their names
MAX_TEXTS, MAX_CHARACTERS = 8, 300  # of these that are tried


def export(
    run: str | Path, out: str | Path, *, to: str, verify: bool = True, dtype: str | None = None, public: bool = False
) -> Path | str:
    """Write the model of a run, or of a model's folder, as a folder of another format. Returns that folder.

    `out="hf:OWNER/NAME"` sends it to the hub, under the user's own login, and returns its name with the commit. What is
    made there is private, unless it is to be `public`.

    `pipeline.json` says how text becomes what the model reads, and what it gives becomes answers. A format of programs
    has `predict.py`, which does that without this package; before the folder is there, it is run on some texts, those
    that the run's summary shows among them, and its answers are compared with the model's. A format that is read here,
    too, is read again, and compared likewise.

    "peft" and "gguf-lora" are no formats of a model: of a run that trained low-rank adapters they hold these alone, for
    the library peft and for llama.cpp.

    Raises CheckpointError for what the format cannot hold, and where an answer differs, UnknownName for a format that
    there is not, InputError for one that has its own type of weights, and for what the hub does not take.
    """
    from ..interop.folder import convert, type_named
    from ..interop.hub import is_hub_name

    if is_hub_name(out):
        return export_to_hub(run, str(out), to, verify, dtype, public)
    if public:
        raise InputError(f"{setting('public')}: is for what is sent to the hub: {setting('out', 'hf:OWNER/NAME')}")
    if to in ADAPTERS:
        return export_adapter(run, out, to, dtype)
    folder, report = model_folder(run), Path(run) / "summary.md"
    predictor = predictor_in(folder)
    leaving = Leaving(predictor, to, task_of(folder), type_named(dtype), own_texts(folder))
    return convert(
        folder, out, write=to, verify=verify, report=report if report.is_file() else None, dtype=leaving.dtype,
        extras=leaving.before, finish=leaving.finish,
    )  # fmt: skip


def export_to_hub(run: str | Path, name: str, to: str, verify: bool, dtype: str | None, public: bool) -> str:
    """Write a folder and send it to the hub; its name there, with the commit."""
    from ..interop.hub import check_login, send_folder

    if to not in ON_THE_HUB:
        what = f"{setting('to', to)}: is not read at the hub, as {', '.join(ON_THE_HUB)} are"
        raise InputError(f"{what}; write a folder, and send it by `hf upload`")
    check_login(name)
    with tempfile.TemporaryDirectory() as work:
        folder = export(run, Path(work, "model"), to=to, verify=verify, dtype=dtype)
        return send_folder(Path(folder), name, public)


def export_adapter(run: str | Path, out: str | Path, to: str, dtype: str | None = None) -> Path:
    """Write the low-rank adapters of a run as the library peft does, or as llama.cpp, and hold them to the run's model.
    Raises CheckpointError for a run that has none, or whose first weights were pruned."""
    from ..atomic_io import disk_errors, whole_folder
    from ..interop.folder import WEIGHTS
    from ..interop.peft import PeftAdapter, close, write_adapter
    from ..interop.weights import load_tensors
    from ..ownership import mark, refuse_strangers
    from ..runs.folder import CONFIG, RunFolder
    from ..training.settings import TrainingSettings

    folder, out = model_folder(run), Path(out)
    trained = RunFolder(folder.parent)
    config = trained.config() if (folder.parent / CONFIG).is_file() else {}
    if dtype is not None:
        raise InputError(f"{setting('dtype', dtype)}: adapters have the type of the run's weights; leave it out")
    lora = TrainingSettings.model_validate({"lora": config.get("lora")}).lora if config else None
    if lora is None:
        what = f"{run}: is no run that trained low-rank adapters, by {setting('init_from')} and {setting('lora')}"
        raise CheckpointError(f"{what}; the other formats hold whole models")
    if not (trained.fixed / WEIGHTS).is_file():
        what = f"{trained.fixed}: the weights that the run began with are gone (`prune` removes them)"
        raise CheckpointError(f"{what}, so that its adapters cannot be told from them; export the whole model")
    tensors, base = load_tensors(folder / WEIGHTS), load_tensors(trained.fixed / WEIGHTS)
    refuse_strangers(out)
    with disk_errors(out), whole_folder(out) as new:
        if to == GGUF_ADAPTER:
            from ..interop.folder import load_model
            from ..interop.formats.gguf import write_gguf_adapter

            write_gguf_adapter(load_model(folder)[0], base, new, lora.rank)
            mark(new)
            return out
        if not write_adapter(new, base, tensors, lora.rank, Path(str(config.get("init_from", ""))).name):
            raise CheckpointError(f"{run}: no matrix of its model is that of an adapter; export the whole model")
        again = PeftAdapter(new).merged({**tensors, **base})
        if far := [name for name, tensor in tensors.items() if not close(again[name], tensor)]:
            raise CheckpointError(f"{out}: read again, {far[0]} differs from that of {folder}; export the whole model")
        mark(new)
    return out


def task_of(folder: Path) -> str:
    """The task on which the model in a run's folder was trained; "" where that is not known."""
    from ..runs.folder import CONFIG, RunFolder

    run = RunFolder(folder.parent)
    return str(run.config().get("task", "")) if (folder.parent / CONFIG).is_file() else ""


def own_texts(folder: Path) -> list[str]:
    """Some texts of the data of a run, in whose folder a model lies, as its summary shows them; none where it is not
    there."""
    path = folder.parent / "summary.md"
    shown = SAMPLE.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    lines = [] if shown is None else [" ".join(line.split()) for line in shown[2].splitlines()]
    return [line[:MAX_CHARACTERS] for line in lines if line][:MAX_TEXTS]


class Leaving:
    """What leaves with a model in a format. A folder that can be read here again keeps its tokenizer's file, but for
    those of transformers, which opens the library's form alone; here that of characters would not be read in it."""

    def __init__(
        self, predictor: Predictor | None, to: str, task: str, dtype: torch.dtype | None = None, own: Sequence[str] = ()
    ) -> None:
        from ..interop.exchange import IMPORTERS
        from ..interop.folder import THEIRS
        from ..tasks.pipeline import pipeline_of
        from ..tokenizers.characters import Characters

        self.pipeline, self.task, self.dtype = None if predictor is None else pipeline_of(predictor), task, dtype
        tokenizer = None if predictor is None else predictor.tokenizer
        kept = isinstance(tokenizer, Characters) if to == THEIRS else to in IMPORTERS
        self.early, self.published, self.to, self.own = to in IMPORTERS, not kept, to, own

    def before(self, folder: Path) -> None:
        from ..interop.folder import THEIRS

        if self.early:
            self.write(folder)
        if self.pipeline is not None and self.to == THEIRS:
            self.pipeline.companions(folder)

    def finish(self, module: nn.Module, folder: Path) -> None:
        from ..interop.folder import load_model
        from ..interop.programs import ABOUT
        from ..structured import load_json
        from ..tasks.pipeline import SCRIPT, Pipeline, check_again, check_scripts, write_scripts

        about = load_json(folder / ABOUT) if (folder / ABOUT).is_file() else {}
        # of a program with an encoder, the context is that of what is written; one of CTranslate2 has one for both
        context = None if "start" in about.get("programs", {}) else about.get("context")
        if not self.early:
            self.write(folder, {} if self.pipeline is None else self.pipeline.limits(module, context))
        if self.pipeline is not None and self.early and type(self.pipeline) is not Pipeline:
            again, _ = load_model(folder, verify=False, format=self.to)
            check_again(self.pipeline, self.rounded(module), again.float().eval(), self.own)
        if self.pipeline is None or not about:
            return
        if reason := self.pipeline.unscripted:
            warnings.warn(f"no {SCRIPT} is written: {reason}", stacklevel=2)
            return
        write_scripts(self.pipeline, folder)
        check_scripts(self.pipeline, self.rounded(module), folder, self.own)

    def rounded(self, module: nn.Module) -> nn.Module:
        """The model with weights as they were written, in the type that was asked for; without dropout."""
        if self.dtype is None:
            return module.eval()
        return copy.deepcopy(module).to(self.dtype).float().eval()

    def write(self, folder: Path, limits: Mapping[str, Any] | None = None) -> None:
        from ..interop.exchange import PIPELINE
        from ..tasks.pipeline import write_pipeline

        if self.pipeline is not None:
            write_pipeline(self.pipeline, folder / PIPELINE, self.task, self.published, limits)
