# The commands of the project. `make help` prints this list; every command sets up what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CACHE  := .cache

# With the tests of the reactor that run under a model checker, which no other build has.
MODEL = --features mqcore-reactor/model
# What has no tests is left out: it would be compiled all the same.
RUST_TESTS = cargo test --locked --workspace --exclude mqcore-bindings --exclude mqcore-benches $(MODEL)

# What the longer commands run.
DEMO  = $(BIN)/python scripts/demo.py
DEMO_STORE = $(BIN)/python scripts/demo_store.py
BENCH = cargo bench --locked -p mqcore-benches && $(BIN)/python benches/python_rows.py && \
        $(BIN)/python benches/report.py
CRASH = cargo test --locked --release -p mqcore-engine --test crash -- --ignored --nocapture && \
        MQCORE_KILL_ROUNDS=1000 cargo test --locked --release -p mqcore-engine --test kill -- \
        --nocapture && \
        MQCORE_REACTOR_KILLS=50 $(BIN)/pytest tests/broker/test_reactor_kills.py
SIMULATE = cargo test --locked --release -p mqcore-shipping --test simulation -- --ignored --nocapture && \
        cargo test --locked --release -p mqcore-consensus --lib simulation -- --ignored --nocapture
# One after the other: how long nothing is acknowledged is measured.
FAULTS = rm -f target/faults.json && $(BIN)/pytest -s --matrix tests/faults/test_list.py -k test_no_promise; failed=$$?; \
         cd tests && ../$(BIN)/python -m faults.figures && exit $$failed
# Two halves side by side: each waits most of its time.
FAILOVERS = MQCORE_FAULTS=$${MQCORE_FAULTS:-250} $(BIN)/pytest -s tests/faults -k
SWITCHES = MQCORE_SWITCHES=$${MQCORE_SWITCHES:-50} $(BIN)/pytest -s tests/faults/test_switches.py
FUZZ  = cargo test --locked --release -p mqcore-engine -p mqcore-wire -p mqcore-fast-path -p mqcore-columns -p mqcore-replica -p mqcore-access --test fuzz -- --ignored --nocapture \
        && MQCORE_FUZZ_ROUNDS=50000 $(BIN)/pytest tests/namesrv/test_hostile.py \
           tests/broker/test_hostile.py && \
        cargo build --locked --release --quiet -p mqcore-load && \
        (cd tests && ../$(BIN)/python -m fuzz.run --out ../target/mqcore-fuzz $(STORM))
# Extra arguments for scripts/check.py: --all runs what passed already and has not changed, too.
CHECK ?=
# What is installed is named with its hashes: another file of the same version is refused.
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
# Extra arguments for scripts/pins.py: --upgrade
PINS  ?=
# Built by cargo when first needed.
CARGO_DENY = 0.20.2
# Extra arguments for tests/fuzz/run.py: --minutes (60), --seed
STORM ?=
# Extra arguments for tests/soak/run.py: --minutes, --rate, --chaos-seconds, --seed, --chart FILE
SOAK  ?=
# Extra arguments for pytest, for example: make test PYTEST=--without-java
PYTEST ?=

# The extension is built again when one of these is newer than the last build.
RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml -o -name pyproject.toml) \
                Cargo.toml Cargo.lock
TOOLS_STAMP  := $(VENV)/.tools
BUILT_STAMP  := $(VENV)/.built
# The wheel holds the Python sources too.
PYTHON_SOURCES := $(shell find python -name '*.py' -o -name '*.pyi' -o -name py.typed -o -path '*/console/templates/*' -o -path '*/console/static/*')
WHEELS       := target/wheels
# The oldest glibc that the README names; zig links for it whatever this machine has.
PLATFORM     := manylinux_2_28
WHEEL_STAMP  := $(WHEELS)/.built

.PHONY: help setup wheel check demo demo-console demo-store test test-all rust-programs listed pytest interop browser screenshots spark bench bench-peers bench-serial bench-scale bench-overload lint tidy docs deny pins advisories sbom dist reproducible fuzz crash simulate faults failovers failovers-one failovers-other switches soak fmt clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(BUILT_STAMP) ## Create .venv, install the tools, build the extension (release mode)

# Keyed on the list of tools, not on the sources: the sources are the business of .built.
$(TOOLS_STAMP): requirements/dev.txt requirements/docs.txt scripts/prerequisites.sh
	@scripts/prerequisites.sh $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) -r requirements/dev.txt -r requirements/docs.txt
	@touch $@

# Everything is compiled once for `make test`: it needs the wheel, and uses the extension of it.
ifdef FROM_WHEEL
$(BUILT_STAMP): $(WHEEL_STAMP)
	@$(BIN)/python scripts/unpack_wheel.py
	@touch $@
