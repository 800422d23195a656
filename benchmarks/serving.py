"""Tokens a second of a server with 1, 8 and 32 clients, beside llama.cpp's server and transformers' in one run.

    python benchmarks/serving.py [--llama-server PATH] [--clients 1 8 32] [--rounds 2] [--keep]

Each server has one core, and the clients have the other. A decoder in the shape of Llama, of 6 layers, width 384 and a
vocabulary of 6,702, of random weights; prompts of about 32 tokens, no two alike, and 128 new ones, greedily. Servers
take turns, and the fastest round of each counts. transformers' server is left out where it is not installed,
llama.cpp's where no program is named (built for this CPU: cmake -DGGML_NATIVE=ON).

The claim: ours is at least as fast as the faster of the others, in float32 and with weights of one byte.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import httpx  # noqa: E402
from figures import keep  # noqa: E402

from transformula import Model  # noqa: E402

SIZES: dict[str, Any] = {"depth": 6, "width": 384, "heads": 6, "kv_heads": 2, "hidden": 1024, "context": 512}
VOCAB, PROMPT, NEW = 8192, 32, 128  # of its text the tokenizer learns 6,702
LEAST = 1.0  # times the faster of the others
OURS, BYTES = ("ours", "llama.cpp", "transformers"), ("ours, int8", "llama.cpp, q8_0")


def prepare(folder: Path) -> Any:
    """A model's folder, and the same weights for llama.cpp and transformers; its tokenizer."""
    from pydoc_data.topics import topics

    from transformula.api.exporting import export
    from transformula.tokenizers.byte_level import BPE

    tokenizer = BPE.train([*topics.values()], VOCAB)
    model = Model("llama", tokenizer=tokenizer, seed=1, **SIZES)
    model.save(folder / "ours")
    for target in ("transformers", "gguf"):
        export(folder / "ours", folder / target, to=target)
    return tokenizer


class Server:
    """A server that runs on the first core.

    body  a request's content, by its prompt
    path  to which it is sent
    """

    def __init__(
        self, command: list[str], port: int, path: str, body: Callable[[str], dict[str, Any]], ready: str
    ) -> None:
        self.address, self.path, self.body, self.ready = f"http://127.0.0.1:{port}", path, body, ready
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.log, stderr=self.log, preexec_fn=lambda: os.sched_setaffinity(0, {0})
        )

    def wait(self) -> None:
        until = time.monotonic() + 180
        while time.monotonic() < until:
            try:
                if httpx.get(self.address + self.ready).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        self.log.seek(0)
        raise RuntimeError(self.log.read().decode(errors="replace")[-3000:])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def servers(folder: Path, llama_server: str | None) -> Iterator[tuple[str, Server]]:
    """Each server, started."""
    plain: dict[str, Any] = {"temperature": 0, "max_tokens": NEW}
    for name, weights in (("ours", "float32"), ("ours, int8", "int8")):
        port = free_port()
        command = [sys.executable, "-m", "transformula", "serve", str(folder / "ours"), "--port", str(port)]
        command += ["--weights", weights, "--threads", "1"]
        yield name, Server(command, port, "/v1/completions", lambda prompt: {**plain, "prompt": prompt}, "/readyz")
    port = free_port()
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", "--port", str(port), "--device", "cpu"]
    command += ["--host", "127.0.0.1", "--dtype", "float32", str(folder / "transformers")]
    named = {"model": str(folder / "transformers")}
    yield "transformers", Server(
        command, port, "/v1/completions", lambda prompt: {**named, **plain, "prompt": prompt}, "/health"
    )
    if llama_server:
        for name, kind in (("llama.cpp", "f32"), ("llama.cpp, q8_0", "q8_0")):
            port, file = free_port(), folder / "gguf" / "model.gguf"
            if kind != "f32":
                file = file.with_suffix(f".{kind}.gguf")
                quantize = str(Path(llama_server).with_name("llama-quantize"))
                subprocess.run([quantize, str(folder / "gguf" / "model.gguf"), str(file), kind], check=True,
                               capture_output=True)  # fmt: skip
            command = [llama_server, "-m", str(file), "--port", str(port), "-t", "1", "-tb", "1", "-np", "32", "-c"]
            command += [str(32 * 256), "--no-webui"]
            command += ["--no-repack"] if kind != "f32" else []  # of its own order for AMX it ends in an error here
            body = lambda prompt: {  # noqa: E731
                "prompt": prompt, "n_predict": NEW, "temperature": 0, "ignore_eos": True, "cache_prompt": False,
            }  # fmt: skip
            yield name, Server(command, port, "/completion", body, "/health")


