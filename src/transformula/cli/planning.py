"""The verb that plans a run on devices that need not be here: plan."""

from __future__ import annotations

from .options import MODEL, USE, Given, Parser, option, verb


@verb(
    "what a training run would take: memory, time, GPU hours, cost, the parallel layout",
    "MODEL",
    option("model", "MODEL", MODEL),
    option("--tokens", "N", "tokens of the run: 10B, 300e9, 500M", required=True),
    option("--gpu", "NAME", "a100-40, a100-80, h100, h200, b200, ... (a wrong name lists all); cpu: this machine,"
           " measured", required=True),
    option("--gpus", "N", "devices (default: 1)", type=int, default=1),
    option("--gpus-per-node", "N", "devices in a node (default: as they are sold, mostly 8)", type=int),
    option("--batch-tokens", "N", "tokens of an update (default: 0.5M, or a row for each device)"),
    option("--length", "N", "positions of a row (default: the context)", type=int),
    option("--precision", "TEXT", "bf16 or float32 (default: bf16)", default="bf16"),
    option("--optimizer", "TEXT", "muon or adamw (default: muon)", default="muon"),
    option("--attention", "TEXT", "fused, or unfused: it writes the scores to memory (default: fused)",
           default="fused"),
    option("--no-compile", None, "the code is not compiled", action="store_false", dest="compiled", default=True),
    option("--parallel", "TEXT", "auto, none, ddp, fsdp, tp=2, or fsdp,tp=2 (default: auto)", default="auto"),
    option("--micro-batch", "N", "rows of a rank that are computed at once (default: the best)", type=int),
    option("--recompute", "TEXT", "none, layers, half (every second layer), or auto: none or layers (default: auto)",
           default="auto"),
    option("--price", "NUMBER", "price of a device for an hour", type=float),
    option("--assume", "NAME=NUMBER", "an assumption, of those that the plan lists; may be repeated",
           action="append", default=[]),
    option("--teacher", "MODEL", "a model that the run asks in each step, as train --teacher has it"),
    option("--measure", None, "measure some steps of two layers on this machine's device, and use that"),
    USE,
    Parser.add_model_options,
    examples=[
        "transformula plan gpt2 --vocab 50304 --tokens 10B --gpus 8 --gpu a100-80",
        "transformula plan gpt2 --depth 48 --width 1600 --heads 25 --vocab 50304 --tokens 33B --gpus 8 --gpu h100"
        " --batch-tokens 1048576",
        "transformula plan llama --tokens 10B --gpus 64 --gpu h100 --price 2.5",
        "transformula plan model.yaml --tokens 1B --gpu rtx-4090 --assume outside=0.1 --json",
    ],
)  # fmt: skip
def plan(given: Given) -> int:
    """Plan a training run on devices that need not be here: memory of a rank by part, time of a step by part, tokens a
    second, share of the peak, GPU hours, days and cost, the parallel layout to choose and why, the layouts it was
    compared with, and every assumption, each of which can be given otherwise. The plans of published runs are within 25
    percent of what was published: docs/reference/published-runs.md."""
    from ..api.planning import plan

    return given.show(given.call(plan))
