# The entry points of the project. CMakePresets.json has the presets, and web/package.json the page's scripts.

SHELL   = /bin/bash
PROGRAM = build/release/bin/addnorm
SOURCES = $(shell find $(wildcard include src apps tests bench examples fuzz python) -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.cu' -o -name '*.cuh')
CUDA    = $(addprefix src/kernels/cuda/,cuda.cc add_norm_test.cc c_interface_test.cc lanes_test.cc)
TIDY    = $(filter-out apps/wasm/% apps/cli/mpi_communicator.cc $(CUDA),$(filter src/%.cc apps/%.cc,$(SOURCES)))
NPM     = scripts/with-node.sh npm --prefix web
NODE_MODULES = web/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.PHONY: help run serve tutorial network site test test-all debian clang bench docs format lint package wheel cuda-wheel sbom sanitize tsan valgrind clean mpi fuzz attack neon avx512 odr page module \
        packages packages-avx512 packages-bench packages-browser packages-deb packages-docs packages-lint packages-mpi \
        packages-neon packages-python packages-web packages-wheel
.NOTPARALLEL:  # several goals build in one folder
.PRECIOUS: build/%/build.ninja

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

# Only the kernels that this computer uses; `make test` adds the others.
run serve: CONFIGURE = -DADDNORM_INSTRUCTION_SETS=native

run: build/release/build.ninja ## build the program and run the study; ARGS="--steps 50" goes to it
	@cmake --build --preset release --target bin/addnorm
	@$(PROGRAM) study $(ARGS)

serve: build/release/build.ninja page ## build the interactive tutorial and show it; ARGS="--port 8081"
	@cmake --build --preset release --target bin/addnorm
	@$(PROGRAM) serve $(ARGS)

tutorial: $(NODE_MODULES) module ## write the tutorial as one HTML file that needs no server, build/addnorm-tutorial.html
	@$(NPM) run --silent build-single
	@mv build/tutorial/index.html build/addnorm-tutorial.html

network: build/release/build.ninja ## train the network of the tutorial's chapter "A real model" anew, some minutes
	@cmake --build --preset release --target bin/addnorm
	@scripts/tutorial_network.py web/src/chapters/model/network.safetensors

site: page tutorial docs ## write tutorial and documentation as one static folder for any host, build/site
	@$(NPM) run --silent build-site

test: packages-browser packages-python build/release/build.ninja page tutorial ## build everything and run all tests
	@cmake --preset release -DADDNORM_PYTHON=ON -DADDNORM_INSTRUCTION_SETS=all >/dev/null
	@cmake --build --preset release
	@ctest --preset release
	@$(NPM) test

test-all: export ADDNORM_LONG_TESTS = 1
test-all: test site package packages-wheel ## that, and the Debian packages, the wheel, the ABI, the library inside another project, the documentation, the fuzzers, Debian 12 and 13: four hours more
	@cmake --preset release >/dev/null
	@ctest --preset release -C packaging -L packaging
	@$(NPM) exec --silent -- vitest run --project browser test/site.test.ts
	@$(MAKE) --no-print-directory fuzz SECONDS=5
	@$(MAKE) --no-print-directory debian

# README's numbers of the study hold for both, within the tolerance stated there.
debian: ## make run, make test and make clang in a Debian 12 and a Debian 13 of their own, build/debian
	@for release in 12 13; do scripts/in-debian.sh $$release bash -ec \
	  'scripts/install-packages.sh build wheel; make run test clang; \
	   ctest --preset release -C packaging -R "^(docs_pages_slow|wheel|families)$$"' || exit; done

clang: packages-lint packages-python build/clang/build.ninja ## build everything with clang, whose warnings are errors
	@cmake --build --preset clang

package: packages-deb packages-python build/release/build.ninja page ## make the Debian packages, in build/packages
	@rm -rf build/packages
	@export SOURCE_DATE_EPOCH=$$(scripts/source-date.sh) && cmake --preset package >/dev/null && \
	  cmake --build --preset package && cpack --preset package

wheel: packages-wheel ## make a wheel of the Python package that needs nothing of this machine, in build/wheels
	@scripts/build-wheel.sh

cuda-wheel: packages ## make the wheel of the kernels for NVIDIA GPUs, in build/cuda-wheels; it needs no GPU
	@scripts/build-cuda-wheel.sh

sbom: packages ## list the code of others that is in program, page and wheel, as CycloneDX: build/sbom.json
	@mkdir -p build && scripts/third_party.py sbom > build/sbom.json

docs: packages-docs packages-python build/release/build.ninja ## build the documentation, build/docs/html/index.html
	@cmake --preset release -DADDNORM_PYTHON=ON >/dev/null
	@cmake --build --preset release --target bin/addnorm addnorm_python
	@rm -rf build/docs && mkdir -p build/docs
# A member's name may be enough; everything else needs a comment. The page names each class's header only once.
	@doxygen docs/Doxyfile 2>&1 | (! grep -v ' of \(struct\|class\) ')
	@sed -i '/<includes /d' build/docs/xml/*.xml
	@/usr/bin/python3 -m sphinx -q -W --keep-going -b html docs build/docs/html

bench: packages packages-bench packages-browser packages-python page ## build the benchmarks and run them; ARGS="--threads 1" goes to addnorm bench
	@cmake --preset release -DADDNORM_BENCH=ON -DADDNORM_PYTHON=ON >/dev/null
	@cmake --build --preset release
	@bench/run.sh $(ARGS)

sanitize: build/asan-ubsan/build.ninja build/asan-avx512/build.ninja ## run all tests under the address and undefined-behaviour sanitizers
	@cmake --build --preset asan-ubsan
	@ctest --preset asan-ubsan
	@cmake --build --preset asan-avx512
	@if grep -q avx512f /proc/cpuinfo; then ctest --preset asan-avx512; else \
	   scripts/install-packages.sh avx512 && scripts/with-avx512.sh build/asan-avx512/bin/addnorm_kernels_test \
	     --gtest_filter='*.EqualsTheReferenceForEveryOption*'; fi

tsan: packages-lint build/tsan/build.ninja ## run the loop over threads and the C interface under the thread sanitizer
	@cmake --build --preset tsan
	@ctest --preset tsan

# Memory that a thread's last destructors allocate is not freed, on purpose.
valgrind: packages-lint packages build/release/build.ninja ## run the C interface under valgrind, on one thread
	@cmake --build --preset release --target addnorm_c_test
	@OMP_NUM_THREADS=1 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
	   build/release/bin/addnorm_c_test \
	   --gtest_brief=1 --gtest_filter='-*SmallStack*:Threads*:*AfterTheThreadsDestructors*'

mpi: packages-mpi build/mpi/build.ninja ## build the program for mpirun and test training on several processes
	@cmake --build --preset mpi
	@ctest --preset mpi
	@ADDNORM_PROGRAM='$(CURDIR)/build/mpi/bin/addnorm' ADDNORM_LAUNCHER='mpirun --allow-run-as-root --oversubscribe -n 2' \
	   ADDNORM_ATTACK_SECONDS=$(or $(SECONDS),60) /usr/bin/python3 -B tests/attack/runs_attack.py RunsAttack.test_kills

fuzz: packages packages-lint build/fuzz/build.ninja ## fuzz the readers of files and the C interface for SECONDS (60) each
	@cmake --build --preset fuzz
	@fuzz/run.sh $(or $(SECONDS),60)

attack: packages packages-python build/release/build.ninja ## attack server, readers, runs and forks for SECONDS (60) each; SEED=… repeats
	@cmake --preset release -DADDNORM_PYTHON=ON >/dev/null
	@cmake --build --preset release --target bin/addnorm addnorm_python
	@export ADDNORM_PROGRAM='$(CURDIR)/$(PROGRAM)' PYTHONPATH='$(CURDIR)/build/release/python' \
	   ADDNORM_ATTACK_SECONDS=$(or $(SECONDS),60) $(and $(SEED),ADDNORM_ATTACK_SEED=$(SEED)); \
	 for part in server readers runs forks; do /usr/bin/python3 -B tests/attack/$${part}_attack.py || exit; done

neon: packages-neon build/neon/build.ninja ## check that 64-bit ARM gives the same bits, cross-compiled and in qemu
	@cmake --build --preset neon
	@qemu-aarch64 build/neon/bin/addnorm_kernels_test --gtest_filter='*SameBits.*:Conversion*'

# Bochs rounds subnormals of float16 wrongly.
avx512: packages-avx512 build/release/build.ninja ## check that AVX-512 gives the same bits, on a processor that Bochs emulates
	@cmake --build --preset release --target addnorm_kernels_test
	@scripts/with-avx512.sh build/release/bin/addnorm_kernels_test \
	   --gtest_filter='*SameBits.*:Conversion.OfBFloat16*:InstructionSet.*:-*/float16:*_float16'

format: packages-lint $(NODE_MODULES) ## format the sources in place
	@clang-format -i $(SOURCES)
	@$(NPM) run --silent format

odr: packages build/odr/build.ninja ## check that no two types of the program have one name
	@cmake --build --preset odr

lint: packages packages-lint packages-python $(NODE_MODULES) odr ## check formats, clang-tidy, mypy and odr; fails on any finding
	@clang-format --dry-run -Werror $(SOURCES)
	@$(NPM) run --silent lint
	@mypy --strict --follow-imports=silent --cache-dir=build/mypy \
	  --python-executable=/usr/bin/python3 python/addnorm/{__init__,_arrays,_core,_kernels,_library,_results,array_functions,bfloat16,lab,norm_options,report}.py python/addnorm/integrations/{__init__,github,loggers}.py
	@cmake --preset release -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
	  -DCMAKE_UNITY_BUILD=OFF -DADDNORM_COPIES_VECTORS=OFF >/dev/null  # the second is a GCC option that clang-tidy rejects
	@printf '%s\n' $(TIDY) | xargs -P $$(nproc) -n 1 clang-tidy -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option \
	  2> >(grep -v ' warnings* generated' >&2)

clean: ## remove everything that was built
	@rm -rf build web/dist web/packages/*/{dist,LICENSE} web/node_modules bench/web/node_modules

# The tutorial: the library as WebAssembly modules, and the page that uses them.
page: $(NODE_MODULES) module
	@$(NPM) run --silent build
	@scripts/third_party.py notices page >> web/dist/third-party-notices.md

module: packages-web build/wasm/build.ninja
	@cmake --build --preset wasm

# npm writes this file last.
$(NODE_MODULES): web/package-lock.json | packages
	@$(NPM) ci --no-audit --no-fund --loglevel=error
	@touch $@

packages:
	@scripts/install-packages.sh build test

packages-avx512 packages-bench packages-browser packages-deb packages-docs packages-lint packages-mpi packages-neon packages-python packages-web packages-wheel: packages-%: packages
	@scripts/install-packages.sh $*

# After the first configuration, Ninja runs CMake again when a CMakeLists.txt changes.
build/mpi/build.ninja: | packages-mpi
build/neon/build.ninja: | packages-neon
build/wasm/build.ninja: | packages-web
build/%/build.ninja: CMakePresets.json | packages
	@cmake --preset $* $(CONFIGURE) >/dev/null
	@touch $@
