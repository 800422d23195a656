"""Learning curves of a race as small pictures, drawn without matplotlib: a search has hundreds of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..figure import DARK, INK, MUTED, SERIES

WIDTH, HEIGHT, BELOW = 300, 110, 18  # pixels of a picture, and of the line of words below it
MOST = 60  # points of a curve
Curve = Sequence[tuple[float, float]]  # (share of the run, loss)


def thinned(points: Sequence[tuple[float, float]]) -> Curve:
    """A run's losses by the share of the run; of many points some, each the mean of its neighbors."""
    if not points:
        return ()
    end, size = points[-1][0] or 1.0, -(-len(points) // MOST)
    parts = [points[n : n + size] for n in range(0, len(points), size)]
    return [(sum(x for x, _ in part) / len(part) / end, sum(y for _, y in part) / len(part)) for part in parts]


def drawn_curves(name: str, own: Curve, base: Curve) -> str:
    """A wiring's curve (colored) beside the base's (gray) at the same cost, as SVG that is dark where the page is."""
    values = [loss for curve in (own, base) for _, loss in curve]
    low, high = min(values), max(values)
    spread = (high - low) or 1.0

    def path(curve: Curve) -> str:
        return " ".join(f"{x * WIDTH:.1f},{(high - y) / spread * (HEIGHT - 4) + 2:.1f}" for x, y in curve)

    colors = {"own": SERIES[0], "base": MUTED, "words": INK}
    lines = "".join(
        f'<polyline class="{kind}" fill="none" stroke="{colors[kind]}" stroke-width="1.5" points="{path(curve)}"/>'
        for kind, curve in (("base", base), ("own", own))
    )
    dark = "".join(f".{kind}{{stroke:{DARK[colors[kind]]}}}" for kind in ("own", "base"))
    style = f"@media (prefers-color-scheme: dark){{{dark}text{{fill:{DARK[INK]}}}}}"
    words = f"loss in training, {high:.3g} to {low:.3g}: {name} colored, the base gray"
    whole = HEIGHT + BELOW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{whole}" viewBox="0 0 {WIDTH} {whole}">'
        f"<style>{style}</style>{lines}"
        f'<text y="{whole - 5}" font-family="sans-serif" font-size="10" fill="{INK}">{escape(words)}</text></svg>'
    )
