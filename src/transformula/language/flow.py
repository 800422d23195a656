"""How names flow from section to section, and which of their values are needed: the rest is not built."""

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

    stack      its name
    assigned   the names that any of its lines sets
    now        name -> its present setting
    carried    name -> the value with which it was first carried
    results    stack -> the setting of its final x
    history    stack -> after `before` and each layer: (the section, all settings on leaving it)
    entered    section -> the settings on entering it
    """

    stack: str = ""
    assigned: set[str] = field(default_factory=set)
    now: dict[str, Setting] = field(default_factory=dict)
    carried: dict[str, Value] = field(default_factory=dict)
    results: dict[str, Setting] = field(default_factory=dict)
    history: dict[str, list[tuple[Section, dict[str, Setting]]]] = field(default_factory=dict)
    entered: dict[int, dict[str, Setting]] = field(default_factory=dict)

    def begin(self, stack: str, assigned: set[str]) -> None:
        """Go on to another stack."""
        self.stack, self.assigned = stack, assigned
        self.now, self.carried = {}, {}
        self.history[stack] = []

    def enter(self, section: Section) -> None:
        """Note the settings on entering a section."""
        self.entered[id(section)] = dict(self.now)

    def leave(self, section: Section) -> None:
        """Note the settings on leaving `before` or a layer."""
        self.history[section.stack].append((section, dict(self.now)))

    def finish(self) -> None:
        """Make the present x the stack's result."""
        if self.stack and "x" in self.now:
            self.results[self.stack] = self.now["x"]


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
            stack = value.stack or (architecture.main.name if section.where == "output" else section.stack)
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
        section.history.sort()
        section.reads = {k: v for k, v in section.reads.items() if id(v) in live}
        section.lines = [
            (place, name, value if value is not None and (id(value) in live or value.op == "number") else None)
            for place, name, value in section.lines
        ]
