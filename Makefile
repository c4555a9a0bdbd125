# Two commands matter to a newcomer: `make up` runs Berth, `make test` runs every test.
# Both set up their own virtual environment; nothing else has to be installed first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# `make up` installs what runs; what only developing takes is added by whoever needs it.
READY  := $(VENV)/.installed
TOOLS  := $(VENV)/.installed-dev
LOCK   := requirements-dev.lock
# Tests are processes of their own: one a core keeps a small machine busy and responsive.
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

# uv installs in seconds what takes pip minutes, and is used where it is on PATH; `make UV= up` does without.
UV     ?= $(shell command -v uv 2>/dev/null)
ifneq ($(UV),)
INSTALLER := uv
NEW_VENV   = $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
INSTALL    = $(UV) pip install --python $(BIN)/python --constraint $(LOCK) --editable
else
INSTALLER := pip
NEW_VENV   = $(PYTHON) -m venv $(VENV)
INSTALL    = $(BIN)/python -m pip install --disable-pip-version-check --no-warn-script-location \
             --root-user-action=ignore --constraint $(LOCK) --editable
endif

.PHONY: up bytecode test test-cluster soak check lint format types layers browser unit bench bench-live clean help

help:
	@echo "make up            set up and run a control plane on this machine"
	@echo "make test          set up and run every check and test"
	@echo "make test-cluster  run the live scenarios on the kube-apiserver and etcd in KUBEBUILDER_ASSETS"
	@echo "make soak          lose power, fail the disk, kill and attack the API server; MINUTES=60 does more"
	@echo "make check         lint, types and layers only"
	@echo "make bench         print the benchmark table, write bench-results.json"
	@echo "make bench-live    measure berth scheduler on an API server; BENCH=\"basic --nodes 500\" does less"
	@echo "make format        let ruff rewrite the sources"
	@echo "make clean         remove everything make created"

$(READY): pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Berth needs Python 3.11 or newer; try make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "==> Making the virtual environment $(VENV)"
	@$(NEW_VENV)
	@echo "==> Installing Berth and the libraries it runs on, with $(INSTALLER); this is done once"
	@$(INSTALL) .
	@touch $@

$(TOOLS): $(READY)
	@echo "==> Installing the tools for developing, with $(INSTALLER); this is done once"
	@$(INSTALL) '.[dev]'
	@touch $@

# Where Python is told to write no bytecode, every process would compile all of Berth anew when it starts.
bytecode: $(READY)
	@$(BIN)/python -m compileall -q src

up: $(READY) bytecode
	@echo "==> Starting the control plane: berth up"
	@$(BIN)/berth up

test: check unit

check: lint types layers

lint: $(TOOLS)
	@echo "==> ruff: mistakes and formatting"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(TOOLS)
	@echo "==> mypy: types of src, tests and bench; a minute or two the first time"
	@$(BIN)/mypy

layers: $(TOOLS)
	@echo "==> lint-imports: which part may know which"
	@$(BIN)/lint-imports --no-cache

# The page is tested in a real browser: the one in $CHROME or on PATH, or Debian's where we may install it.
browser:
	@if [ -n "$$CHROME" ] || command -v chromium >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "==> Installing Chromium, for the tests of the page; this is done once"; \
	  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null; \
	else echo "==> There is no browser in \$$CHROME or on PATH: the tests of the page are skipped"; fi

unit: $(TOOLS) bytecode browser
	@echo "==> pytest: every test, $(JOBS) at a time; finding them takes half a minute, then a dot is one that passed"
	@$(BIN)/pytest -n $(JOBS)

# The folder is named as setup-envtest names it; etcd may be on PATH instead.
test-cluster: $(TOOLS) bytecode
	@if [ -z "$$KUBEBUILDER_ASSETS" ]; then \
	  echo "test-cluster is skipped: KUBEBUILDER_ASSETS does not name a folder with kube-apiserver and etcd."; \
	else BERTH_TEST_BACKEND=kube-apiserver $(BIN)/pytest -n $(JOBS) tests/system/scheduler tests/system/eviction tests/system/spreading tests/system/fleet tests/system/controllers tests/system/webhook; fi

# The same tests as in `make test`, over and over: loss of power, failing disks, histories under kills, stops and
# wrong clocks, hostile requests; what memory, disk and answers come to is printed, and has limits.
MINUTES ?= 12
soak: $(TOOLS) bytecode
	@BERTH_SOAK_SECONDS=$$(($(MINUTES) * 60)) $(BIN)/pytest -n 0 -s tests/server/storage/test_power_loss.py \
	  tests/system/server/test_histories.py tests/system/server/test_hostile_requests.py

bench: $(TOOLS) bytecode
	@$(BIN)/python -m bench

bench-live: $(TOOLS) bytecode
	@$(BIN)/python -m bench live $(BENCH)

format: $(TOOLS)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .import_linter_cache bench-results.json
