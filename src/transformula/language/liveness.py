"""How names flow between sections, and what of it is needed: the rest is not built."""

from __future__ import annotations

from dataclasses import dataclass, field

from .graph import Architecture, Section, Value
from .source import Place


@dataclass
class Setting:
    """The value that a name has, the section that set it, and where."""

    value: Value
    section: Section
    place: Place


@dataclass
class Flow:
    """The names of the stack that is being checked.

    now        name -> its present setting
    carried    name -> the value with which it was first carried
    results    stack -> the setting of its final x
    history    stack -> after `before` and each layer: (the section, all settings on leaving it)
    entered    section -> the settings on entering it
    """

    now: dict[str, Setting] = field(default_factory=dict)
    carried: dict[str, Value] = field(default_factory=dict)
    results: dict[str, Setting] = field(default_factory=dict)
    history: dict[str, list[tuple[Section, dict[str, Setting]]]] = field(default_factory=dict)
    entered: dict[int, dict[str, Setting]] = field(default_factory=dict)

    def begin(self, stack: str) -> None:
        self.now, self.carried = {}, {}
        self.history[stack] = []

    def enter(self, section: Section) -> None:
        self.entered[id(section)] = dict(self.now)

    def set(self, name: str, value: Value, section: Section, place: Place) -> None:
        self.now[name] = Setting(value, section, place)

    def leave(self, section: Section) -> None:
        self.history[section.stack].append((section, dict(self.now)))

    def finish(self, stack: str, after: Section) -> None:
        if stack and "x" in self.now:
            self.results[stack] = self.now["x"]

    def snapshot(self, stack: str, number: int) -> dict[str, Setting]:
        """All settings on leaving `before` (0) or a layer."""
        return self.history[stack][number][1]

    def left(self, stack: str, number: int) -> Section:
        return self.history[stack][number][0]


def trim(architecture: Architecture, flow: Flow) -> None:
    """Keep what output and policy need: fill `leaves`, `keeps`, `history` of every section; drop what is dead."""
    live: set[int] = set()
    waiting: list[tuple[Section, Value]] = [(architecture.output, v) for v in architecture.output.leaves.values()]
    waiting += [(section, v) for section in architecture.sections() for v in section.asked.values()]
    while waiting:
        section, value = waiting.pop()
        if id(value) in live:
            continue
        live.add(id(value))
        for argument in value.args:
            waiting.append((section, argument))
        if value.op == "name":
            setting = flow.results[value.stack] if value.stack else flow.entered[id(section)][value.name]
            setting.section.leaves[value.name] = setting.value
            waiting.append((setting.section, setting.value))
        elif value.op == "history":
            stack = value.stack or _stack_of(section, architecture)
            setting = flow.history[stack][int(value.number)][1][value.name]
            setting.section.leaves[value.name] = setting.value
            if value.name not in setting.section.keeps:
                setting.section.keeps.append(value.name)
            waiting.append((setting.section, setting.value))
            if not value.stack:
                pair = (value.name, int(value.number))
                if pair not in section.history:
                    section.history.append(pair)
    for section in architecture.sections():
        section.values = [v for v in section.values if id(v) in live]
        section.history.sort(key=lambda pair: (pair[0], pair[1]))
        section.reads = {k: v for k, v in section.reads.items() if id(v) in live}
        section.lines = [
            (place, name, value if value is not None and (id(value) in live or value.op == "number") else None)
            for place, name, value in section.lines
        ]


def _stack_of(section: Section, architecture: Architecture) -> str:
    return section.stack if section.where != "output" else architecture.main.name
