"""Transcripts of sounds: python predict.py left.wav; or the name of a file a line of standard input. Needs soundfile.

An answer is the best path of CTC: repeats are merged, and blanks (0) left out. A sound is read whole."""

from itertools import groupby

from .runtime import answer_all, pipeline, program, read_sound

model = program("model")


def answer(given):
    logits, *_ = model({"audio": [read_sound(given)]}).values()
    ids = [number for number, _ in groupby(logits[0].argmax(-1).tolist()) if number]
    return " ".join("".join(pipeline["symbols"][number - 1] for number in ids).split())


if __name__ == "__main__":
    answer_all(answer)
