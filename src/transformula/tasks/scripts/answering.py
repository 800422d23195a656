"""Answers questions from texts: a question a line of standard input (or an argument), behind a tab the text.

An answer is a part of the text, or nothing, and behind a tab its probability."""

import numpy

from .runtime import answer_all, ids_with_places, pipeline, program

model = program("model")


def answer(line):
    question, text = line.split("\t", 1)
    (asked, _), (ids, places) = ids_with_places(question), ids_with_places(text)
    before, between, after = pipeline["marks"]
    room = pipeline["most"] - len(before + between + after) - min(len(ids), pipeline["most"] // 2)
    asked = asked[:room] if asked or before else [0]  # at position 0 stands that there is no answer
    head = [*before, *([number, pipeline["types"][0]] for number in asked), *between]
    size, best, none = pipeline["most"] - len(head) - len(after), (0.0, ""), 1.0
    for first in range(0, max(1, len(ids) - size + pipeline["stride"]), pipeline["stride"]):
        part = [[number, pipeline["types"][1]] for number in ids[first : first + size]]
        tokens, types = zip(*head, *part, *after, strict=True)
        logits, *_ = model({"tokens": [tokens], "types": [types]}).values()
        logits = numpy.concatenate([logits[0, :1], logits[0, len(head) : len(head) + len(part)]]).astype(float)
        nats = logits - numpy.logaddexp.reduce(logits, 0)
        none = min(none, numpy.exp(nats[0].sum()))
        for one in range(len(part)):
            for end in range(one, min(one + pipeline["longest"], len(part))):
                score = numpy.exp(nats[1 + one, 0] + nats[1 + end, 1])
                span = text[places[first + one][0] : places[first + end][1]].strip()
                best = max(best, (score, span), key=lambda pair: pair[0] if pair[1] else 0)
    if not best[1] or (pipeline["unanswerable"] and none * numpy.exp(-pipeline["threshold"]) > best[0]):
        best = none, ""
    return f"{best[1]}\t{best[0]:.4f}"


if __name__ == "__main__":
    answer_all(answer)
