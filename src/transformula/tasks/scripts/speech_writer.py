"""Transcripts of sounds: python predict.py left.wav; or the name of a file a line of standard input. Needs soundfile.

An answer is written greedily, token by token. A sound is read whole."""

import re

import numpy

from .runtime import answer_all, pipeline, read_sound, text_of, writer

write = writer()
TIME = re.compile(r"<\|\d+\.\d\d\|>")  # as Whisper may write it


def answer(given):
    wave = read_sound(given)
    if pipeline["padded"]:
        if len(wave) > pipeline["padded"]:
            raise SystemExit(f"{given}: is longer than the {pipeline['padded'] / pipeline['rate']:g} s that are heard")
        wave = numpy.pad(wave, (0, pipeline["padded"] - len(wave)))
    return " ".join(TIME.sub("", text_of(write({"audio": [wave]}))).split())


if __name__ == "__main__":
    answer_all(answer)
