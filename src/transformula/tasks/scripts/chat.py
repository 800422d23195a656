"""Replies, greedily: python predict.py "Hello.", or a message a line of standard input. A line may be a whole dialogue:
[{"role": "user", "content": "Hello."}, ...]"""

import json

from .runtime import answer_all, cut, decoded, generated, pipeline, program, tokenizer

model = program("model")


def turn(message):
    """The ids before a message, and all of it, its end included."""
    ids = tokenizer.encode(message["content"], add_special_tokens=False).ids
    return len(pipeline["roles"][message["role"]]), [*pipeline["roles"][message["role"]], *ids, pipeline["end"]]


def answer(line):
    messages = json.loads(line) if line.startswith('[{"') else [{"role": "user", "content": line}]
    messages = [message for message in messages if message["content"].strip()]
    if not messages:
        return ""
    begun = next((n for n, message in enumerate(messages) if message["role"] != "system"), 0)
    first = [number for message in messages[:begun] for number in turn(message)[1]]
    mark, kept = pipeline["roles"]["assistant"], []
    room = pipeline["context"] - pipeline["max_tokens"] - len(mark) - len(first)
    for before, ids in map(turn, reversed(messages[begun:])):
        cut.append(len(ids) > room)  # the oldest messages are left out, and of a long one the last part is read alone
        if len(ids) > room and (kept or room <= before + 1):
            break
        kept = [*(ids if len(ids) <= room else [*ids[:before], *ids[before - room :]]), *kept]
        room -= len(ids)
    if not kept:
        raise SystemExit(f"a reply of {pipeline['max_tokens']} tokens leaves no room for the dialogue")
    return decoded(generated(model, [pipeline["end"], *first, *kept, *mark], pipeline["max_tokens"]))


if __name__ == "__main__":
    answer_all(answer)
