# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# make                 the library and its programs, into target/release
# make plugin          our providers for another libfabric, into target/plugin/libexec
# make static          libfabric.a for `pkg-config --static`, into target/static
# make try K=fi_tagged the conformance tests whose page:rule contains K, on a debug build: seconds after an edit
# make install         PREFIX=/usr/local LIBDIR=$(PREFIX)/lib DESTDIR=; HEADERS=2.6: those of that release in include
# make install-strip   the same without symbols and line tables
# make install-static  libfabric.a alone, into LIBDIR
# make install-built   what is built, without cargo; BUILT= and PLUGIN= say where it is
# make notices         NOTICES, the licences of what is linked; make sbom: what that is, as CycloneDX, into target/sbom
# make deb             packages for Debian, into target/deb; make rpm: RPM packages, into target/rpm
# make wheel           a Python wheel of the library for glibc 2.28, into target/wheel/dist
# make uninstall       takes away what these put there, if it gets the same variables
# make check           every check; make check-NAME runs one, `make checks` lists them; INSTALL=0 fetches nothing
# make demo            an unmodified MPI on this library
# make bench           side by side with another libfabric; make budget writes down instruction counts
# make matrix          MATRIX.md
# make man             the manual pages, into target/man; MANDIR=$(PREFIX)/share/man: where `make install` puts them
# make book            the manual as a searchable book, target/book/index.html
# make help            these lines
#
# SYSCONFDIR=/etc: where the library looks for libfabric.conf. It is compiled in: give it to every call of make, or none
CARGO ?= cargo
INSTALL ?= install
# INSTALL=0 is for the checks, which then fetch nothing; scripts read FETCH.
ifeq ($(INSTALL),0)
override INSTALL := install
FETCH := 0
endif
ifeq ($(FETCH),0)
export FETCH
export CARGO_NET_OFFLINE := true
export PIP_NO_INDEX := 1
endif
INSTALL_PROGRAM ?= $(INSTALL)
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
BINDIR ?= $(PREFIX)/bin
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
LIBEXECDIR ?= $(PREFIX)/libexec
DOCDIR ?= $(PREFIX)/share/doc/ironfabric

# The releases of libfabric whose ABI the library has. Columns: release, interface, node, file, provider, state.
releases = $(shell awk -F '\t' '!/^\#/ && $$$1 ~ /^($2)$$/ { print $$$3 }' src/abi/releases.tsv)
SETS := $(call releases,6,kept|default|alpha,2)
DEFAULT := $(call releases,6,default,2)
# File name of the shared library; its soname is libfabric.so.1.
SOVERSION := $(call releases,6,default,4)

# The set of headers that is installed into INCLUDEDIR. Each other set is installed into OTHER_INCLUDEDIR-<set>, which
# libfabric-<set>.pc names. The library serves the programs of every set.
HEADERS ?= $(DEFAULT)
OTHER_INCLUDEDIR ?= $(INCLUDEDIR)
OTHER_SETS = $(filter-out $(HEADERS),$(SETS))
headers_of = $(if $(filter $(DEFAULT),$1),include,$(BUILT)/include-$1)
headers = $(if $(filter $(HEADERS),$(SETS)),$(call headers_of,$(HEADERS)),$(error HEADERS is one of: $(SETS)))

