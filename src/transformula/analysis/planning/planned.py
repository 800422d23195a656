"""A planned run: what a person reads of it as `repr`, what a program reads as `.data`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...cost.words import DAY, HOUR, about, bytes_in_words, in_units, of_a_step, table
from ...errors import InputError
from ...plain import TextPage, by_keys
from .estimate import LayoutEstimate, held
from .search import LayoutChoices, search
from .setting import PlannedSetting

MAX_ALTERNATIVES = 10  # that the page shows
LARGE_UPDATE_SHARE = 0.2  # share of a step from which the optimizer's part is told
TOKENS = {"T": 1e12, "B": 1e9, "M": 1e6, "k": 1e3, "": 1}


@dataclass(frozen=True)
class PlannedRun(TextPage):
    """A run on given devices.

    setting   what was given; `price` in any currency for one device and hour
    chosen    the layout to take, with its memory and time
    compared  the best of each way to lay it out, the fastest first
    measured  measured over modeled time of computing; 1 where nothing was measured
    """

    name: str
    setting: PlannedSetting
    chosen: LayoutEstimate
    compared: tuple[LayoutEstimate, ...]
    price: float | None = None
    measured: float = 1.0
    notes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Tokens a second of one device."""
        return self.chosen.rate / self.setting.gpus

    @property
    def mfu(self) -> float:
        """Share of the peak that the model's own FLOPs take, recomputation not counted, attention at its mean span."""
        return self.setting.work.flops * self.rate / self.setting.device.peak(self.setting.precision)

    @property
    def steps(self) -> int:
        return max(1, round(self.setting.tokens / self.chosen.tokens))

    @property
    def seconds(self) -> float:
        """The seconds of the whole run, with what is outside the steps."""
        return self.setting.tokens / self.chosen.rate * (1 + self.setting.assumptions.outside)

    @property
    def gpu_hours(self) -> float:
        return self.seconds * self.setting.gpus / HOUR

    @property
    def cost(self) -> float | None:
        return None if self.price is None else self.gpu_hours * self.price

    @property
    def why(self) -> str:
        """Why this layout: what the others lack."""
        layout = self.chosen.layout
        rivals: dict[str, LayoutEstimate] = {}
        for one in self.compared:
            rivals.setdefault(one.layout.name, one)
        reasons = []
        for name, one in rivals.items():
            if name != layout.name:
                reasons.append(f"{name} {compared_with(one, self.chosen)}")
        alike = [one for one in self.compared if one.layout.name == layout.name]
        least = min(alike, key=lambda one: one.layout.again)
        if least.layout.again < layout.again:
            reasons.append(f"without recomputation it {compared_with(least, self.chosen)}")
        return "; ".join(reasons) or "there is no other"

    @property
    def data(self) -> dict[str, object]:
        """Plain data."""
        run = by_keys(self.setting, "gpus node tokens batch_tokens precision optimizer attention compiled")
        return {
            **by_keys(self, "name parameters=setting.work.parameters context=setting.work.context"),
            **by_keys(self, "flops_per_token=setting.work.flops device=setting.device"),
            "setting": run,
            **by_keys(self, "layout=chosen why"),
            "free_memory": round(self.chosen.free),
            **by_keys(self, "tokens_per_second=chosen.rate tokens_per_second_gpu=rate mfu"),
            **by_keys(self, "tokens_per_step=chosen.tokens steps seconds"),
            "days": self.seconds / DAY,
            **by_keys(self, "gpu_hours price cost measured alternatives=compared"),
            **by_keys(self, "assumptions=setting.assumptions notes"),
        }

    def __repr__(self) -> str:
        blocks = [self._head(), self._memory(), self._time(), self._alternatives(), self._assumptions()]
        return "\n\n".join("\n".join(block) for block in blocks)

    def _head(self) -> list[str]:
        setting, layout = self.setting, self.chosen.layout
        tokens, batch = in_units(setting.tokens, TOKENS), in_units(self.chosen.tokens, TOKENS)
        code = "compiled" if setting.compiled else "not compiled"
        lines = [
            f"{self.name or 'model'}: {setting.work.parameters:,} parameters, {tokens} tokens in rows of"
            f" {setting.work.context:,}, on {setting.gpus:,} x {setting.device.title}",
            f"{setting.precision}, {setting.optimizer}, {code}, attention {setting.attention}; {self.steps:,} steps of"
            f" {batch} tokens",
            "",
            f"layout     {layout.name}: micro-batch {layout.micro_batch}, {layout.accumulate} a step and rank,"
            f" recompute {layout.recompute}",
            f"why        {self.why}",
            f"speed      {self.chosen.rate:,.0f} tokens/s, {self.rate:,.0f} a GPU; {100 * self.mfu:.1f} % of the peak",
            f"time       {about(self.seconds)}, {self.gpu_hours:,.4g} GPU hours",
        ]
        if setting.teacher is not None:
            share = self.chosen.time.teacher / self.chosen.time.total
            parameters = f"{setting.teacher.parameters:,} parameters"
            lines.append(f"teacher    {parameters}, asked in each step: {100 * share:.0f} % of its time")
        if self.cost is not None:
            lines.append(f"cost       {self.cost:,.2f}, at {self.price:g} a GPU hour")
        return lines + [f"note       {note}" for note in self.notes]

    def _memory(self) -> list[str]:
        parts = self.chosen.parts
        rows = [[name, bytes_in_words(size)] for name, size in parts.items()]
        free = bytes_in_words(self.chosen.free)
        return [f"memory of a rank, of {free} that tensors can take", *indented(rows)]

    def _time(self) -> list[str]:
        step = self.chosen.time
        rows = [
            [name, of_a_step(size), "" if name == "hidden" else f"{100 * size / step.total:.0f} %"]
            for name, size in step.data.items()
        ]
        return ["time of a step", *indented(rows)]

    def _alternatives(self) -> list[str]:
        head = ["layout", "recompute", "micro-batch", "memory", "step", "tokens/s a GPU", ""]
        rows = []
        for one in self.compared[:MAX_ALTERNATIVES]:
            layout = one.layout
            said = "chosen" if one is self.chosen else "" if one.fits else "does not fit"
            each = [layout.name, layout.recompute, f"{layout.micro_batch} x {layout.accumulate}"]
            cells = [bytes_in_words(one.memory.total), of_a_step(one.time.total)]
            rows.append([*each, *cells, f"{one.rate / self.setting.gpus:,.0f}", said])
        more = len(self.compared) - len(rows)
        left = [f"  and {more} more"] if more > 0 else []
        return ["compared", *indented([head, *rows], last=True), *left]

    def _assumptions(self) -> list[str]:
        rows = [[name, f"{one['value']:g}", one["why"]] for name, one in self.setting.assumptions.data.items()]
        return ["assumed, each to be given otherwise by --assume NAME=NUMBER", *indented(rows, last=True)]


