"""Verbs about what lies on the disk: export, import, curves, cache, prune, prepare."""

from __future__ import annotations

import sys
import time

from ..cost.words import bytes_in_words
from ..errors import InputError
from .options import NO_VERIFY, RUN, USE, Given, Parser, option, verb

ADAPTED = "pytorch, torch-export, transformers; of adapters alone: peft, gguf-lora"


def export_options(parser: Parser) -> None:
    """Its options; those of a model's text are for --check."""
    parser.add("run", "RUN", f"{RUN}; with --check, any model")
    parser.add("--to", "FORMAT", f"ctranslate2, gguf, onnx, {ADAPTED}")
    parser.add("--out", "FOLDER", "the folder that is written; hf:OWNER/NAME sends it to the hub, under your login")
    parser.add("--public", None, "a repository that is made at the hub is public, and not private")
    parser.add("--dtype", "TYPE", "of the weights: float32, float16 or bfloat16, where the format leaves a choice")
    parser.add("--check", None, "write nothing: say in which formats the model can leave, and why not in others")
    parser.add("--task", "NAME", "with --check: the task on which a text without an output is to be trained")
    USE(parser)
    NO_VERIFY(parser)
    parser.add_model_options()


@verb(
    "a trained model in the format of another program",
    "RUN",
    export_options,
    examples=[
        "transformula export runs/first --to pytorch --out exported",
        "transformula export runs/first --to onnx --out onnx",
        "transformula export runs/first --to gguf --dtype float16 --out exported",
        "transformula export runs/tuned --to peft --out adapters/tuned",
        "transformula export runs/first --to transformers --out hf:me/first",
        "transformula export --check runs/first",
        'transformula export --check "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)"',
        "transformula export --check pre-norm --task classification",
    ],
)
def export(given: Given) -> int:
    """Write a trained model in another format: its text, its weights and what else its folder holds, such as a
    tokenizer. pytorch is a plain state dict, which torch.load(FILE, weights_only=True) reads in any program. onnx is
    for ONNX Runtime, with decoding by a cache; torch-export is the same as torch.export.save writes it. transformers is
    a folder of that library, gguf a file of llama.cpp, ctranslate2 a folder of CTranslate2, for translators; these know
    some architectures, and others are refused with the line that differs; --check says so of any model, a formula or a
    file too, before it is trained. peft has the low-rank adapters alone of a run that was trained with --lora, and so
    has gguf-lora, for llama.cpp.
    --out hf:OWNER/NAME sends a folder of transformers, of peft or of ours to the hub of Hugging Face."""
    from ..api.exporting import export
    from ..api.reading import import_packages

    import_packages(given["use"])
    if given["check"]:
        return check_export(given)
    for key in ("to", "out"):
        if given[key] is None:
            raise InputError(f"--{key}: say in which format, --to FORMAT, and where, --out FOLDER; or only --check")
    if given["task"] is not None or given.model:
        what = "--task" if given["task"] is not None else f"--{next(iter(given.model))}"
        raise InputError(f"{what}: is for --check of a model that is not trained; a trained one leaves as it is")
    folder = given.call(export)
    what = "sent" if str(folder).startswith("hf:") else "wrote"
    return given.show(f"{what} {folder}", {"folder": folder, "format": given["to"]})


def check_export(given: Given) -> int:
    """Print where a model can leave."""
    from ..api.leaving import check_export

    if stated := next((key for key in ("to", "out", "dtype") if given[key] is not None), None):
        raise InputError(f"--{stated}: --check looks at all formats and writes nothing; leave one of the two out")
    return given.show(given.call(check_export, model=given["run"]))


@verb(
    "a model in the format of another program as a model's folder",
    "FOLDER",
    option("folder", "FOLDER", "the folder that is read"),
    option("--format", "FORMAT", "its format, such as pytorch", required=True),
    option("--out", "FOLDER", "the model's folder that is written", required=True),
    USE,
    examples=["transformula import exported --format pytorch --out models/first"],
)
def import_(given: Given) -> int:
    """Make a model's folder of a folder in another format, so that every verb that takes a RUN takes it. Nothing that
    is read is executed. pytorch is model.yaml and weights.pt, as torch.save(module.state_dict(), "weights.pt") writes
    it."""
    from ..api.inputs import predictor_in
    from ..api.reading import import_packages

    import_packages(given["use"])
    from ..interop.folder import convert
    from ..interop.hub import local_folder
    from ..interop.named import is_theirs

    source = local_folder(given["folder"])
    predictor = predictor_in(source) if is_theirs(source) else None
    extras = None if predictor is None else predictor.save
    folder = convert(source, given["out"], read=given["format"], extras=extras)
    return given.show(f"wrote {folder}", {"folder": folder, "format": "transformula"})


@verb(
    "plot the loss curves of several runs",
    "RUN ...",
    option("runs", "RUN", "a run's folder", nargs="+"),
    option("--x", "AXIS", "steps, tokens or minutes (default: steps)", default="steps"),
    option("--score", "NAME", "loss, or a score of the evaluations (default: loss)", default="loss"),
    option("--out", "FILE", "the picture, .svg or .png (default: curves.svg)", default="curves.svg"),
    examples=[
        "transformula curves runs/first runs/second",
        "transformula curves runs/first runs/second --x minutes --score bits_per_byte --out curves.png",
    ],
)
def curves(given: Given) -> int:
    """Draw the loss curves of several runs in one picture, SVG or PNG, and print where each was best. Runs that still
    train can be drawn, too."""
    from ..inspection.curves import curves

    drawn = given.call(curves)
    path = drawn.save(given["out"])
    return given.show(f"{drawn}\nwrote {path}", {**drawn.data, "picture": path})


