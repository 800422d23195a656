"""N-grams: a distribution, and the one of the equation."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from transformula.data.corpus import read_corpus
from transformula.data.splits import split_corpus
from transformula.tasks.ngram import MAX_ORDER, KneserNey, _discounts, byte_ngrams, byte_stream, grams_of

ORDERS = range(1, MAX_ORDER + 1)
TEXT = b"the cat sat on the mat, and the dog sat on the cat; that is that. " * 3 + b"an other end of the tale"


def gram(context: bytes, last: int) -> int:
    return int.from_bytes((context + bytes([last]))[-MAX_ORDER:], "big")


@pytest.mark.parametrize("text", [TEXT, b"a", b"\0\0\0", b"abababab", bytes(range(256)) * 2])
@pytest.mark.parametrize("context", [b"", b"the c", b"cat s", b"\xff\xfe\xfd\xfc\xfb", b"ababa", b"  the"])
def test_probabilities_of_all_bytes_sum_to_one(text, context):
    model = KneserNey(text)
    found = model.probabilities(np.array([gram(context, w) for w in range(256)], dtype=np.uint64), list(ORDERS))
    for order in ORDERS:
        assert found[order].shape == (256,) and (found[order] > 0).all()
        assert abs(found[order].sum() - 1) < 1e-12


def by_the_book(text: bytes, order: int, context: bytes, last: int) -> float:
    """The equation, with dictionaries."""
    padded = b"\0" * (MAX_ORDER - 1) + text

    def counts(n: int, highest: bool) -> Counter:
        positions = range(MAX_ORDER - 1, len(padded))
        if highest:
            return Counter(padded[i + 1 - n : i + 1] for i in positions)
        return Counter(g[1:] for g in {padded[i - n : i + 1] for i in positions})

    def p(n: int, h: bytes) -> float:
        if n == 0:
            return 1 / 256
        c = counts(n, n == order)
        d = _discounts(np.array(list(c.values())))
        h = h[len(h) - (n - 1) :]
        after = {g[-1]: k for g, k in c.items() if g[:-1] == h}
        if not after:
            return p(n - 1, h[1:])
        total = sum(after.values())
        back = sum(d[min(k, 3)] for k in after.values()) / total
        k = after.get(last, 0)
        return (k - d[min(k, 3)]) / total + back * p(n - 1, h[1:])

    return p(order, (b"\0" * MAX_ORDER + context)[-MAX_ORDER:])


@pytest.mark.parametrize("order", ORDERS)
def test_equal_to_the_equation(order):
    model = KneserNey(TEXT)
    for context, last in [
        (b"the ", ord("c")),
        (b"sat o", ord("n")),
        (b"zzzzz", ord("a")),
        (b"the c", ord("z")),
        (b"", 116),
    ]:
        found = model.probabilities(np.array([gram(context, last)], dtype=np.uint64), [order])[order][0]
        assert found == pytest.approx(by_the_book(TEXT, order, context, last), rel=1e-12)


def test_discounts_lie_within_their_counts():
    for counts in ([1], [1, 1, 2], [3, 3, 3], [1] * 50 + [2] * 5 + [3] * 40 + [4] * 2, [1, 2, 3, 4, 5, 100]):
        found = _discounts(np.array(counts))
        assert found[0] == 0 and all(0 < found[k] < k for k in (1, 2, 3))


def test_nats_do_not_depend_on_the_parts_that_are_read(monkeypatch):
    model = KneserNey(TEXT)
    text = b"the dog sat on the other cat " * 40_000
    assert len(text) > 1_000_000
    grams = grams_of(text)
    for order, nats in model.nats(text).items():
        assert nats == pytest.approx(-np.log(model.probabilities(grams, [order])[order]).sum(), rel=1e-9)


def test_grams_hold_the_bytes_before():
    assert [hex(g) for g in grams_of(b"abc").tolist()] == ["0x61", "0x6162", "0x616263"]
    assert grams_of(b"0123456789")[-1] == int.from_bytes(b"456789", "big")


def test_ends_of_documents_are_predicted():
    streams = [b"".join(byte_stream(["é", "b"], whole)) for whole in (True, False)]
    assert streams == [b"\xc3\xa9\0b\0", b"\xc3\xa9b"]
    with_ends, without = byte_ngrams(["aaaa"] * 50, ["aaaa"], True), byte_ngrams(["aaaa"] * 50, ["aaaa"], False)
    assert without[6] < with_ends[6] < 0.5


def test_seen_text_is_cheap_and_strange_text_is_not():
    model = KneserNey(TEXT)
    seen, strange = model.nats(TEXT)[6] / len(TEXT), model.nats(b"\x80\x90" * 50)[6] / 100
    assert seen < 1 and strange > math.log(200)


@pytest.mark.slow
def test_on_python_docs():
    split = split_corpus(read_corpus("python-docs"))
    found = byte_ngrams(split.training, split.validation, split.whole)
    bits = [found[order] / math.log(2) for order in (3, 4, 5, 6)]
    assert bits == sorted(bits, reverse=True) and 2.5 < bits[0] < 3.2 and 1.6 < bits[3] < 2.2


def test_brute_force_counts_agree():
    """Continuation counts of the lower levels, from sets."""
    model = KneserNey(TEXT)
    before = defaultdict(set)
    padded = b"\0" * 5 + TEXT
    for i in range(5, len(padded)):
        before[padded[i - 1 : i + 1]].add(padded[i - 2])
    level = model._lower[2]
    assert len(level.grams) == len(before)
    by_context = Counter()
    for pair, contexts in before.items():
        by_context[pair[0]] += len(contexts)
    assert dict(zip(level.contexts.tolist(), level.total.tolist(), strict=True)) == dict(by_context)
