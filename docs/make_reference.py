"""Write the reference pages that are made from the program: `python docs/make_reference.py`.

A test makes them again and compares, so a page never says other than the program does.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import transformula
from transformula.analysis import word_reference
from transformula.analysis.planning.devices import devices
from transformula.analysis.planning.planned import PlannedRun
from transformula.analysis.planning.published import PublishedRun
from transformula.api.planning import compare_published
from transformula.api.recipe import read_recipe
from transformula.cli import door
from transformula.interop.named import entries
from transformula.language.messages import MESSAGES
from transformula.language.vocabulary import KINDS, REACHES, WordRecord
from transformula.plain import several
from transformula.recipes import recipe_names, recipe_path
from transformula.structured import load_yaml
from transformula.words import built_in

HERE = Path(__file__).parent / "reference"


def help_of(verb: str) -> str:
    """What `transformula VERB --help all` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        door.dispatch([verb, "--help", "all"])
    return out.getvalue().rstrip()


def command_line() -> str:
    """The page of the command line."""
    rows = ["# Command line", "", "Every verb's `--help all`, as printed.", ""]
    rows += [
        "| verb | |",
        "| --- | --- |",
        *(f"| [{verb}](#{verb}) | {what} |" for verb, what in door.all_verbs().items()),
    ]
    rows += ["", "| exit status | |", "| --- | --- |"]
    for code in door.EXIT_CODES.removeprefix("exit status: ").split(", "):
        number, meaning = code.split(" ", 1)
        rows.append(f"| {number} | {meaning} |")
    for verb in door.all_verbs():
        rows += ["", f"## {verb}", "", "```text", help_of(verb), "```"]
    return "\n".join(rows) + "\n"


def python() -> str:
    """The page of the Python face."""
    rows = ["# Python", "", "`transformula.__all__`: these names, and no others, are kept stable.", ""]
    for name in transformula.__all__:
        thing = getattr(transformula, name)
        rows += [f"## `{name}`", ""]
        if inspect.ismodule(thing):
            rows += ["```text", inspect.getdoc(thing) or "", "```", ""]
            continue
        rows += ["```text", f"{name}{signature(thing)}", "", inspect.getdoc(thing) or "", "```", ""]
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            for key, member in vars(thing).items():
                if not key.startswith("_") and member.__doc__:
                    inner = getattr(member, "__func__", member)
                    shown = "" if isinstance(member, property) else signature(inner)
                    rows += [f"### `{name}.{key}`", ""]
                    rows += ["```text", f"{name}.{key}{shown}", "", inspect.getdoc(member) or "", "```", ""]
    return "\n".join(rows).rstrip() + "\n"


def signature(thing: object) -> str:
    """(a, b=1) without annotations, which the docstring explains."""
    try:
        parameters = inspect.signature(thing).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters if p.name not in ("self", "cls")]
    return str(inspect.Signature(plain))


def errors() -> str:
    """The page of errors."""
    tree = inspect.getdoc(importlib.import_module("transformula.errors")) or ""
    rows = ["# Errors", "", "```text", tree, "```", "", "## Errors of formulas", ""]
    rows += ["What is wrong, what to do, and a text that causes it.", ""]
    rows += ["| name | what is wrong | what to do | example |", "| --- | --- | --- | --- |"]
    for name, message in MESSAGES.items():
        example = message.example if len(message.example) <= 100 else message.example[:60] + " ..."
        cells = [f"`{name}`", cell(message.text), cell(message.remedy), f"`{cell(example, code=True)}`"]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def cell(text: str, code: bool = False) -> str:
    """A text on one line of a table."""
    text = text.replace("\n", " ; ").replace("|", "\\|")
    return text if code else re.sub(r"\{(\w+)[^}]*\}", r"_\1_", text)


RECIPES = """\
# Recipes

Each is one file in [recipes](../../src/transformula/recipes) that holds a run's configuration and the score that it
claims. They are installed with the program: `transformula reproduce` lists them. One command trains a recipe, scores
what was kept, and says whether the claim holds; a run that was interrupted goes on by the same command:

```sh
transformula reproduce multi30k-en-de --root data
```

A recipe of your own is named by its file: `transformula reproduce my.yaml`.

`--root` is the folder in which the data named by a recipe lie; those without files need none. A recipe with a
`data_hash` refuses other data before it trains. `--seed 2` makes it again from other weights, in a folder of its own.
Of a recipe with an `ensemble` several models are trained, and scored together: each is named there, with the keys of
the configuration that are other than those of the first.

*Found* is what was found when the recipe was written, a number for each seed from 1 on; *minutes* those that training
took: of multi30k-en-de and python-summaries on two cores, of all others on one, with other work beside it. Scores
are those of `transformula evaluate`: of the test rows where there are some, with its signature, beside the trivial
baselines.
"""


