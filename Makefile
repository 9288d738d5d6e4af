# Doors of the project. Every target makes what it needs; Debian with git, make, python3 (>= 3.11) and venv is enough.
PYTHON ?= python3
VENV := .venv
DEMO := .venv-demo
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test lint types bench bench-peers soak app examples pictures clean

help: ## list the doors
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(DEMO)/.made ## trace an eight-hop agent, allot its deadline, see why late runs were late (no GPU, no network)
	@$(DEMO)/bin/hopbudget demo

test: $(VENV)/.made ## the test suite
	@$(BIN)/pytest -n auto

lint: $(VENV)/.made ## ruff and the import rules
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/python tools/link_tree.py _types
	@PYTHONPATH=_types $(BIN)/lint-imports --no-cache

types: $(VENV)/.made ## mypy strict and basedpyright
	@$(BIN)/python tools/link_tree.py _types
	@$(BIN)/mypy -p hopbudget
	@$(BIN)/basedpyright

bench: $(VENV)/.made ## speed and memory against named baselines; writes docs/benchmarks.md
	@$(BIN)/python -m bench

bench-peers: $(VENV)/.made ## the same probe on other instrumentation libraries and on ours (minutes)
	@$(BIN)/python -m bench.peers

soak: $(VENV)/.made ## kill, cut and fill what should hold, for minutes: nothing may be lost or stuck
	@$(BIN)/python -m bench.soak

examples: $(VENV)/.made ## every framework's agent, unchanged, each in its own environment (minutes)
	@HOPBUDGET_EXAMPLES=1 $(BIN)/pytest -n 0 tests/examples

app: $(VENV)/.made ## the Streamlit app on ./traces.duckdb
	@$(BIN)/hopbudget app

pictures: $(VENV)/.made ## the pictures in docs/img, from a fresh run of the demo
	@$(BIN)/python tools/pictures.py
	@$(BIN)/python tools/screenshots.py

clean: ## remove what the other doors made
	rm -rf $(VENV) $(DEMO) _types build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(DEMO)/.made: pyproject.toml constraints.txt
	@echo "Making $(DEMO) (once, about a minute) ..."
	@$(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/python $(PIP) --upgrade pip
	@$(DEMO)/bin/python $(PIP) -c constraints.txt -e '.[all]'
	@touch $@

$(VENV)/.made: pyproject.toml constraints.txt
	@echo "Making $(VENV) (once, about two minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) --upgrade pip
	@$(BIN)/python $(PIP) -c constraints.txt -e '.[all]' --group test --group lint --group types
	@touch $@
