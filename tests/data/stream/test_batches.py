"""Batches of a stream are a function of (seed, step): exact at every stop, whatever was read before."""

import json
from pathlib import Path

import numpy as np
import pytest

from transformula.data.stream.batches import StreamedWindows
from transformula.data.stream.documents import StreamText, hold_out, short_digest
from transformula.data.stream.shards import FileShards
from transformula.errors import CheckpointError, ConfigError, DataError
from transformula.tokenizers.base import tokenizers

BYTES = tokenizers.get("bytes").train(())


def shards(folder: Path, count: int = 12, rows: int = 9) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        texts = [f"<{number}.{row}>" + "x" * ((number * 7 + row * 5) % 23) for row in range(rows)]
        lines = [json.dumps({"text": text}) for text in ["", *texts]]  # an empty document is none
        (folder / f"{number:03}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def windows(
    folder: Path, batch: int = 3, accumulate: int = 2, seed: int = 1, skip: bool = False, shuffle: int = 1
) -> StreamedWindows:
    text = StreamText(FileShards(str(folder)), skip, shuffle)
    return StreamedWindows([text], [1.0], BYTES, 16, batch, accumulate, seed)


def steps(stream: StreamedWindows, numbers: range) -> np.ndarray:
    return np.stack([stream.step(number) for number in numbers])


@pytest.mark.parametrize("shuffle", [1, 4, 100])
def test_ten_stops_go_on_exactly(shuffle: int, tmp_path: Path) -> None:
    """40 steps are several epochs of these shards."""
    folder = shards(tmp_path / "a")
    whole = steps(windows(folder, shuffle=shuffle), range(40))
    for stop in np.random.default_rng(3).choice(np.arange(1, 40), 10, replace=False).tolist():
        first = windows(folder, shuffle=shuffle)
        assert (steps(first, range(stop)) == whole[:stop]).all()
        second = windows(folder, shuffle=shuffle)
        second.put(first.tensors())
        assert (steps(second, range(stop, 40)) == whole[stop:]).all()


def test_any_step_can_be_asked_for_again_and_out_of_order(tmp_path: Path) -> None:
    folder = shards(tmp_path / "a")
    whole, stream = steps(windows(folder), range(12)), windows(folder)
    for number in (5, 5, 6, 0, 11, 2, 3):
        assert (stream.step(number) == whole[number]).all()
    inputs, targets = stream.at(7, 1)
    assert (inputs.numpy() == whole[7][3:, :-1]).all() and (targets.numpy() == whole[7][3:, 1:]).all()


def test_micro_batches_do_not_change_the_rows_of_a_step_and_seeds_do(tmp_path: Path) -> None:
    folder = shards(tmp_path / "a")
    one, other = windows(folder, 6, 1), windows(folder, 2, 3)
    assert (steps(one, range(5)) == steps(other, range(5))).all()
    assert (steps(one, range(5)) != steps(windows(folder, 6, 1, seed=2), range(5))).any()


def test_an_epoch_reads_each_document_once(tmp_path: Path) -> None:
    """The readers' windows, joined, are the tokens of all shards, in an order of the seed's."""
    folder = shards(tmp_path / "a", count=5)
    stream = windows(folder, 1, 1)
    (reader,) = stream.readers[0]
    text = StreamText(FileShards(str(folder)))
    whole = [ids for name in text.source.names for _, ids in text.tokens(BYTES, name)]
    size = sum(map(len, whole))
    read = reader.window(size + 1)[:-1]
    assert sorted(read.tolist()) == sorted(np.concatenate(whole).tolist())
    assert reader.state == (1, 0, 0, 0)
    assert bytes(BYTES.decode(read), "utf-8").count(b"<") == 45


