# Every target sets up what it needs; a machine needs only Python 3.11 or newer and make.

PYTHON ?= python3
# The second Python of `make test-py`, and what to call for it.
PY ?= 3.13
PY_BIN ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/$(PY).*/bin/python$(PY)) python$(PY))
# More arguments for pytest, for example PYTEST_ARGS="-k beam -x".
PYTEST_ARGS ?=

VENV := .venv
VENV_SLOW := .venv-slow
VENV_PEERS := .venv-peers
VENV_LEARNED := .venv-learned
VENV_ADAPTERS := .venv-adapters
VENV_BACKBONES := .venv-backbones
VENV_BROWSER := .venv-browser
VENV_FUZZ := .venv-fuzz
VENV_SPARK := .venv-spark
VENV_RAY := .venv-ray
VENV_PY := .venv-$(PY)
PEERS := bench/peers/requirements.txt

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

$(VENV)/.stamp: requirements/dev.txt pyproject.toml
	$(call make-env,$(VENV),$(PYTHON))
	$(call install,$(VENV),requirements/dev.txt)

$(VENV_SLOW)/.stamp: requirements/slow.txt pyproject.toml
	$(call make-env,$(VENV_SLOW),$(PYTHON))
	$(call install,$(VENV_SLOW),requirements/slow.txt)

$(VENV_PY)/.stamp: requirements/dev.txt pyproject.toml
	$(call make-env,$(VENV_PY),$(PY_BIN))
	$(call install,$(VENV_PY),requirements/dev.txt)

# Not hash-locked: the CPU build of torch is found where it can be had, and differs by machine.
$(VENV_LEARNED)/.stamp: requirements/learned.in pyproject.toml
	$(call make-env,$(VENV_LEARNED),$(PYTHON))
	@echo "Installing requirements/learned.in into $(VENV_LEARNED) ..."
	@$(VENV_LEARNED)/bin/python -m pip install -qq -r requirements/learned.in
	@$(VENV_LEARNED)/bin/python -m pip install -qq --no-deps -e .
	@touch $@

$(VENV_ADAPTERS)/.stamp: requirements/adapters.in pyproject.toml
	$(call make-env,$(VENV_ADAPTERS),$(PYTHON))
	@echo "Installing requirements/adapters.in into $(VENV_ADAPTERS) ..."
	@$(VENV_ADAPTERS)/bin/python -m pip install -qq -r requirements/adapters.in
	@$(VENV_ADAPTERS)/bin/python -m pip install -qq --no-build-isolation -e ".[io]"
	@touch $@

# Not hash-locked, for the same reason as the learned comparators' environment.
$(VENV_BACKBONES)/.stamp: requirements/backbones.in pyproject.toml
	$(call make-env,$(VENV_BACKBONES),$(PYTHON))
	@echo "Installing requirements/backbones.in into $(VENV_BACKBONES) ..."
	@$(VENV_BACKBONES)/bin/python -m pip install -qq -r requirements/backbones.in
	@$(VENV_BACKBONES)/bin/python -m pip install -qq --no-deps -e .
	@touch $@

# The browser is the system's; axe-core comes from npm, and its test is left out with a word where npm is not there.
$(VENV_BROWSER)/.stamp: requirements/browser.in requirements/dev.txt pyproject.toml
	$(call make-env,$(VENV_BROWSER),$(PYTHON))
	@echo "Installing requirements/browser.in into $(VENV_BROWSER) ..."
	@$(VENV_BROWSER)/bin/python -m pip install -qq --require-hashes -r requirements/dev.txt
	@$(VENV_BROWSER)/bin/python -m pip install -qq -r requirements/browser.in
	@$(VENV_BROWSER)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
	@mkdir -p $(VENV_BROWSER)/axe && cd $(VENV_BROWSER)/axe && { npm pack --silent axe-core@4 && tar xzf axe-core-*.tgz; } || \
		echo "axe-core could not be had from npm; its test will be left out." >&2
	@touch $@

