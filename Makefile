# The front door; CMakePresets.json has the presets behind it.

SHELL   = /bin/bash
PROGRAM = build/release/bin/addnorm
SOURCES = $(shell find $(wildcard include src apps tests bench) -name '*.h' -o -name '*.cc')
TIDY    = $(filter src/%.cc apps/%.cc,$(SOURCES))

.DEFAULT_GOAL := help
.PHONY: help run test bench format lint sanitize clean packages packages-bench packages-lint
.PRECIOUS: build/%/build.ninja

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

run: build/release/build.ninja ## build the program and run the study; ARGS="--steps 50" goes to it
	@cmake --build --preset release --target bin/addnorm
	@$(PROGRAM) study $(ARGS)

test: build/release/build.ninja ## build everything and run all tests
	@cmake --build --preset release
	@ctest --preset release

bench: packages packages-bench ## build the benchmarks and run them
	@cmake --preset release -DADDNORM_BENCH=ON >/dev/null
	@cmake --build --preset release
	@bench/run.sh $(ARGS)

sanitize: build/asan-ubsan/build.ninja ## run all tests under the address and undefined-behaviour sanitizers
	@cmake --build --preset asan-ubsan
	@ctest --preset asan-ubsan

format: packages-lint ## format the sources in place
	@clang-format -i $(SOURCES)

lint: packages packages-lint ## check format and clang-tidy; fails on any finding
	@clang-format --dry-run -Werror $(SOURCES)
	@cmake --preset release >/dev/null
	@printf '%s\n' $(TIDY) | xargs -P $$(nproc) -n 1 clang-tidy -p build/release --quiet \
	  2> >(grep -v ' warnings* generated' >&2)

clean: ## remove all build folders
	@rm -rf build

packages:
	@scripts/install-packages.sh build test

packages-bench packages-lint: packages-%:
	@scripts/install-packages.sh $*

# Once configured, Ninja itself runs CMake again when a CMakeLists.txt changes.
build/%/build.ninja: CMakePresets.json | packages
	@cmake --preset $* >/dev/null
	@touch $@
