"""`transformula cache`: what was prepared from data, and clearing it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .options import Given, Parser
from .output import as_json

WHAT = """\
Tokens, tokenizers and baselines are made from data once and kept; everything in the cache can be made again.
It lies in ~/.cache/transformula, or where TRANSFORMULA_CACHE says."""

EXAMPLES = ["transformula cache", "transformula cache clear"]


def make_parser(_: Sequence[str]) -> Parser:
    """Its options."""
    parser = Parser("cache", WHAT, EXAMPLES, "[ACTION]")
    parser.add_argument("action", nargs="?", choices=("list", "clear"), default="list", help="(default: list)")
    return parser


def run(given: Given) -> int:
    """List the cache, or empty it."""
    from ..data.cache import cache_folder, cached, clear_cache

    folder = str(cache_folder())
    if given["action"] == "clear":
        freed = clear_cache()
        print(as_json({"folder": folder, "freed": freed}) if given["json"] else f"{folder}: {size(freed)} freed")
        return 0
    entries = cached()
    if given["json"]:
        rows = [
            {"kind": e.kind, "key": e.key, "bytes": e.bytes, "made": e.made, "about": e.about, "path": str(e.path)}
            for e in entries
        ]
        print(as_json({"folder": folder, "entries": rows}))
        return 0
    for entry in entries:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.made))
        about = ", ".join(f"{key}: {value}" for key, value in entry.about.items() if isinstance(value, (str, int)))
        print(f"{size(entry.bytes):>10}  {made}  {entry.kind:<10} {about}")
    print(f"{size(sum(e.bytes for e in entries)):>10}  in {folder}; empty it by: transformula cache clear")
    return 0


def size(count: int) -> str:
    """Bytes as a person reads them: '3.2 MB'."""
    for unit, worth in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= worth:
            return f"{count / worth:.1f} {unit}"
    return f"{count} B"