$(VENV_FUZZ)/.stamp: requirements/fuzz.in requirements/dev.txt pyproject.toml
	$(call make-env,$(VENV_FUZZ),$(PYTHON))
	@echo "Installing requirements/fuzz.in into $(VENV_FUZZ) ..."
	@$(VENV_FUZZ)/bin/python -m pip install -qq --require-hashes -r requirements/dev.txt
	@$(VENV_FUZZ)/bin/python -m pip install -qq -r requirements/fuzz.in
	@$(VENV_FUZZ)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
	@touch $@

$(VENV_SPARK)/.stamp: requirements/spark.in pyproject.toml
	$(call make-env,$(VENV_SPARK),$(PYTHON))
	@echo "Installing requirements/spark.in into $(VENV_SPARK) ..."
	@$(VENV_SPARK)/bin/python -m pip install -qq -r requirements/spark.in
	@$(VENV_SPARK)/bin/python -m pip install -qq -e ".[io]"
	@touch $@

$(VENV_RAY)/.stamp: requirements/ray.in pyproject.toml
	$(call make-env,$(VENV_RAY),$(PYTHON))
	@echo "Installing requirements/ray.in into $(VENV_RAY) ..."
	@$(VENV_RAY)/bin/python -m pip install -qq -r requirements/ray.in
	@$(VENV_RAY)/bin/python -m pip install -qq -e ".[io]"
	@touch $@

# The peers are not ours: their environment holds them alone, and the benchmark can do without it.
$(VENV_PEERS)/.stamp: $(PEERS)
	$(call make-env,$(VENV_PEERS),$(PYTHON))
	@echo "Installing $(PEERS) into $(VENV_PEERS) ..."
	@$(VENV_PEERS)/bin/python -m pip install -qq --retries 1 -r $(PEERS)
	@touch $@

.PHONY: setup
setup: $(VENV)/.stamp ## Create .venv with the locked packages (PYTHON=... to choose the interpreter)

.PHONY: demo
demo: setup ## Run the demonstration: one inventory decision, end to end
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
test-slow: $(VENV_SLOW)/.stamp ## Run the slow tests, with independent solvers, in .venv-slow
	$(VENV_SLOW)/bin/python -m pytest -m slow $(PYTEST_ARGS)
	UCSEARCH_CASES=all $(VENV_SLOW)/bin/python -m pytest -n 2 --dist loadfile -m "not slow" tests/property tests/conformance tests/tasks \
		tests/records/test_canonical.py tests/records/test_blobs.py $(PYTEST_ARGS)

.PHONY: test-py
test-py: $(VENV_PY)/.stamp ## Run the tests on another Python, in its own environment (PY=3.12; default 3.13)
	$(VENV_PY)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" $(PYTEST_ARGS)

.PHONY: mutants
mutants: setup ## Change gate, verifier, certificate, plain engine, trace, tables one place at a time; count what tests catch (a sample)
	$(VENV)/bin/python scripts/mutants.py --quick --sample $(or $(SAMPLE),144) --seed $(or $(SEED),1)

.PHONY: test-learned
test-learned: $(VENV_LEARNED)/.stamp ## Train tiny DQN and PPO policies, and run the notebook that does, in .venv-learned
	$(VENV_LEARNED)/bin/python -m pytest tests/learned tests/examples/test_notebooks.py $(PYTEST_ARGS)

.PHONY: backbones
backbones: $(VENV_BACKBONES)/.stamp ## Train six forecasting networks briefly and store their forecasts for the suites (needs UCSEARCH_DATA)
	$(VENV_BACKBONES)/bin/python scripts/train_backbones.py trained-backbones

.PHONY: lob-networks
lob-networks: $(VENV_BACKBONES)/.stamp ## Train the small classifiers of lob-direction, three seeds each (needs UCSEARCH_DATA)
	$(VENV_BACKBONES)/bin/python scripts/train_lob.py