@verb(
    "list or clear prepared data",
    "[ACTION]",
    option("action", None, "(default: list)", nargs="?", choices=("list", "clear"), default="list"),
    examples=["transformula cache", "transformula cache clear"],
)
def cache(given: Given) -> int:
    """Tokens, tokenizers and baselines are made from data once and kept; everything in the cache can be made again.
    It lies in ~/.cache/transformula, or where TRANSFORMULA_CACHE says."""
    from ..data.cache import cache_entries, cache_folder, clear_cache

    folder = str(cache_folder())
    if given["action"] == "clear":
        freed = clear_cache()
        return given.show(f"{folder}: {bytes_in_words(freed)} freed", {"folder": folder, "freed": freed})
    entries, rows = cache_entries(), []
    for entry in entries:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.made))
        about = ", ".join(f"{key}: {value}" for key, value in entry.about.items() if isinstance(value, (str, int)))
        rows.append(f"{bytes_in_words(entry.bytes):>10}  {made}  {entry.kind:<10} {about}")
    whole = bytes_in_words(sum(entry.bytes for entry in entries))
    rows.append(f"{whole:>10}  in {folder}; empty it by: transformula cache clear")
    keys = ("kind", "key", "bytes", "made", "about", "path")
    data = [{key: getattr(entry, key) for key in keys} for entry in entries]
    return given.show("\n".join(rows), {"folder": folder, "entries": data})


@verb(
    "remove the checkpoints of a run that has ended, and keep its models",
    "RUN",
    option("run", "RUN", "the run's folder"),
    option("--yes", None, "remove without asking"),
    option("--dry-run", None, "say what would be removed, and remove nothing"),
    examples=["transformula prune runs/first --dry-run", "transformula prune runs/first --yes"],
)
def prune(given: Given) -> int:
    """Free the disk of a run that has ended: its checkpoints, which only a resume reads, are most of its folder. The
    models in best/ and last/, which every other verb reads, the log and the summary stay, and are checked first. The
    run cannot be resumed then; train --init-from RUN goes on with its weights. At a terminal it asks; elsewhere give
    --yes."""
    from ..runs.pruning import prune

    removable = prune(given["run"], dry_run=True)
    if given["dry_run"] or not removable.parts:
        return given.show(removable)
    if not given["yes"]:
        if given["json"] or not sys.stdin.isatty():
            raise InputError(f"{removable.run}: {removable.total} would be removed: add --yes (--dry-run lists it)")
        print(f"{removable}\nremove {removable.total}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return given.show("nothing was removed")
        return given.show("\n".join(repr(prune(given["run"])).splitlines()[-2:]))  # it was listed just now
    return given.show(prune(given["run"]))


def prepare_options(parser: Parser) -> None:
    """Its options: how text is read, and who makes the shards."""
    from ..data.settings import DataSettings, PrepareSettings

    parser.add("data", "DATA", "a file, a folder or a pattern: each file is a shard of rows")
    parser.add_settings("data", DataSettings, without=("data", "stride", "stream"))
    parser.add_settings("preparation", PrepareSettings)


@verb(
    "tokenize data ahead, into shards that training maps into memory",
    "DATA",
    prepare_options,
    examples=[
        "transformula prepare 'pages/*.parquet' --out tokens --tokenizer runs/first/best --workers 8",
        "transformula prepare 'pages/*.parquet' --out tokens --tokenizer bytes --part 3/64",
        "transformula prepare 'pages/*.parquet' --out tokens --tokenizer bytes --merge",
    ],
)
def prepare(given: Given) -> int:
    """Tokenize data ahead, a shard of tokens for each file, with many processes. A prepare that was stopped goes on
    when it is run again: shards that are whole stay. In the end sizes and hashes are checked; what is lost or short is
    named. On a cluster, each job of an array makes a --part, and one prepare with --merge checks them all. Train on the
    folder: transformula train MODEL --data FOLDER."""
    from ..api.unread import check_files
    from ..data.settings import DataSettings, PrepareSettings
    from ..data.stream.preparing import prepare_shards

    typed = given.of(DataSettings)
    settings = DataSettings.read({**typed, "data": given["data"], "stream": True})
    settings.need()
    check_files(DataSettings, settings.plain(), typed)
    made = prepare_shards(settings, PrepareSettings.read(given.of(PrepareSettings)))
    if "identity" not in made:
        told = f"made part {made['part']} of {made['folder']}: {made['shards']:,} shards; the merge comes last: --merge"
        return given.show(told, made)
    bad = made["bad"]
    lines = [f"wrote {made['folder']}: {len(made['shards']):,} shards, {made['tokens']:,} tokens to train"]
    lines += [f"left out, {len(bad):,} bad shards:", *bad.values()] if bad else []
    kept = {key: made[key] for key in ("folder", "documents", "tokens", "bytes", "bad")}
    return given.show("\n".join(lines), {**kept, "shards": len(made["shards"])})
