"""A tag for each word: python predict.py "The cat.", or a text a line of standard input. An answer: The/DET cat/NOUN"""

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from .runtime import answer_all, best_path, ids_of, outer_marks, pipeline, program

model = program("model")
split = Split(Regex(pipeline["word"]), "removed", invert=True)  # all but the words is removed


def spell(words):
    """The bytes of each word, counted from 1."""
    rows = [[byte + 1 for byte in word.encode()[: pipeline["letters"]]] for word in words]
    return [[row + [0] * (max(map(len, rows)) - len(row)) for row in rows]]


def answer(text):
    words, tags = [word for word, _ in split.pre_tokenize_str(text)], []
    before, after = outer_marks()
    cased = [pipeline["word_start"] + (word.lower() if pipeline["lower"] else word) for word in words]
    room = pipeline["most"] - len(before + after)
    pieces = [ids_of(word)[:room] or [pipeline["unknown"]] for word in cased]
    while len(tags) < len(words):  # a text that is too long is read in parts
        ids, places = [*before], []
        for piece in pieces[len(tags) :]:
            if len(ids + piece) > len(before) + room:
                break
            places.append(len(ids))
            ids += piece
        part = words[len(tags) : len(tags) + len(places)]
        logits, *_ = model({"tokens": [ids + after], "characters": spell(part)}).values()
        tags += [pipeline["labels"][number] for number in best_path(logits[0, places], len(pipeline["labels"]))]
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))


if __name__ == "__main__":
    answer_all(answer)
