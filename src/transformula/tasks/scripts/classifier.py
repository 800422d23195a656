"""Labels of texts, pictures or sounds: python predict.py "A fine film.", or three.png, or yes.wav; or a text, or the
name of a file, a line of standard input. Pairs of texts have a tab between; pictures need Pillow, sounds soundfile.

An answer is the label (of several, all that are given), and behind a tab its probability."""

from .runtime import answer_all, encode_row, label_of, pipeline, program, read_picture, read_sound

model = program("model")


def answer(given):
    if "picture" in pipeline:
        row = {"image": [read_picture(given)]}
    elif "rate" in pipeline:
        row = {"audio": [read_sound(given)]}
    else:
        row = encode_row(given.split("\t") if pipeline["pair"] else [given])
    logits, *_ = model(row).values()
    return label_of(logits[0, 0])


if __name__ == "__main__":
    answer_all(answer)
