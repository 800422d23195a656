import pytest

from transformula.errors import UnknownName
from transformula.training.position import Limits
from transformula.training.schedules import Phases, factor, schedules

NAMES = schedules.names()


@pytest.mark.parametrize("name", NAMES)
def test_starts_at_zero_rises_to_one_and_stays_within(name: str) -> None:
    shape = Phases(warmup=0.1, final=0.05)
    assert factor(name, 0.0, shape) == 0
    assert factor(name, 0.05, shape) == pytest.approx(0.5)
    assert factor(name, 0.1, shape) == pytest.approx(1.0)
    values = [factor(name, i / 500, shape) for i in range(50, 501)]
    assert all(0 <= v <= 1 + 1e-12 for v in values)
    assert all(a >= b - 1e-12 for a, b in zip(values, values[1:], strict=False))
    assert max(abs(a - b) for a, b in zip(values, values[1:], strict=False)) < 0.16


@pytest.mark.parametrize("name", ["linear", "wsd", "cosine"])
@pytest.mark.parametrize("warmup", [0.0, 0.3])
def test_ends_at_the_final_share(name: str, warmup: float) -> None:
    assert factor(name, 1.0, Phases(warmup=warmup, decay=1.0, final=0.1)) == pytest.approx(0.1)


def test_noam_is_the_papers_formula() -> None:
    """d^-0.5 min(s^-0.5, s w^-1.5), of Vaswani et al. 2017: its curve, and its height."""
    width, warmup, steps = 512, 400, 3000
    for step in (1, 7, 399, 400, 401, 1000, 2999, 3000):
        expected = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        found = (width * warmup) ** -0.5 * factor("noam", step / steps, Phases(warmup=warmup / steps))
        assert found == pytest.approx(expected, rel=1e-12)
        assert factor("inverse-square-root", step / steps, Phases(warmup=warmup / steps)) == factor(
            "noam", step / steps, Phases(warmup=warmup / steps)
        )
    assert factor("noam", 1.0, Phases(warmup=0.01, final=0.3)) == 0.3


def test_decay_is_the_share_in_which_it_falls() -> None:
    for name in ("linear", "wsd"):
        assert factor(name, 0.69, Phases(decay=0.3)) == 1
        assert factor(name, 0.72, Phases(decay=0.3)) < 1


def test_an_unknown_schedule_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="cosine"):
        factor("cosin", 0.5, Phases())


def test_the_nearest_limit_counts() -> None:
    limits = Limits(steps=100, units=1000, seconds=60)
    assert limits.progress(10, 500, 6) == 0.5
    assert limits.progress(10, 100, 30, reserve=20) == 0.75
    assert not limits.reached(99, 999, 59)
    assert "100 steps" in limits.reached(100, 0, 0)
    assert "1,000" in limits.reached(0, 1000, 0)
    assert "1 minutes" in limits.reached(0, 0, 50, reserve=10)
