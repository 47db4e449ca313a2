# From a fresh clone, with Python 3.11 or newer, pip and make. Also as root.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One stamp per set of packages. Newer than pyproject.toml: nothing to install.
READY := $(VENV)/.ready
READY_FOR_DOCS := $(VENV)/.ready-for-docs
PIP := $(PYTHON) -m pip --disable-pip-version-check --python $(BIN)/python --quiet

# Options of pytest, as in: make pytest PYTEST_OPTIONS="-x -k claim"
PYTEST_OPTIONS ?= -n logical --dist worksteal
# How many orders of steps `make explore` tries of each scenario, and from which randomness.
SCHEDULES ?= 400
SEED ?= 1
# For how long `make chaos` lets things go wrong and `make kills` kills, and during how many jobs.
SECONDS ?= 45
JOBS ?= 100000

export DJANGO_SETTINGS_MODULE ?= tests.settings

.DEFAULT_GOAL := help
.PHONY: help demo serve test lint types migrations pytest explore chaos kills bench docs format matrix clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## run the example shop from beginning to end, and print what happened
	env -u DJANGO_SETTINGS_MODULE $(BIN)/python -m example_project.demo

serve: $(READY) ## leave the example shop running, with its admin
	env -u DJANGO_SETTINGS_MODULE $(BIN)/python -m example_project.serve

test: lint types migrations pytest ## check and test everything

lint: $(READY) ## check style, format and the layers of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY) ## check types
	$(BIN)/mypy

migrations: $(READY) ## check that models and migrations agree
	$(BIN)/python tools/postgres.py run -- $(BIN)/python -m django makemigrations --check --dry-run

# Some environments forbid bytecode. Hundreds of processes would compile the package anew.
pytest: $(READY) ## run the tests only
	PYTHONDONTWRITEBYTECODE= PYTHONDEVMODE=1 $(BIN)/python -m pytest $(PYTEST_OPTIONS)

explore: $(READY) ## interleave the statements: make explore SCHEDULES=400 SEED=1
	PGJOBS_SCHEDULES=$(SCHEDULES) PGJOBS_SEED=$(SEED) \
	    $(BIN)/python -m pytest tests/protocol/test_interleavings.py --timeout 1800 $(PYTEST_OPTIONS)

chaos: $(READY) ## break everything at once: make chaos SECONDS=45 SEED=1
	$(BIN)/python -m tests.chaos --seconds $(SECONDS) --seed $(SEED)

kills: $(READY) ## kill a worker every second: make kills JOBS=100000 SECONDS=60
	$(BIN)/python -m tests.chaos --kill $(JOBS) --seconds $(SECONDS)

bench: $(READY) ## measure
	$(BIN)/python -m benchmarks

docs: $(READY_FOR_DOCS) ## build the documentation; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

format: $(READY) ## put imports and layout in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

matrix: $(READY) ## test all supported versions for which there is an interpreter
	$(BIN)/tox run --skip-missing-interpreters true

clean: ## stop the development servers; remove all that was built, fetched or stored
	-test ! -e .postgres/data-embedded.log || $(BIN)/python tools/postgres.py remove
	-for version in 15 16 17 18; do \
	    test ! -e .postgres/data-$$version.log || \
	    $(BIN)/python tools/postgres.py remove --version $$version; \
	done
	rm -rf $(VENV) .postgres .tox build dist docs/_build
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Without pip, which Debian keeps out of new environments; the pip of $(PYTHON) fills it.
$(BIN)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=...')"
	$(PYTHON) -m venv --without-pip $(VENV)

# Its own pip is for tools/postgres.py, which fetches servers with it.
$(READY): pyproject.toml | $(BIN)/python
	$(PIP) install pip --editable ".[dev]"
	touch $@

$(READY_FOR_DOCS): pyproject.toml $(READY)
	$(PIP) install --editable ".[dev,docs]"
	touch $@
