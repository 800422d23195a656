"""Goes on with a text, greedily: python predict.py "The cat", or a prompt a line of standard input."""

from .runtime import about, answer_all, generate, ids_of, pipeline, program, text_of

model = program("model")


def answer(prompt):
    ids = pipeline["before"] + ids_of(prompt) if prompt else pipeline["empty"]
    room = (about["context"] or len(ids) + pipeline["max_tokens"]) - len(ids) + 1
    return text_of(generate(model, ids, min(pipeline["max_tokens"], room)))


if __name__ == "__main__":
    answer_all(answer)
