"""What a server tells Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..extras import need
from .models import Models

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
COUNTERS = {
    "prompt_tokens": "tokens of prompts that were read",
    "reused_tokens": "tokens of prompts that were read before, and not again",
    "written_tokens": "tokens that were written",
    "steps": "steps of running texts",
    "rows": "texts in all steps: divided by steps, the mean batch size",
    "inputs": "inputs that were answered in batches",
    "batches": "batches of such inputs",
}
GAUGES = {
    "running": "texts that are being written",
    "waiting": "requests that wait",
    "prefix_bytes": "memory of the states of what prompts begin with",
}


class Metrics:
    """Counts requests and their times; the rest it asks the workers for when it is asked."""

    def __init__(self, models: Models) -> None:
        self.library: Any = need("prometheus_client", "a server")
        self.models = models
        self.registry = self.library.CollectorRegistry()
        self.registry.register(self)
        made = {"registry": self.registry, "namespace": "transformula"}
        self.requests = self.library.Counter("requests", "requests by path and status", ["path", "status"], **made)
        self.durations = self.library.Histogram(
            "request_seconds", "from a request to the end of its answer", ["path"], buckets=SECONDS, **made
        )
        self.first = self.library.Histogram(
            "first_token_seconds", "from a request to the first piece of its text", ["model"], buckets=SECONDS, **made
        )

    def collect(self) -> Iterator[Any]:
        core = need("prometheus_client.core", "a server")
        for names, kind in (
            (COUNTERS, core.CounterMetricFamily),
            (GAUGES, core.GaugeMetricFamily),
        ):
            for name, about in names.items():
                family = kind(f"transformula_{name}", about, labels=["model"])
                for one in self.models.by_name.values():
                    if one.worker is not None:
                        family.add_metric([one.name], getattr(one.worker.counts, name))
                yield family

    def page(self) -> bytes:
        return bytes(self.library.generate_latest(self.registry))
