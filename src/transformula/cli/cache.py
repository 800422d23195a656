"""`transformula cache`: what was prepared from data, and clearing it."""

from __future__ import annotations

import time

from .options import Given, Parser

WHAT = """\
Tokens, tokenizers and baselines are made from data once and kept; everything in the cache can be made again.
It lies in ~/.cache/transformula, or where TRANSFORMULA_CACHE says."""

EXAMPLES = ["transformula cache", "transformula cache clear"]


def make_parser(*_: str) -> Parser:
    parser = Parser("cache", WHAT, EXAMPLES, "[ACTION]")
    parser.add_argument("action", nargs="?", choices=("list", "clear"), default="list", help="(default: list)")
    return parser


def run(given: Given) -> int:
    from ..data.cache import cache_folder, cached, clear_cache

    folder = str(cache_folder())
    if given["action"] == "clear":
        freed = clear_cache()
        return given.show(f"{folder}: {size(freed)} freed", {"folder": folder, "freed": freed})
    entries, rows = cached(), []
    for entry in entries:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.made))
        about = ", ".join(f"{key}: {value}" for key, value in entry.about.items() if isinstance(value, (str, int)))
        rows.append(f"{size(entry.bytes):>10}  {made}  {entry.kind:<10} {about}")
    rows.append(f"{size(sum(e.bytes for e in entries)):>10}  in {folder}; empty it by: transformula cache clear")
    keys = ("kind", "key", "bytes", "made", "about", "path")
    data = [{key: getattr(entry, key) for key in keys} for entry in entries]
    return given.show("\n".join(rows), {"folder": folder, "entries": data})


def size(count: int) -> str:
    """Bytes as a person reads them: '3.2 MB'."""
    for unit, worth in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= worth:
            return f"{count / worth:.1f} {unit}"
    return f"{count} B"
