"""The trial by which speeds of models are compared: models take turns, step by step."""

from __future__ import annotations

import time

from transformula.training.trial import times_of_steps


def test_models_take_turns_and_neither_always_goes_first() -> None:
    made: list[tuple[str, int]] = []
    makers = [lambda step, name=name: made.append((name, step)) for name in "abc"]
    times = times_of_steps(makers, rounds=3, most=60.0)
    assert [name for name, _ in made] == [*"abc", *"cba"] * 2
    assert [step for _, step in made] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [len(each) for each in times] == [3, 3, 3]  # the first step, which warms up, does not count
    assert all(0 <= cpu and 0 < clock for each in times for clock, cpu in each)


def test_a_slow_model_makes_few_steps_but_enough_to_compare() -> None:
    makers = [lambda step: time.sleep(0.01)] * 2
    assert [len(each) for each in times_of_steps(makers, rounds=50, most=0.001)] == [3, 3]


def test_time_of_processors_is_not_that_of_waiting() -> None:
    [waited] = times_of_steps([lambda step: time.sleep(0.02)], rounds=3, most=60.0)
    assert all(cpu < clock / 2 for clock, cpu in waited)