.PHONY: test-adapters
test-adapters: $(VENV_ADAPTERS)/.stamp ## Read forecasts made by the real libraries, and run the notebook that does, in .venv-adapters
	$(VENV_ADAPTERS)/bin/python -m pytest tests/adapters_real tests/adapters tests/examples/test_notebooks.py $(PYTEST_ARGS)

.PHONY: test-browser
test-browser: $(VENV_BROWSER)/.stamp ## Drive the console, and the site that make docs built, with chromium (UCSEARCH_SHOTS=folder keeps pictures)
	$(VENV_BROWSER)/bin/python -m pytest tests/browser $(PYTEST_ARGS)

.PHONY: test-fuzz
test-fuzz: $(VENV_FUZZ)/.stamp ## Requests that are wrong somewhere (REQUESTS=1000000), Schemathesis (UCSEARCH_FUZZ=1000), a generated client
	UCSEARCH_FUZZ_REQUESTS=$(or $(REQUESTS),20000) $(VENV_FUZZ)/bin/python -m pytest -s -m slow tests/service/test_fuzz.py \
		tests/slow/test_fuzz_service.py tests/slow/test_generated_client.py $(PYTEST_ARGS)

.PHONY: test-spark
test-spark: $(VENV_SPARK)/.stamp ## Decide on Spark's local cluster, an executor killed, in .venv-spark (needs Java 17 or 21)
	PYTHONPATH=src:. $(VENV_SPARK)/bin/python -m pytest tests/scale_spark $(PYTEST_ARGS)

.PHONY: test-ray
test-ray: $(VENV_RAY)/.stamp ## Decide on Ray Data, a worker killed, in .venv-ray
	PYTHONPATH=src:. $(VENV_RAY)/bin/python -m pytest tests/scale_ray $(PYTEST_ARGS)

.PHONY: bench-peers-setup
bench-peers-setup: $(VENV_PEERS)/.stamp ## Create .venv-peers with the libraries the benchmark compares with

.PHONY: bench-service
bench-service: setup ## The decision service under load, over SQLite and PostgreSQL; SECONDS=60 MEMORY=100000 for the full run (ONLY=memory)
	$(VENV)/bin/python -m bench.service_bench --seconds $(or $(SECONDS),5) --memory $(or $(MEMORY),5000) $(if $(ONLY),--only $(ONLY))

.PHONY: bench
bench: setup ## Print the benchmark table, with the peers where they can be installed
	@$(MAKE) --no-print-directory bench-peers-setup || \
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

# Tools of their own environments: what builds the site or a release never shapes the package's dependencies.
.venv-docs/.stamp: requirements/docs.txt
	$(call make-env,.venv-docs,$(PYTHON))
	@echo "Installing requirements/docs.txt into .venv-docs ..."
	@.venv-docs/bin/python -m pip install -qq --require-hashes -r requirements/docs.txt
	@touch $@

.venv-dist/.stamp: requirements/dist.txt
	$(call make-env,.venv-dist,$(PYTHON))
	@echo "Installing requirements/dist.txt into .venv-dist ..."
	@.venv-dist/bin/python -m pip install -qq --require-hashes -r requirements/dist.txt
	@touch $@

.PHONY: docs
docs: setup .venv-docs/.stamp ## Build the documents as a site in build/site/html, strictly: no broken link or anchor
	$(VENV)/bin/python scripts/site.py .venv-docs/bin/zensical

.PHONY: dist
dist: .venv-dist/.stamp ## Build wheel and sdist twice, compare, install on each Python at hand and run the demo; SBOM
	.venv-dist/bin/python scripts/dist.py

.PHONY: clean
clean: ## Remove builds and caches
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/out
	find . -name '.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## Remove the environments too
	rm -rf .venv .venv-*
