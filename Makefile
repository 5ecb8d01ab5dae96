# Few verbs; each does all it needs on a fresh machine with Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENGINE := $(wildcard src/barnabas/batch/engine/*.py)
# Many tests wait for processes that they start: three at a time keep two cores busy.
JOBS ?= 3

.PHONY: help setup audit test walkthrough lint wheel pages demo verify suites sim torn fuzz nemesis mutants bench bench-spark pins clean

help: ## show the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: $(VENV)/.ready ## make .venv with everything; leaves .venv/bin/barnabas
	@$(BIN)/python -m tools.engine

$(VENV)/.ready: pyproject.toml setup.py requirements/dev.txt $(ENGINE)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

audit: ## known weaknesses of the packages that we use (pip-audit)
	@test -x .audit/bin/pip-audit || { $(PYTHON) -m venv .audit && .audit/bin/pip install --quiet pip-audit; }
	.audit/bin/pip-audit --requirement requirements/dev.txt --no-deps --disable-pip

test: setup ## the tests: under twelve minutes on two cores
	$(BIN)/python -m pytest -rs -n $(JOBS)

walkthrough: setup ## clusters of real processes, as in books: quorum, elections, high watermark, groups; nodes killed, paused, cut off, replaced (about a quarter of an hour)
	$(BIN)/python -m pytest -rs -m "slow or not slow" tests/walkthrough tests/broker/replication tests/cli/cluster tests/cli/sessions tests/examples/test_raft_kv.py

lint: setup ## ruff, mypy --strict, import-linter, bandit, the list of words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/bandit --quiet --recursive --severity-level medium src
	$(BIN)/python -m tools.words

wheel: setup ## build the wheel, and try it in fresh environments on each Python at hand, with and without a compiled engine (ONLY=3.12)
	$(BIN)/python -m tools.wheel --extras $(if $(ONLY),--only $(ONLY))

pages: setup ## follow the tutorials and how-tos with an installed wheel (TESTS="tests/docs/test_pages.py -k tutorial")
	$(BIN)/python -m tools.wheel --pages $(TESTS)

verify: setup ## hold our work against Apache Kafka (PART=broker, quorum, cluster, zookeeper, security, tools, kit, spark); writes docs/verified.md
	$(BIN)/python -m tools.verify $(PART)

suites: setup ## real clients' own test suites against a barnabas broker, or a cluster (NODES=3, MODE=zookeeper)
	$(BIN)/python -m tools.suites $(if $(NODES),--nodes $(NODES)) $(if $(MODE),--mode $(MODE)) $(ONLY)

sim: setup ## long simulation: SEEDS=n seeds of every scenario; which lines of the pure cores seeds run
	$(BIN)/python -m barnabas.testing.simulation --seeds $(or $(SEEDS),10000)
	$(BIN)/python -m pytest -m slow tests/testing

torn: setup ## ten thousand truncations and bit flips
	$(BIN)/python -m tools.torn --rounds $(or $(ROUNDS),10000)

fuzz: setup ## a million hostile logins and frames, and the stall attack, with a healthy client meanwhile (KAFKA=1 compares the slowest with Apache Kafka; writes docs/stall.md)
	$(BIN)/python -m tools.fuzz --rounds $(or $(ROUNDS),1000000) --logins $(or $(LOGINS),$(ROUNDS),1000000) --stall $(if $(KAFKA),--kafka)

nemesis: setup ## process faults on real clusters (RUNS, SECONDS, NODES=3 or 5, SEED, MODE=zookeeper, KAFKA=4.1.0 for the control); best as root; writes docs/nemesis.md
	$(BIN)/python -m tools.nemesis --runs $(or $(RUNS),10) --seconds $(or $(SECONDS),120) --nodes $(or $(NODES),3) --seed $(or $(SEED),1) $(if $(MODE),--mode $(MODE)) $(if $(KAFKA),--kafka $(KAFKA)) $(OPTIONS)

mutants: setup ## random faults must be noticed: COUNT=n SEED=n; writes docs/mutants.md
	$(BIN)/python -m tools.mutants --count $(or $(COUNT),100) --seed $(or $(SEED),1) --jobs $(JOBS) $(OPTIONS)

bench: setup ## the rows of bench/, side by side; writes docs/benchmarks.md
	$(BIN)/python -m bench $(ROWS)

bench-spark: setup ## the rows of Spark beside its own Kafka connector (ROWS="spark-read-*"); same page
	$(BIN)/python -m bench $(or $(ROWS),"spark-*")

demo: setup ## see it work
	$(BIN)/barnabas demo

pins: ## export the pinned versions again
	$(BIN)/python -m pip freeze --all --exclude-editable | grep -v ^pip== | grep -E '^[A-Za-z0-9_.-]+==' > requirements/dev.txt

clean: ## remove what the verbs made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis .pytest_cache bench/out demo
	find src -name '*.so' -delete; find . -name __pycache__ -type d -prune -exec rm -rf {} +
