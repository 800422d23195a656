"""VQA's two files: questions about pictures, and what ten people answered (Antol et al. 2015, Goyal et al. 2017).

{"data_subtype": "train2014", "questions": [{"image_id": 458752, "question": ..., "question_id": 458752000}]}
{"annotations": [{"question_id": 458752000, "answers": [{"answer": ...}], "multiple_choice_answer": ...,
  "question_type": ...}]}

The pictures lie in a folder under COCO's names: train2014/COCO_train2014_000000458752.jpg.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..format import Row, place_of
from .squad import part

QUESTIONS, ANNOTATIONS = "questions", "annotations"
SPLIT = re.compile(r"(train|val|test-dev|test)(\d{4})")
FORMS = ("OpenEnded_", "MultipleChoice_")  # in the names of files of questions, and in none of annotations
TRIED = 20  # pictures by which their folder is found
ANSWERED = ("question_type", "answer_type")  # what an annotation says beside answers

Read = Callable[[Path], Any]


def is_vqa(content: Any) -> bool:
    return isinstance(content, dict) and any(isinstance(content.get(key), list) for key in (QUESTIONS, ANNOTATIONS))


def vqa_rows(content: Mapping[str, Any], path: Path, read: Read, met: Counter[str]) -> Iterator[Row]:
    """A row for each question: `id`, `image` (the name of its picture), `question`, and where a file of annotations
    lies beside it `answer`, `answers` and `question_type`. `met` counts what has no partner, and is left out.

    Raises DataError for a part that is missing or of another kind, for an id that stands twice, for two files of which
    no question is in both, and where no pictures are found.
    """
    if QUESTIONS not in content:
        other = beside(path, ANNOTATIONS, QUESTIONS, "")
        if other is None:
            raise DataError(f"holds annotations, and no file of their {QUESTIONS} lies beside it", path=path)
        path, content = other, read(other)
    questions = by_id(content, QUESTIONS, path)
    split = split_of(content, path)
    answers = beside(path, QUESTIONS, ANNOTATIONS, split)
    annotations = None if answers is None else by_id(read(answers), ANNOTATIONS, answers)
    if annotations is not None:
        both = len(questions.keys() & annotations.keys())
        if not both:
            raise DataError(f"no question_id of its {len(questions):,} questions is in {answers}", path=path)
        unmatched = {"questions have no annotation": len(questions), "annotations have no question": len(annotations)}
        for what, count in unmatched.items():
            if count > both:
                met[f"{{n}} {what}, and are left out"] += count - both
    named = names_of(path, split, [each.get("image_id") for each in list(questions.values())[:TRIED]])
    for number, (key, each) in enumerate(questions.items(), 1):
        at = f"question {number}"
        row = {"id": key, "image": named(part(each, "image_id", (int, str), place_of(path, at)))}
        row["question"] = part(each, "question", str, place_of(path, at))
        if annotations is None:
            yield at, row
        elif key in annotations:
            yield at, {**row, **answered(annotations[key], f"{answers}: the annotation of question {key}")}


def answered(annotation: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The columns of an annotation."""
    texts = [part(one, "answer", str, place) for one in part(annotation, "answers", list, place)]
    if not texts:
        raise DataError(f"{place} has no answer; expected a list of objects with 'answer'")
    usual = annotation.get("multiple_choice_answer") or Counter(texts).most_common(1)[0][0]
    said = {key: str(annotation[key]) for key in ANSWERED if annotation.get(key)}
    return {"answer": str(usual), "answers": texts, **said}


def by_id(content: Any, key: str, path: Path) -> dict[Any, dict[str, Any]]:
    """The entries of a list by their question_id. Raises DataError for one that stands twice."""
    found: dict[Any, dict[str, Any]] = {}
    for number, each in enumerate(part(content, key, list, str(path)), 1):
        place = place_of(path, f"{key.removesuffix('s')} {number}")
        name = part(each, "question_id", (int, str), place)
        if name in found:
            raise DataError(f"{place}: the question_id {name} stands here again; take one of the two out")
        found[name] = each
    return found


def split_of(content: Mapping[str, Any], path: Path) -> str:
    """The split of COCO whose pictures are asked about: "train2014"; "" where nothing says it."""
    said = str(content.get("data_subtype") or "")
    found = SPLIT.search(said) or SPLIT.search(path.name)
    return found[0].replace("-dev", "") if found else said


def beside(path: Path, key: str, other: str, split: str) -> Path | None:
    """The file of the other kind beside a file: of its own name, but for what says the kind; or the only one of that
    split. None for none. Raises DataError where several may be meant."""

    def stem(name: str) -> str:
        for form in FORMS:
            name = name.replace(form, "")
        return name

    files = sorted(each for each in path.parent.glob(f"*{other}*{path.suffix}") if each != path)
    same = [each for each in files if stem(each.name) == stem(path.name).replace(key, other)]
    found = same or [each for each in files if split in each.name]
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise DataError(f"several files beside it may hold its {other}: {names}; leave one there", path=path)
    return found[0] if found else None


def names_of(path: Path, split: str, images: Sequence[Any]) -> Callable[[Any], str]:
    """What the file of a picture is called, seen from `path`, by its image_id. Raises DataError where none of some is
    found."""
    base, images = path.parent, images or [0]
    inside = (split, f"images/{split}", "images")
    folders = dict.fromkeys([*(root / name for root in (base, base.parent) for name in inside), base])
    numbered = (f"COCO_{split}_{{:0>12}}.jpg", "{:0>12}.jpg", f"abstract_v002_{split}_{{:0>12}}.png")
    for folder in folders:
        for pattern in (*numbered, "{}.jpg", "{}.png"):
            if any((folder / pattern.format(image)).is_file() for image in images):
                return partial(picture_name, Path(os.path.relpath(folder, base)), pattern)
    looked = ", ".join(map(str, folders))
    what = f"its pictures are not found: expected files such as {numbered[0].format(images[0])}"
    raise DataError(f"{what} in one of {looked}", path=path)


def picture_name(folder: Path, pattern: str, image: Any) -> str:
    return str(folder / pattern.format(image))
