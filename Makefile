# Kelvin. `make run` builds and serves, `make test` and `make test-all` build and test; all install what is missing. V=1 prints every command.
# Rooms and files are found by pattern: a new .c in src/<room>/ or tests/unit/<room>/ needs no line here.

MODE    ?= release
BUILD   := build/$(MODE)
PORT    ?= 6379
PREFIX  ?= /usr/local
SYSCONFDIR ?= /etc

# All cores, unless -j is given (make's command line has precedence) or another make has decided.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

# What a recipe does is one short line; with V=1 it is the command itself.
Q       := $(if $(V),,@)
say      = $(if $(V),,@echo "  $1")

# The cross compiler and the libraries of make arm64-check, as packages that are unpacked but not installed.
ARM64   := build/arm64-root
ARM64_RUN := LD_LIBRARY_PATH=$(ARM64)/usr/lib/x86_64-linux-gnu $(ARM64)/usr/bin/

CC.arm64  := $(ARM64_RUN)aarch64-linux-gnu-gcc --sysroot=$(ARM64)
CXX.arm64 := $(ARM64_RUN)aarch64-linux-gnu-g++ --sysroot=$(ARM64)
CC      := $(or $(CC.$(MODE)),$(if $(filter clang fuzz,$(MODE)),clang,gcc))
CXX     := $(or $(CXX.$(MODE)),$(if $(filter clang fuzz,$(MODE)),clang++,g++))
WARN    := -Wall -Wextra -Wshadow -Wpointer-arith -Wvla -Wno-unused-parameter $(if $(WERROR),-Werror)
comma   := ,
# gcc clears structs of more than 64 bytes with "rep stos", which takes 30 cycles to begin: a call has 200 bytes.
OPT.release := -O2 -g -fno-plt $(if $(filter x86_64,$(shell uname -m)),-mmemset-strategy=vector_loop:320:noalign$(comma)libcall:-1:noalign)
OPT.debug   := -O0 -g3 -DKELVIN_DEBUG
OPT.asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -DKELVIN_DEBUG
OPT.tsan    := -O1 -g -fsanitize=thread -DKELVIN_DEBUG
OPT.clang   := -O2 -g -fno-plt -Wthread-safety
# The macro is gcc's own. NULL + 0 is what clang calls a pointer overflow and gcc does not.
OPT.fuzz    := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=pointer-overflow \
	-fno-sanitize-recover=all -DKELVIN_DEBUG -D__SANITIZE_ADDRESS__
OPT.cover   := -Og -g --coverage -fprofile-update=atomic -DKELVIN_DEBUG
OPT.arm64   := -O2 -g -fno-plt
# The other side of every alternative: plain C in place of SSE2 or NEON, char without a sign as on ARM, no liburing, the checks of libc.
OPT.plain   := -O2 -g -fno-plt -funsigned-char -DKELVIN_PLAIN -D_FORTIFY_SOURCE=2
OPT     := $(OPT.$(MODE))
# yes or no: whether io_uring may be used for reads from the disk; threads read where it can't.
ifndef LIBURING
LIBURING := $(if $(filter plain,$(MODE)),no,$(shell echo '\#include <liburing.h>' | $(CC) -E - >/dev/null 2>&1 && echo yes || echo no))
endif
DEFS    := -D_GNU_SOURCE -Isrc -DKELVIN_BUILD='"$(MODE)"' $(if $(filter no,$(LIBURING)),-DKELVIN_NO_LIBURING)
CFLAGS  := -std=c11 $(OPT) $(WARN) -Wstrict-prototypes -Wmissing-prototypes $(DEFS)
CXXFLAGS := -std=c++17 $(OPT) $(WARN) -fno-rtti $(DEFS)
# Sanitizers bring their own malloc; everything else runs on jemalloc.
MALLOC  := $(if $(filter asan tsan fuzz,$(MODE)),,-ljemalloc)
LDLIBS  := -luv -lleveldb $(if $(filter no,$(LIBURING)),,-luring) -llzf -lzstd -llz4 -lisal -lxxhash -llua5.1 -lssl -lcrypto -lmicrohttpd $(MALLOC) -lpthread -lm
LDFLAGS := $(OPT)

