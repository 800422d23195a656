"""The base model's equation, at twice the width."""

from __future__ import annotations

from tests.references.vaswani import logits as logits
