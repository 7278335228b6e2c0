# dynres: `make run` starts everything on this machine, `make test` runs all tests.
# The virtual environment is made here, in .venv, and brought up to date when pyproject.toml changes.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip -qq --disable-pip-version-check install
TESTS  ?= tests
BUILT_FROM := pyproject.toml hatch_build.py agent/dynres/worker/_plain.c

.DELETE_ON_ERROR:
.PHONY: help run test heavy lint check bench schema clean

help:
	@echo 'make run    controller and agent on this machine, with a live table; Ctrl-C ends both'
	@echo 'make test   all tests, in parallel       (TESTS=tests/probes for some of them)'
	@echo 'make heavy  random histories of pools and leases, 200 reloads, for about half an hour'
	@echo 'make lint   ruff, mypy, pyright, import-linter'
	@echo 'make check  lint and test'
	@echo 'make bench  the benches of bench/, with their bounds'
	@echo 'make schema writes docs/schema/ anew'
	@echo 'make clean  removes .venv and all caches'

run: $(VENV)/installed
	@$(BIN)/dynres up --config examples/quickstart

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n logical --dist loadgroup -q $(TESTS)

lint: $(VENV)/installed-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

check: lint test

# The long forms of tests that the normal run has a short form of.
heavy: $(VENV)/installed-test
	DYNRES_HISTORIES=20000 $(BIN)/python -m pytest -q --timeout 0 tests/pools/test_histories.py
	DYNRES_KILLS=200 DYNRES_RACES=1000 $(BIN)/python -m pytest -q -s -n0 --timeout 0 \
	  tests/leasing/test_controller_killed.py
	DYNRES_RELOADS=200 $(BIN)/python -m pytest -q --timeout 0 tests/agent/test_soak.py

bench: $(VENV)/installed-test
	@set -e; for script in bench/*.py $$([ $$(id -u) != 0 ] || ls bench/probes/bench_*.py); do \
	  echo "== $$script"; $(BIN)/python $$script; done

# The JSON Schemas that editors read; a test holds them to what `dynres schema` prints.
schema: $(VENV)/installed
	@mkdir -p docs/schema
	@set -e; for file in resources hosts agent controller; do \
	  $(BIN)/dynres schema $$file > docs/schema/$$file.json; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find agent probes tests bench -name __pycache__ -prune -exec rm -rf {} +
	rm -f agent/dynres/worker/_plain.*.so

# A venv whose Python has been removed or replaced is made anew, not repaired.
$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "dynres needs Python 3.11 or later; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)" >&2; \
	  echo "Debian 12: apt-get install python3 python3-venv; elsewhere: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments: apt-get install python3-venv" >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/made $(BUILT_FROM)
	@echo "dynres: installing into $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/made $(BUILT_FROM)
	@echo "dynres: installing into $(VENV) ..."
	@$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-check: $(VENV)/made $(BUILT_FROM)
	@echo "dynres: installing into $(VENV) ..."
	@$(PIP) --editable '.[test,check]'
	@touch $@ $(VENV)/installed $(VENV)/installed-test
