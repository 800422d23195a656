"""A job: one run of an arm, and the key that says all that decides its numbers.

Runs of equal keys are equal, bit for bit, so that none is made twice: other comparisons, more seeds and more variants
find them in the store. The key is that of `api/identity.py`, with the learning rate and the seed. Names of variants are
not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from ..api.identity import OF_THE_RUN, identity_of, settled
from ..runs.identity import digest
from .records import Arm, Job, Stage


def jobs_of(arm: Arm, stage: Stage, rates: Sequence[float], seeds: Sequence[int], score: str = "") -> list[Job]:
    """The runs of an arm: each seed with each learning rate. Raises what `train` raises for such a configuration."""
    config = {key: value for key, value in settled(arm.config).items() if key not in OF_THE_RUN}
    known = identity_of(config)
    return [
        Job(*arm.arm_key, stage, seed, rate, config, score, digest([known, f"{rate:.12g}", seed]))
        for rate in rates
        for seed in seeds
    ]


def interleaved(jobs_of_arms: Sequence[Sequence[Job]]) -> list[Job]:
    """The jobs of several arms by turns: the first of each, the second of each, ... Every other turn goes backwards, so
    that a machine that grows slower slows no arm more than the others, and a kill leaves all equally far."""
    turns = zip_longest(*jobs_of_arms)
    return [job for n, turn in enumerate(turns) for job in turn[:: -1 if n % 2 else 1] if job is not None]