else
$(BUILT_STAMP): $(TOOLS_STAMP) pyproject.toml $(RUST_SOURCES)
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --locked --quiet
	@touch $@
endif

wheel: $(WHEEL_STAMP) ## Build the wheel into target/wheels: one for every Python from 3.11 and glibc 2.28 on

$(WHEEL_STAMP): $(TOOLS_STAMP) pyproject.toml $(RUST_SOURCES) $(PYTHON_SOURCES)
	@rm -rf $(WHEELS)
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/maturin build --release --locked --quiet \
		--zig --compatibility $(PLATFORM) --out $(WHEELS)
	@touch $@

check: setup ## What one runs all day: format, lints, types, units, golden stores; what changed since it passed
	@$(BIN)/python scripts/check.py $(CHECK)

demo: setup ## Real flights through a killed broker, then Spark: delays, archive, report: three minutes
	@$(DEMO)

demo-console: setup ## The same, and at its end the web console over its store, until Ctrl-C
	@$(DEMO) --console

demo-store: setup ## The store alone: real flights, a kill, recovery, a query
	@$(DEMO_STORE)

test test-all: export FROM_WHEEL = 1
test: $(TOOLS_STAMP) ## Everything that proves the project: lint, Rust tests, Python tests
	@$(MAKE) -j2 lint rust-programs
	@$(RUST_TESTS)
	@$(MAKE) listed
	@$(MAKE) pytest

# Beside the extension, whose last step uses one processor, and the lints, of which most do.
rust-programs: ## Compile the test programs of Rust
	@$(RUST_TESTS) --no-run --quiet

listed: setup ## Compare the tests that are collected with tests/listed.txt: none may be lost
	@cd tests && ../$(BIN)/python -m tidy.list_tests

pytest: setup wheel ## The Python tests alone (PYTEST=... passes arguments)
	@$(BIN)/python scripts/run_tests.py $(PYTEST)

test-all: $(TOOLS_STAMP) ## Every test: sampled tables whole, every pair of versions, all crash images, fuzzing
	@$(MAKE) -j2 lint rust-programs
	@$(RUST_TESTS)
	@$(MAKE) listed wheel
	@$(BIN)/python scripts/run_tests.py --matrix $(PYTEST)
	@$(MAKE) crash fuzz

interop: setup ## The official clients, tools and brokers in every version, longer than in make test
	@$(BIN)/pytest --matrix tests/interop $(PYTEST)

browser: setup ## Journeys through the console in a headless Chromium (MQCORE_SCREENSHOTS=DIR keeps pictures)
	@test -x "$$(command -v chromium)" || { echo "chromium is needed, such as: apt-get install chromium"; exit 1; }
	@$(PIP_INSTALL) -r requirements/browser.txt
	@$(BIN)/pytest tests/console/test_browser.py $(PYTEST)

screenshots: setup ## Pictures of the console for the docs, taken anew in a headless Chromium
	@test -x "$$(command -v chromium)" || { echo "chromium is needed, such as: apt-get install chromium"; exit 1; }
	@$(PIP_INSTALL) -r requirements/browser.txt
	@$(BIN)/python scripts/screenshots.py

spark: setup ## Spark: all of it, with a cluster of real processes, longer than in make test
	@$(BIN)/pytest --matrix tests/spark $(PYTEST)

bench: setup ## Measure, next to the limits of this machine; writes benches/results.json
	@$(BENCH)

bench-peers: setup ## Beside the official brokers, from Maven jars, under the same load (MQCORE_BENCH=quick: short)
	@cargo build --locked --release --quiet -p mqcore-load
	@$(PIP_INSTALL) -r requirements/peers.txt
	@$(BIN)/python benches/peers.py

bench-serial: setup ## What a request does under locks and in the interpreter, and what that allows on more cores
	@cargo build --locked --release --quiet -p mqcore-load
	@cargo bench --locked --quiet -p mqcore-benches --bench serial
	@cargo bench --locked --quiet -p mqcore-benches --bench serial --features lock-times
	@$(BIN)/python benches/serial.py

bench-overload: setup ## A broker on half a core under three times its capacity: goodput, refusals, recovery
	@cargo build --locked --release --quiet -p mqcore-load
	@$(BIN)/python benches/overload.py

bench-scale: setup ## 1 to N reactors on this machine, beside the official broker: a table and a picture
	@cargo build --locked --release --quiet -p mqcore-load
	@$(BIN)/python benches/scale.py

