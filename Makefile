# Every target does its own set-up: a virtual environment in .venv with the pinned versions of requirements/*.txt.
# Needs Python 3.11 or later and make; the first run installs from the package index, later runs do not.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV ?= .venv
BIN = $(VENV)/bin
# Tests run in this many processes.
WORKERS ?= 2
# The engine releases whose profiles are shipped.
RELEASES = 0.4.6.post5 0.5.2 0.5.9 0.5.12.post1 0.5.15 0.5.23
PROFILES = contracts/drafter_contracts/engines/data/sglang
# Python of an environment with SGLang installed, for `make bench` (optional).
SGLANG_PYTHON ?=

.PHONY: demo test lint types imports bench profiles docs clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo       the incident, told by the gate itself (offline after set-up, under a minute)'
	@echo 'make test       lint, types, import rules, and all tests with coverage'
	@echo 'make lint       ruff, mypy and import-linter alone'
	@echo 'make bench      start-up times beside a bare interpreter (SGLANG_PYTHON=... to compare with SGLang)'
	@echo 'make profiles   derive the shipped engine profiles again from the released wheels'
	@echo 'make docs       write the pages that are generated from the code'
	@echo 'make clean      remove everything that is not in version control but .venv'

# The gate alone: three small packages.
$(VENV)/.gate: requirements/gate.txt requirements/build.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or later is needed (make PYTHON=/path/to/python3)'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/gate.txt -r requirements/build.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.gate
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dev.txt
	@touch $@

demo: $(VENV)/.gate
	@$(BIN)/python -m drafter_cli.demo

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: lint
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -n $(WORKERS) $(PYTEST_ARGS)
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report --include='contracts/*' | tail -n 25

bench: $(VENV)/.gate
	$(BIN)/python benchmarks/startup.py $(if $(SGLANG_PYTHON),--sglang-python $(SGLANG_PYTHON))

profiles: $(VENV)/.dev
	mkdir -p .cache/wheels
	for release in $(RELEASES); do \
		ls .cache/wheels/sglang-$$release-*.whl >/dev/null 2>&1 \
			|| $(BIN)/python -m pip download -q --no-deps --only-binary :all: -d .cache/wheels sglang==$$release || exit 1; \
		$(BIN)/drafters engine scan .cache/wheels/sglang-$$release-*.whl -o $(PROFILES)/$$release.json || exit 1; \
	done

docs: $(VENV)/.gate
	$(BIN)/python -m drafter_contracts.rules.pages > docs/rules.md
	$(BIN)/python -m drafter_contracts.numberings.document > docs/numberings.md
	$(BIN)/python -m drafter_contracts.engines.coverage_page > docs/coverage.md
	$(BIN)/python tests/write_sessions.py docs/upgrades.md

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
