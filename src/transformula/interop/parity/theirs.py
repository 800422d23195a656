"""The model of transformers of a folder, in float32 or all in float64, and one with drawn weights."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...errors import CheckpointError, setting
from ...extras import need
from ..named import FILE

EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
"""Plain products, which are written for float64, too."""
DRAWN_BUFFERS = ("final_logits_bias", "e_score_correction_bias", "expert_bias")  # stored as parameters are
STATISTICS = ("running_mean", "running_var")  # of batch norms
KEYS = ("missing_keys", "unexpected_keys", "mismatched_keys")  # of what transformers says of a folder's tensors


class Doubled(TorchFunctionMode):
    """Calls of PyTorch that name float32 are given float64."""

    def __torch_function__(self, called: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tuple(torch.float64 if value is torch.float32 else value for value in args)
        given = {key: torch.float64 if value is torch.float32 else value for key, value in (kwargs or {}).items()}
        return (Tensor.double if called is Tensor.float else called)(*args, **given)  # type: ignore[arg-type]


@contextmanager
def in_double() -> Iterator[None]:
    """Within it what asks for float32 by name, or for no type at all, gets float64.

    Many references take norms, softmaxes and rotary tables in float32 whatever the model's type is; equal equations
    would then agree to seven digits only. Nothing else about them is changed.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Doubled():
            yield
    finally:
        torch.set_default_dtype(default)


@torch.no_grad()
def randomize(module: nn.Module, seed: int = 1) -> nn.Module:
    """Draw every parameter, norms, biases and coefficients too: at initial values wrong equations can agree."""
    generator = torch.Generator().manual_seed(seed)
    for _, parameter in sorted(module.named_parameters()):
        if not parameter.requires_grad:  # a table of waves
            continue
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        spread = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.5
        parameter.copy_(drawn * spread + (0.3 if parameter.dim() < 2 else 0))
    return module


@torch.no_grad()
def draw(model: nn.Module) -> nn.Module:
    """Every parameter drawn, and the buffers that are trained or stored as parameters are."""
    randomize(model)
    generator = torch.Generator().manual_seed(3)
    for name, buffer in sorted(model.named_buffers()):
        if name.endswith(DRAWN_BUFFERS):
            buffer.copy_(torch.randn(buffer.shape, generator=generator))
        if name.endswith(STATISTICS):
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    return model


class TheirClass:
    """How transformers opens the folders of one class of models."""

    def __init__(self, model_class: Any) -> None:
        self.model_class = model_class

    @classmethod
    def of(cls, folder: Path, packages: Sequence[str] = ()) -> TheirClass:
        """By the config.json of a folder: a class of transformers, or one of its kind in packages that are imported.
        Raises CheckpointError for a class that none has."""
        transformers = need("transformers", "a comparison with transformers")
        path = folder / FILE
        name = (json.loads(path.read_text(encoding="utf-8")).get("architectures") or [""])[0]
        for module in (transformers, *(sys.modules[package] for package in packages if package in sys.modules)):
            if name and hasattr(module, name):
                return cls(getattr(module, name))
        what = f"{path}: architectures: transformers {transformers.__version__} has no class {name or '(none)'}"
        raise CheckpointError(f"{what}; name the package that has it with {setting('use', 'PACKAGE')}")

    def change(self, model: Any) -> None:
        """A change of a new model, before its parameters are drawn or loaded."""

    def exact(self, model: Any) -> None:
        """Compute in float64 the tables that the model holds in float32."""

    def load(self, folder: Path, dtype: torch.dtype = torch.float32, whole: bool = True) -> Any:
        """The model of a folder as transformers opens it; where it is `whole`, nothing missing and nothing left over.
        In float64 what it holds in float32 by name is computed in float64; call it within `in_double`.

        Raises CheckpointError where a folder that should be whole is not."""
        model, info = self.model_class.from_pretrained(folder, **EAGER, output_loading_info=True)
        if whole and any(info[key] for key in KEYS):
            said = "; ".join(f"{key}: {', '.join(map(str, sorted(info[key])))}" for key in KEYS if info[key])
            raise CheckpointError(f"{folder}: transformers does not find its tensors in it: {said}")
        if dtype == torch.float32:
            return model.float().eval()
        with in_double():
            config = type(model.config).from_pretrained(folder, **EAGER)
            exact = self.model_class(config).double()
            self.change(exact)
            exact.load_state_dict(model.state_dict())
            self.exact(exact)
        return exact.eval()

    def drawn(self, config: Any) -> Any:
        """A new model of a configuration with drawn weights, float32."""
        model = self.model_class(config)
        self.change(model)
        return draw(model).eval()


def write_drawn(theirs: TheirClass, source: Path, folder: Path) -> None:
    """Write a folder with drawn weights for a config.json that stands alone."""
    config = theirs.model_class.config_class.from_pretrained(source, **EAGER)
    theirs.drawn(config).save_pretrained(folder)


def parameter_names(function: Any) -> Mapping[str, Any]:
    """The parameters of a function by name."""
    import inspect

    return inspect.signature(function).parameters
