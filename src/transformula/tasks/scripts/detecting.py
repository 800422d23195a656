"""Puts brackets around what seems to be replaced: python predict.py "The cat sat.", or a text a line of standard
input."""

from itertools import groupby

from .runtime import answer_all, ids_of, outer_marks, pipeline, program, text_of

model = program("model")


def answer(text):
    before, after = outer_marks()
    ids = [*before, *ids_of(text), *after]
    logits = model({"source": [[0]], "tokens": [ids]})["replaced"][0, :, 0]  # the generator's input is not looked at
    real = [pair for pair in zip(ids, logits, strict=True) if pair[0] not in pipeline["never"]]
    parts = ((replaced, text_of([id for id, _ in run])) for replaced, run in groupby(real, lambda pair: pair[1] > 0))
    return "".join(f"[{part}]" if replaced else part for replaced, part in parts)


if __name__ == "__main__":
    answer_all(answer)