def tokens_of(answer: Mapping[str, Any]) -> int:
    return int(answer["tokens_predicted"] if "tokens_predicted" in answer else answer["usage"]["completion_tokens"])


def speed(server: Server, prompts: list[list[str]]) -> float:
    """Tokens a second of clients that each send their prompts one after the other."""

    def one(own: list[str]) -> int:
        with httpx.Client(timeout=600) as client:
            count = 0
            for prompt in own:
                answer = client.post(server.address + server.path, json=server.body(prompt))
                answer.raise_for_status()
                count += tokens_of(answer.json())
            return count

    begun = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        written = sum(pool.map(one, prompts))
    return written / (time.perf_counter() - begun)


def prompts_for(tokenizer: Any, clients: int, each: int, rng: random.Random) -> list[list[str]]:
    """Texts of about as many tokens, no two alike from their first token on."""
    usable = [n for n in range(300, tokenizer.vocab) if tokenizer.decode([n]).strip().isalpha()]

    def text() -> str:
        return str(tokenizer.decode(rng.choices(usable, k=PROMPT)))

    return [[text() for _ in range(each)] for _ in range(clients)]


@contextmanager
def all_stopped(running: Mapping[str, Server]) -> Iterator[None]:
    try:
        yield
    finally:
        for server in running.values():
            server.process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-server", metavar="PATH", help="llama.cpp's program of this name")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="write the figures to results/")
    asked = parser.parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1 if (os.cpu_count() or 1) > 1 else 0})  # type: ignore[operator]
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        tokenizer = prepare(Path(place))
        running = dict(servers(Path(place), asked.llama_server))
        stack.enter_context(all_stopped(running))
        for name, server in list(running.items()):
            try:
                server.wait()
            except RuntimeError as error:
                if name.startswith("ours"):
                    raise
                print(f"{name}: left out ({str(error)[-300:]})")
                running.pop(name).process.kill()
        rng = random.Random(0)
        for clients in asked.clients:
            best = dict.fromkeys(running, 0.0)
            for turn in range(asked.rounds + 1):  # the first makes what is kept for the next
                for name, server in running.items():
                    measured = speed(server, prompts_for(tokenizer, clients, 4 if clients == 1 else 2, rng))
                    best[name] = max(best[name], measured) if turn else 0.0
            rows.append({"clients": clients, "tokens/s": best})
            print(f"{clients:3} clients ", "  ".join(f"{name} {best[name]:,.0f}/s" for name in best), flush=True)
            for ours, *others in (OURS, BYTES):
                peer = max((each for each in others if each in best), key=lambda each: best[each], default=None)
                if peer is not None and best[ours] < LEAST * best[peer]:
                    wrong.append(f"{clients} clients: {ours} is {best[ours] / best[peer]:.2f} times as fast as {peer}")
    if asked.keep:
        names = list(rows[0]["tokens/s"])
        shown = [f"| clients | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
        for row in rows:
            told = [f"{row['tokens/s'][name]:,.0f}" for name in names]
            shown.append(f"| {row['clients']} | {' | '.join(told)} |")
        keep("serving", {"rows": rows, "wrong": wrong}, shown)
    print("\n".join(wrong) or "all claims hold")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
