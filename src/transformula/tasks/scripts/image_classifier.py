"""Labels of pictures: python predict.py three.png, or the name of a file a line of standard input.

An answer is the label, and behind a tab its probability. It needs Pillow."""

from .runtime import answer_all, labeled, pictured, program

model = program("model")


def answer(name):
    logits, *_ = model({"image": [pictured(name)]}).values()
    return labeled(logits[0, 0])


if __name__ == "__main__":
    answer_all(answer)
