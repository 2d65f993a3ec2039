# `make demo` and `make test` do all the set-up they need; a JDK 17+ and Python 3.11+ must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
NATIVE := $(VENV)/.native
WHEEL := $(VENV)/native
PIP := -m pip --disable-pip-version-check
BOOTSTRAP := install --quiet --no-compile --no-deps --require-hashes
DBT := $(VENV)/dbt
DOCS := $(VENV)/docs
SHIM := $(shell find jvm -name '*.java' -o -name jars.py -o -path '*/META-INF/services/*' 2>/dev/null)
# Those that the package runs on beside the one of requirements.lock.
SPARKS := $(patsubst jvm/spark-%/requirements.txt,%,$(wildcard jvm/spark-*/requirements.txt))
TRIED := $(if $(SPARK),$(VENV)/spark-$(SPARK)/.ready pyspark_pravega/jars/pyspark-pravega-spark-$(SPARK).jar)
JARS := $(SPARKS:%=pyspark_pravega/jars/pyspark-pravega-spark-%.jar)

.PHONY: demo jars servers test-pravegas classes browser screenshots notebooks dbt dbt-suite dbt-suite-tools dist wheels release release-check matrix docs quick test test-plain coverage coverage-wire chaos chaos-sample chaos-servers simulate nightly lint lint-workflows format clean lock proto bench bench-streaming results setup

# $(call install,VIRTUAL ENVIRONMENT,ARGUMENTS): by uv, which puts links into its cache and is done in a fraction of pip's
# time. It doesn't read pip's configuration: where it can't reach the packages, pip installs them.
define install
$(BIN)/uv pip install --quiet --no-progress --python $(1)/bin/python $(2) 2>$(1)/uv.log || { \
	echo "uv couldn't install all (see $(1)/uv.log): pip does"; \
	$(BIN)/python $(PIP) --python $(1)/bin/python install --quiet --no-compile $(2); \
}
endef

# Packages are compiled when they are first used; without their compiled modules each program would do that anew.
unexport PYTHONDONTWRITEBYTECODE

# Processes that run tests; each has servers and a Spark session of its own (8 GB of memory).
WORKERS ?= 3

# Whose turn it is of the tests that run in turn: the commit's number (docs/testing.md).
COMMITS = $(or $(TURN),$(shell git rev-list --count HEAD 2>/dev/null || echo 0))

# PRAVEGA=0.12 lets sandboxes run that version of Pravega (docs/pravega-versions.md).
ifdef PRAVEGA
export PYSPARK_PRAVEGA_SANDBOX_PRAVEGA := $(PRAVEGA)
endif

setup:
	@$(MAKE) --no-print-directory -j2 $(STAMP)

# Rust compiles the native codec while the packages are installed and javac compiles; what is compiled is installed here.
$(STAMP): $(VENV)/.package $(NATIVE)
	@if test -e $(WHEEL)/*.whl; then $(call install,$(VENV),--no-deps --force-reinstall $(WHEEL)/*.whl); fi
	touch $(STAMP)

# The environment, with what installs and builds all else.
$(VENV)/.tools: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "pyspark-pravega needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@command -v javac >/dev/null || test -x "$(JAVA_HOME)/bin/javac" || { echo "pyspark-pravega needs a JDK 17 or newer (javac was not found); install one or set JAVA_HOME" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	sed -n -E '/^(maturin|pip|uv)==/,/[^\\]$$/p' $< >$@.lock
	@$(PYTHON) $(PIP) --python $(BIN)/python $(BOOTSTRAP) -r $@.lock 2>$(VENV)/pip.log || { \
		echo "$(PYTHON) has no pip that can install into $(VENV) (see $(VENV)/pip.log): $(VENV) gets one of its own first"; \
		$(BIN)/python -m ensurepip --upgrade >/dev/null && $(BIN)/python $(PIP) $(BOOTSTRAP) -r $@.lock; \
	}
	touch $@

# The lock names all that is needed, so nothing is looked for. Modules are compiled when they are used.
$(VENV)/.package: $(VENV)/.tools pyproject.toml setup.py $(SHIM)
	@$(call install,$(VENV),--no-deps --require-hashes -r requirements.lock)
	PYTHONWARNINGS="ignore:Compat editable installs" $(BIN)/python $(PIP) install --quiet --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	touch $@

# The native codec is optional: what it does the plain one does, too. What Rust has compiled is kept for all checkouts.
$(NATIVE): $(VENV)/.tools $(shell find native -name target -prune -o -type f -print 2>/dev/null)
	@rm -rf $(WHEEL)
	@if ! cargo --version 2>/dev/null | awk '{split($$2, v, "."); found = v[1] > 1 || v[2] >= 88} END {exit !found}'; then \
		echo "no Rust (cargo) 1.88 or newer here: the plain codec is used instead of the native one"; \
	elif ! $(BIN)/python native/cargo.py wheel $(WHEEL) >$(VENV)/native.log 2>&1; then \
		echo "the native codec couldn't be built (see $(VENV)/native.log): the plain one is used"; \
	fi
	@touch $@

# The jars of all Sparks. What they are compiled against, 430 MB for each Spark, is fetched once for all checkouts.
jars: $(STAMP) $(JARS)

pyspark_pravega/jars/pyspark-pravega-spark-%.jar: $(VENV)/spark-%/.ready $(SHIM)
	$(BIN)/python jvm/jars.py $* $(VENV)/spark-$*/bin/python

