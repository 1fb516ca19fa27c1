# Every target does its own set-up: a virtual environment in .venv with the pinned versions of requirements/*.txt.
# Needs Python 3.11 or later and make; the first run installs from the package index, later runs do not.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV ?= .venv
BIN = $(VENV)/bin
# Tests and scans run in this many processes.
WORKERS ?= 2
# The engine releases whose profiles are shipped, their wheels (the conformance tests' cache), and what scans give.
STABLE = contracts/stable-releases/sglang.txt
WHEELS ?= $(or $(DRAFTERS_WHEEL_CACHE),$(HOME)/.cache/drafter-registry/wheels)
SCANNED = .cache/profiles/sglang
ENGINES = contracts/drafter_contracts/engines
SCANNER = $(shell find $(ENGINES)/scan -name '*.py' -o -name '*.probe') $(addprefix $(ENGINES)/,profile.py launch_rules.py capture.py)
# Pythons of environments with SGLang and with MLflow installed, for `make bench` and `make bench-registry` (optional).
SGLANG_PYTHON ?=
MLFLOW_PYTHON ?=

.PHONY: demo test coverage lint types imports bench bench-registry profiles vllm-profiles conformance rescan docs clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo       the incident, told by the gate itself (offline after set-up, under a minute)'
	@echo 'make test       lint, types, import rules, and all tests'
	@echo 'make coverage   all tests, and how much of the packages they run (slower)'
	@echo 'make lint       ruff, mypy and import-linter alone'
	@echo 'make bench      start-up times beside a bare interpreter (SGLANG_PYTHON=... to compare with SGLang), and of loads'
	@echo 'make bench-registry   publishing and resolving, beside cp and a bare endpoint (MLFLOW_PYTHON=... to compare with MLflow)'
	@echo 'make profiles   derive the shipped engine profiles again from the released wheels'
	@echo 'make vllm-profiles   the same for vLLM, from the wheels that are in the cache'
	@echo 'make conformance   run real releases on the CPU and keep what they did (an hour and a half; docs/conformance.md)'
	@echo 'make rescan     derive all shipped profiles again from their releases and compare (half an hour)'
	@echo 'make docs       write the pages that are generated from the code'
	@echo 'make clean      remove everything that is not in version control but .venv'

# The gate alone: three small packages.
$(VENV)/.gate: requirements/gate.txt requirements/build.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or later is needed (make PYTHON=/path/to/python3)'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/gate.txt -r requirements/build.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

# The registry and its client on top.
$(VENV)/.server: requirements/server.txt $(VENV)/.gate
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/server.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.server
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dev.txt
	@touch $@

demo: $(VENV)/.server
	@$(BIN)/python -m drafter_cli.demo

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

# Every command that the tests start is measured, too.
coverage: $(VENV)/.dev
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -n $(WORKERS) $(PYTEST_ARGS)
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report --include='contracts/*' | tail -n 25

bench: $(VENV)/.gate
	$(BIN)/python benchmarks/startup.py $(if $(SGLANG_PYTHON),--sglang-python $(SGLANG_PYTHON))
	$(BIN)/python benchmarks/profiles.py

# Servers on the loopback interface and about 6 GB of temporary files, all gone afterwards; five minutes (docs/speed.md).
bench-registry: $(VENV)/.dev
	$(BIN)/python benchmarks/verdicts.py
	$(BIN)/python benchmarks/publish.py
	$(BIN)/python benchmarks/resolve.py $(if $(MLFLOW_PYTHON),--mlflow-python $(MLFLOW_PYTHON))

# Interrupted, or with more releases in the list, it scans only what is missing; after a change of the scanner, all.
profiles: $(VENV)/.gate
	$(MAKE) --no-print-directory -k -j $(WORKERS) $(patsubst %,$(SCANNED)/%.json,$(shell cat $(STABLE)))
	$(BIN)/python -m drafter_contracts.engines.pack pack $(SCANNED) --releases $(STABLE)

# Those of vLLM are plain documents; wheels that are in the cache are scanned, the others left as they are.
vllm-profiles: $(VENV)/.gate
	for wheel in $(WHEELS)/vllm/vllm-*.whl; do \
		release=$${wheel##*/vllm-}; \
		$(BIN)/drafters engine scan $$wheel -o $(ENGINES)/data/vllm/$${release%%-*}.json || exit; done

$(SCANNED)/%.json: $(SCANNER) | $(VENV)/.gate
	@mkdir -p $(SCANNED) $(WHEELS)
	@ls $(WHEELS)/sglang-$*-*.whl >/dev/null 2>&1 || { part=$$(mktemp -d -p $(WHEELS)) \
		&& $(BIN)/python -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
			--platform manylinux_2_34_x86_64 --python-version 3.11 -d $$part sglang==$* \
		&& mv $$part/*.whl $(WHEELS) && rmdir $$part; }
	$(BIN)/drafters engine scan $(WHEELS)/sglang-$*-*.whl -o $@

# Real engines in environments of their own (built on the first run, below the user's cache): CONFORMANCE_ARGS='-k 0.5.9'.
conformance: $(VENV)/.dev
	DRAFTERS_WRITE_RESULTS=1 $(BIN)/python -m pytest -m running tests/conformance $(CONFORMANCE_ARGS)
	$(BIN)/python tests/conformance/running/page.py > docs/conformance.md

# Every shipped profile derived again and compared byte for byte, and every release's own option code (half an hour).
rescan: $(VENV)/.dev
	DRAFTERS_ALL_RELEASES=1 $(BIN)/python -m pytest -n $(WORKERS) -m 'conformance and not running' tests/conformance

docs: $(VENV)/.server
	$(BIN)/python -m drafter_contracts.rules.pages > docs/rules.md
	$(BIN)/python -m drafter_contracts.numberings.document > docs/numberings.md
	$(BIN)/python -m drafter_contracts.recording.page > docs/manifest.md
	$(BIN)/python -m drafter_contracts.recording.page --schema > docs/manifest.schema.json
	$(BIN)/python -m drafter_contracts.locking.document > docs/lock.schema.json
	$(BIN)/python tests/conformance/running/page.py > docs/conformance.md
	$(BIN)/python -m drafter_contracts.engines.coverage_page > docs/coverage.md
	$(BIN)/python -m drafter_cli.completion.page > docs/cli.md
	$(BIN)/python tests/write_sessions.py README.md docs/quickstart.md docs/upgrades.md

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
