"""Labels of texts: python predict.py "A fine film.", or a text a line of standard input; of pairs, with a tab between.

An answer is the label (of several, all that are given), and behind a tab its probability."""

import numpy

from .runtime import answer_all, encoded, pipeline, program

model = program("model")


def answer(text):
    logits, *_ = model(encoded(text.split("\t") if pipeline["pair"] else [text])).values()
    if pipeline["several"]:
        scores = numpy.exp(-numpy.logaddexp(0, -logits[0, 0]))
        labels = [pipeline["labels"][n] for n in numpy.flatnonzero(scores >= pipeline["threshold"])]
        return f"{', '.join(labels)}\t{numpy.maximum(scores, 1 - scores).min():.4f}"
    scores = numpy.exp(logits[0, 0] - logits.max())
    return f"{pipeline['labels'][scores.argmax()]}\t{scores.max() / scores.sum():.4f}"


if __name__ == "__main__":
    answer_all(answer)