SOURCES := $(filter-out src/main.c,$(wildcard src/*/*.c)) $(wildcard src/*/*.cc)
EVERY_C := $(wildcard src/*.c src/*/*.c src/*/*.cc utils/*/*.c tests/*/*.c tests/*/*.cc tests/unit/*/*.c)
OBJECTS := $(SOURCES:%=$(BUILD)/%.o)
LIBRARY := $(BUILD)/libkelvin.a
SERVER  := $(BUILD)/kelvin-server
SUPPORT := $(patsubst %,$(BUILD)/%.o,$(filter-out %_shim.c %_main.c,$(wildcard tests/support/*.c tests/support/*.cc)))
SHIM    := $(patsubst tests/support/%.c,$(BUILD)/tests/%.so,$(wildcard tests/support/*_shim.c))
# One program for each room: its tests share the parts of the library that all of them link. tests/support/unit_main.c is its main.
UNITS   := $(patsubst tests/unit/%/,$(BUILD)/tests/unit-%,$(sort $(dir $(wildcard tests/unit/*/*_test.c))))
unit_objects = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/$1/*_test.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(wildcard tests/fuzz/*_fuzz.c))
# libFuzzer brings a main of its own; elsewhere ours takes its place.
FUZZ_MAIN := $(if $(filter fuzz,$(MODE)),,$(BUILD)/tests/support/fuzz_main.c.o)
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(wildcard tests/bench/*_bench.c))
TOOLS   := $(BUILD)/kelvin-benchmark $(BUILD)/kelvin-check $(BUILD)/kelvin-simulate $(BUILD)/kelvin-top

.PHONY: all server tools shim units fuzzers benches checked run test test-all test-browser debug asan tsan clang unit spec crash replication cluster random crash-long lint clang-check arm64-check cover \
	compile_commands.json bench clients redis-suite fuzz soak install uninstall deb tarball package-check deps deps-test help clean

all: deps
	@$(MAKE) --no-print-directory server tools
server: $(SERVER)
tools: $(TOOLS)

help:
	@echo "make            install what is missing, build $(SERVER) and the tools"
	@echo "make run        the same, then serve on 127.0.0.1:$(PORT), data in build/run  (PORT=7000 make run)"
	@echo "make V=1        any target, with every command printed"
	@echo "make test       build, lint, all units and tests over the wire, the long ones shortened: 5 minutes on 2 cores"
	@echo "make test-all   everything: crashes, replication, sanitizers too; what .ci runs: 30 minutes on 2 cores"
	@echo "make unit       unit tests only         make spec    tests over the wire only"
	@echo "make crash      kill -9, power cuts     make lint    order of rooms, globals, links; cppcheck, codespell, shellcheck"
	@echo "make crash-long the same with SEEDS (1000) seeds"
	@echo "make replication  redis-server and Kelvin as primaries and replicas of each other, Sentinel"
	@echo "make cluster    clusters of redis-server and Kelvin nodes: failures, moves of slots, minutes of bad luck"
	@echo "make debug      build that way, into build/<mode>/; so do: make asan, tsan, clang"
	@echo "make clang-check                        clang's warnings, thread safety among them; WERROR=1 makes warnings errors anywhere"
	@echo "make arm64-check                        the unit tests and a server for arm64, in an emulator"
	@echo "make MODE=asan unit                     and so on: any of the above with another build"
	@echo "make bench      micro-benchmarks        make fuzz    fuzz targets, SECONDS each (60)"
	@echo "make random     random programs of tests/random, SECONDS each (60), from KELVIN_SEED"
	@echo "make soak       HOURS (1) of random load and kills"
	@echo "make clients    applications' own test suites, from the package registries"
	@echo "make redis-suite SUITE=<tree>           the test suite of a Redis source tree, in spawn mode"
	@echo "make cover      which lines the unit tests and some others run: build/cover/html"
	@echo "make compile_commands.json              for clangd and other tools that read C"
	@echo "make install    into PREFIX ($(PREFIX)), below DESTDIR if given; make uninstall"
	@echo "make deb        a package for Debian or Ubuntu: build/kelvin.deb     make tarball  the sources of the last commit"
	@echo "make package-check                      installs, upgrades and removes these in throwaway roots; needs root"
	@echo "make test-browser                       the status page in Chromium; pictures in build/browser"
	@echo "make clean      remove build/"

deps:
	@deps/install
deps-test:
	@deps/install test

run: all
	@mkdir -p build/run
	@echo "Kelvin on 127.0.0.1:$(PORT), data in build/run"
	@$(SERVER) --port $(PORT) --dir build/run

debug asan tsan: deps
	@$(MAKE) --no-print-directory MODE=$@ server
clang: deps-test
	@$(MAKE) --no-print-directory MODE=$@ server

$(BUILD)/src/%.c.o: src/%.c
	$(call say,CC $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/src/%.cc.o: src/%.cc
	$(call say,CXX $<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -c $< -o $@
# It has the page in it.
$(BUILD)/src/metrics/page.c.o: src/metrics/page.html
# Read again when LIBURING is another one than in the last build.
$(BUILD)/src/base/read_ring.c.o: $(BUILD)/liburing-$(LIBURING)
$(BUILD)/liburing-$(LIBURING):
	@mkdir -p $(@D)
	@rm -f $(BUILD)/liburing-*
	@touch $@
$(BUILD)/tests/unit/%_test.o: tests/unit/%_test.c
	$(call say,CC $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Itests -Dmain=$(notdir $*)_test_main -include support/unit_prototype.h -MMD -MP -c $< -o $@
$(BUILD)/tests/%.c.o: tests/%.c
	$(call say,CC $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Itests -MMD -MP -c $< -o $@
$(BUILD)/tests/%.cc.o: tests/%.cc
	$(call say,CXX $<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) -Itests -MMD -MP -c $< -o $@
$(BUILD)/utils/%.c.o: utils/%.c
	$(call say,CC $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

# The names of the objects are in a file, as they are 18 KB, and the archive has no copies of them.
$(LIBRARY): $(OBJECTS)
	$(call say,AR $@)
	$(file >$@.objects,$^)
	@rm -f $@
	$(Q)ar rcsT $@ @$@.objects
$(SERVER): $(BUILD)/src/main.c.o $(LIBRARY)
	$(call say,LINK $@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
.SECONDEXPANSION:
$(BUILD)/tests/unit-%: $(BUILD)/tests/support/unit_main.c.o $$(call unit_objects,$$*) $(SUPPORT) $(LIBRARY)
	$(call say,LINK $@)
	$(file >$@.objects,$^)
	$(Q)$(CXX) $(LDFLAGS) -Wl,--export-dynamic-symbol='*_test_main' -o $@ @$@.objects -lcmocka $(LDLIBS)
$(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.c.o $(FUZZ_MAIN) $(SUPPORT) $(LIBRARY)
	$(call say,LINK $@)
	$(Q)$(CXX) $(LDFLAGS) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) -o $@ $^ $(LDLIBS)
$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.c.o $(SUPPORT) $(LIBRARY)
	$(call say,LINK $@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/kelvin-benchmark: $(patsubst %,$(BUILD)/%.o,$(wildcard utils/benchmark/*.c utils/common/*.c)) $(LIBRARY)
	$(call say,LINK $@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lhiredis $(MALLOC) -lpthread -lm
$(BUILD)/kelvin-top: $(patsubst %,$(BUILD)/%.o,$(wildcard utils/top/*.c utils/common/*.c) utils/benchmark/replies.c) $(LIBRARY)
	$(call say,LINK $@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lssl -lcrypto $(MALLOC) -lpthread -lm

$(BUILD)/kelvin-simulate: $(patsubst %,$(BUILD)/%.o,$(wildcard utils/simulate/*.c) utils/benchmark/zipf.c) $(LIBRARY)
	$(call say,LINK $@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Preloaded by tests that pull the plug, or leave the server without threads; they contain no code of the server, and the server contains none of the shims.
$(BUILD)/tests/%_shim.so: tests/support/%_shim.c
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) -std=c11 -O1 -g -fPIC -shared $(WARN) -D_GNU_SOURCE $< -o $@ -lpthread

shim: $(SHIM)
$(BUILD)/kelvin-check: $(patsubst %,$(BUILD)/%.o,$(wildcard utils/check/*.c)) $(LIBRARY)
	$(call say,LINK $@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Clang's warnings without its code; `make clang` builds a server. Tests hold locks from a setup to a teardown, which the analysis cannot follow.
CHECKED := $(EVERY_C:%=$(BUILD)/%.checked)
checked: $(CHECKED)
$(BUILD)/%.c.checked: %.c
	@mkdir -p $(@D)
	$(call say,CHECK $<)
	$(Q)$(CC) $(CFLAGS) $(if $(filter tests/%,$<),-Wno-thread-safety) -Itests -fsyntax-only -MMD -MP -MT $@ -MF $@.d $<
	@touch $@
$(BUILD)/%.cc.checked: %.cc
	@mkdir -p $(@D)
	$(call say,CHECK $<)
	$(Q)$(CXX) $(CXXFLAGS) -Itests -fsyntax-only -MMD -MP -MT $@ -MF $@.d $<
	@touch $@
clang-check: deps-test
	@$(MAKE) --no-print-directory MODE=clang WERROR=1 checked

# The unit tests and a server for arm64, run by qemu-user on x86-64: see tests/arm64/README.md.
arm64-check: deps-test
	@tests/arm64/prepare $(ARM64)
	@$(MAKE) --no-print-directory MODE=arm64 WERROR=1 server units
	@tests/arm64/run build/arm64 $(ARM64) $(TESTS)

units: $(UNITS)
fuzzers: $(FUZZERS)
benches: $(BENCHES)

unit: deps-test
	@$(MAKE) --no-print-directory units
	@tests/run unit $(BUILD)
spec: deps-test
	@$(MAKE) --no-print-directory server tools shim
	@tests/run spec $(BUILD)
crash: deps-test
	@$(MAKE) --no-print-directory server tools shim
	@tests/run crash $(BUILD)
# KELVIN_PAIRS selects the pairs of primary and replica; see tests/README.md.
replication: deps-test
	@$(MAKE) --no-print-directory server tools
	@tests/run replication $(BUILD)
# Clusters of both kinds of nodes; KELVIN_PAIRS selects mixtures, KELVIN_LONG_S how long long_test.py runs.
cluster: deps-test
	@$(MAKE) --no-print-directory server tools
	@tests/run cluster $(BUILD)
random: deps-test
	@$(MAKE) --no-print-directory server tools shim
	@tests/run random $(BUILD)
crash-long: deps-test
	@$(MAKE) --no-print-directory server tools shim
	@SEEDS=$${SEEDS:-1000} tests/run crash-long $(BUILD)
test test-all: deps-test
	@tests/run $@
# Pictures of the status page are in build/browser.
test-browser:
	@deps/install browser
	@$(MAKE) --no-print-directory server shim
	@tests/run browser $(BUILD)
lint: deps-test
	@utils/lint; first=$$?; utils/lint_tools && exit $$first
cover: deps-test
	@$(MAKE) --no-print-directory MODE=cover server tools shim units
	@tests/run cover build/cover
fuzz: deps-test
	@mode=asan; if command -v clang >/dev/null; then mode=fuzz; fi; \
	$(MAKE) --no-print-directory MODE=$$mode fuzzers && tests/run fuzz build/$$mode

# For clangd and the like.
quoted = $(subst ",\",$(subst \,\\,$1))
database_entry = {"directory": "$(CURDIR)", "file": "$1", "command": "$(call quoted,$(if $(filter %.cc,$1),$(CXX) $(CXXFLAGS),$(CC) $(CFLAGS)) -Itests -c $1)"}
compile_commands.json:
	@: $(file >$@,[$(subst } {,}$(comma) {,$(foreach source,$(EVERY_C),$(call database_entry,$(source))))])

bench: deps-test
	@$(MAKE) --no-print-directory server tools benches
	@tests/run bench $(BUILD)
# Takes the suites from the package registries: needs pip, npm, go and Maven for those that it runs.
clients: deps-test
	@$(MAKE) --no-print-directory server
	@tests/clients/run $(BUILD) $(SUITES)
# The user brings the source tree: this project has no part of it. FILES selects files of the suite: unit/type, unit/expire,
# unit/cluster, cluster ... MIXED=yes: every second server is Redis' own. CLUSTER_MODE=yes: with a server that has all slots of a cluster.
redis-suite:
	@$(MAKE) --no-print-directory server
	@tests/redis-suite/run --build $(BUILD) --suite "$(SUITE)" $(if $(MIXED),--mixed) $(if $(CLUSTER_MODE),--cluster-mode) $(FILES)
soak: deps-test
	@$(MAKE) --no-print-directory server tools shim
	@tests/run soak $(BUILD)

# Nothing is downloaded or installed beside Kelvin's own files: what is missing is named.
INSTALL := BUILD=$(BUILD) DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" SYSCONFDIR="$(SYSCONFDIR)" utils/package/install
install:
	@deps/install check install
	@$(MAKE) --no-print-directory server tools
	@$(INSTALL)
uninstall:
	@$(INSTALL) --remove
deb:
	@deps/install check package
	@$(MAKE) --no-print-directory server tools
	@utils/package/deb $(BUILD)
# The files of the last commit. The same commit gives the same bytes.
VERSION := $(shell sed -n 's/^\#define KELVIN_VERSION "\(.*\)"/\1/p' src/base/version.h)
tarball:
	@mkdir -p build
	@git -c tar.umask=022 archive --format=tar --prefix=kelvin-$(VERSION)/ HEAD | gzip -9n >build/kelvin-$(VERSION).tar.gz
# As root: packages are installed in throwaway roots, which debootstrap makes.
package-check:
	@deps/install check package
	@$(MAKE) --no-print-directory server tools
	@tests/run package $(BUILD) $(TESTS)

clean:
	rm -rf build

.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
