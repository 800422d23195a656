"""The programs of this folder, and how texts become ids; predict.py has what is done with them."""

import json
import sys
from pathlib import Path

import numpy

folder = Path(__file__).parent
pipeline, about = (json.loads((folder / name).read_text("utf-8")) for name in ("pipeline.json", "programs.json"))
cut = []  # of each text, or of several in a row, whether its end was not read


def open_tokenizer(name):
    """What makes ids of texts, which may hold the names of special tokens; None where the model reads no texts."""
    if not (folder / name).is_file():
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / name))
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()  # what is cut is counted here
    return tokenizer


tokenizer = open_tokenizer("tokenizer.json")


def open_program(path):
    """What runs a file, on arrays in the order of its inputs."""
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path)
        return lambda inputs: session.run(None, inputs)
    import torch

    module = torch.export.load(path).module()
    return lambda inputs: [output.detach().numpy() for output in module(*map(torch.from_numpy, inputs.values()))]


def program(name):
    """A program: inputs by name, with one row each -> outputs by name. What it keeps (`state`) is nothing at first."""
    ports, run = about["programs"][name], open_program(folder / about["programs"][name]["file"])

    def value(port, given):
        key, sizes = port["name"], [{"batch": 1, "past": 0}.get(size, size) for size in port["shape"]]
        if key in about["state"] and key not in given:
            return numpy.zeros(sizes, port["dtype"])
        value = given[key] if key in given else [len(given[key.removesuffix("_lengths")][0])]
        return numpy.array(value, port["dtype"])

    def outputs(given):
        arrays = run({port["name"]: value(port, given) for port in ports["inputs"]})
        return {port["name"]: array for port, array in zip(ports["outputs"], arrays, strict=True)}

    return outputs


def ids_of(text, tokenizer=tokenizer):
    """The ids of a text, without marks."""
    return tokenizer.encode(text, add_special_tokens=False).ids


def outer_marks():
    """The ids before a text that is read alone, and those after it."""
    return ([number for number, _ in mark] for mark in pipeline["marks"])


def encode_row(texts, tokenizer=tokenizer):
    """Texts as one row of ids, with the marks around them. Where they are too long together, the longest is cut."""
    parts = [ids_of(text.lower() if pipeline["lower"] else text, tokenizer) for text in texts]
    marks, row = pipeline["marks"], []  # ids with their types, before each text and after the last
    whole = sum(map(len, parts))
    while sum(map(len, parts + marks)) > (pipeline["most"] or numpy.inf) and max(map(len, parts)) > 1:
        max(parts, key=len).pop()
    cut.append(sum(map(len, parts)) < whole)
    for mark, ids, kind in zip(marks[:-1], parts, pipeline["types"], strict=True):
        row += mark + [[number, kind] for number in ids]
    ids, types = zip(*(row + marks[-1] or [[0, 0]]), strict=True)
    return {"tokens": [ids], "types": [types]}


def generate(model, prompt, most, fixed=()):
    """Greedy decoding: the most probable id after those of a prompt, then after it, up to an end, or so many; none that
    pipeline.json rules out, always or as the first."""
    ids, chunk, kept = [], prompt, dict(fixed)
    never, first = pipeline.get("never", []), pipeline.get("never_first", [])
    while len(ids) < most:
        outputs = model({**kept, "tokens": [chunk]})
        kept |= {name.removeprefix("next."): array for name, array in outputs.items()}
        logits = numpy.array(outputs.get("logits", next(iter(outputs.values())))[0, -1])
        logits[never + ([] if ids else first)] = -numpy.inf
        chunk = [int(logits.argmax())]
        if chunk[0] in pipeline["ends"]:
            break
        ids += chunk
    return ids


def writer():
    """What writes the ids of a target, greedily, for a source by its name: its ids with their marks, or a picture."""
    if about["programs"]["model"]["file"].endswith(".bin"):
        return translator()
    model, start = program("model"), program("start") if "start" in about["programs"] else None

    def write(source):
        prompt, fixed = (pipeline["begin"], start(source)) if start else (source["source"][0], {})
        room = (about["context"] or len(prompt) + pipeline["max_tokens"]) - len(prompt)
        return generate(model, prompt, min(pipeline["max_tokens"], room), fixed)

    return write


def translator():
    """The same of a folder of CTranslate2, which takes tokens by name and puts the marks around a source itself."""
    import ctranslate2

    def names(side):
        files = (folder / f"{name}_vocabulary.json" for name in (side, "shared"))
        return json.loads(next(file for file in files if file.is_file()).read_text("utf-8"))

    model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    source, target = names("source"), names("target")
    number, (before, after) = {name: number for number, name in enumerate(target)}, map(len, pipeline["marks"])

    def write(given):
        (ids,) = given["source"]
        words = [source[number] for number in ids[before : len(ids) - after]]
        most = min(pipeline["max_tokens"], about["context"] - 1)
        limits = {"max_decoding_length": most, "min_decoding_length": 0, "max_input_length": 0}
        return [number[name] for name in model.translate_batch([words], beam_size=1, **limits)[0].hypotheses[0]]

    return write


