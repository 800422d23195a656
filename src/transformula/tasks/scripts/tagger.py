"""A tag for each word: python predict.py "The cat.", or a text a line of standard input. An answer: The/DET cat/NOUN"""

import numpy
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from .runtime import answer_all, pipeline, program, tokenizer

model = program("model")
split = Split(Regex(pipeline["word"]), "removed", invert=True)  # all but the words is removed


def best(y, n):
    """The tags of the highest sum (Viterbi), of numbers for tags (words, n), or pairs of neighbors (words, n * n)."""
    y = numpy.repeat(y, n, 0).reshape(-1, n, n) if y.shape[1] == n else y.reshape(-1, n, n)
    if pipeline["moves"]:  # a row for each tag, and for the beginning; in it a column for each next tag, and the end
        never = numpy.array([list(row) for row in pipeline["moves"]]) == "0"
        y[1:, never[:n, :n]] = y[:1, :, never[n, :n]] = y[-1:, :, never[:n, n]] = -1e9
    score, arrows = y[0, 0], []
    for each in y[1:]:
        arrows.insert(0, (score[:, None] + each).argmax(0))
        score = (score[:, None] + each).max(0)
    path = [score.argmax()]
    for arrow in arrows:
        path.insert(0, arrow[path[0]])
    return [pipeline["labels"][number] for number in path]


def spelled(words):
    """The bytes of each word, counted from 1."""
    rows = [[byte + 1 for byte in word.encode()[: pipeline["letters"]]] for word in words]
    return [[row + [0] * (max(map(len, rows)) - len(row)) for row in rows]]


def answer(text):
    words, tags = [word for word, _ in split.pre_tokenize_str(text)], []
    before, after = ([number for number, _ in mark] for mark in pipeline["marks"])
    cased = [pipeline["word_start"] + (word.lower() if pipeline["lower"] else word) for word in words]
    room = pipeline["most"] - len(before + after)
    pieces = [tokenizer.encode(word, add_special_tokens=False).ids[:room] or [pipeline["unknown"]] for word in cased]
    while len(tags) < len(words):  # a text that is too long is read in parts
        ids, places = [*before], []
        for piece in pieces[len(tags) :]:
            if len(ids + piece) > len(before) + room:
                break
            places.append(len(ids))
            ids += piece
        part = words[len(tags) : len(tags) + len(places)]
        logits, *_ = model({"tokens": [ids + after], "characters": spelled(part)}).values()
        tags += best(logits[0, places], len(pipeline["labels"]))
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))


if __name__ == "__main__":
    answer_all(answer)
