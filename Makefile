# Every target sets up what it needs; a machine needs only Python 3.11 or newer and make.

PYTHON ?= python3
# The second Python of `make test-py`, and what to call for it.
PY ?= 3.13
PY_BIN ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/$(PY).*/bin/python$(PY)) python$(PY))
# More arguments for pytest, for example PYTEST_ARGS="-k beam -x".
PYTEST_ARGS ?=

# Six environments: running and developing, everything else that is tested, networks, peers, documents, another Python.
VENV := .venv
FULL := .venv-full
TORCH := .venv-torch
PEERS := .venv-peers
DOCS := .venv-docs
OTHER := .venv-$(PY)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# The tests start hundreds of processes: without bytecode each of them compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile

OTHER_PYTHON := name another with PYTHON=... (PY_BIN=... for test-py)

# $(call make-env,FOLDER,PYTHON): a virtual environment, or one clear sentence why not.
define make-env
@version=$$($(2) -c 'import sys; v = sys.version_info; print("%d.%d %s" % (v[0], v[1], v >= (3, 11)))' 2>/dev/null); \
case "$$version" in \
	*True) ;; \
	*False) echo "ucsearch needs Python 3.11 or newer, but '$(2)' is Python $${version% False}; $(OTHER_PYTHON)." >&2; exit 1 ;; \
	*) echo "ucsearch needs Python 3.11 or newer, but '$(2)' cannot be run; $(OTHER_PYTHON)." >&2; exit 1 ;; \
esac
@test -x $(1)/bin/pip || $(2) -m venv $(1) || { \
	rm -rf $(1); echo "'$(2) -m venv' failed; on some systems it is a package of its own, such as python3-venv." >&2; exit 1; }
endef

# $(call install,FOLDER,LOCK): the locked packages, then this one in place, built by the locked hatchling.
define install
@echo "Installing $(2) into $(1) ..."
@$(1)/bin/python -m pip install -qq --require-hashes -r $(2)
@$(1)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
@touch $@
endef

# What running needs; developing and testing add to it.
$(VENV)/.run: requirements/run.txt pyproject.toml
	$(call make-env,$(VENV),$(PYTHON))
	$(call install,$(VENV),requirements/run.txt)

$(VENV)/.stamp: $(VENV)/.run requirements/dev.txt
	$(call install,$(VENV),requirements/dev.txt)

$(OTHER)/.stamp: requirements/dev.txt pyproject.toml
	$(call make-env,$(OTHER),$(PY_BIN))
	$(call install,$(OTHER),requirements/dev.txt)

# The browser is the system's; axe-core and pyright come from npm, and their tests are left out with a word where npm is not there.
$(FULL)/.stamp: requirements/full.txt pyproject.toml
	$(call make-env,$(FULL),$(PYTHON))
	$(call install,$(FULL),requirements/full.txt)
	@mkdir -p $(FULL)/axe && cd $(FULL)/axe && { npm pack --silent axe-core@4 && tar xzf axe-core-*.tgz; } || \
		echo "axe-core could not be had from npm; its test will be left out." >&2
	@mkdir -p $(FULL)/pyright && cd $(FULL)/pyright && { npm pack --silent pyright@1 && tar xzf pyright-*.tgz; } || \
		echo "pyright could not be had from npm; its test will be left out." >&2

# Networks: learned comparators, trained backbones, other libraries' forecasters. Not hash-locked: the CPU build of torch
# is found where it can be had, and differs by machine.
$(TORCH)/.stamp: requirements/torch.in pyproject.toml
	$(call make-env,$(TORCH),$(PYTHON))
	@echo "Installing requirements/torch.in into $(TORCH) ..."
	@$(TORCH)/bin/python -m pip install -qq -r requirements/torch.in
	@$(TORCH)/bin/python -m pip install -qq --no-build-isolation -e ".[io]"
	@touch $@

# The peers are not ours: their environment holds them alone, and the benchmark can do without it.
$(PEERS)/.stamp: bench/peers/requirements.txt
	$(call make-env,$(PEERS),$(PYTHON))
	@echo "Installing bench/peers/requirements.txt into $(PEERS) ..."
	@$(PEERS)/bin/python -m pip install -qq --retries 1 -r bench/peers/requirements.txt
	@touch $@

# Tools of an environment of their own: what builds the site or a release never shapes the package's dependencies.
$(DOCS)/.stamp: requirements/docs.txt
	$(call make-env,$(DOCS),$(PYTHON))
	@echo "Installing requirements/docs.txt into $(DOCS) ..."
	@$(DOCS)/bin/python -m pip install -qq --require-hashes -r requirements/docs.txt
	@touch $@

# Not locked: one has the oldest numba that pyproject.toml allows, the other the newest that can be had.
NUMBA_OLDEST := $(shell sed -n 's/^ *"numba>=\([0-9.]*\)".*/\1/p' pyproject.toml)

.venv-numba-oldest/.stamp: pyproject.toml
	$(call make-env,.venv-numba-oldest,$(PYTHON))
	@.venv-numba-oldest/bin/python -m pip install -qq "numba==$(NUMBA_OLDEST)" hypothesis pandas pytest scipy -e .
	@touch $@

.venv-numba-newest/.stamp: pyproject.toml
	$(call make-env,.venv-numba-newest,$(PYTHON))
	@.venv-numba-newest/bin/python -m pip install -qq --upgrade numba hypothesis pandas pytest scipy -e .
	@touch $@

.PHONY: setup
setup: $(VENV)/.stamp ## Create .venv with the locked packages for developing (PYTHON=... to choose the interpreter)