def recipes() -> str:
    """The page of recipes."""
    rows = [RECIPES, "| recipe | what | score | claimed | found | minutes |", "| --- | --- | --- | --- | --- | --- |"]
    for name in recipe_names():
        recipe, config = read_recipe(recipe_path(name))
        about = recipe.about + ("; begins with " + str(config["init_from"]) if "init_from" in config else "")
        about += "; learns from " + str(config["teacher"]) if "teacher" in config else ""
        claimed = f"at least {recipe.at_least:g}" if recipe.at_least is not None else f"at most {recipe.at_most:g}"
        found = ", ".join(f"{number:g}" for number in recipe.found) or "-"
        minutes = "-" if recipe.minutes is None else f"{recipe.minutes:g}"
        link = f"[{name}](../../src/transformula/recipes/{name}.yaml)"
        cells = [link, cell(about), recipe.score, claimed, found, minutes]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


WORDS = """\
# Words

What a formula can call, by kind; each word has a page with its equation, streams, options, parameters, source and an
example. The same in a terminal: `transformula words`, `transformula words attention`. How words are put together is
said by [the language](../language.md), how one is added by [add a word](../../../CONTRIBUTING.md#add-a-word).
"""


def words() -> str:
    """The index of the words."""
    rows = [WORDS]
    for kind, records in word_reference.by_kind(built_in()).items():
        rows += [f"## {word_reference.TITLES[kind]}", "", sentence(KINDS[kind]), "", "| word | |", "| --- | --- |"]
        rows += [f"| [{record.name}]({record.name}.md) | `{cell(record.equation, code=True)}` |" for record in records]
        rows.append("")
    return "\n".join(rows)


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def one_word(record: WordRecord) -> str:
    """The page of one word."""
    title = word_reference.TITLES[record.kind]
    rows = [
        f"# {record.name}",
        "",
        f"[{title}](README.md#{title.lower().replace(' ', '-')}): {KINDS[record.kind]}.",
        "",
    ]
    rows += ["```text", *word_reference.calls(record), record.equation, "```", ""]
    if record.ports:
        rows += [f"Further streams, by name: {', '.join(f'`{port}=`' for port in record.ports)}.", ""]
    if record.options:
        rows += ["## Options", "", "*: shapes weights; calls that share a label agree in it.", ""]
        rows += table(("option", "type", "default", "meaning"), word_reference.option_rows(record), coded=(0, 2))
    if record.taps:
        rows += ["## Taps", "", "Values that a formula may read after the call.", ""]
        rows += table(("tap", "what"), word_reference.tap_rows(record), coded=(0,))
    if record.parameters or record.inner:
        rows += ["## Parameters", "", *table(("name", "numbers"), word_reference.parameter_rows(record), coded=(0, 1))]
    rows += ["## Shapes and initial values", "", "```text", record.doc, "```", ""]
    rows += [f"- Result: {word_reference.result_words(record)}.", f"- Sees: {REACHES[record.reach]}."]
    rows += [f"- Devices: {word_reference.split_words(record)}."] if record.splits else []
    rows += [f"- Source: {record.source}."] if record.source else []
    rows += ["", "## Example", "", "```sh", word_reference.command(record), "```"]
    return "\n".join(rows) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], coded: tuple[int, ...]) -> list[str]:
    """A table, some of whose columns are text of the language."""
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    for row in rows:
        cells = [f"`{cell(c, code=True)}`" if n in coded and "`" not in c else cell(c) for n, c in enumerate(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def named_models() -> str:
    """The page of the families whose folders are read and written."""
    families = [(name, entries.named_model(name)) for name in entries.names()]
    kinds = {kind for _, model in families for kind in model.model_type}
    rows = ["# Named models", ""]
    rows += [
        f"Folders of Hugging Face transformers (config.json and safetensors) of these families, {len(kinds)} values of",
        "`model_type`, are read and written: [use weights of other programs](../how-to/use-other-weights.md). A",
        "family, or an output of it, is one data file, made as [add a family](../how-to/add-a-family.md) says. `lines`",
        "counts those of its file.",
        "",
    ]
    rows += table(
        ("family", "`model_type`", "architectures", "trained for", "like", "lines"),
        [
            (
                name,
                ", ".join(model.model_type),
                ", ".join(model.architectures),
                model.task,
                ", ".join(several(load_yaml(entries.FOLDER / f"{name}.yaml").get("like"))),
                str(len((entries.FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines())),
            )
            for name, model in families
        ],
        coded=(1, 2),
    )
    rows += ["## What has no other form yet", ""]
    rows += ["Where config.json says another value for these keys the folder is refused.", ""]
    fixed = [
        (name, key.rstrip("!"), "absent" if value == [] else in_json(value))
        for name, model in families
        for key, value in model.fixed.items()
    ]
    rows += table(("family", "key", "expected"), fixed, coded=(1, 2))
    return "\n".join(rows).rstrip() + "\n"


def published_runs() -> str:
    """The page of published runs beside their plans."""
    rows = ["# Published runs beside their plans", ""]
    rows += [
        "Each line is a training run that somebody published, and what `transformula plan` says of it, given the same",
        "model, devices, batch, layout, micro-batch and recomputation. All train in bf16 with AdamW. A test holds each",
        "plan to 25 % of what was published. The numbers that a plan assumes are the same for all; they were chosen",
        "with these runs in view. All of a device's memory may be taken. How to use it:",
        "[plan a run](../how-to/plan-a-run.md).",
        "",
    ]
    found = list(compare_published())
    rows += table(
        ("run", "devices", "layout", "what", "published", "planned", "apart"),
        [
            (
                each["run"].name,
                f"{each['run'].settings['gpus']} x {each['run'].settings['gpu']}",
                said_of(each["plan"]),
                each["what"],
                f"{each['published']:,.4g}" if each["published"] < 1000 else f"{each['published']:,.0f}",
                f"{each['planned']:,.3g}" if each["planned"] < 1000 else f"{each['planned']:,.0f}",
                f"{100 * (each['planned'] / each['published'] - 1):+.0f} %",
            )
            for each in found
        ],
        coded=(),
    )
    rows += ["## Sources", ""]
    for run in dict.fromkeys(each["run"].name + ": " + source_of(each["run"]) for each in found):
        rows.append(f"- {run}")
    rows += ["", "## Devices", ""]
    names = ("memory", "bf16", "float32", "matmul", "bandwidth", "within", "between")
    units = ("memory, GiB", "bf16", "float32", "reached", "TB/s", "within a node, GB/s", "between nodes, GB/s")
    rows += ["TFLOP/s are those of dense products. `reached`: what was measured of products in bf16.", ""]
    rows += table(
        ("device", *units, "sources"),
        [
            (
                name,
                *("" if (number := getattr(one, key)) is None else f"{number:g}" for key in names),
                "; ".join(filter(None, (one.source, one.matmul_source))),
            )
            for name, one in devices().items()
        ],
        coded=(0,),
    )
    return "\n".join(rows).rstrip() + "\n"


def said_of(plan: PlannedRun) -> str:
    """The layout and the settings of a plan, briefly."""
    layout, setting = plan.chosen.layout, plan.setting
    said = [layout.name, f"micro-batch {layout.micro_batch}"]
    said += [f"recompute {layout.recompute}"] if layout.again else []
    said += [] if setting.compiled else ["not compiled"]
    return ", ".join([*said, *([] if setting.attention == "fused" else ["attention unfused"])])


def source_of(run: PublishedRun) -> str:
    return "; ".join(filter(None, (run.source, run.note)))


def in_json(value: object) -> str:
    if isinstance(value, str) and value.startswith("= "):
        return value[2:]
    return " or ".join(map(json.dumps, value)) if isinstance(value, list) else json.dumps(value)


PAGES = {
    "cli.md": command_line,
    "api.md": python,
    "errors.md": errors,
    "named-models.md": named_models,
    "published-runs.md": published_runs,
    "recipes.md": recipes,
    "words/README.md": words,
    **{f"words/{name}.md": partial(one_word, record) for name, record in built_in().items()},
}

if __name__ == "__main__":
    os.environ["COLUMNS"] = "112"
    for page, make in PAGES.items():
        (HERE / page).parent.mkdir(exist_ok=True)
        (HERE / page).write_text(make(), encoding="utf-8")
    print(f"wrote {len(PAGES)} pages under {HERE}", file=sys.stderr)
