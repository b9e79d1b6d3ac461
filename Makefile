# A thin front for CMake: `make` builds, `make help` lists the rest. PRESET picks another configuration
# (debug, asan, tsan, clang); BUILD another folder; JOBS the number of parallel jobs; ONEDNN=OFF, SLEEF=OFF and LAPACK=OFF do
# without those libraries, as decided when BUILD is first made.

PRESET ?= release
BUILD ?= build/$(PRESET)
PREFIX ?= /usr/local
STRIP ?= --strip
export ONEDNN ?= ON
export SLEEF ?= ON
export LAPACK ?= ON
MINUTES ?= 60
SECONDS ?= 60
SEED ?= $(shell date +%s)
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# The system's Python comes first: that is where distribution packages such as python3-torch are.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)

.PHONY: all configure setup demo test bench sweep gpu-check gpu-bench docs features conformance accuracy attack attack-kill attack-faults fuzz hostile coverage plain arm64 embedded try-debian abi abi-release house lint format install clean help

all: configure ## build the library, the tools, the examples and the tests
	@cmake --build $(BUILD) -j $(JOBS)

configure: setup
	@test -f $(BUILD)/build.ninja || cmake --preset $(PRESET) -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
		-DFACULA_ONEDNN=$(ONEDNN) -DFACULA_SLEEF=$(SLEEF) -DFACULA_LAPACK=$(LAPACK)

setup:
	@scripts/setup.sh build

demo: configure ## train a small language model for less than a minute and let it write; builds only what that needs
	@cmake --build $(BUILD) -j $(JOBS) --target facula_tool
	@scripts/demo.sh $(BUILD) runs/demo

test: all ## run every test
	@ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure

bench: all ## measure; with python3-torch installed, beside PyTorch in the same run
	@$(PYTHON) bench/run.py $(BUILD)/bench

sweep: all ## measure every operator beside PyTorch in sizes, dtypes and layouts, and make a page of it: hours; goes on where it was
	@$(PYTHON) bench/sweep.py $(BUILD)/bench $(BUILD)/sweep.tsv
	@$(PYTHON) bench/sweep_report.py $(BUILD)/sweep.tsv --limits $(BUILD)/bench --html $(BUILD)/sweep.html

gpu-check: all ## put the CUDA tests into build/gpu-check, to be carried to a GPU, and run them: here simulated without one
	@cmake --build $(BUILD) -j $(JOBS) --target cuda_tests
	@scripts/gpu-check.sh $(BUILD) build/gpu-check

gpu-bench: all ## measure what Facula adds to the CUDA driver's own costs
	@if $(BUILD)/bin/facula info | grep -q '^cuda:0 '; then sim=; else echo '# no device: simulated'; sim=sim:1; fi; \
	USER_KERNELS=$(BUILD)/tests/cuda FACULA_CUDA=$${FACULA_CUDA:-$$sim} $(BUILD)/bench/bench_cuda

attack-kill: all ## kill trainings RUNS times (500), and as often as process 1 of a namespace, and let them go on
	@tests/attack/kill.py --runs $(or $(RUNS),500) $(BUILD)/bin/facula
	@tests/attack/kill.py --runs $(or $(RUNS),500) --pid1 $(BUILD)/bin/facula

attack-faults: all ## let trainings meet full disks, limits, interrupted calls and small stacks, at every place
	@tests/attack/faults.py --every $(BUILD)/bin/facula $(BUILD)/tests/cli/libfault_shim.so

docs: configure ## write the HTML pages, and check that no link in them is broken
	@PYTHON=$(PYTHON) scripts/setup.sh docs
	@cmake --build $(BUILD) -j $(JOBS) --target facula_man
	@PYTHON=$(PYTHON) scripts/docs.sh $(BUILD)

features: all ## print every feature with its test and the result
	@scripts/features.py $(BUILD)

conformance: all ## compare every operator with PyTorch: python3-torch, or that of PYTHON=/path/to/python
	@PYTHON=$(PYTHON) scripts/setup.sh conformance
	@$(PYTHON) tests/conformance/run.py $(BUILD)/libfacula.so --jobs $(JOBS)

accuracy: all ## how exact the elementary functions are, over all 2^32 numbers of float: half an hour on two cores
	@$(BUILD)/tests/accuracy/accuracy

attack: setup ## call every operator with changed valid arguments, on the CPU and simulated devices: MINUTES=60, SEED=time
	@test -f build/asan/build.ninja || cmake --preset asan
	@cmake --build build/asan -j $(JOBS) --target attack facula_simcuda
	@scripts/attack.sh build/asan $$(( $(MINUTES) * 60 )) $(SEED)

fuzz: setup ## run libFuzzer on every reader of foreign bytes: SECONDS=60 each, or RUNS=N
	@cmake --preset fuzz
	@cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@scripts/fuzz.sh build/fuzz $(SECONDS) $(or $(RUNS),-1)

hostile: setup ## read FILES=1000000 files that lie, under the sanitizers; SEED=1
	@cmake --preset asan
	@cmake --build build/asan -j $(JOBS) --target test_hostile_files
	@FACULA_HOSTILE_FILES=$(or $(FILES),1000000) FACULA_HOSTILE_SEED=$(SEED) build/asan/tests/unit/test_hostile_files

coverage: setup ## run the tests in a build that counts, and print which lines and branches they reached
	@cmake --preset coverage
	@cmake --build build/coverage -j $(JOBS)
	@find build/coverage -name '*.gcda' -delete
	@ctest --test-dir build/coverage -LE 'races|failing' -j $(JOBS) --output-on-failure
	@scripts/coverage.py build/coverage --least 95

plain: ## build without oneDNN, SLEEF and LAPACK, and run the unit tests
	@$(MAKE) --no-print-directory BUILD=build/plain ONEDNN=OFF SLEEF=OFF LAPACK=OFF all
	@ctest --test-dir build/plain -L unit -j $(JOBS) --output-on-failure

arm64: ## cross-compile for 64-bit ARM, and run the unit tests under qemu-user
	@scripts/setup.sh arm64
	@scripts/arm64.sh build/arm64

embedded: setup ## build the library for one small program alone, and run it
	@tests/install/embedded.sh . build/embedded

try-debian: ## in a bare Debian with git and make, do what the README says and run the examples: as root, with debootstrap
	@scripts/setup.sh debian
	@rm -rf build/debian
	@tests/install/debian.sh . build/debian

abi: configure ## compare the library's interface with that of the release whose SONAME it has (tests/abi)
	@scripts/setup.sh abi
	@cmake --build $(BUILD) -j $(JOBS) --target facula
	@tests/abi/test.sh .
	@scripts/abi.sh check $(BUILD)/libfacula.so tests/abi include $(BUILD)/gen/include

abi-release: configure ## write the interface of a release into tests/abi
	@scripts/setup.sh abi
	@cmake --build $(BUILD) -j $(JOBS) --target facula
	@scripts/abi.sh dump $(BUILD)/libfacula.so tests/abi include $(BUILD)/gen/include

house: ## draw the rooms and their includes anew: docs/house.svg, with Graphviz
	@scripts/house.py --draw

lint: ## check include directions, documentation of the headers, file sizes and formatting
	@scripts/lint.py
	@scripts/format.sh --check

format: ## format the C sources in place
	@scripts/format.sh

install: configure ## install under PREFIX (default /usr/local); STRIP= keeps the debug information
	@cmake --build $(BUILD) -j $(JOBS) --target product
	@cmake --install $(BUILD) --prefix $(PREFIX) $(STRIP)

clean: ## remove this configuration's build folder
	@rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
