"""Writes a text for a text, greedily: python predict.py "Zwei Hunde.", or a text a line of standard input."""

import unicodedata
from itertools import takewhile

from tokenizers import Tokenizer

from .runtime import about, answer_all, decoded, encoded, folder, generated, pipeline, program

model = program("model")
start = program("start") if "start" in about["programs"] else None
reader = Tokenizer.from_file(str(folder / pipeline["reader"]))
reader.encode_special_tokens = True


def spelled(text):
    """A source without capitals, where the model was trained so: all of it, or its first word."""
    if pipeline["spelling"]["lower"] == "first":
        word = "".join(takewhile(lambda sign: sign in "_\u200c\u200d" or unicodedata.category(sign)[0] in "LMN", text))
        return " " + (text[0].lower() + text[1:] if word and word[1:] == word[1:].lower() else text)
    return " " + text.lower() if pipeline["spelling"]["lower"] == "all" else text


def answer(text):
    if not text.strip():
        return ""
    ids = list(encoded([spelled(text)], reader)["tokens"][0])
    prompt, fixed = (pipeline["begin"], start({"source": [ids]})) if start else (ids, {})
    room = (about["context"] or len(prompt) + pipeline["max_tokens"]) - len(prompt)
    written = decoded(generated(model, prompt, min(pipeline["max_tokens"], room), fixed))
    if pipeline["spelling"]["lower"] == "none":
        return written
    written = written.removeprefix(" ")
    return written[:1].upper() + written[1:]


if __name__ == "__main__":
    answer_all(answer)
