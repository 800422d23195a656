"""Labels of texts: python predict.py "A fine film.", or a text a line of standard input; of pairs, with a tab between.

An answer is the label (of several, all that are given), and behind a tab its probability."""

from .runtime import answer_all, encode_row, label_of, pipeline, program

model = program("model")


def answer(text):
    logits, *_ = model(encode_row(text.split("\t") if pipeline["pair"] else [text])).values()
    return label_of(logits[0, 0])


if __name__ == "__main__":
    answer_all(answer)