.PHONY: demo
demo: $(VENV)/.run ## Run the demonstration: one inventory decision, end to end
	@$(VENV)/bin/ucsearch demo

.PHONY: service-demo
service-demo: setup ## Start the decision service with a demonstration plan and a simulated stream (DEMO_ARGS="--for 60")
	@$(VENV)/bin/ucsearch service demo $(DEMO_ARGS)

.PHONY: lint
lint: setup ## Check style, format and types
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy --strict src

.PHONY: test
test: setup ## Run the tests, slow ones excepted (UCSEARCH_DATA=folder adds those on real data)
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" $(PYTEST_ARGS)

.PHONY: test-slow
test-slow: $(FULL)/.stamp ## Run the slow tests, with independent solvers
	$(FULL)/bin/python -m pytest -m slow $(PYTEST_ARGS)
	UCSEARCH_CASES=all $(FULL)/bin/python -m pytest -n 2 --dist loadfile -m "not slow" tests/property tests/conformance tests/tasks \
		tests/records/test_canonical.py tests/records/test_blobs.py $(PYTEST_ARGS)

.PHONY: test-py
test-py: $(OTHER)/.stamp ## Run the tests on another Python (PY=3.12; default 3.13)
	$(OTHER)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" $(PYTEST_ARGS)

.PHONY: test-numba
test-numba: .venv-numba-oldest/.stamp .venv-numba-newest/.stamp ## Engines and kernels on the oldest and newest numba that pyproject.toml allows
	for one in oldest newest; do .venv-numba-$$one/bin/python -m pytest -m "not slow" tests/conformance tests/engine $(PYTEST_ARGS) || exit 1; done

.PHONY: mutants
mutants: setup ## Change gate, verifier, certificate, plain engine, trace, tables one place at a time; count what tests catch (a sample)
	$(VENV)/bin/python scripts/mutants.py --quick --sample $(or $(SAMPLE),144) --seed $(or $(SEED),1)

.PHONY: test-torch
test-torch: $(TORCH)/.stamp ## Train tiny policies, read forecasts made by the real libraries, run the notebooks that do
	$(TORCH)/bin/python -m pytest tests/learned tests/adapters_real tests/adapters tests/examples/test_notebooks.py $(PYTEST_ARGS)

.PHONY: backbones
backbones: $(TORCH)/.stamp ## Train six networks and the order book's classifiers; store their forecasts for the suites (needs UCSEARCH_DATA)
	$(TORCH)/bin/python scripts/train_backbones.py trained-backbones
	$(TORCH)/bin/python scripts/train_lob.py

.PHONY: test-browser
test-browser: $(FULL)/.stamp ## Drive the console, and the site that make docs built, with chromium (UCSEARCH_SHOTS=folder keeps pictures)
	$(FULL)/bin/python -m pytest tests/browser $(PYTEST_ARGS)

.PHONY: test-fuzz
test-fuzz: $(FULL)/.stamp ## Requests that are wrong somewhere (REQUESTS=1000000), Schemathesis (UCSEARCH_FUZZ=1000), a generated client
	UCSEARCH_FUZZ_REQUESTS=$(or $(REQUESTS),20000) $(FULL)/bin/python -m pytest -s -m slow tests/service/test_fuzz.py \
		tests/slow/test_fuzz_service.py tests/slow/test_generated_client.py $(PYTEST_ARGS)

.PHONY: test-cluster
test-cluster: $(FULL)/.stamp ## Decide on Spark's local cluster and on Ray Data, a worker killed (Spark needs Java 17 or 21)
	PYTHONPATH=src:. $(FULL)/bin/python -m pytest tests/scale_spark tests/scale_ray $(PYTEST_ARGS)

.PHONY: bench-service
bench-service: setup ## The decision service under load, over SQLite and PostgreSQL; SECONDS=60 MEMORY=100000 for the full run (ONLY=memory)
	$(VENV)/bin/python -m bench.service_bench --seconds $(or $(SECONDS),5) --memory $(or $(MEMORY),5000) $(if $(ONLY),--only $(ONLY))

.PHONY: bench
bench: setup ## Print the benchmark table, with the peers where they can be installed
	@$(MAKE) --no-print-directory $(PEERS)/.stamp || \
		echo "The peers could not be installed; the benchmark goes on without them." >&2
	$(VENV)/bin/python -m bench
	$(VENV)/bin/python -m bench.closed_bench
	$(VENV)/bin/python -m bench.allocation_bench
	$(VENV)/bin/python -m bench.steps_bench

.PHONY: bench-planning
bench-planning: setup ## Processor time of tune (200 series x 400 days x 12 tries) and decide (30,000 series from CSV)
	$(VENV)/bin/python -m bench.planning_bench

.PHONY: bench-scale
bench-scale: setup ## Throughput of jobs of parts against the plain run, overhead for each series, memory of a worker
	$(VENV)/bin/python -m bench.scale_bench --series $(or $(SERIES),4000)

.PHONY: evidence
evidence: setup ## Run all evaluation suites into evidence/ and write the results tables (needs UCSEARCH_DATA)
	$(VENV)/bin/python scripts/evidence.py

.PHONY: docs
docs: setup $(DOCS)/.stamp ## Build the documents as a site in build/site/html, strictly: no broken link or anchor
	$(VENV)/bin/python scripts/site.py $(DOCS)/bin/zensical

.PHONY: dist
dist: $(DOCS)/.stamp ## Build wheel and sdist twice, compare, install on each Python at hand and run the demo; SBOM
	$(DOCS)/bin/python scripts/dist.py

.PHONY: clean
clean: ## Remove builds and caches
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/out
	find . -name '.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## Remove the environments too
	rm -rf .venv .venv-*
