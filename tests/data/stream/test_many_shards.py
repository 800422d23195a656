"""2,000 shards, three of them bad: their order, stops anywhere in them, and which are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from benchmarks.streaming import BAD, make_shards, spoil
from transformula.data.stream.batches import StreamedWindows
from transformula.data.stream.documents import StreamText
from transformula.data.stream.shards import FileShards
from transformula.errors import DataError
from transformula.tokenizers.base import tokenizers

pytest.importorskip("pyarrow")

STEPS = 130  # more than an epoch


def windows(source: FileShards, batch: int, accumulate: int, skip: bool = True) -> StreamedWindows:
    text = StreamText(source, skip)
    return StreamedWindows([text], [1.0], tokenizers.get("bytes").train(()), 512, batch, accumulate, seed=7)


@pytest.mark.slow
def test_two_thousand_shards(tmp_path: Path) -> None:
    paths = make_shards(tmp_path / "shards", rows=3, words=20)
    for how in ("cut", "damaged"):
        spoil(paths[BAD[how]], how)
    source = FileShards(str(tmp_path / "shards"))
    spoil(paths[BAD["removed"]], "removed")  # after it was listed
    whole, parts, cut = windows(source, 16, 1), windows(source, 2, 8), windows(source, 4, 4)
    kept: dict[int, np.ndarray] = {}
    places: dict[int, dict[str, Tensor]] = {}
    stops = np.random.default_rng(5).choice(np.arange(1, STEPS - 5), 10, replace=False).tolist()
    for step in range(STEPS):
        kept[step] = whole.step(step)
        rows = [parts.at(step, micro)[0] for micro in range(8)]
        assert (np.concatenate(rows) == kept[step][:, :-1]).all(), "micro-batches, of one rank or of several"
        if step in stops:
            cut.step(step - 1)
            places[step] = cut.tensors()
    assert min(reader.place[0] for reader in whole.readers[0]) >= 1, "an epoch"
    for stop, place in places.items():
        again = windows(source, 8, 2)
        again.put(place)
        assert all((again.step(step) == kept[step]).all() for step in range(stop, stop + 4))
    named = whole.texts[0].bad
    assert sorted(Path(name).name for name in named) == sorted(paths[number].name for number in BAD.values())
    assert all(paths[number].name in named[str(paths[number])] for number in BAD.values())
    told = [text for step in range(STEPS) for text in whole.news(step)]
    assert len(told) == 3 and told[2].startswith("bad shard 3, left out: ")
    with pytest.raises(DataError, match=r"(000411|001357|001890)\.parquet.*bad_shards=skip"):
        strict = windows(source, 16, 1, skip=False)
        for step in range(STEPS):
            strict.step(step)
