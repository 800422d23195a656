"""Texts for pictures, greedily: python predict.py cat.png, or the name of a file a line of standard input. It needs
Pillow."""

from .runtime import answer_all, capitalize, read_picture, text_of, writer

write = writer()


def answer(name):
    return capitalize(text_of(write({"image": [read_picture(name)]})))


if __name__ == "__main__":
    answer_all(answer)