# Environments with another pyspark before all else that .venv has.
$(VENV)/spark-%/.ready: jvm/spark-%/requirements.txt | $(VENV)/.package
	test -x $(VENV)/spark-$*/bin/python || $(BIN)/python -m venv --without-pip $(VENV)/spark-$*
	@echo "installing Spark $*: its 430 MB are fetched once for all checkouts, and made into a wheel, which takes minutes"
	@$(call install,$(VENV)/spark-$*,--no-deps --require-hashes -r $<)
	$(BIN)/python -c 'import sys; print("$(CURDIR)", *(path for path in sys.path if path.endswith("-packages")), sep="\n")' \
		>"$$($(VENV)/spark-$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
	sed '1s|.*|#!$(CURDIR)/$(VENV)/spark-$*/bin/python|' $(BIN)/pravega-spark >$(VENV)/spark-$*/bin/pravega-spark
	chmod +x $(VENV)/spark-$*/bin/pravega-spark
	touch $@

.PRECIOUS: $(VENV)/spark-%/.ready

# The servers' files, once; they are fetched while the native codec is compiled.
servers: $(VENV)/.package
	@$(BIN)/python -m pyspark_pravega.cli sandbox fetch >/dev/null

# Archives of the classes that the tests' JVMs load, once: most JVMs of the tests live for seconds (docs/internals/test-suite.md).
classes: servers
	@$(BIN)/python tests/tools/class_archives.py

classes-%: servers $(VENV)/spark-%/.ready
	@$(VENV)/spark-$*/bin/python tests/tools/class_archives.py

# A browser for the tests of the live page, from Debian's packages; without one they are skipped, and say what is missing.
browser:
	@if ! command -v chromedriver >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >/dev/null 2>&1 \
			|| echo "chromium and chromium-driver can't be installed here: the live page isn't tested in a browser"; \
	fi

# The pictures of docs/operating.md, of the live page before real servers.
screenshots: $(STAMP) servers browser
	$(BIN)/python tests/live/screenshots.py

demo:
	@test -e $(STAMP) || echo "setting up $(VENV) (Spark, Python packages, the Java part, the native codec, the servers): about 5 minutes, the first time only"
	@$(MAKE) --no-print-directory -j2 $(STAMP) servers
	$(BIN)/python examples/nyc_flights.py $(if $(KEEP),--keep)

