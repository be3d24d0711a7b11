# Every target sets up what it needs; a machine needs only Python 3.11 or newer and make.

PYTHON ?= python3
# The second Python of `make test-py`, and what to call for it.
PY ?= 3.13
PY_BIN ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/$(PY).*/bin/python$(PY)) python$(PY))
# More arguments for pytest, for example PYTEST_ARGS="-k beam -x".
PYTEST_ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# The tests start hundreds of processes: without bytecode each of them compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
TESTS := -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"
BIN := .venv/bin
FULL := .venv-full/bin

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile

# $(call venv,FOLDER,PYTHON): a virtual environment, or one clear sentence why not.
define venv
@$(2) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "ucsearch needs Python 3.11 or newer; name one with PYTHON=... (PY_BIN=... for test-py). '$(2)' cannot be used." >&2; exit 1; }
@test -x $(1)/bin/pip || $(2) -m venv $(1) || { rm -rf $(1); \
	echo "'$(2) -m venv' failed; on some systems it is a package of its own, such as python3-venv." >&2; exit 1; }
endef

# $(call install,FOLDER,LOCK): the locked packages, then this one in place, built by the locked hatchling.
define install
@echo "Installing $(2) into $(1) ..."
@$(1)/bin/python -m pip install -qq --require-hashes -r $(2)
@$(1)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
@touch $@
endef

# Six environments: running and developing, everything else that is tested, another Python, networks, peers, documents.
.venv/.run: requirements/run.txt pyproject.toml
	$(call venv,.venv,$(PYTHON))
	$(call install,.venv,requirements/run.txt)
.venv/.stamp: .venv/.run requirements/dev.txt
	$(call install,.venv,requirements/dev.txt)
.venv-$(PY)/.stamp: requirements/dev.txt pyproject.toml
	$(call venv,.venv-$(PY),$(PY_BIN))
	$(call install,.venv-$(PY),requirements/dev.txt)
# The browser is the system's; axe-core comes from npm, and its test is left out with a word where npm is not there.
.venv-full/.stamp: requirements/full.txt pyproject.toml
	$(call venv,.venv-full,$(PYTHON))
	$(call install,.venv-full,requirements/full.txt)
	@mkdir -p .venv-full/axe && cd .venv-full/axe && { npm pack --silent axe-core@4 && tar xzf axe-core-*.tgz; } || \
		echo "axe-core could not be had from npm; its test will be left out." >&2
# Not hash-locked: the CPU build of torch is found where it can be had, and differs by machine.
.venv-torch/.stamp: requirements/torch.in pyproject.toml
	$(call venv,.venv-torch,$(PYTHON))
	@.venv-torch/bin/python -m pip install -qq -r requirements/torch.in
	@.venv-torch/bin/python -m pip install -qq --no-build-isolation -e ".[io]"
	@touch $@
.venv-peers/.stamp: bench/peers/requirements.txt
	$(call venv,.venv-peers,$(PYTHON))
	@.venv-peers/bin/python -m pip install -qq --retries 1 -r $<
	@touch $@
.venv-docs/.stamp: requirements/docs.txt
	$(call venv,.venv-docs,$(PYTHON))
	@.venv-docs/bin/python -m pip install -qq --require-hashes -r $<
	@touch $@

.PHONY: help setup demo service-demo lint test test-slow test-py test-numba test-torch test-browser test-fuzz test-cluster \
	mutants bench bench-service bench-planning bench-scale evidence backbones docs dist clean distclean

setup: .venv/.stamp ## Create .venv with the locked packages for developing (PYTHON=... to choose the interpreter)

demo: .venv/.run ## Run the demonstration: one inventory decision, end to end
	@$(BIN)/ucsearch demo
service-demo: setup ## Start the decision service with a simulated stream (DEMO_ARGS="--port 0")
	@$(BIN)/ucsearch service demo $(DEMO_ARGS)

lint: setup ## Check style, format, types, and that imports go one way
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy --strict src
	$(BIN)/lint-imports

test: setup ## Run the tests, slow ones excepted (UCSEARCH_DATA=folder adds those on real data)
	$(BIN)/python -m pytest $(TESTS) $(PYTEST_ARGS)
