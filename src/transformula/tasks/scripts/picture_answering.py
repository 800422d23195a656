"""Answers questions about pictures, greedily: a question a line of standard input (or an argument), behind a tab the
name of a picture's file. Pictures need Pillow."""

from .runtime import answer_all, encode_row, generate, pipeline, program, read_picture, text_of

model, start = program("model"), program("start")


def answer(line):
    question, name = line.split("\t", 1)
    prompt = [pipeline["marker"]] * pipeline["places"] + list(encode_row([question])["tokens"][0])
    most = min(pipeline["max_tokens"], (pipeline["positions"] or len(prompt) + pipeline["max_tokens"]) - len(prompt))
    return text_of(generate(model, prompt, most, start({"image": [read_picture(name)]})))


if __name__ == "__main__":
    answer_all(answer)