# Two wheels, in dist/: the package, with its jars, and the native codec for this machine's kind (abi3: every Python from
# 3.11 on). Who installs them needs neither javac nor cargo.
dist: jars
	rm -rf dist build
	$(BIN)/python $(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@if cargo --version >/dev/null 2>&1; then \
		$(BIN)/python native/cargo.py wheel dist; \
	else \
		echo "no Rust (cargo) here: the native codec's wheel isn't built"; \
	fi
	@ls dist

# Wheels of the native codec for every Linux with glibc 2.17 or newer, and its sources, in dist/. TARGETS are processors
# as Rust names them, whose standard libraries are there (`rustup target add aarch64-unknown-linux-gnu`).
wheels: $(STAMP) $(VENV)/.zig
	@for target in $(if $(TARGETS),$(TARGETS),""); do $(BIN)/python native/cargo.py manylinux dist $$target || exit 1; done

$(VENV)/.zig: native/requirements.lock | $(VENV)/.tools
	@$(call install,$(VENV),--require-hashes -r $<)
	touch $@

# What a release has, in dist/: both packages as wheels and as sources.
release: jars
	rm -rf dist build/bdist.* build/lib
	for kind in sdist wheel; do $(BIN)/uv build --quiet --$$kind --python $(BIN)/python --no-build-isolation --out-dir dist || exit 1; done
	@$(MAKE) --no-print-directory wheels
	@ls dist

# The same, installed into environments of their own, which run the demo: one has the wheels, the other the sources.
release-check: release
	$(BIN)/python tests/tools/release_check.py

# The wheels with each Python (3.11 to 3.14) and each JDK (17, 21) that this machine has, each at least once; prints what
# was run, and what the machine lacks. ARGS="--only python-3.12" takes some.
matrix: dist
	$(BIN)/python tests/tools/matrix.py $(ARGS)

# dbt in an environment of its own, which sees the other one's packages (pyspark) behind its own. It has no pip, and of
# its many modules those are compiled that are used.
dbt: $(STAMP) $(DBT)/.ready

$(DBT)/.ready: examples/dbt/requirements.lock | $(VENV)/.tools
	test -x $(DBT)/bin/python || $(BIN)/python -m venv --without-pip $(DBT)
	@$(call install,$(DBT),--require-hashes -r $<)
	$(BIN)/python -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")' \
		>"$$($(DBT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/pyspark.pth"
	touch $@

# dbt's own tests for adapters, against a Thrift server and a sandbox of its own; ARGS="-k Seed" takes some.
dbt-suite: $(STAMP) dbt-suite-tools
	$(BIN)/python tests/tools/run_dbt_suite.py -n $(WORKERS) -q $(ARGS)

dbt-suite-tools: $(DBT)/.suite

$(DBT)/.suite: tests/entry/dbt_suite/requirements.lock $(DBT)/.ready
	@$(call install,$(DBT),--no-deps --require-hashes -r $<)
	touch $@

# Executes the notebooks on a sandbox, and stores them with what they show.
notebooks: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/entry/notebook_tools.py

# The site of docs/, into build/site; its tools have an environment of their own. Its tables are those of the code. It is
# tried in a browser, where there is one.
docs: $(DOCS)/.ready $(STAMP)
	$(BIN)/python tests/docs/reference_tables.py --check
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict --quiet
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/docs/test_site.py
	@echo "build/site/index.html"

$(DOCS)/.ready: docs/requirements.lock
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PIP) install --quiet --require-hashes -r $<
	touch $@

# Lint, types, and all tests that need neither servers nor a JVM.
quick: lint
	$(BIN)/python -m pytest -n $(WORKERS) --ignore tests/chaos --ignore tests/servers -m "not server and not spark" $(ARGS)

# The tests, on real servers (docs/testing.md); ARGS="tests/spark -k streaming" takes some. COVERAGE=1 measures what
# is covered, for `make coverage`. SPARK=4.1 takes another pyspark, and skips what needs a later one. Half of
# the tests with servers run, of the longest less, by the commit's number; ALL=1, SPARK and ARGS run all of them, TURN=N
# those of another commit.
test: export TESTS_TURN := $(if $(ALL),,$(or $(TURN),$(if $(SPARK)$(ARGS)$(COVERAGE),,$(COMMITS))))
test:
	@$(MAKE) --no-print-directory -j3 $(STAMP) servers browser $(if $(SPARK),classes-$(SPARK),classes) dbt-suite-tools $(TRIED)
	$(if $(COVERAGE),$(BIN)/python -m coverage erase)
	$(if $(SPARK),$(VENV)/spark-$(SPARK)/bin,$(BIN))/python $(if $(COVERAGE),-m coverage run) -m pytest -n $(WORKERS) --ignore tests/chaos --ignore tests/servers $(ARGS)

# Once more without the native codec, where one has a part in it: the plain one has to give the same answers. Of the
# tests in turn it runs those that `make test` runs at the same commit; ALL=1 runs all.
test-plain:
	PYSPARK_PRAVEGA_NATIVE=0 $(MAKE) test TURN=$(COMMITS) ARGS="tests/serde --ignore tests/serde/test_types.py \
		tests/spark/test_type_crossing.py tests/spark/test_query_crossing.py tests/interop/test_formats_in_java.py \
		tests/spark/test_tables.py::test_every_type_comes_back_as_it_went_in \
		tests/spark/test_tables.py::test_rows_of_a_key_keep_their_order \
		tests/spark/test_tables.py::test_raw_events_in_and_out \
		tests/spark/test_tables.py::test_events_larger_than_a_block_and_a_read"

# A core of the tests on each version of Pravega that a sandbox can run but the newest, which `make test` runs on.
# PRAVEGAS=0.12 takes one.
PRAVEGAS ?= 0.11 0.12
test-pravegas: $(STAMP)
	@for version in $(PRAVEGAS); do \
		echo "Pravega $$version"; \
		PYSPARK_PRAVEGA_SANDBOX_PRAVEGA=$$version $(BIN)/python -m pytest -n $(WORKERS) \
			tests/sandbox/test_servers.py tests/client/test_controller_transactions.py tests/client/test_event_writer.py \
			tests/client/test_key_value_tables.py tests/client/test_large_events.py tests/client/test_stream_cuts.py \
			tests/registry tests/connector/test_ledger.py tests/connector/test_writer.py \
			tests/connector/test_stream_source.py tests/spark/test_tables.py tests/spark/test_keyed_tables.py $(ARGS) || exit 1; \
	done

# What the last `make test COVERAGE=1` has covered, of all processes together; fails below the floors.
coverage: $(STAMP)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report
	$(BIN)/python -m coverage report --include 'pyspark_pravega/client/wire/*' --fail-under 100

# The floor of coverage that .ci/run holds: each line and branch of the wire protocol is run by its own tests, without
# servers. A file of its own keeps what `make test COVERAGE=1` has measured.
coverage-wire: export COVERAGE_FILE := $(CURDIR)/build/coverage-wire/measured
coverage-wire: $(STAMP)
	rm -rf build/coverage-wire
	mkdir -p build/coverage-wire
	$(BIN)/python -m coverage run -m pytest -q tests/client/test_wire.py
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --include 'pyspark_pravega/client/wire/*' --fail-under 100

# Seeded runs over connections that break, of writers that come to harm, of writers while the stream scales, of queries
# that are killed, of queries from stream to stream, in real time too, of pairs of statements, and of files' ingestion;
# and of drivers and catalog processes that are killed; and key-value tables that others look for while they are made;
# and transactions over three tables, by sessions and by a streaming query.
# CHAOS_RUNS=N makes another number of each kind, CHAOS_FIRST_SEED=N begins elsewhere, ARGS="-k scales" takes one kind.
chaos: $(STAMP)
	CHAOS_CLIENT_RUNS=$${CHAOS_CLIENT_RUNS:-500} CHAOS_WRITE_RUNS=$${CHAOS_WRITE_RUNS:-300} \
		CHAOS_SCALING_RUNS=$${CHAOS_SCALING_RUNS:-50} CHAOS_STREAM_RUNS=$${CHAOS_STREAM_RUNS:-200} \
		CHAOS_THROUGH_RUNS=$${CHAOS_THROUGH_RUNS:-50} PAIR_ROUNDS=$${PAIR_ROUNDS:-20} KEYED_ROUNDS=$${KEYED_ROUNDS:-100} KEYED_KILLS=$${KEYED_KILLS:-all} INGESTION_KILLS=$${INGESTION_KILLS:-20} \
		CDC_KILLS=$${CDC_KILLS:-6} REAL_TIME_KILLS=$${REAL_TIME_KILLS:-100} REAL_TIME_ONCE_KILLS=$${REAL_TIME_ONCE_KILLS:-200} CREATED_TABLES=$${CREATED_TABLES:-5000} \
		TRANSACTION_ROUNDS=$${TRANSACTION_ROUNDS:-100} FAN_OUT_KILLS=$${FAN_OUT_KILLS:-100} $(BIN)/python -m pytest tests/chaos -s $(ARGS)

# Half of the kinds for a short time, from the first seed on, at the next commit the other half; five real-time queries
# that write exactly once, at the next commit with the next five seeds; and one fault of a cluster. ALL=1 runs all kinds.
chaos-sample: export TESTS_TURN := $(if $(ALL)$(ARGS)$(CHAOS_FIRST_SEED),,$(COMMITS))
chaos-sample: $(STAMP)
	CHAOS_SAMPLE_S=$${CHAOS_SAMPLE_S:-30} CHAOS_WRITE_SAMPLE_S=$${CHAOS_WRITE_SAMPLE_S:-45} \
		CHAOS_STREAMS_SAMPLE_S=$${CHAOS_STREAMS_SAMPLE_S:-20} CHAOS_THROUGH_RUNS=$${CHAOS_THROUGH_RUNS:-1} INGESTION_KILLS=$${INGESTION_KILLS:-1} \
		REAL_TIME_ONCE_KILLS=$${REAL_TIME_ONCE_KILLS:-5} \
		$(BIN)/python -m pytest tests/chaos -n $(WORKERS) -rP $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m pytest -rP tests/servers/test_sample.py)

# Clients and a Spark session while servers of a cluster are killed and frozen: ZooKeeper, bookies, controllers, segment
# stores, a registry, as processes of this machine (4 GB of memory). SERVER_FAULTS=name,name takes some faults,
# SERVER_HISTORIES=N runs N histories of all kinds of faults together, SERVER_SEED=N is the chance (and the first
# history), SERVER_TOKENS_S=N has servers that ask who is there, with tokens of so many seconds. And real-time queries that
# write exactly once, while stores are killed: STORE_KILLS=N runs N of them, CHAOS_FIRST_SEED=N begins elsewhere.
chaos-servers: $(STAMP) servers
	$(BIN)/python -m pytest tests/servers/test_failing_servers.py tests/servers/test_killed_stores.py -s $(ARGS)

# Histories of drivers and readers on a cluster in memory, each from a seed; HISTORIES=N makes another number,
# FIRST_SEED=N begins elsewhere, ARGS="--trace N" shows one step by step.
simulate: $(STAMP)
	$(BIN)/python tests/simulation/simulate.py --histories $${HISTORIES:-100000} --first-seed $${FIRST_SEED:-0} --processes $(WORKERS) $(ARGS)

# Random tables, values and broken events: native and plain codecs compared, 10,000 cases for each format (200 in
# `make test`); NIGHTLY_CASES=N makes another number. And random statements that change tables with keys, from 200 seeds
# (5 in `make test`); KEYED_RUNS=N makes another number. And 10,000 reads of a bank (300 in `make test`); BANK_READS=N
# makes another number. And the live page with 1,000 streams (250 in `make test`). And readers in shared memory that are
# killed: 80 times a worker or a job (3 in `make test`), 20 times a driver (1 in `make chaos-sample`). And older versions
# of Pravega, and servers that fail.
nightly: $(STAMP)
	SHARED_MEMORY_SEEDS=$${SHARED_MEMORY_SEEDS:-80} SHARED_MEMORY_DRIVERS=$${SHARED_MEMORY_DRIVERS:-20} \
		LIVE_STREAMS=$${LIVE_STREAMS:-1000} HYPOTHESIS_EXAMPLES=$${NIGHTLY_CASES:-10000} KEYED_RUNS=$${KEYED_RUNS:-200} BANK_READS=$${BANK_READS:-10000} $(BIN)/python -m pytest tests/spark/test_bank.py tests/serde/test_native.py tests/serde/test_stored.py tests/serde/test_avro_roots.py tests/serde/test_variant.py tests/spark/test_keyed_tables.py::test_random_statements_give_what_a_dict_gives tests/live/test_page.py::test_many_streams_stay_smooth tests/spark/test_shared_memory_killed.py tests/chaos/test_killed_drivers.py --timeout 14400 $(ARGS)
	@$(MAKE) --no-print-directory test-pravegas
	@$(MAKE) --no-print-directory chaos-servers

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1; then \
		set -ex; (cd native; cargo fmt --check); $(BIN)/python native/cargo.py clippy; \
	else \
		echo "no Rust (cargo with clippy and fmt) here: native/ isn't looked at"; \
	fi

# The workflows, where Go is.
lint-workflows:
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks.read_write $(ARGS)

bench-streaming: $(STAMP)
	$(BIN)/python -m benchmarks.streaming $(ARGS)

# RESULTS.md and the pictures of figures, from the files in benchmarks/results.
results: $(STAMP)
	$(BIN)/python -m benchmarks.results

# Regenerates the controller's messages from our own .proto. The generated check that ties the file to one major version
# of the protobuf runtime is taken out: the rest of it works with every runtime since 4.25.
proto: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I. --python_out=. --mypy_out=. pyspark_pravega/client/controller/controller.proto
	sed -i -e '/^_runtime_version.Validate/,/^)/d' -e '/runtime_version as/d' pyspark_pravega/client/controller/controller_pb2.py

# Resolves the dependencies anew; needs uv.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --all-extras pyproject.toml -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-strip-extras examples/dbt/requirements.in -o examples/dbt/requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-strip-extras --constraint examples/dbt/requirements.lock tests/entry/dbt_suite/requirements.in -o tests/entry/dbt_suite/requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate native/requirements.in -o native/requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-strip-extras docs/requirements.in -o docs/requirements.lock
	for spark in $(SPARKS); do echo "pyspark==$$spark.*" | uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate - -o jvm/spark-$$spark/requirements.txt; done

clean:
	rm -rf $(VENV) native/target build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.* htmlcov pyspark_pravega/jars/*.jar pyspark_pravega/_version.py
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
