"""Vectors of texts: python predict.py "Two dogs.", or a text a line of standard input. Of two texts with a tab between,
the answer is the cosine of their vectors."""

import numpy

from .runtime import answer_all, encode_row, program

model = program("model")


def answer(text):
    vectors = []
    for part in text.split("\t"):
        output, *_ = model(encode_row([part])).values()
        vectors.append(output[0, 0])
    if len(vectors) == 1:
        return " ".join(f"{number:.6g}" for number in vectors[0])
    one, other = (vector / numpy.linalg.norm(vector) for vector in vectors)
    return f"{one @ other:.4f}"


if __name__ == "__main__":
    answer_all(answer)
