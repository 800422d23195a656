"""A family of models held to transformers: `check_family`."""

from __future__ import annotations

import tempfile
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cost.words import bytes_in_words
from ..errors import CheckpointError
from ..plain import several
from .reading import import_packages, path_of

if TYPE_CHECKING:
    from ..interop.named.entries import NamedModel

MAX_BYTES = 64 * 2**20  # of weights whose folder is opened again for each change of its config.json
WIDTH = 112


@dataclass(frozen=True)
class FamilyRow:
    """What was looked at, whether it holds, and what was seen."""

    what: str
    holds: bool
    seen: str


@dataclass(frozen=True, repr=False)
class FamilyCheck:
    """What holds of a family, folder by folder. Its `repr` is what a person reads, `.data` is for programs."""

    family: str
    file: str
    folders: Mapping[str, Sequence[FamilyRow]]

    @property
    def holds(self) -> bool:
        return all(row.holds for rows in self.folders.values() for row in rows)

    @property
    def data(self) -> dict[str, Any]:
        folders = {name: list(map(asdict, rows)) for name, rows in self.folders.items()}
        return {"family": self.family, "file": self.file, "holds": self.holds, "folders": folders}

    def __repr__(self) -> str:
        shown = [f"{'family':<10}{self.file}"]
        for name, rows in self.folders.items():
            shown += ["", f"{'folder':<10}{name}"]
            for row in rows:
                lines = [part for line in row.seen.splitlines() for part in textwrap.wrap(line, WIDTH)]
                shown.append(f"{row.what:<10}{'' if row.holds else 'NOT: '}{lines[0]}")
                shown += [f"{'':<10}{line}" for line in lines[1:]]
        return "\n".join([*shown, "", "all of it holds" if self.holds else "not all of it holds: see NOT"])