def test_rows_are_shuffled_within_blocks_in_an_order_of_the_epoch(tmp_path: Path) -> None:
    folder = shards(tmp_path / "a", count=1, rows=23)
    source = FileShards(str(folder))
    (shard,), plain = source.names, [text for _, text in StreamText(source).documents(source.names[0])]
    text = StreamText(source, shuffle=10)

    def read(start: int, *keys: int) -> list[tuple[int, str]]:
        return list(text.shuffled(shard, start, keys))

    whole = read(0, 1, 2)
    texts = [document for _, document in whole]
    assert sorted(texts) == sorted(plain) and texts != plain
    ends = [9, 19, 23]  # row 0 is empty
    for first, end in zip([0, *ends], ends, strict=False):
        assert sorted(texts[first:end]) == sorted(plain[first:end]) and texts[first:end] != plain[first:end]
    assert texts != [document for _, document in read(0, 1, 3)] and whole == read(0, 1, 2)
    for place, _ in whole:
        assert read(place, 1, 2) == [one for one in whole if one[0] >= place]
    stream = windows(folder, 1, 1, shuffle=10)
    ((reader,),) = stream.readers
    size = sum(len(document) + 1 for document in plain) + 1
    epochs = [bytes(BYTES.decode(reader.window(size + 1)[:-1]), "utf-8") for _ in range(2)]
    assert epochs[0] != epochs[1] and all(epoch.count(b"<") == 23 for epoch in epochs)
    assert reader.state == (2, 0, 0, 0)


def test_a_mixture_has_its_weights_and_is_exact_too(tmp_path: Path) -> None:
    texts = [StreamText(FileShards(str(shards(tmp_path / name)))) for name in "ab"]

    def mixed() -> StreamedWindows:
        return StreamedWindows(texts, [3, 1], BYTES, 16, 8, 1, 5)

    stream = mixed()
    share = np.mean([stream.sources(step) == 0 for step in range(500)])
    assert 0.72 < share < 0.78
    whole = steps(stream, range(12))
    again = mixed()
    again.put({name: tensor for name, tensor in stream.tensors().items()})
    assert (again.step(11) == whole[11]).all() and (again.step(4) == whole[4]).all()


def test_bad_shards_end_the_run_or_are_left_out_and_counted(tmp_path: Path) -> None:
    folder = shards(tmp_path / "a")
    (folder / "002.jsonl").write_text('{"text": "fine"}\n{"text": ')
    (folder / "005.jsonl").write_bytes(b"")
    (folder / "007.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"00[257].jsonl.*bad_shards=skip"):
        steps(windows(folder), range(60))
    stream = windows(folder, skip=True)
    whole = steps(stream, range(60))
    bad = {Path(name).stem: reason for reader in stream.readers[0] for name, reason in reader.text.bad.items()}
    assert sorted(bad) == ["002", "005", "007"]
    assert all(f"{name}.jsonl" in reason for name, reason in bad.items())
    again = windows(folder, skip=True)
    again.put(stream.tensors())
    assert (again.step(59) == whole[59]).all()


def test_data_with_no_document_ends_and_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(DataError, match="no documents to train on"):
        windows(tmp_path).step(0)


def test_a_checkpoint_of_other_rows_is_refused(tmp_path: Path) -> None:
    folder = shards(tmp_path / "a")
    with pytest.raises(CheckpointError, match="6 readers, and this run has 4"):
        windows(folder, 4, 1).put(windows(folder).tensors())
    with pytest.raises(ConfigError, match="epochs"):
        windows(folder).steps(2)


def test_what_is_held_out_trains_nowhere(tmp_path: Path) -> None:
    folder = shards(tmp_path / "a")
    (folder / "copies.jsonl").write_text((folder / "000.jsonl").read_text())
    text = StreamText(FileShards(str(folder)))
    held = hold_out([text], 0.3, most=120)
    assert held and all(short_digest(document) < 0.3 * 2**64 for document in held)
    trained = [document for name in text.source.names for _, document in text.documents(name)]
    assert not set(trained) & set(held)
    assert len(trained) + sum(1 + (name in set(held) and name.startswith("<0.")) for name in held) == 13 * 9
