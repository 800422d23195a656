"""Labels of pictures: python predict.py three.png, or the name of a file a line of standard input.

An answer is the label, and behind a tab its probability. It needs Pillow."""

from .runtime import answer_all, label_of, program, read_picture

model = program("model")


def answer(name):
    logits, *_ = model({"image": [read_picture(name)]}).values()
    return label_of(logits[0, 0])


if __name__ == "__main__":
    answer_all(answer)
