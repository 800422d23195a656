"""Writes a text for a text, greedily: python predict.py "Zwei Hunde.", or a text a line of standard input."""

import unicodedata
from itertools import takewhile

from .runtime import answer_all, capitalize, encode_row, open_tokenizer, pipeline, text_of, writer

write = writer()
reader = open_tokenizer(pipeline["reader"])


def spell(text):
    """A source without capitals, where the model was trained so: all of it, or its first word."""
    if pipeline["spelling"]["lower"] == "first":
        word = "".join(takewhile(lambda sign: sign in "_\u200c\u200d" or unicodedata.category(sign)[0] in "LMN", text))
        return " " + (text[0].lower() + text[1:] if word and word[1:] == word[1:].lower() else text)
    return " " + text.lower() if pipeline["spelling"]["lower"] == "all" else text


def answer(text):
    if not text.strip():
        return ""
    ids = list(encode_row([spell(text)], reader)["tokens"][0])
    return capitalize(text_of(write({"source": [ids]})))


if __name__ == "__main__":
    answer_all(answer)
