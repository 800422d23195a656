"""A decoder's weights as models of CTranslate2 and of llama.cpp, to write the same text by other code.

Needs `pip install ctranslate2 transformers gguf llama-cpp-python` (`CMAKE_ARGS=-DGGML_NATIVE=ON`: built for this CPU).
What is not installed is left out. Both are given ids and are bound to one thread.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from transformula.errors import TransformulaError
from transformula.interop.exchange import EXPORTERS

MOST_TOKENS = 8192  # in one batch of llama.cpp
Writer = Callable[[Sequence[Sequence[int]], int], list[list[int]]]  # (prompts of one length, new tokens) -> new tokens


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def peers_of(module: Any, folder: Path) -> dict[str, Writer]:
    """Writers of greedy texts by the peers that are installed, in float32 and with weights of one byte."""
    found: dict[str, Writer] = {}
    if installed("ctranslate2") and installed("transformers"):
        with left_out("CTranslate2"):
            EXPORTERS.get("transformers")(module, path_in(folder, "transformers"))
            for name, kind in (("CTranslate2", "float32"), ("CTranslate2, int8", "int8")):
                found[name] = ctranslate2_writer(folder, kind, int(module.architecture.numbers["vocab"]))
    if installed("llama_cpp") and installed("gguf"):
        with left_out("llama.cpp"):
            EXPORTERS.get("gguf")(module, path_in(folder, "gguf"))
            for name, kind in (("llama.cpp", "f32"), ("llama.cpp, q8_0", "q8_0")):
                found[name] = LlamaCpp(folder / "gguf" / "model.gguf", kind).write
    return found


@contextmanager
def left_out(peer: str) -> Iterator[None]:
    """Within it a model that a peer does not know is said, and the others go on."""
    try:
        yield
    except (TransformulaError, ValueError) as error:
        print(f"{peer}: left out ({str(error)[:120]})")


def path_in(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def ctranslate2_writer(folder: Path, kind: str, vocab: int) -> Writer:
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):  # type: ignore[misc]
        """Converts a folder that has no tokenizer."""

        def load_tokenizer(self, tokenizer_class: Any, model_name_or_path: str, **options: Any) -> Any:
            class Names:
                bos_token = eos_token = unk_token = "t0"
                additional_special_tokens: tuple[str, ...] = ()

                def get_vocab(self) -> dict[str, int]:
                    return {f"t{number}": number for number in range(vocab)}

                def convert_ids_to_tokens(self, number: int) -> str:
                    return f"t{number}"

            return Names()

    target = folder / "ctranslate2"
    if not target.exists():
        Converter(str(folder / "transformers")).convert(str(target))
    generator = ctranslate2.Generator(str(target), device="cpu", compute_type=kind, intra_threads=1, inter_threads=1)

    def write(prompts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
        results = generator.generate_batch(
            [[f"t{number}" for number in prompt] for prompt in prompts], max_length=new, min_length=new,
            sampling_topk=1, include_prompt_in_result=False, max_batch_size=len(prompts),
        )  # fmt: skip
        return [list(result.sequences_ids[0]) for result in results]

    return write


class LlamaCpp:
    """By the C functions of llama.cpp, all rows in one batch, each a sequence of its own."""

    def __init__(self, path: Path, kind: str) -> None:
        import llama_cpp

        self.lib: Any = llama_cpp
        self.lib.llama_log_set(QUIET, ctypes.c_void_p())
        if kind != "f32":
            smaller = path.with_suffix(f".{kind}.gguf")
            options = self.lib.llama_model_quantize_default_params()
            options.ftype, options.nthread = self.lib.LLAMA_FTYPE_MOSTLY_Q8_0, 1
            if self.lib.llama_model_quantize(str(path).encode(), str(smaller).encode(), options):
                raise RuntimeError(f"{path}: llama.cpp could not quantize it")
            path = smaller
        options = self.lib.llama_model_default_params()
        options.use_extra_bufts = False  # with weights of its own order for AMX it ends in a segmentation fault
        self.model = self.lib.llama_model_load_from_file(str(path).encode(), options)
        self.vocab = self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(self.model))
        self.contexts: dict[tuple[int, int], Any] = {}
        self.batch = self.lib.llama_batch_init(MOST_TOKENS, 0, 1)

    def context(self, rows: int, length: int) -> Any:
        if (rows, length) not in self.contexts:
            options = self.lib.llama_context_default_params()
            options.n_ctx, options.n_batch, options.n_ubatch = rows * length, MOST_TOKENS, 512
            options.n_seq_max, options.n_threads, options.n_threads_batch = rows, 1, 1
            self.contexts[rows, length] = self.lib.llama_init_from_model(self.model, options)
        context = self.contexts[rows, length]
        self.lib.llama_memory_clear(self.lib.llama_get_memory(context), True)
        return context

    def put(self, tokens: Sequence[tuple[int, int, int, bool]]) -> None:
        """(token, position, row, whether its logits are wanted)"""
        batch = self.batch
        for place, (token, position, row, wanted) in enumerate(tokens):
            batch.token[place], batch.pos[place], batch.n_seq_id[place] = token, position, 1
            batch.seq_id[place][0], batch.logits[place] = row, wanted
        batch.n_tokens = len(tokens)

    def write(self, prompts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
        rows, length = len(prompts), len(prompts[0])
        room = -(-(length + new) // 256) * 256
        context, texts = self.context(rows, room), [[] for _ in prompts]  # type: ignore[var-annotated]
        self.put([(t, at, row, at == length - 1) for row, ids in enumerate(prompts) for at, t in enumerate(ids)])
        places = [length * (row + 1) - 1 for row in range(rows)]
        for step in range(new):
            if self.lib.llama_decode(context, self.batch):
                raise RuntimeError("llama.cpp could not decode")
            for text, place in zip(texts, places, strict=True):
                logits = self.lib.llama_get_logits_ith(context, place)
                text.append(int(np.ctypeslib.as_array(logits, (self.vocab,)).argmax()))
            self.put([(text[-1], length + step, row, True) for row, text in enumerate(texts)])
            places = [*range(rows)]
        return texts


def silent(level: int, text: bytes, data: Any) -> None:
    """Takes what llama.cpp would print."""


QUIET = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(silent)
