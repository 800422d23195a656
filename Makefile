# make demo: set up, train two lines of text on real text, print some.   make test: set up, check everything.
# Set-up lives in .venv; a stamp of the pins makes the second call instant.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/set-up-$(shell cat constraints.txt pyproject.toml | cksum | cut -d' ' -f1)
ONE_THREAD := OMP_NUM_THREADS=1
TESTS ?=

# What is imported is kept compiled, whatever the machine says: else each of some hundred processes that the tests start
# compiles torch once more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: gallery wheel help setup demo test lint slow docs clean

help: ## What can be made
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

setup: $(STAMP) ## Make .venv with the pinned packages and this checkout in it

# torch goes first and alone: the machine's own build of the pinned version is taken, whatever its label. Modules are
# compiled when first imported (--no-compile): most of what is installed never is, and half of the set-up goes into it.
$(STAMP):
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile "$$(grep '^torch==' constraints.txt)" -c constraints.txt
	$(BIN)/python -m pip install --quiet --no-compile "$$(grep '^setuptools==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --no-compile --no-build-isolation -c constraints.txt -e '.[cldr,completion,parquet,torchinfo,translation,unigram,dev,peers]'
	$(BIN)/python -m pip install --quiet --no-compile --no-deps -c constraints.txt timm torchscale
	@rm -f .venv/set-up-*
	@touch $@

demo: $(STAMP) ## Train two lines of text on the text that Python carries (under 5 minutes), print some of it
	@rm -rf runs/demo
	$(BIN)/transformula train "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)" \
	  --data python-docs --minutes 3.5 --out runs/demo
	$(BIN)/transformula sample runs/demo "The with statement" --temperature 0.8

lint: $(STAMP) ## Ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint ## Ruff, mypy, and the everyday tests
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" $(TESTS)

slow: $(STAMP) ## The longer tests
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 -m slow $(TESTS)

docs: $(STAMP) ## The reference pages that are made from the program
	$(BIN)/python docs/make_reference.py

wheel: $(STAMP) ## A wheel and a source distribution, in dist/
	$(BIN)/python -m build --no-isolation --outdir dist .

gallery: $(STAMP) ## The gallery as one page for a browser, build/gallery.html
	$(BIN)/python docs/make_gallery_page.py

clean: ## Remove .venv, caches and the demo's run (no other run is touched)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist runs/demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
