"""Texts for pictures, greedily: python predict.py cat.png, or the name of a file a line of standard input. It needs
Pillow."""

from .runtime import answer_all, capitalized, decoded, pictured, writer

write = writer()


def answer(name):
    return capitalized(decoded(write({"image": [pictured(name)]})))


if __name__ == "__main__":
    answer_all(answer)
