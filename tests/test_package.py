"""What is installed: a wheel that works without extras, a source distribution from which the tests run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from pathlib import Path

import pytest

from transformula.cli.door import all_verbs
from transformula.extras import EXTRAS, PACKAGES
from transformula.recipes import recipe_names
from transformula.tasks.verb import built_in_verbs

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_file_of_data_goes_into_the_wheel() -> None:
    package = ROOT / "src" / "transformula"
    stated = PROJECT["tool"]["setuptools"]["package-data"].items()
    carried = {
        path for name, patterns in stated for pattern in patterns
        for path in (ROOT / "src" / name.replace(".", "/")).glob(pattern)
    }  # fmt: skip
    beside = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert beside == carried


def test_what_is_said_of_the_package_agrees() -> None:
    about = PROJECT["project"]
    extras = about["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(extras)
    needed = [(extra, PACKAGES.get(module, module)) for module, extra in EXTRAS.items()]
    assert all(any(package in one for one in extras[extra]) for extra, package in needed)
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\w-]+) \|", page, flags=re.MULTILINE))
    assert set(rows.items()) <= set(needed) and rows.keys() == {extra for extra, _ in needed}
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(about["classifiers"]))
    assert about["requires-python"] == f">={versions[0]}"
    assert f"Python {versions[0]} to {versions[-1]}" in page


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, made from the source distribution, and that one."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, env=alone())
    return folder


def alone(**more: str) -> dict[str, str]:
    """This process's environment without its checkout."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"} | more


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with the wheel and what it needs, but no extra."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    where = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    left_out = (*EXTRAS, "transformula", "__editable__", "pytest", "hypothesis")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(left_out) and entry.suffix != ".pth":
            (Path(where.stdout.strip()) / entry.name).symlink_to(entry)
    wheel = next(built.glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, env=alone())
    return folder / "bin"


SIZES = "--tokenizer characters --depth 1 --width 8 --heads 1 --context 16 --batch 2 --steps 2 --precision float32"
OWN = {"sample", "choose", "answer"}  # verbs of tasks with what they need typed beside the input
USES = [
    ("--version", "transformula "),
    ("explain pre-norm", "no warnings"),
    ("summary pre-norm", "parameters"),
    ("plan gpt2 --tokens 1B --gpu h100 --gpus 8", "GPU hours"),
    ("gallery search sandwich", "sandwich"),
    ("gallery draw pre-norm", "[norm]"),
    ("reproduce", "\n".join(recipe_names()[:1])),
    ("words attention", "attention"),
    ("cache", "in "),
    (f"train pre-norm --data text.txt {SIZES} --quiet --out run", "run: run"),
    ("sample run the --max-tokens 3", "the"),
    ("predict run the --max-tokens 3", "the"),
    ("evaluate run", "perplexity"),
    ("serve run", "pip install 'transformula[serve]'"),
    ("studio", "pip install 'transformula[serve]'"),
    ("mcp", "pip install 'transformula[mcp]'"),
    (
        "prepare text.txt --validation text.txt --overlap keep --tokenizer bytes --workers 1 --out tokens",
        "wrote tokens",
    ),
    ("distill run --out written.jsonl --rows 2 --max-tokens 3 --prompt-tokens 4", "wrote written.jsonl"),
    ("compare pre-norm rezero --data text.txt", "pip install 'transformula[compare]'"),
    ("search --base pre-norm --data text.txt", "pip install 'transformula[compare]'"),
    ("repeat run --quiet", "the same: "),
    ("curves run", "wrote curves.svg"),
    ("prune run --yes", "the models stay: best"),
    ("inspect run norms", "RMS attention"),
    ("export run --to pytorch --out exported", "exported"),
    ("import exported --format pytorch --out imported", "imported"),
    ("export run --to onnx --out onnx", "pip install 'transformula[onnx]'"),
    ("sample imported the --max-tokens 3", "the"),
    ("check-family gpt2 exported", "pip install 'transformula[transformers]'"),
    ("completion bash", "pip install 'transformula[completion]'"),
    ("choose run the --choices cat cats", "cat"),
    ("answer run who --context text.txt", "transformula sample run"),
    *((f"{verb} run the", "transformula sample run") for verb in sorted({*built_in_verbs()} - OWN)),
    ("reproduce built-in/cldr-dates --out dates", "pip install 'transformula["),
]
"""What is typed, in this order, and what is printed of it."""


def test_every_verb_is_among_those_typed_without_extras() -> None:
    assert {typed.split()[0] for typed, _ in USES} - {"--version"} == set(all_verbs())


@pytest.mark.slow
def test_the_wheel_works_without_extras(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sees the dog. " * 50)
    environment = alone(TRANSFORMULA_CACHE=str(tmp_path / "cache"))
    for typed, said in USES:
        command = [str(installed / "transformula"), *typed.split()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
        shown = done.stdout + done.stderr
        assert said in shown and "Traceback" not in shown, f"{typed}\n{shown}"
        assert done.returncode == (2 if done.stderr.startswith("error: ") else 0), shown
    assert not (tmp_path / "dates").exists()


@pytest.mark.slow
def test_tests_pass_from_the_source_distribution(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as packed:
        packed.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    for name in ("tests", "docs", "benchmarks", "examples", "Makefile", "constraints.txt", "CHANGELOG.md", ".github"):
        assert (root / name).exists(), name
    tests = ["tests/test_house.py", "tests/test_package.py", "tests/docs/test_reference.py", "tests/cli/test_door.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=alone(PYTHONPATH=str(root / "src")))
    assert done.returncode == 0, done.stdout
    links = [*command[:3], "-q", "-p", "no:cacheprovider", "tests/docs/test_docs.py", "-k", "test_links"]
    done = subprocess.run(links, cwd=root, capture_output=True, text=True, env=alone(PYTHONPATH=str(root / "src")))
    assert done.returncode == 0, done.stdout
