"""Settings of training. Values that are not given are derived, printed, and written to config.yaml."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from ..analysis.parallel_text import parallel_of
from ..errors import ConfigError
from ..plain import between_commas
from ..settings import Facts, Settings

STEPS = 2000  # the length of a run without a limit


Names = Annotated[list[str], BeforeValidator(between_commas)]


def parallel_layout(text: str) -> str:
    """The name of a layout of ranks. Raises ValueError."""
    parallel_of(text)
    return text


def absolute_folder(name: str | None) -> str | None:
    """The name of a folder as it is found from every folder."""
    from ..data.sources import absolute_names

    return None if name is None else str(absolute_names(name))


class LoraSettings(Settings):
    """Low-rank adapters: what is trained of a matrix W is B and A in W + (alpha / rank) B A, with A (rank, columns)."""

    rank: int = Field(ge=1, description="rows of A")
    alpha: float | None = Field(
        None, gt=0, description="factor of what is added, which is divided by rank; None: 2 rank"
    )
    matrices: Names = Field([], description="names of matrices; none: those of the layers that are larger than rank")
    full: Names = Field([], description="names of parameters that are trained themselves, as new ones always are")

    @property
    def scale(self) -> float:
        """alpha / rank."""
        return 2.0 if self.alpha is None else self.alpha / self.rank

    def with_full(self, names: Sequence[str]) -> LoraSettings:
        """With further parameters that are trained themselves."""
        return self.model_copy(update={"full": list(dict.fromkeys([*self.full, *names]))})


def lora_options(stated: Any) -> Any:
    """Options of LoRA as a mapping; also of a text such as 'rank=8,alpha=16,matrices=*.query.*,*.value.*'.

    Raises ValueError with all mistakes.
    """
    if isinstance(stated, str):
        options: dict[str, str] = {}
        for piece in stated.split(","):
            key, equals, value = piece.partition("=")
            if equals:
                options[key.strip()] = value.strip()
            elif options:  # one more pattern
                options[next(reversed(options))] += f",{piece}"
            else:
                raise ValueError("expected options such as rank=8 or rank=8,alpha=16")
        stated = options
    try:
        return LoraSettings.read(stated) if isinstance(stated, Mapping) else stated
    except ConfigError as error:
        raise ValueError("; ".join(error.mistakes)) from None


class TrainingSettings(Settings):
    """How a model is trained. The run ends at whichever of steps, tokens, epochs and minutes comes first. Each field
    states its facts."""

    steps: Annotated[int | None, Facts(resume="free", numbers=True, limit=True, basic=True)] = Field(
        None, ge=1, description=f"stop after this many steps (default without a limit: {STEPS})"
    )
    tokens: Annotated[int | None, Facts(resume="free", numbers=True, limit=True)] = Field(
        None, ge=1, description="stop after this many tokens, or what else the task counts"
    )
    minutes: Annotated[float | None, Facts(resume="free", numbers=True, limit=True, paired=False)] = Field(
        None, gt=0, description="stop after this many minutes, including the last evaluation"
    )
    epochs: Annotated[float | None, Facts(resume="free", numbers=True, limit=True, basic=True)] = Field(
        None, gt=0, description="stop after this many passes over the training set"
    )
    batch: Annotated[int | None, Facts(resume="fixed", numbers=True)] = Field(
        None, ge=1, description="sequences per batch (default: 16; tasks on pairs use --batch-tokens instead)"
    )
    accumulate: Annotated[int, Facts(resume="fixed", numbers=True)] = Field(
        1, ge=1, description="batches per step, whose gradients are accumulated"
    )

    micro_batches: Annotated[int, Facts(resume="noted", numbers=True)] = Field(
        1, ge=1, description="parts into which each batch is cut, whose gradients add up to that of the batch"
    )
    fit: Annotated[bool, Facts(resume="free", numbers=True)] = Field(
        False, description="find the largest micro-batches that fit in memory by trying, before the first step"
    )

    recompute: Annotated[str, Facts(resume="free", numbers=False)] = Field(
        "none",
        description="lines of the layers whose results are not kept for the backward pass, which makes them again:"
        " all (each line by itself), layers (each layer as a whole), or numbers of lines, and words or labels in them:"
        " 2,attention",
    )

    loss_chunks: Annotated[int, Facts(resume="fixed", numbers=True)] = Field(
        1, ge=1,
        description="parts of a batch's positions whose logits are made one after the other, so that they never are"
        " in memory as a whole: for large vocabularies",
    )  # fmt: skip

    optimizer: Annotated[str, Facts(resume="fixed", numbers=True)] = Field(
        "muon", description="muon, adamw, or another registered one"
    )
    lr: Annotated[float | None, Facts(resume="fixed", numbers=True, basic=True)] = Field(
        None, gt=0, le=1000, description="peak learning rate (default: by width and optimizer)"
    )
    weight_decay: Annotated[float, Facts(resume="fixed", numbers=True, reader="optimizer")] = Field(
        0.1, ge=0, le=1000, description="decoupled weight decay of matrices; tables, norms and biases have none"
    )
    beta1: Annotated[float, Facts(resume="fixed", numbers=True, reader="optimizer")] = Field(
        0.9, ge=0, lt=1, description="AdamW: decay rate of the first moment"
    )
    beta2: Annotated[float, Facts(resume="fixed", numbers=True, reader="optimizer")] = Field(
        0.95, ge=0, lt=1, description="AdamW: decay rate of the second moment"
    )
    momentum: Annotated[float, Facts(resume="fixed", numbers=True, reader="optimizer")] = Field(
        0.95, ge=0, lt=1, description="Muon: decay rate of the momentum"
    )
    clip: Annotated[float, Facts(resume="fixed", numbers=True)] = Field(
        1.0, ge=0, description="largest norm of the gradient, to which larger ones are clipped; 0: none"
    )

    lr_schedule: Annotated[str, Facts(resume="fixed", numbers=True)] = Field(
        "linear",
        description="linear, cosine, inverse-square-root (noam), wsd or constant; a schedule in the model's text"
        " replaces the default",
    )
    warmup: Annotated[float, Facts(resume="fixed", numbers=True, reader="lr_schedule")] = Field(
        0.02, ge=0, lt=1, description="fraction of the run in which the learning rate rises"
    )
    decay: Annotated[float | None, Facts(resume="fixed", numbers=True, reader="lr_schedule")] = Field(
        None, gt=0, le=1, description="fraction of the run in which it falls, for linear (default: 0.6) and wsd (0.2)"
    )
    final_lr: Annotated[float, Facts(resume="fixed", numbers=True, reader="lr_schedule")] = Field(
        0.0, ge=0, le=1, description="learning rate at the end, as a fraction of the peak"
    )

    lora: Annotated[LoraSettings | None, BeforeValidator(lora_options), Facts(resume="fixed", numbers=True)] = Field(
        None,
        description="train low-rank adapters of the matrices, and nothing else but what is randomly initialized:"
        " rank=8; also rank=8,alpha=16,matrices=*.query.*,*.value.* (default: alpha = 2 rank; every matrix of the"
        " layers that is larger than rank), and full=PATTERN,... for parameters that are trained themselves",
    )
    teacher: Annotated[str | None, AfterValidator(absolute_folder), Facts(resume="free", numbers=True)] = Field(
        None,
        min_length=1,
        description="a trained model (a run, or a folder) whose probabilities are learned beside the labels, as Hinton"
        " et al. 2015 have it; it has the same tokenizer or labels",
    )
    teacher_weight: Annotated[float, Facts(resume="fixed", numbers=True, reader="teacher")] = Field(
        0.5, ge=0, le=1, description="share of what the teacher says in the loss; the labels have the rest"
    )
    teacher_temperature: Annotated[float, Facts(resume="fixed", numbers=True, reader="teacher")] = Field(
        2.0, gt=0, le=1000, description="temperature by which the logits of teacher and student are divided"
    )
    teacher_kept: Annotated[int, Facts(resume="fixed", numbers=True, reader="teacher")] = Field(
        0, ge=0, le=1 << 20,
        description="keep the teacher's logits of so many most probable classes in the cache, for runs of equal"
        " batches; they are renormalized, and the others count as impossible; 0: ask the teacher in each step",
    )  # fmt: skip
    freeze: Annotated[Names, Facts(resume="fixed", numbers=True)] = Field(
        [], description="names of parameters that stay as they are, or of modules, as patterns: words,layers.[1-4].*"
    )

    precision: Annotated[Literal["auto", "float32", "bf16"], Facts(resume="fixed", numbers=True)] = Field(
        "auto", description="float32, bf16 with float32 master weights, or auto: the faster one in a short measurement"
    )
    parallel: Annotated[str, AfterValidator(parallel_layout), Facts(resume="noted", numbers=False)] = Field(
        "auto",
        description="how several processes (torchrun, srun) train one model: ddp, each holds all of it and makes a part"
        " of every batch; fsdp, each holds a part of all weights, gradients, and the optimizer's state; tp=2, two share"
        " each matrix; fsdp,tp=2, both; none, each trains by itself; auto: ddp, or fsdp where that takes too much"
        " memory",
    )
    device: Annotated[str, Facts(resume="noted", numbers=True)] = Field(
        "auto", description="cpu, cuda, cuda:1, mps, ...; auto: a CUDA GPU if there is one"
    )
    threads: Annotated[int | None, Facts(resume="noted", numbers=True)] = Field(
        None, ge=1, le=1024, description="CPU threads (default: 1 or all cores, the faster one in a short measurement)"
    )
    seed: Annotated[int, Facts(resume="fixed", numbers=True)] = Field(
        1, ge=0, lt=2**63, description="random seed of initial weights, data order and dropout"
    )

    evaluate_every: Annotated[int | None, Facts(resume="free", numbers=True)] = Field(
        None, ge=1,
        description="steps between evaluations on the whole validation set (default: ten evaluations per run, those"
        " before the last on a sample)",
    )  # fmt: skip
    checkpoint_every: Annotated[int | None, Facts(resume="free", numbers=False)] = Field(
        None, ge=1, description="steps between checkpoints (default: at each evaluation, and every ten minutes)"
    )
    keep: Annotated[int, Facts(resume="free", numbers=False)] = Field(
        2, ge=1, description="number of checkpoints to keep, besides that of the best model"
    )
    on_save_error: Annotated[Literal["continue", "stop"], Facts(resume="free", numbers=False)] = Field(
        "continue",
        description="where a checkpoint cannot be written (full disk): train on and try again at the next, or stop",
    )
    select: Annotated[str | None, Facts(resume="fixed", numbers=True)] = Field(
        None,
        description="score that selects the best model and that patience watches; the loss decides between equal"
        " scores (default: the task's main score)",
    )
    on_not_finite: Annotated[Literal["stop", "skip", "rollback"], Facts(resume="free", numbers=True)] = Field(
        "stop",
        description="where a loss or gradient is not a finite number: stop, skip the batch, or roll back to"
        " the last checkpoint's weights and skip all batches since",
    )
    on_spike: Annotated[Literal["continue", "stop", "skip", "rollback"], Facts(resume="free", numbers=True)] = Field(
        "continue", description="where the loss is a spike: the same, or train on as if it were none"
    )
    spike: Annotated[float, Facts(resume="free", numbers=True, reader="on_spike")] = Field(
        6.0, gt=0, description="standard deviations above the median of recent losses, from which one is a spike"
    )
    hang_timeout: Annotated[float | None, Facts(resume="free", numbers=False)] = Field(
        None, gt=0, description="minutes without the end of a step after which the stacks are printed and the run ends"
    )
    patience: Annotated[int | None, Facts(resume="free", numbers=True, paired=False)] = Field(
        None, ge=1, description="stop after this many evaluations without improvement"
    )
    average: Annotated[float, Facts(resume="fixed", numbers=True)] = Field(
        0.0, ge=0, lt=1,
        description="decay rate of an exponential moving average of the weights, which is evaluated and kept; 0: none",
    )  # fmt: skip
    average_checkpoints: Annotated[int, Facts(resume="fixed", numbers=True)] = Field(
        1, ge=1,
        description="at the end, also evaluate the mean of the weights of this many last checkpoints; keep the better"
        " model",
    )  # fmt: skip
    telemetry_every: Annotated[int, Facts(resume="free", numbers=False)] = Field(
        10, ge=0,
        description="steps between lines of the log that show the model by depth: of each layer the size of the stream,"
        " the update ratio, the norm of the gradient; 0: none",
    )  # fmt: skip
    log_every: Annotated[int, Facts(resume="free", numbers=False)] = Field(
        10, ge=1, description="steps between lines of the log"
    )
    watch: Annotated[bool, Facts(resume="free", numbers=False)] = Field(
        False,
        description="for whoever watches: baselines at the start, and a sample of what the model writes with each"
        " evaluation, as long as these take little of the run",
    )
    log_to: Annotated[Names, Facts(resume="free", numbers=False)] = Field(
        [],
        description="also record the run in tensorboard, wandb, mlflow, trackio, or by a recorder of --use:"
        " tensorboard,wandb; log.jsonl is always written",
    )
    out: Annotated[str | None, Facts(resume="free", numbers=False, basic=True)] = Field(
        None, description="the run's folder (default: runs/ and the model's name)"
    )

    @property
    def length(self) -> dict[str, float]:
        """The limits that are given, which the learning rate follows: {"steps": 2000}."""
        limits = {key: getattr(self, key) for key in LIMITS}
        return {key: limit for key, limit in limits.items() if limit is not None}

    @property
    def rolls_back(self) -> bool:
        """Whether some steps are answered by going back to a checkpoint."""
        return "rollback" in (self.on_not_finite, self.on_spike)

def settings_with(optimizer: Any) -> type[TrainingSettings]:
    """The settings of training with the optimizer of this name, which may bring options of its own. One that does comes
    from outside, and was imported with torch: so nothing is loaded for those that are built in."""
    module = sys.modules.get(f"{__package__}.optimizer")
    known = isinstance(optimizer, str) and module is not None and optimizer in module.optimizers
    kind: type[TrainingSettings] = module.optimizers.get(optimizer).settings if module and known else TrainingSettings
    return kind


FACTS = TrainingSettings.facts()
LIMITS = tuple(key for key, facts in FACTS.items() if facts.limit)
CHANGEABLE = tuple(key for key, facts in FACTS.items() if facts.resume != "fixed")  # what a resume may change
NOTED = tuple(key for key, facts in FACTS.items() if facts.resume == "noted")  # on which machine, and how it is shared
UNPAIRED = tuple(key for key, facts in FACTS.items() if not facts.paired)  # what no comparison takes
