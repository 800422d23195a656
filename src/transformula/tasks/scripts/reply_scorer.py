"""The number of a reply: python predict.py with a message, a tab and the reply to it, or such a line of standard input.
A line may be a whole dialogue that ends with the reply: [{"role": "user", "content": "Hello."}, ...]"""

import json
from itertools import takewhile

from .runtime import answer_all, cut, ids_of, latest, pipeline, program

model = program("model")


def turn(message):
    """How many ids stand before a message, and all of its ids, its end included."""
    ids = ids_of(message["content"].strip())
    return len(pipeline["roles"][message["role"]]), [*pipeline["roles"][message["role"]], *ids, pipeline["end"]]


def size(turns):
    """How many ids there are."""
    return sum(len(ids) for _, ids in turns)


def answer(line):
    if line.startswith('[{"'):
        messages = json.loads(line)
    else:
        prompt, _, reply = line.partition(pipeline["separator"])
        messages = [{"role": "user", "content": prompt}, {"role": pipeline["replies"], "content": reply}]
    asked = [message for message in messages[:-1] if message["content"].strip()]
    turns, (_, reply), most = list(map(turn, asked)), turn(messages[-1]), pipeline["most"] - 1
    room = max(most - len(reply), most // 2)
    before = turns
    if size(turns) > room:
        first = turns[: sum(1 for _ in takewhile(lambda message: message["role"] == "system", asked))]
        first = first if 2 * size(first) <= room else []
        before = [*first, *latest(turns[len(first) :], room - size(first))]
    cut.append(before != turns or len(reply) > most - size(before))
    ids = [pipeline["end"], *(number for _, part in before for number in part), *reply[: most - size(before)]]
    return f"{next(iter(model({'tokens': [ids]}).values()))[0, -1, 0]:.4f}"


if __name__ == "__main__":
    answer_all(answer)
