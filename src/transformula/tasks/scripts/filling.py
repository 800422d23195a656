"""Fills the gaps of a text: python predict.py "The [MASK] sat.", or a text a line of standard input."""

import numpy

from .runtime import answer_all, ids_of, outer_marks, pipeline, program, text_of

model = program("model")


def answer(text):
    before, after = outer_marks()
    *parts, last = text.split(pipeline["sign"])
    ids = [*before]
    for part in parts:
        part = part.removesuffix(" ") if pipeline["blank"] else part  # what fills a gap begins with the blank
        ids += [*ids_of(part), pipeline["mask"]]
    ids += [*ids_of(last), *after]
    logits, *_ = model({"tokens": [ids], "types": [[0] * len(ids)]}).values()
    logits = logits[0, :, : pipeline["vocab"]]
    logits[:, pipeline["never"]] = -numpy.inf
    return text_of([best if id == pipeline["mask"] else id for id, best in zip(ids, logits.argmax(1), strict=True)])


if __name__ == "__main__":
    answer_all(answer)
