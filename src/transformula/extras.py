"""Optional packages, asked for by name where they are first needed."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType

from .errors import MissingExtra

EXTRAS = {  # import name of each optional package -> the extra of ours that installs it
    "argcomplete": "completion",
    "babel": "cldr",
    "ctranslate2": "ctranslate2",
    "datasets": "hub",
    "gguf": "gguf",
    "llguidance": "serve",
    "mcp": "mcp",
    "mlflow": "mlflow",
    "defusedxml": "documents",
    "lxml": "documents",
    "openpyxl": "documents",
    "pypdf": "documents",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "prometheus_client": "serve",
    "pyarrow": "parquet",
    "ray": "ray",
    "sacrebleu": "translation",
    "scipy": "compare",
    "sentencepiece": "unigram",
    "sklearn": "baselines",
    "soundfile": "sound",
    "starlette": "serve",
    "statsmodels": "compare",
    "submitit": "slurm",
    "tensorboard": "tensorboard",
    "torchinfo": "torchinfo",
    "trackio": "trackio",
    "transformers": "transformers",
    "uvicorn": "serve",
    "wandb": "wandb",
}

ALWAYS = ("matplotlib", "PIL")  # installed with ours, and needed by some runs only

PACKAGES = {
    "PIL": "pillow",
    "mlflow": "mlflow-skinny",
    "prometheus_client": "prometheus-client",
    "sklearn": "scikit-learn",
}  # import name -> package, where they differ


def need(module: str, purpose: str) -> ModuleType:
    """Import an optional package. Raises MissingExtra, with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(module, purpose) from error


def need_later(module: str, purpose: str) -> None:
    """Raise MissingExtra where a package is not installed that is imported where it is used."""
    if find_spec(module.split(".")[0]) is None:
        raise missing(module, purpose)


def missing(module: str, purpose: str) -> MissingExtra:
    name = module.split(".")[0]
    package = PACKAGES.get(name, name)
    named = package if name in ALWAYS else f"'transformula[{EXTRAS[name]}]'"
    return MissingExtra(f"{purpose} needs the package {package}; install it with: pip install {named}")
