"""Writes a text for a text, or for a picture, greedily: python predict.py "Zwei Hunde.", or cat.png; or a text, or the
name of a file, a line of standard input. Pictures need Pillow."""

import unicodedata
from itertools import takewhile

from .runtime import answer_all, capitalize, encode_row, open_tokenizer, pipeline, read_picture, text_of, writer

write = writer()
reader = open_tokenizer(pipeline["reader"])


def spell(text):
    """A source without capitals, where the model was trained so: all of it, or its first word."""
    if pipeline["spelling"]["lower"] == "first":
        word = "".join(takewhile(lambda sign: sign in "_\u200c\u200d" or unicodedata.category(sign)[0] in "LMN", text))
        return " " + (text[0].lower() + text[1:] if word and word[1:] == word[1:].lower() else text)
    return " " + text.lower() if pipeline["spelling"]["lower"] == "all" else text


def answer(given):
    if not given.strip():
        return ""
    if pipeline["picture"]:
        return capitalize(text_of(write({"image": [read_picture(given)]})))
    ids = list(encode_row([spell(given)], reader)["tokens"][0])
    return capitalize(text_of(write({"source": [ids]})))


if __name__ == "__main__":
    answer_all(answer)
