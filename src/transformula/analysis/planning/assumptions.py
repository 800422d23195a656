"""What a plan assumes, each with its number, its reason and its source. Every one can be given otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ...errors import InputError, UnknownName


def _assumed(number: float, why: str) -> Any:
    return field(default=number, metadata={"why": why})


@dataclass(frozen=True)
class Assumptions:
    """The numbers of the model of time and memory."""

    matmul_share: float = _assumed(
        0.8, "share of the peak that a large matrix product reaches, on a device of which nobody published it"
    )
    matmul_ordinary: float = _assumed(
        0.93, "share of the published rate that the shapes of a model reach: their last tiles do not fill the device"
    )
    attention_share: float = _assumed(
        0.5,
        "share of a large product's rate that fused attention reaches, forward and backward (FlashAttention-2,"
        " 2307.08691: 335 TFLOP/s on H100)",
    )
    attention_backward: float = _assumed(
        2.5, "FLOPs of fused attention's backward pass over those of its forward pass: it computes the scores again"
    )
    score_bytes: float = _assumed(
        30, "bytes moved for each score, forward and backward, where attention is not fused: it writes and reads them"
    )
    unaligned: float = _assumed(
        0.3,
        "share of its rate that a bf16 product reaches whose sizes are no multiples of 8 (nanoGPT's commit 77e7e04c: "
        "the output of 50,257 columns took 40 % of a step)",
    )
    bandwidth_share: float = _assumed(0.85, "share of the memory's bandwidth that reading and writing in order reaches")
    passes_compiled: float = _assumed(
        3, "times that each kept number is moved beside the products, forward and backward, where code is compiled"
    )
    passes_eager: float = _assumed(
        7, "the same where it is not compiled: each operation reads and writes for itself, sums and norms in float32"
    )
    logit_bytes_compiled: float = _assumed(
        10, "bytes moved for each logit beside the products, where the loss is compiled"
    )
    logit_bytes_eager: float = _assumed(24, "the same where it is not: float32 copies, their softmax and gradients")
    logit_kept_compiled: float = _assumed(
        8, "bytes held for each logit at the peak, where the loss is compiled: bf16, a float32 copy, a gradient"
    )
    logit_kept_eager: float = _assumed(10, "the same where it is not: the gradient is float32 first")
    launch: float = _assumed(
        5e-6, "seconds between two kernels that one process starts, which is the least that a small one takes"
    )
    kernels_compiled: float = _assumed(6, "kernels of each value of the formula, forward and backward, compiled")
    kernels_eager: float = _assumed(12, "the same where it is not compiled")
    update_bytes: float = _assumed(
        36,
        "bytes moved for each parameter in an update: weight, gradient, moments read and written, clipping",
    )
    muon_ranks: float = _assumed(
        1, "ranks over which Muon's products are divided: they need whole matrices, and each rank makes all of them"
    )
    link_share: float = _assumed(
        0.8, "share of a link's bandwidth that collectives reach (nccl-tests: some 360 of 450 GB/s on H100)"
    )
    link_latency: float = _assumed(20e-6, "seconds before a collective moves its first byte")
    overlap: float = _assumed(0.8, "share of the computing under which collectives of gradients and weights can hide")
    contention: float = _assumed(
        0.25, "share of its time by which a collective that hides slows the computing: both use the same memory"
    )
    reduce_bytes: float = _assumed(4, "bytes of each gradient that is summed over the ranks: float32")
    memory_share: float = _assumed(
        0.92, "share of a device's memory that tensors can take: the rest goes to the context, libraries and gaps"
    )
    outside: float = _assumed(0.03, "share of a run's time outside its steps: evaluation, checkpoints, data, restarts")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Assumptions:
        """The assumptions with those that are given. Raises UnknownName, InputError for what is no positive number."""
        known = [one.name for one in fields(cls)]
        read = {}
        for name, value in given.items():
            key = name.replace("-", "_")
            if key not in known:
                raise UnknownName("assumption", name, known)
            try:
                read[key] = float(value)
            except (TypeError, ValueError):
                raise InputError(f"assume {name}: expected a number; this is {value!r}") from None
            if not 0 <= read[key] < float("inf"):
                raise InputError(f"assume {name}: expected a number from 0; this is {value!r}")
            if read[key] == 0 and key in NOT_NONE:
                raise InputError(f"assume {name}: expected a number above 0; this is {value!r}")
        return cls(**read)

    @property
    def data(self) -> dict[str, dict[str, Any]]:
        """Name -> its number and the reason."""
        return {one.name: {"value": getattr(self, one.name), "why": one.metadata["why"]} for one in fields(self)}


DIVIDED_BY = ("matmul_ordinary", "unaligned", "muon_ranks")
NOT_NONE = tuple(one.name for one in fields(Assumptions) if one.name.endswith("_share") or one.name in DIVIDED_BY)
"""Assumptions that are not 0."""