def latest(turns, room, whole=False):
    """The latest turns, (ids in its mark, ids), that fit; of a single one that does not, the last part, unless it is to
    be whole."""
    kept = []
    for before, ids in reversed(turns):
        if len(ids) > room:
            part = [] if kept or whole or room <= before + 1 else [(before, [*ids[:before], *ids[before - room :]])]
            return part + kept
        kept, room = [(before, ids), *kept], room - len(ids)
    return kept


def text_of(ids):
    """The text of ids, without special tokens."""
    text = tokenizer.decode([number for number in ids if number < pipeline["vocab"]], skip_special_tokens=True)
    for sign in pipeline["cleaned"]:
        text = text.replace(sign, sign.strip())
    return text


def ids_with_places(text):
    """The ids of a text, and the characters of each."""
    cased = "".join(c.lower() if len(c.lower()) == 1 else c for c in text) if pipeline["lower"] else text
    encoding = tokenizer.encode(cased, add_special_tokens=False)
    return encoding.ids, encoding.offsets


def label_of(logits):
    """The label of a row (of several, all that are given), and behind a tab its probability."""
    if pipeline["several"]:
        scores = numpy.exp(-numpy.logaddexp(0, -logits))
        labels = [pipeline["labels"][n] for n in numpy.flatnonzero(scores >= pipeline["threshold"])]
        return f"{', '.join(labels)}\t{numpy.maximum(scores, 1 - scores).min():.4f}"
    scores = numpy.exp(logits - logits.max())
    return f"{pipeline['labels'][scores.argmax()]}\t{scores.max() / scores.sum():.4f}"


def best_path(y, n):
    """The numbers of the tags of the highest sum (Viterbi), of numbers for tags (words, n), or for pairs of neighbors
    (words, n * n)."""
    y = numpy.repeat(y, n, 0).reshape(-1, n, n) if y.shape[1] == n else y.reshape(-1, n, n)
    if pipeline["moves"]:  # a row for each tag, and for the beginning; in it a column for each next tag, and the end
        never = numpy.array([list(row) for row in pipeline["moves"]]) == "0"
        y[1:, never[:n, :n]] = y[:1, :, never[n, :n]] = y[-1:, :, never[:n, n]] = -1e9
    score, arrows = y[0, 0], []
    for each in y[1:]:
        arrows.insert(0, (score[:, None] + each).argmax(0))
        score = (score[:, None] + each).max(0)
    path = [score.argmax()]
    for arrow in arrows:
        path.insert(0, arrow[path[0]])
    return path


def read_picture(name):
    """The picture of a file as the model reads it, (channels, height, width), turned as the camera says: by the steps
    of pipeline.json, else from -1 to 1, on white where it is transparent."""
    from PIL import Image, ImageOps

    (channels, *size), steps = pipeline["picture"], pipeline.get("steps")
    image = ImageOps.exif_transpose(Image.open(name))
    if image.mode.startswith("I") or image.mode == "F":  # 16 bits: Pillow would clip them at 255
        shades = (numpy.asarray(image, dtype=float) / 257).round().clip(0, 255)
        image = Image.fromarray(shades.astype(numpy.uint8))
    if steps is None and (image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info):
        gray, front = image.mode == "LA", image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", front.size, "white"), front).convert("L" if gray else "RGB")
    image = image.convert("L" if channels == 1 else "RGB")
    if steps is not None:
        from picture_steps import picture_numbers

        return picture_numbers(image, steps)
    array = numpy.array(image)
    array = array[None] if channels == 1 else array.transpose(2, 0, 1)
    if list(array.shape[1:]) != size:
        raise SystemExit(f"{name}: has {array.shape[1:]} pixels (height, width), and the model reads {tuple(size)}")
    return array.astype(numpy.float32) / numpy.float32(127.5) - 1


def read_sound(name):
    """The samples of a file as the model reads them: one channel, at its rate, with silence after a very short one."""
    import soundfile
    from sound_steps import resampled

    values, rate = soundfile.read(name, dtype="float32", always_2d=True)
    wave = resampled(values.mean(axis=1), rate, pipeline["rate"])
    if pipeline["normalized"]:
        wave = (wave - wave.mean()) / numpy.sqrt(wave.var() + numpy.float32(1e-7))
    return numpy.pad(wave, (0, max(0, pipeline["least"] - len(wave))))


def capitalize(text):
    """What is written, with a capital where the model was trained without."""
    if pipeline["spelling"]["lower"] == "none":
        return text
    text = text.removeprefix(" ")
    return text[:1].upper() + text[1:]


def answer_all(answer):
    """Print the answer to each argument, or to each line of standard input; at the end, how many texts were cut."""
    sys.stdin.reconfigure(encoding="utf-8")
    for line in sys.argv[1:] or sys.stdin:
        print(answer(line.removesuffix("\n")), flush=True)
    if any(cut):
        what = f"{sum(cut)} of {len(cut)} texts are longer than the {pipeline['most']} tokens that the model reads"
        print(f"note: {what}; the rest was not read", file=sys.stderr)
