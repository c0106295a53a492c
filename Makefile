# Everything a person or CI types. One environment, made once: .venv
PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help install demo dev test test-system check format benchmarks clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' Makefile | column -t -s '|'

$(READY): pyproject.toml deploy/constraints/dev.txt
	@echo "Setting up .venv: about 8 GB on disk (PyTorch is most of it), 4-10 minutes, once."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c deploy/constraints/dev.txt -e '.[dev]'
	@touch $@

install: $(READY) ## make the environment (.venv)

demo: $(READY) ## take real photographs through every stage
	@$(BIN)/prx demo

dev: $(READY) ## open the Dagster UI on PRX_HOME
	@$(BIN)/prx dev

test: $(READY) ## run the tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-system: ## install the Debian packages that some tests want
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core

check: $(READY) ## lint, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmarks: $(READY) ## print our rates beside a peer's
	@for bench in tests/benchmarks/*.py; do echo "== $$bench"; $(BIN)/python $$bench; done

clean: ## remove the environment and the default PRX_HOME
	rm -rf .venv .prx
