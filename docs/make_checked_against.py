"""Run ours beside published code and write what differs: `python docs/make_checked_against.py`.

It writes the page, and the key `checked_against` of entries of the gallery, whose page and index are then made again by
`docs/make_gallery.py`. The differences are measured here, not typed; tests hold the page's other columns, and the key,
to the cases.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.peers.case import Case, Compared, cases, held  # noqa: E402
from transformula.gallery import FOLDER  # noqa: E402

PAGE = Path(__file__).parent / "reference" / "checked-against.md"

OPENING = """\
# Checked against

Published code that the tests run beside ours. The reference's model is built small, every one of its parameters is
drawn at random (norms, biases and coefficients too), its weights are carried over to our text, and both get the same
tokens in float64, evaluating. *One pass* is the largest difference of the logits over the largest logit. *Decoding* is
the same for our decoding in chunks, against theirs with its cache; with a star, against their one pass, where they do
not decode or do not keep what it takes. *Gradients* is the same for the gradients of all parameters of the reference,
of the sum of tanh(logits) squared; ours are led back the way on which the weights were carried. A test fails above
1e-9, and if a parameter of either side was left over. What stands here was measured with the versions named, by
`python docs/make_checked_against.py`.

References that ask for float32 by name, in norms or softmaxes, are given float64 in its place; nothing else of them is
changed. How weights are carried stands in [`tests/peers/cases`](../../tests/peers/cases), one file for each family,
with the texts that are not in the gallery."""

CLOSING = """\
## Where they differ from what one would think

- x-transformers shares keys and values among heads in turn: head h of the queries uses head h modulo `kv_heads`; the
  paper and ours give them to neighbors.
- The `gate_residual` of x-transformers is PyTorch's `GRUCell`, whose reset stands after the matrix and whose z weighs
  what stays; GTrXL's own, our `gru_gate`, has the reset before it, and z weighs what is new.
- x-transformers keeps weights of norms less 1, has no biases in norms and attention, multiplies learned positions by
  the inverse root of the width, and divides by lengths without an eps.
- A table of PyTorch's with a `padding_idx` never trains that row where it is looked up, be it padding or not. Ours has
  no such row: what stands on padding is not read. These rows are left out where gradients are compared.
- Rotary positions turn channels by halves (LLaMA, GPT-NeoX, Falcon, Phi) or by neighbors (GPT-J, Cohere, GLM-4,
  x-transformers): `rotary_pairs`. One becomes the other by an order of the rows of queries and keys.
- GPT-2 stores its matrices transposed; GPT-NeoX, BLOOM, Falcon and DeBERTa v1 store queries, keys and values in one,
  head by head; Phi-3, GLM-4 and experts store the gate and the branch in one.
- timm's MaxViT stores queries, keys and values in one, head by head; the output of its NesT reads the first channels of
  all heads, then the second ones. Both become ours by an order of rows, or of columns.
- Gemma and Nemotron store the weights of norms less 1.
- Positions of OPT, BART, RoBERTa and torchscale begin at the third row of their table.
- timm's LayerNorm has an eps of 1e-6 by default, PyTorch's and ours 1e-5.
- Marian and PEGASUS hold their waves, all sines first, in float32.
- transformers 5.23 ties T5's output to its embedding, whatever the configuration says; T5 1.1 was released untied.

## What the comparison corrected

- ALBERT: its norms have an eps of 1e-12, and the GELU of its output is the approximation by tanh, as in its MLPs.

## Where an installed reference is wrong

Each is shown by a test ([of most](../../tests/peers/test_defects.py), [of
streams](../../tests/peers/test_hyper_connections.py)), which fails when a later version is repaired; another shows
what ours does.

- x-transformers, `orthog_residual=True`: the projection takes all positions as one vector, so a causal decoder sees the
  future. [orthogonal](gallery.md#orthogonal) projects position by position; for one position they are equal.
- x-transformers, `mv_split_residual=True`: the mean over the sequence, in a causal decoder too. Our `mean` says that it
  sees all positions, and a causal stack refuses it.
- x-transformers, `num_residual_streams=4`: the mixing matrix is all ones, so each sublayer multiplies the streams by
  their number: a million times in six layers.
- hyper-connections, `num_fracs=4`: at first the parts of a stream whose branch is 0 become parts 1, 1, 2 and 4 of it.
  [frac-connections](gallery.md#frac-connections) starts with each part for itself.
- transformers, `ReformerModelWithLMHead`: the output's bias is a parameter that nothing adds. What nothing reads, ours
  refuses.
- PyTorch, `nn.Transformer`: a last norm also where every layer ends with one. In ours `after` is what is written there.
"""


def number(value: float | None) -> str:
    """1 digit of it; "-": not measured."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:.0e}".replace("e-0", "e-")


def row(case: Case, compared: Compared) -> str:
    """One case: name, reference, differences, what was done."""
    name = f"[{case.entry}](gallery.md#{case.entry})" if case.entry else case.name
    decoding, gradients = (number(off) for off in (compared.decoding, compared.gradients))
    if compared.decoding is not None and not compared.they_decoded:
        decoding += "\\*"
    measured = f"{number(compared.whole)} | {decoding} | {gradients}"
    return f"| {name} | {case.package} {case.version} | `{case.reference}` | {measured} | {case.note} |"


def table(title: str, first: str, rows: Iterable[str]) -> list[str]:
    """A heading and its table."""
    columns = [first, "package", "reference", "one pass", "decoding", "gradients", "for the comparison"]
    head = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    return ["", f"## {title}", "", *head, *rows]


def page() -> str:
    """docs/reference/checked-against.md, measured now."""
    measured = {}
    for name, case in cases().items():
        measured[name] = row(case, case.compare())
        print(name, file=sys.stderr)
    entries = sorted((case.entry, name) for name, case in cases().items() if case.entry)
    rows = [OPENING]
    rows += table("Entries of the gallery", "entry", (measured[name] for _, name in entries))
    rows += table("Other models", "model", (measured[name] for name, case in cases().items() if not case.entry))
    return "\n".join([*rows, "", CLOSING])


def write_keys() -> None:
    """The key `checked_against` of every entry that is compared, below its `equation`."""
    for name in {case.entry for case in cases().values() if case.entry}:
        path = FOLDER / f"{name}.yaml"
        rows = [r for r in path.read_text(encoding="utf-8").splitlines() if not r.startswith("  checked_against:")]
        place = next(n for n, row in enumerate(rows) if row.startswith("  equation:"))
        said = held(name)
        assert ": " not in said and " #" not in said, f"{name}: YAML reads {said!r} otherwise"
        rows.insert(place + 1, f"  checked_against: {said}")
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    PAGE.write_text(page(), encoding="utf-8")
    write_keys()
    print(f"wrote {PAGE}", file=sys.stderr)
