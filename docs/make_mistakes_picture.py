"""Draw docs/explanation/scores-by-width.svg: how sharply attention looks, by how its scores are scaled."""

from __future__ import annotations

from pathlib import Path

import torch

from transformula.figure import DASHES, SERIES, new_figure, svg_of

FILE = Path(__file__).parent / "explanation" / "scores-by-width.svg"
SIZE, KEYS, HEADS = 64, 8, (1, 2, 4, 8, 16, 32)


def largest_weight(scale: float) -> float:
    """The mean of the largest of `KEYS` weights, in percent, of queries and keys whose entries vary by 1."""
    torch.manual_seed(0)
    q, k = torch.randn(20_000, SIZE), torch.randn(20_000, KEYS, SIZE)
    scores = scale * torch.einsum("nc,nkc->nk", q, k)
    return 100 * float(scores.softmax(-1).max(-1).values.mean())


def main() -> None:
    by_head = [largest_weight(SIZE**-0.5)] * len(HEADS)
    by_width = [largest_weight((SIZE * heads) ** -0.5) for heads in HEADS]
    with new_figure(6.2, 3.4) as (figure, axes):
        for values, name, color, dash in zip(
            (by_head, by_width, [100 / KEYS] * len(HEADS)),
            ("scaled by a head's size", "scaled by the width", "equal weights: a plain mean"),
            SERIES, DASHES, strict=False,
        ):  # fmt: skip
            axes.plot(HEADS, values, dash, color=color, label=name, marker="o" if dash != "-." else "")
        axes.set(xscale="log", xlabel=f"heads, of {SIZE} channels each", ylabel=f"largest of {KEYS} weights, %")
        axes.set_ylim(0, 45)
        axes.set_xticks(HEADS, list(map(str, HEADS)))
        axes.minorticks_off()
        axes.legend(frameon=False)
        FILE.write_text(svg_of(figure), encoding="utf-8")


if __name__ == "__main__":
    main()
