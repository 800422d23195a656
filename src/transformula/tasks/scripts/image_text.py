"""Vectors of texts and of pictures: python predict.py "three seven", or the name of a picture (.png, .jpg, .jpeg), or a
line of standard input each. It needs Pillow for pictures."""

import numpy

from .runtime import answer_all, encode_row, pipeline, program, read_picture

model = program("model")
blank = numpy.full(pipeline["picture"], -1, numpy.float32)  # what is read beside a text


def answer(given):
    is_picture = given.lower().endswith(tuple(pipeline["suffixes"]))
    image, text = (read_picture(given), "") if is_picture else (blank, given)
    output = model({"image": [image], **encode_row([text])})["image_vector" if is_picture else "text_vector"]
    return " ".join(f"{number:.6g}" for number in output[0, 0])


if __name__ == "__main__":
    answer_all(answer)