test-slow: .venv-full/.stamp ## Slow tests, independent solvers, all random cases
	$(FULL)/python -m pytest -m slow $(PYTEST_ARGS)
	UCSEARCH_CASES=all $(FULL)/python -m pytest $(TESTS) tests/property tests/conformance tests/tasks \
		tests/records/test_canonical.py tests/records/test_blobs.py $(PYTEST_ARGS)
test-py: .venv-$(PY)/.stamp ## The tests on another Python (PY=3.12; default 3.13)
	.venv-$(PY)/bin/python -m pytest $(TESTS) $(PYTEST_ARGS)
# Not locked: one has the oldest numba that pyproject.toml allows, the other the newest that can be had.
test-numba: ## Engines and kernels on the oldest and the newest numba
	for n in "==$$(sed -n 's/^ *"numba>=\([0-9.]*\)".*/\1/p' pyproject.toml)" ""; do v=.venv-numba$$n; \
		$(PYTHON) -m venv $$v && $$v/bin/python -m pip install -qq --upgrade "numba$$n" hypothesis pandas pytest scipy -e . && \
		$$v/bin/python -m pytest -m "not slow" tests/conformance tests/engine $(PYTEST_ARGS) || exit 1; done
test-torch: .venv-torch/.stamp ## Train tiny policies, read forecasts of the real libraries, run their notebooks
	.venv-torch/bin/python -m pytest tests/learned tests/adapters_real tests/adapters tests/examples/test_notebooks.py $(PYTEST_ARGS)
test-browser: .venv-full/.stamp ## The console, and the site that make docs built, in chromium (UCSEARCH_SHOTS=folder keeps pictures)
	$(FULL)/python -m pytest tests/browser $(PYTEST_ARGS)
test-fuzz: .venv-full/.stamp ## Hostile requests (REQUESTS=1000000), Schemathesis (UCSEARCH_FUZZ=1000), a generated client
	UCSEARCH_FUZZ_REQUESTS=$(or $(REQUESTS),20000) $(FULL)/python -m pytest -s -m slow tests/service/test_fuzz.py \
		tests/slow/test_fuzz_service.py tests/slow/test_generated_client.py $(PYTEST_ARGS)
test-cluster: .venv-full/.stamp ## Spark's local cluster and Ray Data, a worker killed (Spark needs Java 17 or 21)
	PYTHONPATH=src:. $(FULL)/python -m pytest tests/scale_spark tests/scale_ray $(PYTEST_ARGS)
mutants: setup ## Change a sample of places one at a time and count what tests catch (SAMPLE=144 SEED=1)
	$(BIN)/python scripts/mutants.py --quick --sample $(or $(SAMPLE),144) --seed $(or $(SEED),1)

bench: setup ## The benchmark table, with the peers where they can be installed
	@$(MAKE) --no-print-directory .venv-peers/.stamp || echo "The peers could not be installed; the benchmark goes on." >&2
	$(BIN)/python -m bench
bench-service: setup ## The service under load (SECONDS=60 MEMORY=100000 for the full run, ONLY=memory)
	$(BIN)/python -m bench.service_bench --seconds $(or $(SECONDS),5) --memory $(or $(MEMORY),5000) $(if $(ONLY),--only $(ONLY))
bench-planning: setup ## Processor time of tune and of decide from CSV
	$(BIN)/python -m bench.planning_bench
bench-scale: setup ## Jobs of parts against the plain run, memory of a worker
	$(BIN)/python -m bench.scale_bench --series $(or $(SERIES),4000)

evidence: setup ## Run all suites into evidence/ and write the results table (needs UCSEARCH_DATA)
	$(BIN)/python scripts/evidence.py
backbones: .venv-torch/.stamp ## Train the networks whose forecasts the suites look up (needs UCSEARCH_DATA)
	.venv-torch/bin/python scripts/train_backbones.py trained-backbones
	.venv-torch/bin/python scripts/train_lob.py
docs: setup .venv-docs/.stamp ## Build the site in build/site/html, strictly: no broken link or anchor
	$(BIN)/python scripts/site.py .venv-docs/bin/zensical
dist: .venv-docs/.stamp ## Build wheel and sdist twice, compare, install on each Python at hand, run the demo; SBOM
	.venv-docs/bin/python scripts/dist.py
clean: ## Remove builds and caches
	rm -rf build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench/out
	find . -name '.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
distclean: clean ## Remove the environments too
	rm -rf .venv .venv-*
