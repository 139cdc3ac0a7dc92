# Two commands do everything on a fresh machine: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export NUMBA_CACHE_DIR ?= $(CURDIR)/.numba_cache
export TOKENIZERS_PARALLELISM ?= true

.PHONY: demo test check slow bench format generated clean

# The installed marker is newer than what it was made from, or the environment is made again.
$(VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt "torch$$(sed -n 's/^torch//p' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[train,classify,dev]"
	@touch $@

demo: $(VENV)/.installed  ## raw files to a trained checkpoint
	$(BIN)/curator run recipes/quickstart.yaml --out work/quickstart
	$(BIN)/python recipes/generate.py work/quickstart/train/model "How do I boil an egg?"

test: $(VENV)/.installed  ## the tests that run everywhere
	@$(BIN)/python tests/startup_seconds.py
	$(BIN)/pytest -n 2 --dist loadfile

slow: $(VENV)/.installed  ## the slow tier: memory, kills, long runs
	$(BIN)/pytest -m slow --timeout 1800

check: $(VENV)/.installed  ## format, lint, types, import rules, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python schemas/generate.py --check
	$(BIN)/python -m curator.cli.reference --check

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generated: $(VENV)/.installed  ## write what check compares
	$(BIN)/python schemas/generate.py
	$(BIN)/python -m curator.cli.reference

bench: $(VENV)/.installed  ## speed beside peers; each script is one claim
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf work d runs build .numba_cache .pytest_cache .mypy_cache .ruff_cache
