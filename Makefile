# `make` lists what one can do. Every target does the set-up that it needs; what is done already takes no time.
.DEFAULT_GOAL := help
.NOTPARALLEL:
PYTHON ?= python3
BIN := .venv/bin
SETUP := $(PYTHON) setup/bootstrap.py
PYTEST := $(BIN)/python -m pytest
ON_ALL_CORES := -n auto --dist loadfile

.PHONY: help setup setup-dev demo quickstart test test-fast lint types format clean reset-data

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the packages for this machine's hardware, the default model and the database
	@$(SETUP)

setup-dev:
	@$(SETUP) --with-dev

demo: ## Set up, start worker and dashboard, launch the quickstart experiment once, print the address
	@$(SETUP) --for-dashboard
	@$(BIN)/kitedash demo

quickstart: ## Set up, run the quickstart experiment without the dashboard, print its table
	@$(SETUP)
	@$(BIN)/kitedash quickstart

test: setup-dev lint types ## Set up and run all checks and tests, fast ones first, the real vLLM last
	$(PYTEST) $(ON_ALL_CORES) tests/unit tests/db tests/ui
	$(PYTEST) tests/worker tests/e2e

test-fast: setup-dev ## Set up and run the unit tests (under 2 minutes)
	$(PYTEST) $(ON_ALL_CORES) tests/unit

lint: setup-dev ## Check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup-dev ## Check types
	$(BIN)/mypy

format: setup-dev ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove the virtual environment and caches; keep the data folder
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis kitedash.egg-info
	find . -name __pycache__ -type d -not -path './data/*' -prune -exec rm -rf {} +

reset-data: ## Move the data folder aside (nothing is deleted), so that the next start begins empty
	@if [ -d data ]; then to="data-$$(date -u +%Y%m%dT%H%M%SZ)"; mv data "$$to" && echo "data is now $$to: remove it when you are sure."; else echo "There is no data folder."; fi