VERSION := $(shell sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' Cargo.toml)
TOOLS := fi_info fi_mon_sampler fi_pingpong fi_strerror fi_top

metadata = $(CARGO) metadata --format-version 1 --no-deps --offline 2>/dev/null
TARGET := $(or $(shell $(metadata) | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'),target)
BUILT := $(TARGET)/release
DEBUG := $(TARGET)/debug

# The same bytes wherever the source and the crates lie.
release = scripts/remapped.sh $(CARGO)

# The programs link to the shared library as any program does, so it comes first.
all:
	$(release) build --release --locked --lib
	ln -sf libfabric.so $(BUILT)/libfabric.so.1
	$(release) build --release --locked -p tools
	$(foreach set,$(STUBS),scripts/link_stub.sh $(BUILT)/libfabric.so $(call releases,2,$(set),3) $(BUILT)/link-$(set)$(newline))
	@cp -f "$$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" $(BUILT)/NOTICES-std.html 2>/dev/null || \
	    echo "this compiler brings no notices of Rust's std along; none will be installed"

# Our providers for another libfabric: FI_PROVIDER_PATH names the folder. One file, with a name for each of them.
PLUGIN := $(TARGET)/plugin
PLUGIN_NAMES = libironfabric-fi.so libironfabric-2-fi.so libironfabric-3-fi.so libironfabric-4-fi.so \
    libironfabric-5-fi.so
# Cargo calls this archive and that of `static` by one name, so that only one at a time may be made and used.
archive = @mkdir -p $(TARGET) && flock $(TARGET)/archive.lock $(MAKE) --no-print-directory
plugin:
	$(archive) plugin-alone
plugin-alone:
	$(release) rustc --release --locked --lib --features plugin --crate-type staticlib
	@mkdir -p $(PLUGIN)/libexec
	$(CC) -shared -o $(PLUGIN)/libexec/libironfabric-fi.so -Wl,-soname,libironfabric-fi.so -Wl,--gc-sections \
	    -Wl,-u,fi_prov_ini -Wl,--version-script=src/abi/plugin.map -Wl,-z,defs $(BUILT)/libfabric.a \
	    -lpthread -ldl -lm -lgcc_s -lc
	cd $(PLUGIN)/libexec && $(plugin_links)
plugin_links = for name in $(wordlist 2,9,$(PLUGIN_NAMES)); do ln -sf libironfabric-fi.so $$name; done

# A wheel of manylinux_2_28 with the command `ironfabric`: packaging/wheel. The linker comes from PyPI.
wheel:
	packaging/wheel/build.sh $(TARGET)/wheel

debug:
	$(CARGO) build --locked --lib
	ln -sf libfabric.so $(DEBUG)/libfabric.so.1

# The inner loop. K: words, each a part of page:rule; P: providers (tcp, shm, core); E: rdm or msg. Only what changed is built:
# the library incrementally, the C suite not at all when it and the headers are as they were.
TRY = $(TARGET)/try
try: try-named debug
	@$(MAKE) -C ctests/conformance --no-print-directory BUILD=$(TRY) FABRIC_CFLAGS=-I$(CURDIR)/include \
	    FABRIC_LIBS='-L$(DEBUG) -lfabric'
	LD_LIBRARY_PATH=$(DEBUG) $(TRY)/conformance -j 2 $(K:%=-k %) $(P:%=-p %) $(E:%=-e %)

try-named:
	$(if $(K),@:,$(error say which tests: make try K=fi_tagged or K=fi_cq:read, and P=tcp E=rdm to narrow them))

# What a user or a lawyer may ask for. The notices of Rust's std come from the compiler that built the library.
DOCUMENTS := LICENSE $(wildcard LICENSES/*) NOTICES README.md ARCHITECTURE.md CHANGELOG.md MATRIX.md SECURITY.md \
    $(wildcard docs/*.md docs/decisions/*.md docs/wire/*.md)
STD_NOTICES = $(BUILT)/NOTICES-std.html

# For `pkg-config --static`. A folder of its own: with -lfabric a linker prefers a shared library that lies beside it.
STATIC := $(TARGET)/static
static:
	$(archive) static-alone
static-alone:
	$(release) rustc --release --locked --lib --crate-type staticlib
	@mkdir -p $(STATIC)
	cp $(BUILT)/libfabric.a $(STATIC)/libfabric.a

# Root often has no cargo: `make && sudo make install` installs what is built.
install: $(if $(shell command -v $(CARGO)),all plugin)
install install-built:
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR)/ironfabric
	$(INSTALL_PROGRAM) -m 755 $(PLUGIN)/libexec/libironfabric-fi.so $(DESTDIR)$(LIBEXECDIR)/ironfabric
	cd $(DESTDIR)$(LIBEXECDIR)/ironfabric && $(plugin_links)
	$(INSTALL_PROGRAM) -m 755 $(BUILT)/libfabric.so $(DESTDIR)$(LIBDIR)/libfabric.so.$(SOVERSION)
	ln -sf libfabric.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libfabric.so.1
	ln -sf libfabric.so.1 $(DESTDIR)$(LIBDIR)/libfabric.so
	$(INSTALL_PROGRAM) -m 755 $(TOOLS:%=$(BUILT)/%) $(DESTDIR)$(BINDIR)
	$(call install_headers,$(headers),$(INCLUDEDIR))
	$(call pkgconfig,libfabric,$(INCLUDEDIR),$(HEADERS))
	$(foreach set,$(OTHER_SETS),$(call install_set,$(set))$(newline))
	$(foreach set,$(STUBS),$(call install_stub,$(set))$(newline))
	$(install_manual)
	for file in $(DOCUMENTS); do $(INSTALL) -D -m 644 $$file $(DESTDIR)$(DOCDIR)/$$file || exit 1; done
	$(if $(wildcard $(STD_NOTICES)),$(INSTALL) -m 644 $(STD_NOTICES) $(DESTDIR)$(DOCDIR))

install-strip:
	$(MAKE) --no-print-directory install INSTALL_PROGRAM='$(INSTALL_PROGRAM) -s'

install-static: $(if $(shell command -v $(CARGO)),static)
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)
	$(INSTALL) -m 644 $(STATIC)/libfabric.a $(DESTDIR)$(LIBDIR)

# Folders that other packages use stay. Any HEADERS may have been installed.
header_names = $(notdir $(patsubst %.h.in,%.h,$(wildcard src/abi/*.h.in)))
uninstall:
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,libfabric.so.$(SOVERSION) libfabric.so.1 libfabric.so libfabric.a) \
	    $(addprefix $(DESTDIR)$(LIBDIR)/pkgconfig/,libfabric.pc $(SETS:%=libfabric-%.pc)) $(TOOLS:%=$(DESTDIR)$(BINDIR)/%) \
	    $(PLUGIN_NAMES:%=$(DESTDIR)$(LIBEXECDIR)/ironfabric/%)
	$(uninstall_manual)
	$(call uninstall_headers,$(DESTDIR)$(INCLUDEDIR))
	$(foreach set,$(SETS),$(call uninstall_set,$(set))$(newline))
	rm -f $(addprefix $(DESTDIR)$(DOCDIR)/,$(DOCUMENTS) $(notdir $(STD_NOTICES)))
	$(call remove_empty,$(SETS:%=$(DESTDIR)$(OTHER_INCLUDEDIR)-%) $(SETS:%=$(DESTDIR)$(LIBDIR)/libfabric-%) \
	    $(DESTDIR)$(LIBEXECDIR)/ironfabric \
	    $(addprefix $(DESTDIR)$(DOCDIR),/LICENSES /docs/decisions /docs/wire /docs) $(DESTDIR)$(DOCDIR))

remove_empty = for folder in $1; do [ ! -d $$folder ] || rmdir --ignore-fail-on-non-empty $$folder; done
define uninstall_headers
	rm -f $(addprefix $1/rdma/,$(header_names)) $(addprefix $1/rdma/providers/,$(header_names))
	$(call remove_empty,$1/rdma/providers $1/rdma)
endef
# The licences of what is linked; see scripts/notices.py. cargo install cargo-about@0.9.3
notices:
	$(CARGO) about generate --locked --offline --fail -c about.toml -o NOTICES packaging/notices.hbs
# What a build consists of, for programs that look for holes: CycloneDX, into target/sbom.
sbom:
	packaging/sbom.sh $(TARGET)/sbom

# Packages, into target/deb and target/rpm. With BUILT= (and PLUGIN=, STATIC=) of what is built there.
NEEDS_BUILD = $(if $(findstring command,$(origin BUILT)),,all plugin static)
deb: $(NEEDS_BUILD)
	rm -rf $(TARGET)/deb && mkdir -p $(TARGET)/deb/ironfabric
	cp -r packaging/debian $(TARGET)/deb/ironfabric/debian
	cd $(TARGET)/deb/ironfabric && env -u MAKEFLAGS -u MAKELEVEL SOURCE=$(CURDIR) BUILT=$(abspath $(BUILT)) \
	    PLUGIN=$(abspath $(PLUGIN)) STATIC=$(abspath $(STATIC)) dpkg-buildpackage -b -us -uc

rpm: $(NEEDS_BUILD)
	rm -rf $(TARGET)/rpm && mkdir -p $(TARGET)/rpm
	env -u MAKEFLAGS -u MAKELEVEL SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) rpmbuild -bb packaging/ironfabric.spec \
	    -D '_topdir $(abspath $(TARGET))/rpm' -D '_libdir $(RPM_LIBDIR)' -D 'source $(CURDIR)' -D 'abi $(VERSION)' -D 'sover $(SOVERSION)' -D '_buildhost reproducible' \
	    -D 'built $(abspath $(BUILT))' -D 'plugin $(abspath $(PLUGIN))' -D 'static $(abspath $(STATIC))'
# Where distributions that have RPM keep libraries; Debian's rpmbuild does not know.
RPM_LIBDIR ?= /usr/lib64

# Rendered beside target/man, which root should not write to. Without pandoc what is there is taken. $1: for each page.
define each_page
	@pages=$$(mktemp -d) && trap 'rm -rf "$$pages"' EXIT && { [ ! -d $(MAN) ] || cp -Rp $(MAN)/. $$pages; } && \
	    { scripts/man.sh $$pages || [ -d $$pages/man3 ] || echo "NOT RENDERED: the manual pages"; } && \
	    for page in $$pages/man*/*; do [ ! -f $$page ] || $1 || exit; done
endef
page_there = $(DESTDIR)$(MANDIR)/$${page\#$$pages/}
install_manual = $(call each_page,$(INSTALL) -D -m 644 $$page $(page_there))
uninstall_manual = $(call each_page,rm -f $(page_there))
define newline


endef
# A set of headers beside the default one. Programs are linked with a stub whose newest node is that of the set.
STUBS := $(call releases,6,kept|alpha,2)
link_folder = $(LIBDIR)$(if $(filter $(STUBS),$1),/libfabric-$1)
define install_set
	$(call install_headers,$(call headers_of,$1),$(OTHER_INCLUDEDIR)-$1)
	$(call pkgconfig,libfabric-$1,$(OTHER_INCLUDEDIR)-$1,$1)
endef
install_stub = $(INSTALL) -D -m 755 $(BUILT)/link-$1/libfabric.so $(DESTDIR)$(call link_folder,$1)/libfabric.so
define uninstall_set
	$(call uninstall_headers,$(DESTDIR)$(OTHER_INCLUDEDIR)-$1)
	rm -f $(DESTDIR)$(LIBDIR)/libfabric-$1/libfabric.so
endef
define install_headers
	$(INSTALL) -d $(DESTDIR)$2/rdma/providers
	$(INSTALL) -m 644 $1/rdma/*.h $(DESTDIR)$2/rdma
	$(INSTALL) -m 644 $1/rdma/providers/*.h $(DESTDIR)$2/rdma/providers
endef
define pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(call link_folder,$3))|' \
	    -e 's|@NAME@|$1|' -e 's|@INCLUDEDIR@|$(2:$(PREFIX)/%=$${prefix}/%)|' -e 's|@VERSION@|$(call releases,2,$3,1)|' \
	    pkgconfig/libfabric.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/$1.pc
endef

# The manual: docs/man, as pages for man(1).
MAN := $(TARGET)/man
man:
	scripts/man.sh $(MAN)
# Tables of settings in it, asked of the library.
man-settings: all
	ctests/man.py $(BUILT) $(MAN) --write

demo:
	scripts/demo.sh

# The same programs on this library and on others: OTHER, folders of libfabrics, and BESIDE: what the MPICH wheel brings along,
# and the system's. Half an hour; FULL=1: all sizes, hours. PROVIDER=shm: only the tables of that one. Then one report of all that
# was measured last. ARGS: see benches/run.py --help; with it nothing is written.
OTHER ?=
system_libfabric = $(patsubst %/,%,$(dir $(firstword $(wildcard /usr/lib/*-linux-gnu/libfabric.so.1 /usr/lib64/libfabric.so.1))))
BESIDE ?= $(TARGET)/python/lib/mpich $(system_libfabric)
others = $(OTHER) $(BESIDE)
BENCH = benches/run.py $(BUILT) $(others) --build $(TARGET)/bench --python $(TARGET)/python/bin $(if $(FULL),--full)
published = --provider $1 --results benches/results$(patsubst %,/%,$(filter-out tcp,$1)) --page docs/performance.md
bench: all
	scripts/python_env.sh $(TARGET)/python
	$(if $(ARGS),$(BENCH) $(PROVIDER:%=--provider %) $(ARGS),\
	    $(foreach provider,$(or $(PROVIDER),tcp shm sockets udp rxm rxd),$(BENCH) $(call published,$(provider)) &&) \
	    benches/page.py benches/results $(TARGET)/bench/report.html)

# The report, of the numbers in benches/results.
bench-report:
	benches/page.py benches/results $(TARGET)/bench/report.html

# shm alone, sorted by how far apart the two processors are, which a virtual machine changes. Six minutes; prints a table.
# ARGS: see benches/distances.py --help.
bench-distances: all
	benches/distances.py $(BUILT) $(firstword $(others)) --build $(TARGET)/bench $(ARGS)

# What MPI programs see, as OSU's benchmarks measure it: MPICH, and Open MPI where `make check-programs` has put it, on this library
# and on another. ARGS: see benches/mpi.py --help.
bench-mpi: all
	scripts/python_env.sh $(TARGET)/python
	benches/mpi.py $(BUILT) $(firstword $(others)) --python $(TARGET)/python/bin --build $(TARGET)/bench $(ARGS)

# What hooks cost a call, in nanoseconds.
bench-hooks: all
	@mkdir -p $(TARGET)/bench
	$(CC) -O2 -Iinclude -o $(TARGET)/bench/hook_cost benches/hook_cost.c -L$(BUILT) -lfabric
	@printf '%-12s' none && LD_LIBRARY_PATH=$(BUILT) $(TARGET)/bench/hook_cost
	@for hook in noop 'noop;noop' hmem perf profile monitor; do printf '%-12s' "$$hook" && \
	    FI_HOOK="$$hook" LD_LIBRARY_PATH=$(BUILT) $(TARGET)/bench/hook_cost 2>/dev/null; done

# Writes down how many instructions the calls of the data path take now.
budget: all
	scripts/python_env.sh $(TARGET)/python
	benches/budget.py $(BUILT) --other $(firstword $(others)) --build $(TARGET)/bench --write

# In order of speed. Each runs alone too, and exits with 77 where it could not run here; scripts/checks.sh tells.
CHECKS := format documents notices packaging layout headers deny clippy unit drift symbols inline install \
    examples man demo c addresses releases plugins hooks budget matrix debian hosts tools top doctor mixed valgrind conformance mpi shm asan \
    threads memory

check:
	scripts/checks.sh $(CHECKS)
help:
	@sed -n 's/^# \(make .*\)/\1/p; s/^# \(SYSCONFDIR=.*\)/\n\1/p' $(firstword $(MAKEFILE_LIST))
checks:
	@printf 'check-%s\n' $(CHECKS)

check-format:
	$(CARGO) fmt --all --check
	! grep -rnE '^ *//.{119,}' --include=*.rs build.rs src fuzz/src
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
check-documents:
	scripts/rows.py docs/differences.md
# The licences that go along with the library, and all crates of Cargo.lock: their licences, known holes, doubles.
check-notices:
	scripts/notices.py
check-deny:
	scripts/deny.sh $(TARGET)/tools
# The versions that are written down in more than one place.
check-packaging:
	head -n 1 packaging/debian/changelog | grep '^ironfabric ($(VERSION)[-)]'
	sed -n '/^%changelog/{n;p}' packaging/ironfabric.spec | grep ' - $(VERSION)-'
check-sbom:
	packaging/sbom.sh --check $(TARGET)/sbom
check-clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --lib --features plugin -- -D warnings
	$(CARGO) check --locked --manifest-path fuzz/Cargo.toml --target-dir $(TARGET)
check-unit: debug
	$(CARGO) test --locked --workspace
# The build writes the headers; they are committed, so nothing may differ after it.
check-drift: debug
	ctests/drift.sh
check-symbols: all debug
	ctests/symbols.sh $(BUILT)/libfabric.so
	ctests/symbols.sh $(DEBUG)/libfabric.so
check-layout:
	ctests/layout.sh
check-headers:
	ctests/headers.sh
check-inline: all
	ctests/inline.py $(BUILT)/libfabric.so
check-install: all plugin
	ctests/install.sh
check-static: all plugin static
	ctests/static.sh CARGO=

# In C, and in other languages over the C ABI.
check-examples: all
	examples/c/run.sh $(BUILT) $(TARGET)/examples/c
	examples/python/roundtrip.py $(BUILT)/libfabric.so
	@mkdir -p $(TARGET)/examples
	rustfmt --check --edition 2024 examples/rust/roundtrip.rs
	rustc --edition 2024 -D warnings -L $(BUILT) -o $(TARGET)/examples/roundtrip examples/rust/roundtrip.rs
	LD_LIBRARY_PATH=$(BUILT) $(TARGET)/examples/roundtrip
# The manual pages: rendered, linted, against headers and library; their examples run.
check-man: all
	scripts/man.sh $(MAN)
	ctests/man.py $(BUILT) $(MAN)
# The manual, from docs/guide and docs/man; scripts/book.sh tells what it takes.
book:
	scripts/book.sh build $(TARGET)
check-book: all
	scripts/python_env.sh $(TARGET)/python || true
	scripts/book.sh check $(TARGET) $(BUILT)
# What works, asked of the library.
matrix: all
	scripts/matrix.py $(BUILT) --write
check-matrix: all
	scripts/matrix.py $(BUILT) --check
check-c: all
	ctests/c.sh $(BUILT)
# Programs of every release whose ABI the library has.
check-releases: all
	ctests/releases/run.sh $(BUILT) $(TARGET)/releases/conformance
# Random address vectors against a model, on all RDM providers: SEEDS of each. A failure prints its seed.
SEEDS ?= 8
check-addresses: all
	ctests/addresses/run.sh $(BUILT) $(TARGET)/addresses --seeds $(SEEDS)
# Loadable providers. UPSTREAM_PLUGINS may name a folder with those of the original library.
# Without PyPI ours are in no other library, and that is said.
check-plugins: all plugin
	scripts/python_env.sh $(TARGET)/python || true
	ctests/plugins/run.py $(BUILT) --plugin $(PLUGIN)/libexec --other $(firstword $(others))
# Hooks. UPSTREAM_PLUGINS as above, MON_SAMPLER another fi_mon_sampler. The long one takes ten minutes.
check-hooks check-hooks-long: conformance
	ctests/hooks/run.py $(BUILT)
	ctests/hooks/test_hmem.py $(BUILT)
	ctests/hooks/run.sh $(if $(findstring long,$@),--long) $(BUILT) $(TARGET)/hooks $(CONFORMANCE)
check-valgrind: all
	ctests/c.sh --valgrind $(BUILT)
CONFORMANCE := $(TARGET)/conformance/conformance
conformance: all
	$(MAKE) -C ctests/conformance BUILD=$(TARGET)/conformance FABRIC_CFLAGS=-I$(CURDIR)/include \
	    FABRIC_LIBS='-L$(BUILT) -lfabric'
check-conformance: conformance
	LD_LIBRARY_PATH=$(BUILT) $(CONFORMANCE) -j 2
	FI_TCP_SHARED_MEMORY=0 LD_LIBRARY_PATH=$(BUILT) $(CONFORMANCE) -j 2 -p tcp -e rdm
# In C and Rust: wrong accesses, leaks, what Rust asserts in a debug build.
check-asan:
	ctests/asan.sh $(TARGET)/asan
build-asan:
	ctests/asan.sh --build $(TARGET)/asan
# Accesses of several threads that nothing orders.
check-threads check-threads-long:
	ctests/tsan.sh $(TARGET)/tsan $(if $(findstring long,$@),long)
build-threads:
	ctests/tsan.sh --build $(TARGET)/tsan
# What the long checks are built from; scripts/checks.sh has it made beside the short ones.
build-ahead: all plugin build-threads build-asan
# Under valgrind: wrong accesses and leaks. It is slow, so a test may take longer, and those that watch the clock are left
# out: they belong to no provider. Of tcp the pages that move bytes, and those of bad input; check-memory-long has all. Of its
# way over shared memory, and of shm, which is the same engine, those that put all kinds of bytes through rings, wake, and lose
# peers. Valgrind's own shared memory (vgdb) is not to be taken for the library's.
MEMORY = CONFORMANCE_SLOWER=3 LD_LIBRARY_PATH=$(BUILT) valgrind --quiet --vgdb=no --error-exitcode=99 --leak-check=full \
    --show-leak-kinds=definite --errors-for-leak-kinds=definite $(CONFORMANCE) -j 3 -t 120
BYTES = wire_tcp: fi_msg: fi_rma: fi_atomic: fi_tcp:
check-memory: conformance
	FI_TCP_SHARED_MEMORY=0 $(MEMORY) -p tcp -e rdm $(BYTES:%=-k %)
	FI_TCP_SHARED_MEMORY=0 $(MEMORY) -p tcp -e msg -k fi_cm:
	$(MEMORY) -p tcp -e rdm -k wire_tcp:share
	$(MEMORY) -p shm -k fi_shm:
check-memory-long: conformance
	FI_TCP_SHARED_MEMORY=0 $(MEMORY) -p tcp
	$(MEMORY) -p tcp -e rdm
	$(MEMORY) -p shm
# UPSTREAM_TOOLS may name a folder with another build of the programs; it must print the same on this library.
check-tools: all
	ctests/tools.sh $(BUILT)
# Counters of running processes, and what they say they wait for. Without PyPI the MPI job that hangs is left out.
check-top: all
	scripts/python_env.sh $(TARGET)/python || true
	ctests/top/run.py $(BUILT) --python-env $(TARGET)/python
# Findings of fi_info --doctor, also between network namespaces with firewalls.
check-doctor: all
	ctests/doctor.sh $(BUILT)
check-budget: all
	benches/budget.py $(BUILT) --build $(TARGET)/bench
# Without PyPI the comparison with upstream is left out, and says so.
check-debian: all
	scripts/python_env.sh $(TARGET)/python || true
	scripts/debian_tools.sh $(BUILT)
check-demo: all
	scripts/demo.sh --short --library $(BUILT)
check-mpi: all
	scripts/python_env.sh $(TARGET)/python
	$(TARGET)/python/bin/python ctests/mpi/run.py --python-env $(TARGET)/python --library $(BUILT)
	$(TARGET)/python/bin/python ctests/mpi/run.py --python-env $(TARGET)/python --library $(BUILT) --ranks 2 \
	    --variants rendezvous unbuffered small_inject four_vcis atomics scalable_endpoints shared_contexts
	$(TARGET)/python/bin/python ctests/mpi/run.py --python-env $(TARGET)/python --library $(BUILT) --ranks 2 \
	    --provider shm --variants plain small_ring no_cma
	$(TARGET)/python/bin/python ctests/mpi/run.py --python-env $(TARGET)/python --library $(BUILT) --ranks 2 \
	    --provider sockets --variants plain atomics
	$(SHORT_LIVES) --ranks 5 8 --variants plain sockets -- short_lives
	$(SHORT_LIVES) --ranks 5 8 --provider shm -- short_lives
# Jobs that end as soon as they have begun, with each number of ranks to 10, 20 times each; half an hour.
check-mpi-long: all
	scripts/python_env.sh $(TARGET)/python
	$(SHORT_LIVES) --long --variants plain sockets
	$(SHORT_LIVES) --long --provider shm
SHORT_LIVES = $(TARGET)/python/bin/python ctests/mpi/run.py --python-env $(TARGET)/python --library $(BUILT)
# MPI over several hosts, which are network namespaces: those cases that take no minute.
check-hosts: all
	scripts/python_env.sh $(TARGET)/python
	ctests/hosts/run.py --python-env $(TARGET)/python --library $(BUILT) plain clutter cut
# Two processes, one on this library and one on the other. Without PyPI only this one talks to itself: exit code 77.
check-mixed: all
	scripts/python_env.sh $(TARGET)/python || true
	ctests/mixed/run.py $(BUILT) $(firstword $(others)) --build $(TARGET)/mixed $(if $(FULL),--long)

# Processes that share memory: killed, hostile, of other users, forked, in namespaces, without what they need.
SHM_SAFETY = ctests/shm/run.py $(BUILT) --build $(TARGET)/shm-safety
check-shm: all
	$(SHM_SAFETY)

# What takes longer than a check may: not among those above, and to be run before a release.
LONG_CHECKS := static sbom deb rpm wheel reproducible kernel musl aarch64 book loom miri bindings release-programs programs fuzz hooks-long shm-long mpi-long memory-long threads-long
# Programs that people run, and MPI over several hosts; FABTESTS may name a folder with the programs of fabtests. What was run is
# written into MATRIX.md. A selection of them is in check-mpi.
check-programs: all
	scripts/python_env.sh $(TARGET)/python
	ctests/programs/run.py --library $(BUILT) --python-env $(TARGET)/python --build $(TARGET)/programs \
	    --record ctests/programs/results.tsv $(ARGS); code=$$?; scripts/matrix.py $(BUILT) --write && exit $$code
# The official Rust bindings with every header set. UPSTREAM_2_6 may name a folder with upstream's libfabric 2.6: what is built
# with the set of 2.6 runs there too. Three minutes at first, then one.
check-bindings: all plugin
	ctests/bindings/run.sh $(BUILT) $(PLUGIN) $(TARGET)/bindings
# Programs of each header set and of Debian's libfabric-dev, on this library and on their own upstream: UPSTREAM_2_6 as above.
check-release-programs: all
	ctests/releases/programs.sh $(BUILT) $(TARGET)/releases
# The libfabric plug-in of NIXL's wheel, which asks for FABRIC_1.10, over tcp and sockets. It is also among the programs.
check-nixl: all
	scripts/python_env.sh $(TARGET)/python
	ctests/nixl/run.sh $(BUILT) $(TARGET)/python/bin/python $(TARGET)/nixl
# The wheel in fresh Python environments, beside MPIs of PyPI and Debian's.
check-wheel:
	packaging/wheel/build.sh $(TARGET)/wheel
	ctests/symbols.sh $(TARGET)/wheel/stage/lib/libfabric.so.1
	ctests/wheel/run.py $(TARGET)/wheel/dist/ironfabric-*.whl $(ARGS)
# Any bytes for everything that decodes bytes: fuzz/src/lib.rs. FUZZ_SECONDS for each target.
FUZZ_SECONDS ?= 60
check-fuzz:
	ctests/fuzz.sh $(TARGET)/fuzz $(FUZZ_SECONDS) $(ARGS)
# Every order that a few steps of two sides of src/sync can have; half a minute.
check-loom:
	RUSTFLAGS="--cfg loom" $(CARGO) test --locked -p sync --lib --target-dir $(TARGET)/loom loom_
# What copies bytes between memory of two sides, by Rust's interpreter, which sees undefined behaviour; some minutes. It knows neither
# membarrier(2) nor fork(2), so it has no word on locks; and addresses that came from C are numbers to it.
check-miri:
	@$(CARGO) +nightly miri --version >/dev/null 2>&1 || { echo "NOT RUN: no miri (rustup +nightly component add miri)"; exit 77; }
	$(miri) -p sync -p hmem -- --skip lock::
	$(miri) -p base -- iovec::
miri = MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" $(CARGO) +nightly miri test --locked --lib \
    --target-dir $(TARGET)/miri
# The packages on a fresh root of Debian; five minutes beside the build, two once the root is there.
check-deb:
	@bash -c '. scripts/steps.sh; need dh:debhelper chrpath dpkg-buildpackage:dpkg-dev pkg-config fakeroot'
	$(MAKE) --no-print-directory deb
	ctests/deb/run.sh $(TARGET)/deb
check-rpm:
	@bash -c '. scripts/steps.sh; need rpmbuild:rpm chrpath'
	$(MAKE) --no-print-directory rpm
	ctests/rpm.sh $(TARGET)/rpm
# Two clones of this commit in different folders; two full builds each, a quarter of an hour on two idle cores.
# ARGS=--wheel: the wheel as well.
check-reproducible:
	ctests/reproducible.sh $(TARGET)/reproducible $(ARGS)
# On a kernel that lacks system calls: the oldest that README.md names, and one after the other refused. ARGS=--long: all tests.
check-kernel: conformance
	ctests/kernel/run.sh $(BUILT) $(CONFORMANCE) $(ARGS)
# Built for other machines and C libraries: aarch64 under qemu-user, musl.
check-aarch64:
	ctests/cross/aarch64.sh $(TARGET)/aarch64
check-musl:
	ctests/cross/musl.sh $(TARGET)/musl
check-shm-long: all
	$(SHM_SAFETY) --long
check-long:
	scripts/checks.sh $(LONG_CHECKS)

clean:
	$(CARGO) clean

.PHONY: all man man-settings book wheel plugin plugin-alone static static-alone help install install-built install-strip install-static uninstall notices sbom deb rpm
.PHONY: check-nixl build-ahead build-asan build-threads debug try try-named demo bench bench-report bench-distances bench-hooks bench-mpi budget matrix conformance check checks clean $(CHECKS:%=check-%) check-long $(LONG_CHECKS:%=check-%)
