# Everything that one does with the project, by name. `make` lists the targets.

BUILD := build
JOBS ?= $(shell nproc)
PYTHON ?= python3
# A wheel made with Python 3.12 serves all later ones, and may be tested with another.
WHEEL_TEST_PYTHON ?= $(PYTHON)
PREFIX ?= /usr/local
# Python packages live outside the source tree, so that a clean checkout keeps them.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/longformer
ORACLE ?= $(CACHE)/oracle
TEST_VENV ?= $(CACHE)/test
CLIENTS_VENV ?= $(CACHE)/clients
# Ray, Spark and others that run the classes for corpora; `make test CORPORA_VENV=` leaves their tests out.
CORPORA_VENV ?= $(CACHE)/corpora

# Commit that `make lint` and `make check` compare the files with.
BASE ?=
CHECK_BASE = $(or $(BASE),$(shell git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main),HEAD)
# A failure of ctest counts, whatever its output is piped into.
SHELL := bash
.SHELLFLAGS := -o pipefail -c

# ON compiles several sources at once: half the time for all of them, more for each one that changes;
# who changes sources sets OFF.
UNITY ?= ON

# A user's build does not fail by a warning; with ON, as in `make check` and in CI, it does.
WERROR ?= OFF

SOURCES := $(shell git ls-files --cached --others --exclude-standard '*.h' '*.cc' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help packages browser-packages lint-packages build everything check test debug asan clang tsan \
        fuzz oracle test-venv corpora-venv clients corpora parity quickstart lint fresh fresh-short fresh-build arm64 \
        install uninstall deb deb-test image-test python wheel bench clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

packages: ## Install the missing Debian packages for building and testing
	@tools/packages.sh build

# Without a browser the tests of pages are skipped, without a driver those of OpenCL.
browser-packages: packages
	-@tools/packages.sh browser documents opencl

lint-packages: packages
	@tools/packages.sh build lint

build: packages ## Build the program, build/longformer
	cmake --preset release -DLONGFORMER_WERROR=$(WERROR) -DCMAKE_UNITY_BUILD=$(UNITY)
	cmake --build $(BUILD) -j $(JOBS) --target longformer_cli

test-venv: packages
	@PYTHON=$(PYTHON) tools/venv.sh $(TEST_VENV) requirements/test.txt

clients: build ## Clients of other projects (openai, LangChain …) against `longformer serve`, in an environment of 0.5 GB
	@PYTHON=$(PYTHON) tools/venv.sh $(CLIENTS_VENV) requirements/clients.txt
	LONGFORMER_BINARY=$(CURDIR)/$(BUILD)/longformer PYTHONDONTWRITEBYTECODE=1 \
	  $(CLIENTS_VENV)/bin/python -m pytest -q -p no:cacheprovider tests/apps/server/clients_test.py

# Without Java or the packages their tests are skipped.
corpora-venv: packages
ifneq ($(CORPORA_VENV),)
	-@tools/packages.sh corpora && PYTHON=$(PYTHON) tools/venv.sh $(CORPORA_VENV) requirements/corpora.txt
endif

corpora: ## Ray Data, Spark, datasets, Daft and LangChain with the Python package, in an environment of 1.5 GB
	@tools/packages.sh build corpora
	@PYTHON=$(PYTHON) tools/venv.sh $(CORPORA_VENV) requirements/corpora.txt
	@$(MAKE) --no-print-directory everything
	LONGFORMER_BINARY=$(CURDIR)/$(BUILD)/longformer PYTHONPATH=$(CURDIR)/$(BUILD)/python PYTHONDONTWRITEBYTECODE=1 \
	  $(CORPORA_VENV)/bin/python -m pytest -q -p no:cacheprovider tests/apps/corpora

everything: test-venv
	cmake --preset release -DLONGFORMER_TESTS=ON -DLONGFORMER_PYTHON=ON -DCMAKE_UNITY_BUILD=$(UNITY) \
	  -DLONGFORMER_WERROR=$(WERROR) \
	  -DPython_EXECUTABLE=$(TEST_VENV)/bin/python -DLONGFORMER_TEST_PYTHON=$(TEST_VENV)/bin/python \
	  -DLONGFORMER_CORPORA_PYTHON=$$([[ ! -f $(CORPORA_VENV)/stamp ]] || echo $(CORPORA_VENV)/bin/python)
	cmake --build $(BUILD) -j $(JOBS)

check: WERROR := ON
check: everything ## Before a commit: lint what differs from origin/main, build, run the C++ tests (2 minutes)
	@$(MAKE) --no-print-directory lint BASE=$(CHECK_BASE)
	ctest --preset release -L unit | python3 tools/slowest.py $(BUILD) 5

test: corpora-venv everything browser-packages ## Build everything and run all tests
	@rm -f $(BUILD)/junit*.xml
	ctest --preset release --output-junit junit.xml | python3 tools/slowest.py $(BUILD)
	@LONGFORMER_CORPORA=$(CORPORA_VENV) python3 tools/check_skips.py tools/allowed_skips.txt $(BUILD)/junit*.xml

debug: packages ## Debug build with assertions, and its tests
	cmake --preset debug
	cmake --build $(BUILD)/debug -j $(JOBS)
	ctest --preset debug

clang: lint-packages ## Build with clang, and the C++ tests
	cmake --preset clang
	cmake --build $(BUILD)/clang -j $(JOBS)
	ctest --preset clang | python3 tools/slowest.py $(BUILD)/clang

# The sanitizer cannot see through drivers of OpenCL, whether or not there is one.
asan: packages ## Build with address and undefined-behaviour sanitizers, and the C++ tests
	cmake --preset asan
	cmake --build $(BUILD)/asan -j $(JOBS)
	@rm -f $(BUILD)/asan/junit*.xml
	ctest --preset asan | python3 tools/slowest.py $(BUILD)/asan
	@python3 tools/check_skips.py --without opencl tools/allowed_skips.txt $(BUILD)/asan/junit*.xml

tsan: lint-packages ## Build with the thread sanitizer, and the C++ tests of what runs on threads
	cmake --preset tsan
	cmake --build $(BUILD)/tsan -j $(JOBS)
	OMP_TOOL_LIBRARIES=$$(dirname $$(realpath $$(command -v clang++)))/../lib/libarcher.so \
	  ctest --preset tsan | python3 tools/slowest.py $(BUILD)/tsan

fuzz: lint-packages ## Fuzz every parser for SECONDS=60 each (TARGETS="pickle zip": only these)
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	tests/fuzz/run.sh $(BUILD)/fuzz $(or $(SECONDS),60) $(TARGETS)

oracle: packages ## Python environment with transformers and torch, 6 GB (ORACLE=folder)
	@PYTHON=$(PYTHON) tools/venv.sh $(ORACLE) requirements/oracle.txt

parity: oracle everything quickstart ## Compare with transformers and tokenizers, with tables (PARITY="--seconds 120": a part)
	$(ORACLE)/bin/python tools/parity.py $(PARITY)

quickstart: build ## Convert a real BERT to 4,096 tokens and search whole novels with it
	@examples/quickstart.sh

# For clang-tidy clang is the compiler, so that it knows every flag.
lint: lint-packages ## Format, layers, house rules, links and clang-tidy (BASE=commit: on what differs)
	@echo clang-format --dry-run -Werror
	@printf '%s\n' $(SOURCES) | xargs -P $(JOBS) -n 40 clang-format --dry-run -Werror
	python3 tools/check_layers.py
	python3 tools/check_rules.py
	python3 tools/check_links.py
	@cmake --preset release -B $(BUILD)/tidy -DCMAKE_CXX_COMPILER=clang++ -DLONGFORMER_TESTS=OFF \
	  -DLONGFORMER_WERROR=ON >/dev/null
	python3 tools/tidy.py --jobs $(JOBS) --cache $(CACHE)/tidy $(addprefix --base ,$(BASE)) $(TIDY)

fresh: ## The README's commands in a minimal Debian 12 made for it (root; SUITE=trixie: Debian 13)
	@tools/packages.sh fresh
	@tools/fresh.sh

fresh-short: ## Only its packages, configuration and a program that finds the installed package
	@tools/packages.sh fresh
	@tools/fresh.sh --short

arm64: ## In a root that stays: built for arm64 by a cross compiler, the C++ tests under an emulator (ROOMS="kernels ops": only these)
	@tools/packages.sh fresh
	@tools/fresh.sh --arm64 $(if $(ROOMS),--rooms "$(ROOMS)")

fresh-build: ## In a root that stays: the program without a warning, and its tests (SUITE=trixie FRESH="--sample": a part of all, or --quickstart)
	@tools/packages.sh fresh
	@tools/fresh.sh --kept $(FRESH)

# The shell knows ~ in PREFIX; cmake wants a whole path.
install: build ## Install program, library and headers (PREFIX=/usr/local, DESTDIR)
	cmake --build $(BUILD) -j $(JOBS) --target longformer_cli longformer_pages longformer
	cmake --install $(BUILD) --prefix "$$(realpath -ms -- $(PREFIX))"

uninstall: ## Remove what `make install` installed (DESTDIR as there)
	@python3 tools/uninstall.py $(BUILD) $(if $(filter-out file default,$(origin PREFIX)),"$$(realpath -ms -- $(PREFIX))")

# A build for /usr; the compiler cache knows its sources from the other build.
DEB := $(BUILD)-deb
deb: packages ## Debian packages longformer and longformer-dev, in build-deb/packages
	@tools/packages.sh deb
	cmake --preset release -B $(DEB) -DCMAKE_INSTALL_PREFIX=/usr -DLONGFORMER_TESTS=OFF -DLONGFORMER_PYTHON=OFF \
	  -DLONGFORMER_WERROR=$(WERROR) -DCMAKE_UNITY_BUILD=$(UNITY)
	cmake --build $(DEB) -j $(JOBS) --target longformer_cli longformer_pages longformer
	rm -rf $(DEB)/packages
	cd $(DEB) && cpack -G DEB

# Packages of another Debian are made in its root, and compared with the program of this one.
deb-test: $(if $(SUITE),build,deb) ## lintian, and the Debian packages installed, used and removed in a minimal root (root; SUITE=trixie: Debian 13)
	@tools/packages.sh fresh
ifneq ($(SUITE),)
	@tools/fresh.sh --deb
	python3 tools/deb_test.py $(CACHE)/fresh-$(SUITE)/root/root/longformer.cpp/$(DEB)/packages $(BUILD)/longformer $(SUITE)
else
	python3 tools/deb_test.py $(DEB)/packages $(DEB)/longformer
endif

image-test: ## The Dockerfile done in minimal roots, without a container engine, and its server used (root)
	@tools/packages.sh fresh
	python3 tools/image_test.py

# The compiler cache knows the sources if compiler and warnings are those of every other build;
# unity sources also need a build folder next to the others.
python: packages ## pip install the Python package into a fresh environment and test it
	rm -rf $(BUILD)/python-venv
	$(PYTHON) -m venv $(BUILD)/python-venv
	CXX=c++ $(BUILD)/python-venv/bin/pip install --quiet --disable-pip-version-check \
	  --config-settings=cmake.define.LONGFORMER_WERROR=$(WERROR) \
	  --config-settings=cmake.define.CMAKE_UNITY_BUILD=$(UNITY) '.[plot]' pytest mypy
	LONGFORMER_INSTALLED=pip $(BUILD)/python-venv/bin/python -m pytest -q python/tests

# auditwheel takes the libraries in, wheel_licenses.py their licenses; at most 35 MB.
WHEEL_PYTHON = $(BUILD)/wheel-venv/bin/python
wheel: packages ## Make a wheel for Linux with the program and all libraries inside, test it in a fresh environment
	rm -rf $(BUILD)/wheels $(BUILD)/wheel-venv $(BUILD)/wheel-test
	@PYTHON=$(PYTHON) tools/venv.sh $(BUILD)/wheel-venv requirements/wheel.txt
	CXX=c++ $(WHEEL_PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps \
	  --config-settings=cmake.define.LONGFORMER_WERROR=$(WERROR) \
	  --config-settings=cmake.define.CMAKE_UNITY_BUILD=$(UNITY) -w $(BUILD)/wheels/plain .
	PATH=$(CURDIR)/$(BUILD)/wheel-venv/bin:$$PATH auditwheel repair -w $(BUILD)/wheels/repaired $(BUILD)/wheels/plain/*.whl
	$(WHEEL_PYTHON) tools/wheel_licenses.py $(BUILD)/wheels/repaired/*.whl $(BUILD)/wheels
	test -z "$$(find $(BUILD)/wheels -maxdepth 1 -name '*.whl' -size +35000000c)"
	$(WHEEL_PYTHON) -m twine check --strict $(BUILD)/wheels/*.whl
	case $$(echo $(BUILD)/wheels/*.whl) in *-abi3-*) $(BUILD)/wheel-venv/bin/abi3audit --strict $(BUILD)/wheels/*.whl ;; esac
	$(WHEEL_TEST_PYTHON) -m venv $(BUILD)/wheel-test
	$(BUILD)/wheel-test/bin/pip install --quiet --disable-pip-version-check $(BUILD)/wheels/*.whl pytest mypy
	LONGFORMER_INSTALLED=wheel $(BUILD)/wheel-test/bin/python -m pytest -q python/tests

bench: build ## Measure the attention backends and a model of Longformer-base size
	$(BUILD)/longformer bench attention -n 512-8192*2 --dtype fp32,bf16
	$(BUILD)/longformer bench model --config bench/longformer_base.json -n 64,512,4096 --dtype fp32,bf16

clean: ## Remove everything that was built
	rm -rf $(BUILD) build-*
