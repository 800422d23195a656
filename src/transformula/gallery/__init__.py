"""The gallery: wirings and whole models, each one text file with its paper. No code but the reader.

    from transformula import gallery

    gallery.names()                  # ["attention-residuals", "b2t", ...]
    gallery.entry("pre-norm").text   # its ModelText
    gallery.search("dropout skip")   # entries that have all the words

A new wiring is one new file in `entries/`; see docs/how-to/add-a-wiring.md.
"""

from .reader import KINDS, Entry, entries, entry, index, indexed, load, names, near_words, relatives, search

__all__ = ["KINDS", "Entry", "entries", "entry", "index", "indexed", "load", "names"]
__all__ += ["near_words", "relatives", "search"]