def check_family(
    family: str | Path, folders: str | Path | Sequence[str | Path], *, changes: bool = True, padded: bool = True,
    use: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> FamilyCheck:  # fmt: skip
    """Hold a family's data file to transformers: the same results of folders, written back bit for bit, and each change
    of a key of config.json computed alike or refused.

        check_family("mine.yaml", "tiny-folder")

    family    its data file, or the name of a family that is known
    folders   folders of such models; a config.json, or a folder with no more, gets drawn weights
    changes   also change each key of config.json
    padded    compare rows of different lengths; False where the model of transformers reads its padding
    use       packages of words, or with the class of such models where transformers has none
    progress  is called with the changes that are done, and all

    Raises CheckpointError for a mistake in the data file, for a folder of another family, and for one that transformers
    does not open; MissingExtra where transformers is not installed.
    """
    from ..interop.named.entries import named_model
    from ..interop.named.outside import add_family
    from ..structured import is_yaml

    import_packages(use)
    name = add_family(path_of(family, "family")) if is_yaml(str(family)) else str(family)
    model, found = named_model(name), {}
    for folder in several(folders):
        with tempfile.TemporaryDirectory() as work, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quiet_transformers()
            check = FolderCheck(model, path_of(folder, "folders"), Path(work), use, padded)
            found[str(folder)] = [*check.rows(changes, progress)]
    return FamilyCheck(name, str(family), found)


def quiet_transformers() -> None:
    """Let transformers say nothing while it opens hundreds of folders."""
    from ..extras import need

    transformers = need("transformers", "a comparison with transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


class FolderCheck:
    """A folder and what holds of it. `work` is an empty folder."""

    def __init__(self, model: NamedModel, given: Path, work: Path, use: Sequence[str], padded: bool) -> None:
        from ..interop.folder import load_model
        from ..interop.named import FILE
        from ..interop.named.config import model_of_folder
        from ..interop.parity.calls import call_of
        from ..interop.parity.theirs import TheirClass, write_drawn

        given = given.expanduser()
        folder = given.parent if given.name == FILE else given
        own, _ = model_of_folder(folder)
        if own is not model:
            what = f"{folder / FILE}: is a model of {own.name}, by its model_type and architectures, not {model.name}"
            raise CheckpointError(f"{what}; name that family, or a folder of this one")
        self.model, self.work, self.drawn = model, work, not any(folder.glob("*.safetensors"))
        self.theirs = TheirClass.of(folder, use)
        if self.drawn:
            write_drawn(self.theirs, folder, work / "drawn")
            folder = work / "drawn"
        self.folder = folder
        self.bytes = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        import torch

        self.float32: Any = load_model(folder, dtype=torch.float32)[0]
        self.call = call_of(folder, self.float32, self.theirs.load(folder), padded)

    def rows(self, changes: bool, progress: Callable[[int, int], None] | None) -> Iterator[FamilyRow]:
        import torch

        for dtype in (torch.float32, torch.float64):
            yield from self.compared(dtype)
        yield self.checked("written", self.written)
        yield self.checked("by text", self.by_text)
        if changes:
            yield self.checked("changes", partial(self.changed, progress))

    def checked(self, what: str, check: Callable[[], str]) -> FamilyRow:
        """What a check has seen; where it does not hold, it raises ValueError, or an error of ours, or whatever the
        model of transformers raises."""
        try:
            return FamilyRow(what, True, check())
        except (ValueError, CheckpointError) as error:
            return FamilyRow(what, False, str(error))
        except Exception as error:  # of code that is not ours
            said = str(error).strip().splitlines() or [""]
            return FamilyRow(what, False, f"raises {type(error).__name__}: {said[0]}")

    def compared(self, dtype: Any) -> Iterator[FamilyRow]:
        """Results of both, and the decoding of ours."""
        import torch

        from ..interop.folder import load_model
        from ..interop.parity.compare import LIMITS, compare, decoding_off, same_greedy

        name, limit = str(dtype).removeprefix("torch."), LIMITS[dtype]
        ours = self.float32 if dtype == torch.float32 else load_model(self.folder, dtype=dtype)[0]
        theirs = self.theirs.load(self.folder, dtype)

        def within(apart: float, words: str) -> str:
            said = f"{apart:.0e} apart{words}; the limit is {limit:.0e}"
            if not apart <= limit:
                raise ValueError(said)
            return said

        def greedy() -> str:
            if not same_greedy(self.call, ours, theirs):
                raise ValueError("transformers finds other tokens the most likely ones")
            return "the same tokens"

        padded = ", rows of different lengths" if self.call.masks else ""
        words = f"{padded}{', drawn weights' if self.drawn else ''}"
        yield self.checked(name, lambda: within(compare(self.call, ours, theirs, dtype), words))
        if self.call.writes(ours):
            yield self.checked("decoding", lambda: within(decoding_off(ours, self.call, dtype), " from whole passes"))
            if dtype == torch.float32:
                yield self.checked("greedy", greedy)

    def written(self) -> str:
        """The folder written back, tensor by tensor."""
        import torch

        from ..interop.folder import convert
        from ..interop.named.reading import is_left_out, present_name
        from ..interop.named.shards import Shards

        before, after = Shards(self.folder), Shards(convert(self.folder, self.work / "again", write="transformers"))
        own, again = (
            {present_name(name): name for name in shards if not is_left_out(self.model, present_name(name))}
            for shards in (before, after)
        )
        if names := sorted(own.keys() ^ again.keys()):
            where = "lacks" if names[0] in own else "has, and should not,"
            raise ValueError(f"the folder that is written {where} {names[0]}, and {len(names) - 1} more")
        for name in own:
            if not torch.equal(before[own[name]], after[again[name]]):
                raise ValueError(f"{name} is another after reading and writing")
        return f"the same {len(own)} tensors bit for bit"

    def by_text(self) -> str:
        """What a trained model would be written as: its text alone says which family it is."""
        from ..interop.named.matching import match

        name = match(self.float32.architecture).model.name
        return f"its text alone is written as {'this family' if name == self.model.name else name}"

    def changed(self, progress: Callable[[int, int], None] | None) -> str:
        """Every key of config.json changed."""
        from ..interop.parity.mutations import FINE, Mutated, changes

        if self.bytes > MAX_BYTES:
            size = bytes_in_words(self.bytes)
            return f"not made: the folder has {size}; give a small one, or a config.json of small sizes"
        mutated = Mutated(self.theirs, self.call, self.folder, self.work / "changed")
        every = changes(mutated.config)
        outcomes = {}
        for number, change in enumerate(every, 1):
            outcomes[str(change)] = mutated.outcome(change)
            if progress is not None:
                progress(number, len(every))
        wrong = [f"{change}: {outcome}" for change, outcome in outcomes.items() if outcome not in FINE]
        counts = Counter(outcomes.values())
        said = f"{len(every)} of config.json: {counts['equal']} equal, {counts['refused']} refused"
        said += f", {counts['theirs fails']} that transformers does not open"
        if wrong:
            raise ValueError("\n".join([f"{said}, {len(wrong)} wrong:", *wrong]))
        return said
