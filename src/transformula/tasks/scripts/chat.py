"""Replies, greedily: python predict.py "Hello.", or a message a line of standard input. A line may be a whole dialogue:
[{"role": "user", "content": "Hello."}, ...]"""

import json

from .runtime import answer_all, cut, generate, ids_of, latest, pipeline, program, text_of

model = program("model")


def said(message):
    """What a message says: its content, then each call of a tool on a line."""
    lines = [message.get("content") or ""]
    for call in message.get("tool_calls") or []:
        arguments = call["function"].get("arguments") or {}
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        called = {"name": call["function"]["name"], "arguments": arguments}
        lines.append(f"<tool_call>{json.dumps(called, ensure_ascii=False)}</tool_call>")
    return "\n".join(filter(None, lines))


def turn(message):
    """The ids before a message, and all of it, its end included."""
    ids = ids_of(said(message))
    return len(pipeline["roles"][message["role"]]), [*pipeline["roles"][message["role"]], *ids, pipeline["end"]]


def answer(line):
    messages = json.loads(line) if line.startswith('[{"') else [{"role": "user", "content": line}]
    messages = [message for message in messages if said(message).strip()]
    if not messages:
        return ""
    begun = next((n for n, message in enumerate(messages) if message["role"] != "system"), 0)
    first = [number for message in messages[:begun] for number in turn(message)[1]]
    turns, mark, (reply, least) = list(map(turn, messages[begun:])), pipeline["roles"]["assistant"], pipeline["room"]
    room = pipeline["context"] - len(mark) - len(first)
    last = latest(turns[-1:], room - least)
    if not last:
        raise SystemExit(f"a reply of {reply} tokens leaves no room for the dialogue")
    kept = [*latest(turns[:-1], room - reply - len(last[0][1]), whole=True), *last]
    cut.append(kept != turns)  # the oldest messages are left out, and of a long last one the last part is read alone
    prompt = [pipeline["end"], *first, *(number for _, ids in kept for number in ids), *mark]
    return text_of(generate(model, prompt, min(pipeline["max_tokens"], pipeline["context"] + 1 - len(prompt))))


if __name__ == "__main__":
    answer_all(answer)
