"""What the model in a folder does: its predictor, read from the folder alone."""

from __future__ import annotations

from pathlib import Path

from ..errors import CheckpointError, InputError, UnknownName, setting
from ..structured import load_json
from ..tokenizers.base import FILE as TOKENIZER
from .generating import TextGenerator
from .predictor import FILE, Predictor, predictors
from .writing import FILE as PAIRS
from .writing import Writing


def load_predictor(folder: Path) -> Predictor | None:
    """What the model in a folder does; None for a model that was never trained on a task.

    Raises CheckpointError for a damaged file, InputError for a predictor of a package that was not imported.
    """
    path = folder / FILE
    if not path.is_file():  # the two oldest kinds are known by their own files
        if (folder / PAIRS).is_file():
            return Writing.load(folder)
        return TextGenerator.load(folder) if (folder / TOKENIZER).is_file() else None
    try:
        about = load_json(path)
        return predictors.get(str(about["predictor"])).load(folder)
    except UnknownName:
        package = str(about.get("package", ""))
        raise InputError(
            f"{folder}: what this model does is said by the package {package!r}, and a file that is loaded imports"
            f" nothing: add {setting('use', package)}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: damaged ({type(error).__name__}); copy it again") from None
