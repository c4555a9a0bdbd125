# Two commands matter to a newcomer: `make up` runs Berth, `make test` runs every test.
# Both set up their own virtual environment; nothing else has to be installed first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
LOCK   := requirements-dev.lock
# An installation that works says nothing; errors are still shown.
PIP_OPTIONS := --quiet --quiet --disable-pip-version-check --no-warn-script-location --root-user-action=ignore
# Tests are processes of their own: one a core keeps a small machine busy and responsive.
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: up test test-cluster check lint format types layers unit bench bench-live clean help

help:
	@echo "make up            set up and run a control plane on this machine"
	@echo "make test          set up and run every check and test"
	@echo "make test-cluster  run the live scenarios on the kube-apiserver and etcd in KUBEBUILDER_ASSETS"
	@echo "make check         lint, types and layers only"
	@echo "make bench         print the benchmark table, write bench-results.json"
	@echo "make bench-live    measure berth scheduler on an API server; BENCH=\"basic --nodes 500\" does less"
	@echo "make format        let ruff rewrite the sources"
	@echo "make clean         remove everything make created"

$(STAMP): pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Berth needs Python 3.11 or newer; try make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(PIP_OPTIONS) --constraint $(LOCK) --editable '.[dev]'
	@touch $@

up: $(STAMP)
	@$(BIN)/berth up

test: check unit

check: lint types layers

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

layers: $(STAMP)
	@$(BIN)/lint-imports --no-cache

unit: $(STAMP)
	@$(BIN)/pytest -n $(JOBS)

# The folder is named as setup-envtest names it; etcd may be on PATH instead.
test-cluster: $(STAMP)
	@if [ -z "$$KUBEBUILDER_ASSETS" ]; then \
	  echo "test-cluster is skipped: KUBEBUILDER_ASSETS does not name a folder with kube-apiserver and etcd."; \
	else BERTH_TEST_BACKEND=kube-apiserver $(BIN)/pytest -n $(JOBS) tests/system/scheduler tests/system/eviction tests/system/fleet; fi

bench: $(STAMP)
	@$(BIN)/python -m bench

bench-live: $(STAMP)
	@$(BIN)/python -m bench live $(BENCH)

format: $(STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .import_linter_cache bench-results.json