# With the extension, which its stub is compared with. Clippy is the last: beside `rust-programs` it
# waits for cargo's lock.
lint: setup ## Formatting, lints, types, the stub, import layers, the rules of the sources, licences
	@cargo fmt --all --check
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python -m mypy.stubtest mqcore.native._native
	@PYTHONPATH=python $(BIN)/lint-imports --no-cache > $(VENV)/lint-imports.txt || { cat $(VENV)/lint-imports.txt; exit 1; }
	@$(MAKE) tidy
	@cargo clippy --locked --quiet --workspace --all-targets $(MODEL) -- -D warnings
	@cargo clippy --locked --quiet -p mqcore-engine -p mqcore-benches --features mqcore-engine/lock-times --lib --bench serial -- -D warnings

# With no extension needed: conftest files above tests/tidy import nothing of mqcore.
tidy: $(TOOLS_STAMP) ## The rules of the sources: layers, lengths, headers, names, licences
	@$(BIN)/pytest --quiet tests/tidy

docs: setup ## Build the book into target/book: guide, reference, rustdoc, pages for maintainers
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --quiet
	@rm -rf target/book/rustdoc && cp -r target/doc target/book/rustdoc
	@$(BIN)/python scripts/book/check_site.py target/book
	@echo "target/book/index.html"

deny: $(CACHE)/bin/cargo-deny ## cargo-deny over deny.toml; builds cargo-deny into .cache the first time (minutes)
	@$(CACHE)/bin/cargo-deny check licenses bans sources

$(CACHE)/bin/cargo-deny:
	@cargo install cargo-deny --version $(CARGO_DENY) --locked --root $(CACHE)

pins: $(TOOLS_STAMP) ## Renew versions and hashes in requirements/*.txt from *.in (PINS=--upgrade: the newest)
	@$(PIP_INSTALL) -r requirements/pins.txt
	@$(BIN)/python scripts/pins.py $(PINS)

# In an environment of its own: what it needs must not change what is tested.
advisories: $(CACHE)/bin/cargo-deny ## Known faults of crates and packages, asked of their databases; no build runs it
	@test -x $(CACHE)/advisories/bin/python || $(PYTHON) -m venv $(CACHE)/advisories
	@$(CACHE)/advisories/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements/advisories.txt
	@$(CACHE)/bin/cargo-deny check advisories; crates=$$?; \
		$(CACHE)/advisories/bin/pip-audit --require-hashes --disable-pip --progress-spinner=off \
		-r requirements/dev.txt -r requirements/docs.txt; packages=$$?; exit $$((crates || packages))

sbom: ## The bill of materials of the wheel, CycloneDX, as target/mqcore.cdx.json
	@$(PYTHON) scripts/sbom.py target/mqcore.cdx.json
	@echo target/mqcore.cdx.json

dist: $(TOOLS_STAMP) ## What is released, as target/dist: the wheel, its bill of materials, SHA256SUMS
	@$(BIN)/python scripts/dist.py target/dist
	@cat target/dist/SHA256SUMS

reproducible: $(TOOLS_STAMP) ## Build what is released twice, in two folders, and compare the bytes
	@$(BIN)/python scripts/dist.py --twice

fuzz: setup ## Bad bytes into every decoder, and into the live ports of running programs for an hour (STORM="--minutes 300")
	@$(FUZZ)

crash: setup ## Every crash image of small histories, and real processes killed
	@$(CRASH)

simulate: ## Replication in 100,000 seeded histories of faults (MQCORE_SIMULATE=n of each kind, MQCORE_SIMULATE_FROM=seed)
	@$(SIMULATE)

faults: setup ## Every fault of the list under load; a table (MQCORE_FAULTS=n: rounds in percent; MQCORE_FAULTS_SEED)
	@$(FAULTS)

failovers: setup ## Slaves and controllers as processes: kills, pauses, cut links (MQCORE_FAULTS=n rounds)
	@$(MAKE) -j2 --output-sync=none failovers-one failovers-other

failovers-one: setup
	@$(FAILOVERS) "(one-controller or pair) and not test_list"

failovers-other: setup
	@$(FAILOVERS) "(three-controllers or two-slaves-synced or asynchronous) and not test_list"

switches: setup ## Masters change while delays, timers, transactions and pops are under way (MQCORE_SWITCHES=n)
	@$(SWITCHES)

soak: setup ## Three brokers under steady traffic and chaos, an hour (SOAK="--minutes 1440 --rate 2000 --seed 2")
	@cd tests && ../$(BIN)/python -m soak.run --out ../target/mqcore-soak $(SOAK)

fmt: $(TOOLS_STAMP) ## Format Rust and Python
	@cargo fmt --all
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

clean: ## Remove what was built (not the downloads in .cache)
	@cargo clean
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache python/mqcore/native/*.so
