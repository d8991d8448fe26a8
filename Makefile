# make help lists the targets. A machine with Python 3.11 or newer, make and a package index is enough.

SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Arguments for the program: make run ARGS="--secure-port 7443"
ARGS ?=
# Arguments for pytest: make test TESTS=tests/storage PYTEST_ARGS="-x"
TESTS ?= tests e2e
PYTEST_ARGS ?=
# Also build and run the Go tests of e2e/go; without it they run only if they are already built: make test GO=1
GO ?=
# Arguments for the fuzzer: make fuzz FUZZ_ARGS="--seconds 600 yaml cel"
FUZZ_ARGS ?= --seconds 300
# Logical clusters of the fleet, and the CRDs and objects of each: make fleet N=100000 CRDS=10 OBJECTS=10 FLEET_ARGS=--help
N ?= 10000
CRDS ?= 10
OBJECTS ?= 10
FLEET_ARGS ?=
# Arguments for the tests on every Python: make test-pythons PYTHONS_ARGS="--only 3.13"
PYTHONS_ARGS ?=
# Percent of the lines that `make coverage` wants the tests to run: COVERAGE_FLOOR=0 for a part of the tests.
COVERAGE_FLOOR ?= 95
# Arguments for the smoke test of the wheel: make package PACKAGE_ARGS="--keep dist"
PACKAGE_ARGS ?=
# Two processes, because more would compete for the cores with the servers and clients under test.
WORKERS ?= 2

USER_PATH := $(PATH)
export PATH := $(abspath $(BIN)):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help run test verify verify-docs format update bench fleet fuzz e2e-go e2e-clients pythons compiled-tests test-pythons coverage docs package clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The version of Python is checked only when the environment is created.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'kcp-py needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …' >&2; exit 1; }
	@echo 'Creating $(VENV) …'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	@echo 'Installing kcp-py …'
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-for-tests: $(BIN)/python pyproject.toml constraints.txt
	@echo 'Installing kcp-py with what its tests need …'
	@$(PIP) install --constraint constraints.txt --editable '.[coverage,docs,etcd,explain,test,verify]'
	@touch $@ $(VENV)/.installed

# The user's own PATH, because the server prints commands for the user's shell.
run: export PATH := $(USER_PATH)
run: $(VENV)/.installed ## Run a server in .kcp and print what to do next (ARGS="--secure-port 7443")
	@exec $(BIN)/kcp-py start $(ARGS)

test: $(VENV)/.installed-for-tests ## Run every test: unit, property, storage drivers, end to end (TESTS=…, PYTEST_ARGS=…, GO=1)
	@KCP_PY_TEST_GO=$(GO) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS) $(TESTS)

test-pythons: $(VENV)/.installed-for-tests ## Run the unit tests on the newest Python, with coverage, and a part of them on all others
	@KCP_PY_TEST_GO=$(GO) $(BIN)/python hack/run_pythons.py $(PYTHONS_ARGS)

# The environments of test-pythons alone, with compiled tests. The script needs nothing but Python, so that they are made while .venv is.
pythons:
	@$(PYTHON) hack/run_pythons.py --prepare $(PYTHONS_ARGS)

# pytest compiles what it collects. Processes that begin a run together would each compile all tests.
compiled-tests: $(VENV)/.installed-for-tests
	@$(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider \
	  e2e tests/typing $$($(BIN)/python hack/run_pythons.py --print-part) > /dev/null

# On Python 3.11, which has no sys.monitoring, the tests take about twice as long.
coverage: $(VENV)/.installed-for-tests ## Run the unit tests and list the lines that none of them runs (TESTS=tests/storage, PYTEST_ARGS=…)
	@COVERAGE_CORE=$$($(BIN)/python -c 'import sys; print("sysmon" if hasattr(sys, "monitoring") else "ctrace")') \
	  $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --cov --cov-report=term-missing:skip-covered --cov-fail-under=$(COVERAGE_FLOOR) \
	  $(PYTEST_ARGS) $(if $(filter file,$(origin TESTS)),tests,$(TESTS))

verify: $(VENV)/.installed-for-tests verify-docs ## Check style, types, layers and documents; change nothing
	@$(BIN)/ruff check --output-format concise
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

verify-docs: $(VENV)/.installed-for-tests
	@set -e; for script in hack/verify_*.py; do $(BIN)/python $$script; done

format: $(VENV)/.installed-for-tests ## Format the code and fix lint errors
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format

update: $(VENV)/.installed-for-tests ## Regenerate committed generated files
	@$(BIN)/python hack/update_configuration_reference.py
	@$(BIN)/python hack/update_log_events.py
	@$(BIN)/python hack/update_public_api.py
	@$(BIN)/python hack/update_corpus_table.py

bench: $(VENV)/.installed-for-tests ## Measure, and compare each figure with a bare server (needs an idle machine)
	@$(BIN)/python -m tests.benchmarks

fleet: $(VENV)/.installed-for-tests ## Seed N logical clusters and measure a server with them (N=100000, CRDS=10, OBJECTS=10, FLEET_ARGS=--help)
	@$(BIN)/python -m tests.fleet $(N) --crds $(CRDS) --objects $(OBJECTS) $(FLEET_ARGS)

fuzz: $(VENV)/.installed-for-tests ## Search for hostile inputs for five minutes (FUZZ_ARGS="--seconds 60 yaml cel", FUZZ_ARGS=--help)
	@$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

e2e-go: $(VENV)/.installed-for-tests ## Run the Go clients of e2e/go against a server (needs Go)
	@command -v go >/dev/null || { echo 'e2e-go needs a Go toolchain in PATH' >&2; exit 1; }
	@KCP_PY_TEST_GO=1 $(BIN)/python -m pytest $(PYTEST_ARGS) e2e/test_go.py

e2e-clients: $(VENV)/.installed-for-tests ## Run every version of every client (kubectl, helm, Python, Go) and write docs/compatibility.md
	@$(BIN)/python hack/update_compatibility_table.py

docs: $(VENV)/.installed-for-tests ## Build the documentation site in build/docs; a warning or a dead link is an error
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --jobs auto --conf-dir docs/site . build/docs
	@$(BIN)/python hack/check_site.py build/docs
	@echo 'Open build/docs/index.html'

package: $(VENV)/.installed-for-tests ## Build the source distribution and the wheel, and run a server from the wheel (PACKAGE_ARGS="--keep dist")
	@$(BIN)/python hack/smoke_wheel.py $(PACKAGE_ARGS)

clean: ## Remove the environment, caches and built files; .kcp, which holds data, stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache .coverage dist build
	find kcp_py tests e2e hack -name __pycache__ -type d -prune -exec rm -rf {} +
