"""tool-calls: questions that a tool answers, as dialogues: the question, the call, what the tool gives, the answer.

    user       What is 37 plus 58?
    assistant  <tool_call>{"name": "calculator", "arguments": {"a": 37, "operation": "add", "b": 58}}</tool_call>
    tool       95
    assistant  37 plus 58 is 95.

Each dialogue lists three of six tools, in some order. Some ask two things, of which each is a call; some ask what none
of the three can answer, and the reply says so without a call. A row is a pure function of its number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any, NamedTuple

from ...errors import DataError
from ..built_in import Rows, built_in

COUNT = 6000  # rows
LISTED = 3  # tools of a dialogue
NO_TOOL = "I have no tool for that."
SHARE_OF_TWO, SHARE_OF_NONE = 0.2, 0.3  # of dialogues that ask two things, and what no tool can answer

OPERATIONS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("plus", lambda a, b: a + b),
    "subtract": ("minus", lambda a, b: a - b),
    "multiply": ("times", lambda a, b: a * b),
}
UNITS = {("kilometers", "miles"): 0.621371, ("kilograms", "pounds"): 2.204623, ("liters", "gallons"): 0.264172,
         ("meters", "feet"): 3.28084}  # fmt: skip
HOURS = {"Lima": -5, "Cairo": 2, "Osaka": 9, "Quito": -5, "Oslo": 1, "Rome": 1, "Lagos": 1, "Delhi": 5, "Perth": 8,
         "Tokyo": 9, "Paris": 1, "Dakar": 0, "Hanoi": 7, "Seoul": 9, "Accra": 0, "Bogota": -5, "Berlin": 1,
         "Nairobi": 3, "Denver": -7, "Sydney": 10, "Toronto": -5, "Lisbon": 0, "Athens": 2, "Manila": 8}  # fmt: skip
CAPITALS = {"Peru": "Lima", "Egypt": "Cairo", "Norway": "Oslo", "Italy": "Rome", "Japan": "Tokyo", "France": "Paris",
            "Ghana": "Accra", "Kenya": "Nairobi", "Greece": "Athens", "Portugal": "Lisbon", "Germany": "Berlin",
            "Vietnam": "Hanoi", "Senegal": "Dakar", "Ecuador": "Quito", "Colombia": "Bogota", "Chile": "Santiago",
            "Cuba": "Havana", "Spain": "Madrid", "Poland": "Warsaw", "Austria": "Vienna", "Canada": "Ottawa",
            "Hungary": "Budapest", "Jordan": "Amman", "Nepal": "Kathmandu"}  # fmt: skip
SYMBOLS = {"gold": "Au", "iron": "Fe", "silver": "Ag", "helium": "He", "carbon": "C", "oxygen": "O", "copper": "Cu",
           "zinc": "Zn", "lead": "Pb", "tin": "Sn", "neon": "Ne", "sodium": "Na", "calcium": "Ca", "nickel": "Ni",
           "iodine": "I", "mercury": "Hg"}  # fmt: skip


class ToolQuestion(NamedTuple):
    """A question of one thing: its tool, its arguments, what the tool gives, the answer."""

    text: str
    tool: str
    arguments: dict[str, Any]
    result: str
    answer: str


def schema(**properties: str) -> dict[str, Any]:
    """The JSON schema of arguments, by the type of each."""
    types = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": types, "required": [*types], "additionalProperties": False}


TOOLS: dict[str, dict[str, Any]] = {
    name: {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
    for name, about, parameters in (
        ("calculator", "add, subtract, multiply", schema(a="integer", operation="string", b="integer")),
        ("clock", "the time in a city", schema(city="string")),
        ("capital", "the capital of a country", schema(country="string")),
        ("convert", "other units", schema(amount="integer", unit="string", to="string")),
        ("weekday", "the day of the week", schema(date="string")),
        ("element", "the symbol of an element", schema(name="string")),
    )
}


def asked(tool: str, draw: random.Random) -> ToolQuestion:
    """Something that a tool is asked."""
    match tool:
        case "calculator":
            operation = draw.choice([*OPERATIONS])
            word, compute = OPERATIONS[operation]
            a, b = draw.randrange(2, 400), draw.randrange(2, 400)
            how = draw.choice(["What is", "How much is", "Compute"])
            result = str(compute(a, b))
            arguments = {"a": a, "operation": operation, "b": b}
            return ToolQuestion(f"{how} {a} {word} {b}", tool, arguments, result, f"{a} {word} {b} is {result}.")
        case "clock":
            city = draw.choice([*HOURS])
            result = f"{(draw.randrange(24) + HOURS[city]) % 24:02}:{draw.randrange(60):02}"
            question = draw.choice([f"What time is it in {city}", f"How late is it in {city}"])
            return ToolQuestion(question, tool, {"city": city}, result, f"It is {result} in {city}.")
        case "capital":
            country = draw.choice([*CAPITALS])
            question = draw.choice([f"What is the capital of {country}", f"Which city is the capital of {country}"])
            answer = f"The capital of {country} is {CAPITALS[country]}."
            return ToolQuestion(question, tool, {"country": country}, CAPITALS[country], answer)
        case "convert":
            unit, to = draw.choice([*UNITS])
            amount = draw.randrange(2, 400)
            result = f"{amount * UNITS[unit, to]:.1f}"
            question = draw.choice([f"How many {to} are {amount} {unit}", f"What are {amount} {unit} in {to}"])
            arguments = {"amount": amount, "unit": unit, "to": to}
            return ToolQuestion(question, tool, arguments, result, f"{amount} {unit} are {result} {to}.")
        case "weekday":
            day = date(1990, 1, 1) + timedelta(days=draw.randrange(20_000))
            question = draw.choice([f"Which day of the week is {day}", f"On which weekday is {day}"])
            result = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()[day.weekday()]
            return ToolQuestion(question, tool, {"date": str(day)}, result, f"{day} is a {result}.")
        case _:
            name = draw.choice([*SYMBOLS])
            question = draw.choice([f"What is the symbol of {name}", f"Which symbol does {name} have"])
            answer = f"The symbol of {name} is {SYMBOLS[name]}."
            return ToolQuestion(question, "element", {"name": name}, SYMBOLS[name], answer)


def dialogue_of(number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages of a row, and the tools that it lists."""
    draw = random.Random(number)
    listed = draw.sample([*TOOLS], LISTED)
    kind = draw.random()
    if kind < SHARE_OF_NONE:
        other = draw.choice([name for name in TOOLS if name not in listed])
        question = asked(other, draw).text
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": f"{question}?"}, {"role": "assistant", "content": NO_TOOL},
        ]  # fmt: skip
        return messages, [TOOLS[name] for name in listed]
    count = 2 if kind < SHARE_OF_NONE + SHARE_OF_TWO else 1
    things = [asked(name, draw) for name in draw.sample(listed, count)]
    second = [f"{one.text[0].lower()}{one.text[1:]}" for one in things[1:]]
    calls = [{"type": "function", "function": {"name": one.tool, "arguments": one.arguments}} for one in things]
    messages = [
        {"role": "user", "content": f"{', and '.join([things[0].text, *second])}?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "content": one.result} for one in things),
        {"role": "assistant", "content": " ".join(one.answer for one in things)},
    ]
    return messages, [TOOLS[name] for name in listed]


@built_in("tool-calls", ("messages", "tools"))
def read_tool_calls(variant: str) -> Rows:
    """All rows, in the order of their numbers."""
    if variant:
        raise DataError(f"there is one such set; leave out :{variant}", path="tool-calls")

    def rows() -> Iterator[tuple[Any, ...]]:
        for number in range(COUNT):
            yield (f"tool-calls, row {number + 1}", *dialogue_of(number))

    return Rows(rows())
