# make demo: install, train a small model, print text that it writes.   make test: install, check everything.
# All is installed into .venv; a stamp of the pinned versions makes the second call instant.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/set-up-$(shell cat constraints.txt pyproject.toml | cksum | cut -d' ' -f1)
ONE_THREAD := OMP_NUM_THREADS=1
TESTS ?=

# Python keeps compiled modules, whatever the machine says: the tests start some hundred processes, and each would compile
# torch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: gallery site wheel release help setup demo test lint slow docs clean

help: ## List these commands
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

setup: $(STAMP) ## Install the pinned packages and this checkout into .venv

# torch is installed first and alone, so that pip takes the machine's own build of the pinned version, whatever its label.
# --no-compile: Python compiles a module when it is first imported; most never are, and compiling all takes half of the time.
$(STAMP):
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile "$$(grep '^torch==' constraints.txt)" -c constraints.txt
	$(BIN)/python -m pip install --quiet --no-compile "$$(grep '^setuptools==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --no-compile --no-build-isolation -c constraints.txt -e '.[baselines,cldr,compare,completion,ctranslate2,documents,gguf,hub,mcp,onnx,parquet,serve,slurm,sound,tensorboard,torchinfo,translation,unigram,wandb,dev,peers]'
	$(BIN)/python -m pip install --quiet --no-compile --no-deps -c constraints.txt timm torchscale
	@rm -f .venv/set-up-*
	@touch $@

demo: $(STAMP) ## Train a model of two lines on Python's own docs (under 5 minutes), print text that it writes
	@rm -rf runs/demo
	$(BIN)/transformula train "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)" \
	  --data python-docs --width 128 --minutes 3.5 --out runs/demo
	$(BIN)/transformula sample runs/demo "The with statement" --temperature 0.8

lint: $(STAMP) ## Run ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

# mypy uses one core. In a fresh clone the other meanwhile compiles the tests and all that they import, once instead of
# in each of their processes.
test: $(STAMP) ## Run ruff, mypy and the everyday tests
	@[ -d tests/__pycache__ ] || $(BIN)/python -m pytest -q --collect-only > /dev/null 2>&1 & \
	$(MAKE) --no-print-directory lint; status=$$?; wait; exit $$status
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" $(TESTS)

slow: $(STAMP) ## Run the longer tests
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 -m slow $(TESTS)

docs: $(STAMP) ## Write the reference pages and the pictures that are made from the program
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_picture.py
	$(BIN)/python docs/make_mistakes_picture.py

wheel release: export TRANSFORMULA_OBJECTS = 1 # compiled kernels, which setup.py puts into the wheel

wheel: $(STAMP) ## Build a wheel and a source distribution, in dist/
	$(BIN)/python -m build --no-isolation --outdir dist .

release: $(STAMP) ## Build both from a clean tree, check them, and print the changelog of this version; nothing is uploaded
	$(BIN)/python docs/make_release.py

gallery: $(STAMP) ## Make the gallery a page for a browser, build/gallery.html
	$(BIN)/python docs/make_gallery_page.py

# The generator (94 MB on disk) is installed when it is first needed.
site: $(STAMP) ## Make the pages a site for a browser, build/site
	@$(BIN)/python -c "import zensical" 2> /dev/null || \
	  $(BIN)/python -m pip install --quiet --no-compile --no-build-isolation -c constraints.txt -e '.[site]'
	@[ -d web/node_modules ] || ! command -v npm > /dev/null || npm ci --silent --prefix web || true
	$(BIN)/python docs/make_site.py

clean: ## Remove .venv, caches and the demo's run (no other run is touched)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist runs/demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