def compared_with(one: LayoutEstimate, chosen: LayoutEstimate) -> str:
    """What a layout lacks, beside the chosen one."""
    if not one.fits:
        return f"takes {bytes_in_words(one.memory.total)} of {bytes_in_words(one.free)}"
    slower = one.time.total / one.tokens * chosen.rate - 1
    if slower < 0.005:
        return "is as fast, and less simple" if slower > -0.005 else f"is only {-100 * slower:.0f} % faster"
    return f"is {100 * slower:.0f} % slower"


def indented(rows: Sequence[Sequence[str]], last: bool = False) -> Iterator[str]:
    return (f"  {line}" for line in table(rows, last=last))


def planned(
    name: str, setting: PlannedSetting, choices: LayoutChoices, price: float | None = None, measured: float = 1.0,
    notes: Iterable[str] = (),
) -> PlannedRun:  # fmt: skip
    """Choose a layout, and say what the run takes. Raises InputError where none fits, or for a negative price."""
    if price is not None and price < 0:
        raise InputError(f"price must not be negative; given: {price:g}")
    layouts = search(setting, choices, measured)
    return PlannedRun(
        name, setting, layouts.chosen, layouts.compared, price, measured, (*notes, *notes_of(setting, layouts.chosen))
    )


def notes_of(setting: PlannedSetting, chosen: LayoutEstimate) -> list[str]:
    """What is worth knowing: sizes that make products slow, a batch that is not the one that was asked for."""
    notes = []
    if setting.work.unaligned and setting.precision == "bf16":
        sizes = ", ".join(f"{size:,}" for size in setting.work.unaligned)
        better = ", ".join(f"{-(-size // 64) * 64:,}" for size in setting.work.unaligned)
        notes.append(f"sizes of matrices that are no multiples of 8 ({sizes}) make products slow; take {better}")
    if chosen.time.update > LARGE_UPDATE_SHARE * chosen.time.total:
        share = f"{100 * chosen.time.update / chosen.time.total:.0f} %"
        remedy = "larger --batch-tokens" + (", or --optimizer adamw," if setting.optimizer == "muon" else "")
        notes.append(f"the optimizer takes {share} of a step; {remedy} would take less of the run")
    if (ranks := chosen.layout.tensor) > 1:
        part = sum(held(setting, chosen.layout)) / setting.work.parameters
        what = f"each of {ranks} ranks that share matrices holds {part:.0%} of the parameters"
        notes.append(
            f"{what}; `transformula summary {setting.work.architecture.name or 'MODEL'} --tp {ranks}` says which"
        )
    if chosen.tokens != setting.batch_tokens:
        notes.append(f"a step has {chosen.tokens:,} tokens: {setting.batch_tokens:,} do not divide among the ranks")
    return notes
