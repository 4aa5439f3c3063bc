# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# make                 the library and its programs, into target/release
# make plugin          our providers for another libfabric, into target/plugin/libexec
# make static          libfabric.a for `pkg-config --static`, into target/static
# make try K=fi_tagged the conformance tests whose page:rule contains K, on a debug build: seconds after an edit
# make install         PREFIX=/usr/local LIBDIR=$(PREFIX)/lib DESTDIR=; HEADERS=2.6: headers of that release in include
# make install-strip   the same without symbols and line tables
# make install-static  libfabric.a alone, into LIBDIR
# make install-built   installs an existing build, without cargo; BUILT= and PLUGIN= are its folders
# make notices         NOTICES, the licences of linked code; make sbom: a list of it as CycloneDX, into target/sbom
# make deb             packages for Debian, into target/deb; make rpm: RPM packages, into target/rpm
# make wheel           a Python wheel of the library for glibc 2.28, into target/wheel/dist
# make dist            the files of a release, into target/dist: those of the four above, archives, SHA256SUMS
# make uninstall       removes what the install targets have installed; give it the same variables
# make check           every check; make check-NAME runs one, `make checks` lists them; INSTALL=0 fetches nothing
# make demo            an unmodified MPI on this library
# make bench           measures beside another libfabric; make budget records instruction counts
# make matrix          MATRIX.md
# make man             the manual pages, into target/man; MANDIR=$(PREFIX)/share/man: where `make install` installs them
# make book            the manual as a searchable book, target/book/index.html
# make help            these lines
#
# SYSCONFDIR=/etc: the folder of libfabric.conf. It is compiled in, so give it to every call of make, or to none
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
# Where shells look for completions.
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d

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

# The release of libfabric whose ABI this is, this project's own version, and that of packages, which has both.
VERSION := $(shell sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' Cargo.toml)
OWN_VERSION := $(shell sed -n '/metadata.ironfabric/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
PACKAGE_VERSION := $(VERSION)+ironfabric$(OWN_VERSION)
TOOLS := fi_info fi_mon_sampler fi_pingpong fi_strerror fi_top

metadata = $(CARGO) metadata --format-version 1 --no-deps --offline 2>/dev/null
TARGET := $(or $(shell $(metadata) | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'),target)
BUILT := $(TARGET)/release
DEBUG := $(TARGET)/debug

# Builds the same bytes in every folder.
release = scripts/remapped.sh $(CARGO)

# The programs link to the shared library as any program does, so it comes first.
all:
	$(release) build --release --locked --lib
	ln -sf libfabric.so $(BUILT)/libfabric.so.1
	$(release) build --release --locked -p tools
	$(foreach set,$(STUBS),scripts/link_stub.sh $(BUILT)/libfabric.so $(call releases,2,$(set),3) $(BUILT)/link-$(set)$(newline))
	@cp -f "$$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" $(BUILT)/NOTICES-std.html 2>/dev/null || \
	    echo "this compiler brings no notices of Rust's std along; none will be installed"

# This library's providers for another libfabric: FI_PROVIDER_PATH names the folder. One file, with a link for each
# provider.
PLUGIN := $(TARGET)/plugin
PLUGIN_NAMES = libironfabric-fi.so libironfabric-2-fi.so libironfabric-3-fi.so libironfabric-4-fi.so \
    libironfabric-5-fi.so
# Cargo gives this archive and that of `static` the same name, so a lock lets only one at a time be built and used.
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

# The inner loop. K: words, each a part of page:rule; P: providers (tcp, shm, core); E: rdm or msg. The library is built
# incrementally, and the C suite only if it or the headers have changed.
TRY = $(TARGET)/try
try: try-named debug
	@$(MAKE) -C ctests/conformance --no-print-directory BUILD=$(TRY) FABRIC_CFLAGS=-I$(CURDIR)/include \
	    FABRIC_LIBS='-L$(DEBUG) -lfabric'
	LD_LIBRARY_PATH=$(DEBUG) $(TRY)/conformance -j 2 $(K:%=-k %) $(P:%=-p %) $(E:%=-e %)

try-named:
	$(if $(K),@:,$(error say which tests: make try K=fi_tagged or K=fi_cq:read, and P=tcp E=rdm to narrow them))

# Installed documents. The notices of Rust's std come from the compiler that built the library.
DOCUMENTS := LICENSE $(wildcard LICENSES/*) NOTICES README.md ARCHITECTURE.md CHANGELOG.md MATRIX.md SECURITY.md \
    $(wildcard docs/*.md docs/decisions/*.md docs/wire/*.md)
STD_NOTICES = $(BUILT)/NOTICES-std.html

# For `pkg-config --static`. The archive is in its own folder, because with -lfabric a linker prefers a shared library
# in the same folder.
STATIC := $(TARGET)/static
static:
	$(archive) static-alone
static-alone:
	$(release) rustc --release --locked --lib --crate-type staticlib
	scripts/archive.sh $(BUILT)/libfabric.a $(STATIC)/libfabric.a

# Root often has no cargo, so `make && sudo make install` installs the existing build.
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
	for tool in $(TOOLS); do \
	    $(INSTALL) -D -m 644 packaging/completions/ironfabric.bash $(DESTDIR)$(BASHDIR)/$$tool || exit; \
	    $(INSTALL) -D -m 644 packaging/completions/ironfabric.fish $(DESTDIR)$(FISHDIR)/$$tool.fish || exit; \
	done
	$(INSTALL) -D -m 644 packaging/completions/_ironfabric $(DESTDIR)$(ZSHDIR)/_ironfabric
	for file in $(DOCUMENTS); do $(INSTALL) -D -m 644 $$file $(DESTDIR)$(DOCDIR)/$$file || exit 1; done
	$(if $(wildcard $(STD_NOTICES)),$(INSTALL) -m 644 $(STD_NOTICES) $(DESTDIR)$(DOCDIR))

install-strip:
	$(MAKE) --no-print-directory install INSTALL_PROGRAM='$(INSTALL_PROGRAM) -s'

install-static: $(if $(shell command -v $(CARGO)),static)
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)
	$(INSTALL) -m 644 $(STATIC)/libfabric.a $(DESTDIR)$(LIBDIR)

# Keeps folders that contain files of other packages. Removes the headers of each release, because any value of HEADERS
# may have been installed.
header_names = $(notdir $(patsubst %.h.in,%.h,$(wildcard src/abi/*.h.in)))
uninstall:
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,libfabric.so.$(SOVERSION) libfabric.so.1 libfabric.so libfabric.a) \
	    $(addprefix $(DESTDIR)$(LIBDIR)/pkgconfig/,libfabric.pc $(SETS:%=libfabric-%.pc)) $(TOOLS:%=$(DESTDIR)$(BINDIR)/%) \
	    $(PLUGIN_NAMES:%=$(DESTDIR)$(LIBEXECDIR)/ironfabric/%)
	$(uninstall_manual)
	rm -f $(TOOLS:%=$(DESTDIR)$(BASHDIR)/%) $(TOOLS:%=$(DESTDIR)$(FISHDIR)/%.fish) $(DESTDIR)$(ZSHDIR)/_ironfabric
	$(call uninstall_headers,$(DESTDIR)$(INCLUDEDIR))
	$(foreach set,$(SETS),$(call uninstall_set,$(set))$(newline))
	rm -f $(addprefix $(DESTDIR)$(DOCDIR)/,$(DOCUMENTS) $(notdir $(STD_NOTICES)))
	$(call remove_empty,$(SETS:%=$(DESTDIR)$(OTHER_INCLUDEDIR)-%) $(SETS:%=$(DESTDIR)$(LIBDIR)/libfabric-%) \
	    $(DESTDIR)$(LIBEXECDIR)/ironfabric $(addprefix $(DESTDIR),$(BASHDIR) $(dir $(BASHDIR)) $(ZSHDIR) $(dir $(ZSHDIR)) \
	    $(FISHDIR) $(dir $(FISHDIR))) \
	    $(addprefix $(DESTDIR)$(DOCDIR),/LICENSES /docs/decisions /docs/wire /docs) $(DESTDIR)$(DOCDIR))

remove_empty = for folder in $1; do [ ! -d $$folder ] || rmdir --ignore-fail-on-non-empty $$folder; done
define uninstall_headers
	rm -f $(addprefix $1/rdma/,$(header_names)) $(addprefix $1/rdma/providers/,$(header_names))
	$(call remove_empty,$1/rdma/providers $1/rdma)
endef
# Writes the licences of all linked code: scripts/notices.py. Needs `cargo install cargo-about@0.9.3`.
notices:
	$(CARGO) about generate --workspace --locked --offline --fail -c about.toml -o NOTICES packaging/notices.hbs
# Lists the components of a build as CycloneDX, for vulnerability scanners, into target/sbom.
sbom:
	packaging/sbom.sh $(TARGET)/sbom

# Packages, into target/deb and target/rpm. BUILT= (and PLUGIN=, STATIC=) are the folders of an existing build.
NEEDS_BUILD = $(if $(findstring command,$(origin BUILT)),,all plugin static)
deb: deb-tools $(NEEDS_BUILD)
	rm -rf $(TARGET)/deb && mkdir -p $(TARGET)/deb/ironfabric
	cp -r packaging/debian $(TARGET)/deb/ironfabric/debian
	cd $(TARGET)/deb/ironfabric && env -u MAKEFLAGS -u MAKELEVEL SOURCE=$(CURDIR) BUILT=$(abspath $(BUILT)) \
	    PLUGIN=$(abspath $(PLUGIN)) STATIC=$(abspath $(STATIC)) dpkg-buildpackage -b -us -uc

rpm: rpm-tools $(NEEDS_BUILD)
	rm -rf $(TARGET)/rpm && mkdir -p $(TARGET)/rpm
	env -u MAKEFLAGS -u MAKELEVEL SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) rpmbuild -bb packaging/ironfabric.spec \
	    -D '_topdir $(abspath $(TARGET))/rpm' -D '_libdir $(RPM_LIBDIR)' -D 'source $(CURDIR)' -D 'abi $(VERSION)' -D 'own $(OWN_VERSION)' \
	    -D 'sover $(SOVERSION)' -D '_buildhost reproducible' \
	    -D 'built $(abspath $(BUILT))' -D 'plugin $(abspath $(PLUGIN))' -D 'static $(abspath $(STATIC))'
# ARGS: --all fails if a package is missing; --machine-only leaves out files that are the same for every machine.
dist: $(if $(findstring command,$(origin BUILT)),,all plugin)
	packaging/dist.sh $(ARGS) $(TARGET) $(BUILT) $(PLUGIN)
# Installs what packages are made with, or names it, before a build of ten minutes.
deb-tools:
	@bash -c '. scripts/steps.sh; need dh:debhelper chrpath dpkg-buildpackage:dpkg-dev pkg-config fakeroot'
rpm-tools:
	@bash -c '. scripts/steps.sh; need rpmbuild:rpm chrpath'
# The library folder of distributions with RPM, which Debian's rpmbuild does not define.
RPM_LIBDIR ?= /usr/lib64

# Runs the command $1 for each manual page. The pages are rendered into a temporary folder, because root should not
# write to target/man. Without pandoc the pages in target/man are used.
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
# A set of headers beside the default one. Its programs are linked with a stub whose newest node is that of the set.
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

# The manual pages for man(1), from docs/man.
MAN := $(TARGET)/man
man:
	scripts/man.sh $(MAN)
# Writes the tables of settings in docs/man, which the library lists.
man-settings: all
	ctests/man.py $(BUILT) $(MAN) --write
# Writes the C definitions in docs/man, which are those of the headers.
man-definitions: all
	scripts/definitions.py $(BUILT) --write
# Draws the pictures in docs/man, which their pages describe.
man-pictures:
	scripts/pictures.py --write

demo:
	scripts/demo.sh

# Runs the same programs on this library and on others: OTHER lists folders with libfabrics; BESIDE defaults to the
# libfabric of the MPICH wheel and that of the system. Takes half an hour; with FULL=1, for all sizes, some hours.
# PROVIDER=shm measures only that provider. At the end a report of the latest results of all providers is written. With
# ARGS (benches/run.py --help) no file is written.
OTHER ?=
system_libfabric = $(patsubst %/,%,$(dir $(firstword $(wildcard /usr/lib/*-linux-gnu/libfabric.so.1 /usr/lib64/libfabric.so.1))))
BESIDE ?= $(TARGET)/python/lib/mpich $(system_libfabric)
others = $(OTHER) $(BESIDE)
BENCH = benches/run.py $(BUILT) $(others) --build $(TARGET)/bench --python $(TARGET)/python/bin $(if $(FULL),--full)
published = --provider $1 --results benches/results$(patsubst %,/%,$(filter-out tcp,$1)) --page docs/performance.md
bench: all
	scripts/python_env.sh $(TARGET)/python
	$(if $(QUICK),$(foreach provider,$(or $(PROVIDER),tcp shm),$(BENCH) --provider $(provider) --quick &&) true,\
	    $(if $(ARGS),$(BENCH) $(PROVIDER:%=--provider %) $(ARGS),\
	    $(foreach provider,$(or $(PROVIDER),tcp shm sockets udp rxm rxd),$(BENCH) $(call published,$(provider)) &&) \
	    benches/page.py benches/results $(TARGET)/bench/report.html))

# Writes the report from the numbers in benches/results.
bench-report:
	benches/page.py benches/results $(TARGET)/bench/report.html

# Measures shm and sorts the results by the distance between the two processors, which a virtual machine changes. Takes
# six minutes and prints a table. ARGS: see benches/distances.py --help.
bench-distances: all
	benches/distances.py $(BUILT) $(firstword $(others)) --build $(TARGET)/bench $(ARGS)

# Runs OSU's MPI benchmarks on this library and on another, with MPICH, and with Open MPI if `make check-programs` has
# installed it. ARGS: see benches/mpi.py --help.
bench-mpi: all
	scripts/python_env.sh $(TARGET)/python
	benches/mpi.py $(BUILT) $(firstword $(others)) --python $(TARGET)/python/bin --build $(TARGET)/bench $(ARGS)

# Measures the cost of hooks in nanoseconds per call.
bench-hooks: all
	@mkdir -p $(TARGET)/bench
	$(CC) -O2 -Iinclude -o $(TARGET)/bench/hook_cost benches/hook_cost.c -L$(BUILT) -lfabric
	@printf '%-12s' none && LD_LIBRARY_PATH=$(BUILT) $(TARGET)/bench/hook_cost
	@for hook in noop 'noop;noop' hmem perf profile monitor; do printf '%-12s' "$$hook" && \
	    FI_HOOK="$$hook" LD_LIBRARY_PATH=$(BUILT) $(TARGET)/bench/hook_cost 2>/dev/null; done

# Records the current instruction counts of the calls of the data path.
budget: all
	scripts/python_env.sh $(TARGET)/python
	benches/budget.py $(BUILT) --other $(firstword $(others)) --build $(TARGET)/bench --write

# In order of speed. Each check also runs alone, and exits with 77 if it could not run here: see scripts/checks.sh.
CHECKS := format documents notices packaging sbom layout headers deny clippy unit drift symbols inline install readme \
    examples man demo c addresses releases plugins hooks device budget matrix debian hosts tools top doctor rust python mixed \
    conformance mpi shm asan threads

check:
	scripts/checks.sh $(CHECKS)
help:
	@sed -n 's/^# \(make .*\)/\1/p; s/^# \(SYSCONFDIR=.*\)/\n\1/p' $(firstword $(MAKEFILE_LIST))
checks:
	@printf 'check-%s\n' $(CHECKS)

check-format:
	$(CARGO) fmt --all --check
	! grep -rnP '^(?= *//).{121,}' --include=*.rs build.rs src fuzz/src examples bindings
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
check-documents:
	scripts/rows.py docs/differences.md
# check-notices compares the installed licences with the linked crates. check-deny checks all crates of Cargo.lock for
# licences, known vulnerabilities and duplicates.
check-notices:
	scripts/notices.py
check-deny:
	scripts/deny.sh $(TARGET)/tools
# Compares versions, programs and lists of files that several files of packaging name.
check-packaging:
	packaging/check.py
check-sbom:
	packaging/sbom.sh --check $(TARGET)/sbom
check-clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --lib --features plugin -- -D warnings
	$(CARGO) check --locked --manifest-path fuzz/Cargo.toml --target-dir $(TARGET)
check-unit: debug
	$(CARGO) test --locked --workspace
# The build writes the headers, and they are committed, so a build must not change them.
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
# Runs the command lines of README.md on this build, with and without Debian's libfabric-dev. Takes some seconds.
check-readme: all plugin
	ctests/readme.sh $(BUILT) $(PLUGIN) $(TARGET)/readme
check-static: all plugin static
	ctests/static.sh CARGO=
	ctests/rust_static.sh $(STATIC) $(TARGET)/rust

# Builds and runs the examples in C, and those in other languages over the C ABI.
check-examples: all
	examples/c/run.sh $(BUILT) $(TARGET)/examples/c
	examples/python/roundtrip.py $(BUILT)/libfabric.so
	@mkdir -p $(TARGET)/examples
	rustfmt --check --edition 2024 examples/rust/roundtrip.rs
	rustc --edition 2024 -D warnings -L $(BUILT) -o $(TARGET)/examples/roundtrip examples/rust/roundtrip.rs
	LD_LIBRARY_PATH=$(BUILT) $(TARGET)/examples/roundtrip
# Renders and lints the manual pages, compares them with headers and library, and runs their examples.
check-man: all
	scripts/man.sh $(MAN)
	scripts/definitions.py $(BUILT) --check
	scripts/pictures.py --check
	ctests/man.py $(BUILT) $(MAN)
# The manual as a book, from docs/guide and docs/man; scripts/book.sh describes its requirements.
book:
	scripts/book.sh build $(TARGET)
check-book: all
	scripts/python_env.sh $(TARGET)/python || true
	scripts/book.sh check $(TARGET) $(BUILT)
# Writes MATRIX.md from the answers of the library.
matrix: all
	scripts/matrix.py $(BUILT) --write
check-matrix: all
	scripts/matrix.py $(BUILT) --check
check-c: all
	ctests/c.sh $(BUILT)
# Runs programs that are built with the headers of each supported release.
check-releases: all
	ctests/releases/run.sh $(BUILT) $(TARGET)/releases/conformance
# Compares random address vectors with a model, on all RDM providers, with SEEDS seeds for each. A failure prints its
# seed.
SEEDS ?= 8
check-addresses: all
	ctests/addresses/run.sh $(BUILT) $(TARGET)/addresses --seeds $(SEEDS)
# Loadable providers. UPSTREAM_PLUGINS may name a folder with those of the original library.
# Without PyPI this library's providers are not tested in another library, and the output reports that.
check-plugins: all plugin
	scripts/python_env.sh $(TARGET)/python || true
	ctests/plugins/run.py $(BUILT) --plugin $(PLUGIN)/libexec --other $(firstword $(others))
# Hooks. UPSTREAM_PLUGINS: as above; MON_SAMPLER: another fi_mon_sampler. check-hooks-long takes ten minutes.
check-hooks check-hooks-long: conformance
	ctests/hooks/run.py $(BUILT)
	ctests/hooks/test_hmem.py $(BUILT)
	ctests/hooks/run.sh $(if $(findstring long,$@),--long) $(BUILT) $(TARGET)/hooks $(CONFORMANCE)
# Tests of data on device memory of a stand-in driver.
check-device check-device-long: conformance
	ctests/device/run.sh $(if $(findstring long,$@),--long) $(BUILT) $(TARGET)/device $(CONFORMANCE)
# The programs of check-c under valgrind; check-asan runs them, too.
check-valgrind: all
	ctests/c.sh --valgrind $(BUILT)
CONFORMANCE := $(TARGET)/conformance/conformance
conformance: all
	$(MAKE) -j 2 -C ctests/conformance BUILD=$(TARGET)/conformance FABRIC_CFLAGS=-I$(CURDIR)/include \
	    FABRIC_LIBS='-L$(BUILT) -lfabric'
check-conformance: conformance
	LD_LIBRARY_PATH=$(BUILT) $(CONFORMANCE) -j 2
	FI_TCP_SHARED_MEMORY=0 LD_LIBRARY_PATH=$(BUILT) $(CONFORMANCE) -j 2 -p tcp -e rdm
	for links in 'shm+tcp;ofi_rxm:lo' 'tcp;ofi_rxm:lo' 'tcp;^ofi_rxm:lo'; do \
	    FI_LNX_PROV_LINKS=$$links LD_LIBRARY_PATH=$(BUILT) $(CONFORMANCE) -j 2 -p lnx || exit; \
	done
	# Without shared memory, and with large messages over two rails.
	FI_LNX_PROV_LINKS='shm+tcp;ofi_rxm:lo,lo' FI_SHM_FOLDER=$(TARGET)/none FI_LNX_STRIPE_SIZE=1 LD_LIBRARY_PATH=$(BUILT) $(CONFORMANCE) -j 2 -p lnx \
	    -k fi_msg -k fi_tagged -k fi_cq -k fi_collective
# AddressSanitizer in C and Rust: invalid accesses, leaks, and failed assertions of a debug build.
check-asan:
	ctests/asan.sh $(TARGET)/asan
build-asan:
	ctests/asan.sh --build $(TARGET)/asan
# ThreadSanitizer: unordered accesses of several threads.
check-threads check-threads-long:
	ctests/tsan.sh $(TARGET)/tsan $(if $(findstring long,$@),long)
build-threads:
	ctests/tsan.sh --build $(TARGET)/tsan
# The builds for slow checks. scripts/checks.sh starts them while short checks run.
build-ahead: all plugin build-threads build-asan
# Runs the conformance suite under valgrind, which finds invalid accesses and leaks. Valgrind is slow, so tests get more
# time, and tests that belong to no provider, which measure time, are left out. For tcp over sockets the pages that
# transfer data and those with invalid input run; for shared memory the tests of rings, wake-ups and lost peers.
# check-memory-long runs all of them. `--vgdb=no`, because valgrind's own shared memory must not be mistaken for the
# library's.
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
# Counters and reports of pending operations of running processes. Without PyPI the test of a hanging MPI job is left
# out.
check-top: all
	scripts/python_env.sh $(TARGET)/python || true
	ctests/top/run.py $(BUILT) --python-env $(TARGET)/python
# Findings of fi_info --doctor, also between network namespaces with firewalls.
check-doctor: all
	ctests/doctor.sh $(BUILT)
check-budget: all
	benches/budget.py $(BUILT) --build $(TARGET)/bench
# Without PyPI the comparison with upstream is left out, and the output reports that.
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
# Starts MPI jobs that end at once, with each number of ranks up to 10, 20 times each. Takes half an hour.
check-mpi-long: all
	scripts/python_env.sh $(TARGET)/python
	$(SHORT_LIVES) --long --variants plain sockets
	$(SHORT_LIVES) --long --provider shm
SHORT_LIVES = $(TARGET)/python/bin/python ctests/mpi/run.py --python-env $(TARGET)/python --library $(BUILT)
# MPI over several hosts, which are network namespaces: the cases that take less than a minute.
check-hosts: all
	scripts/python_env.sh $(TARGET)/python
	ctests/hosts/run.py --python-env $(TARGET)/python --library $(BUILT) plain clutter cut linked striped
# Communication between a process with this library and one with another. Without PyPI both use this library, and the
# exit code is 77.
check-mixed: all
	scripts/python_env.sh $(TARGET)/python || true
	ctests/mixed/run.py $(BUILT) $(firstword $(others)) --build $(TARGET)/mixed $(if $(FULL),--long)

# Processes that share memory: killed, hostile, of other users, forked, in namespaces, and without features they need.
SHM_SAFETY = ctests/shm/run.py $(BUILT) --build $(TARGET)/shm-safety
check-shm: all
	$(SHM_SAFETY)

# Checks that are too slow for `make check`. Run them before a release.
LONG_CHECKS := static deb rpm wheel reproducible kernel musl aarch64 book loom miri bindings release-programs programs loopback verbs verbs-devices fuzz hooks-long device-long shm-long mpi-long valgrind memory memory-long threads-long
# Programs of other projects, and MPI over several hosts; FABTESTS may name a folder with the programs of fabtests. The
# results are written into MATRIX.md. check-mpi runs a selection of them.
check-programs: all
	scripts/python_env.sh $(TARGET)/python
	ctests/programs/run.py --library $(BUILT) --python-env $(TARGET)/python --build $(TARGET)/programs \
	    --record ctests/programs/results.tsv $(ARGS); code=$$?; scripts/matrix.py $(BUILT) --write && exit $$code
# The official Rust bindings with every header set. UPSTREAM_2_6 may name a folder with upstream's libfabric 2.6, on
# which programs that are built with the 2.6 set run, too. Takes three minutes at first, then one.
check-bindings: all plugin
	ctests/bindings/run.sh $(BUILT) $(PLUGIN) $(TARGET)/bindings
# The crates of bindings/rust: tests, examples, and a dry run of their publication.
check-rust: all
	ctests/rust.sh $(BUILT) $(TARGET)/rust
# The Python API of packaging/wheel: its declarations, types, tests and examples. UPSTREAM_2_6: as above. Takes three
# minutes with all libraries.
check-python: all
	ctests/python.sh $(BUILT) $(TARGET)/python-api
# Writes the declarations for Python's ctypes from the headers in include.
python-abi:
	scripts/python_abi.py --write
# Programs of each header set and of Debian's libfabric-dev, on this library and on the upstream release of the set.
# UPSTREAM_2_6: as above.
check-release-programs: all
	ctests/releases/run.sh --long $(BUILT) $(TARGET)/releases/conformance
	ctests/releases/programs.sh $(BUILT) $(TARGET)/releases
# The libfabric plug-in of NIXL's wheel, which requires FABRIC_1.10, over tcp and sockets. check-programs runs it, too.
check-nixl: all
	scripts/python_env.sh $(TARGET)/python
	ctests/nixl/run.sh $(BUILT) $(TARGET)/python/bin/python $(TARGET)/nixl
# The wheel in fresh Python environments, beside MPIs of PyPI and Debian's.
check-wheel:
	packaging/wheel/build.sh $(TARGET)/wheel
	ctests/symbols.sh $(TARGET)/wheel/stage/lib/libfabric.so.1
	ctests/wheel/run.py $(TARGET)/wheel/dist/ironfabric-*.whl $(ARGS)
# Passes random bytes to all decoders: fuzz/src/lib.rs. FUZZ_SECONDS is the time for each target.
FUZZ_SECONDS ?= 60
check-fuzz:
	ctests/fuzz.sh $(TARGET)/fuzz $(FUZZ_SECONDS) $(ARGS)
# The provider of examples/loopback, on the conformance suite: CONTRIBUTING.md, "A new provider in an afternoon".
check-loopback: conformance
	ctests/loopback.sh $(BUILT) $(TARGET)/loopback $(CONFORMANCE)
# The provider verbs over a stand-in for rdma-core, whose folder VERBS_FAKE names. Takes five minutes.
check-verbs: conformance
	ctests/verbs/run.sh $(BUILT) $(TARGET)/verbs $(CONFORMANCE)
# The same on soft RDMA devices, in a virtual machine that RDMA_GUEST starts. See ctests/verbs/guest.sh for its other
# variables. Takes ten minutes.
check-verbs-devices: all
	scripts/python_env.sh $(TARGET)/python
	PYTHON_ENV=$(TARGET)/python ctests/verbs/guest.sh $(BUILT) $(TARGET)/verbs-devices
# Runs src/sync in every order of a few steps of two sides. Takes half a minute.
check-loom:
	RUSTFLAGS="--cfg loom" $(CARGO) test --locked -p sync --lib --target-dir $(TARGET)/loom loom_
# Runs the code that copies bytes between memory of two sides in Rust's interpreter, which detects undefined behaviour.
# Takes some minutes. Miri supports neither membarrier(2) nor fork(2), so it does not test locks, and it treats
# addresses from C as numbers.
check-miri:
	@$(CARGO) +nightly miri --version >/dev/null 2>&1 || { echo "NOT RUN: no miri (rustup +nightly component add miri)"; exit 77; }
	$(miri) -p sync -p hmem -- --skip lock::
	$(miri) -p base -- iovec::
miri = MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" $(CARGO) +nightly miri test --locked --lib \
    --target-dir $(TARGET)/miri
# Installs the packages into a fresh Debian root. Takes five minutes after the build, and two if the root already
# exists.
check-deb:
	$(MAKE) --no-print-directory deb
	ctests/deb/run.sh $(TARGET)/deb
check-rpm:
	$(MAKE) --no-print-directory rpm
	ctests/rpm.sh $(TARGET)/rpm
# Builds this commit in two different folders and compares the results. Takes a quarter of an hour on two idle cores.
# ARGS=--wheel: the wheel as well.
check-reproducible:
	ctests/reproducible.sh $(TARGET)/reproducible $(ARGS)
# Runs without some system calls: those that the oldest kernel in README.md lacks, and then each one alone. ARGS=--long:
# all tests.
check-kernel: conformance
	ctests/kernel/run.sh $(BUILT) $(CONFORMANCE) $(ARGS)
# Builds and tests for other machines and C libraries: aarch64 under qemu-user, musl.
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

.PHONY: all man man-settings man-definitions man-pictures deb-tools rpm-tools book wheel plugin plugin-alone static static-alone help install install-built install-strip install-static uninstall notices sbom deb rpm dist
.PHONY: check-nixl python-abi build-ahead build-asan build-threads debug try try-named demo bench bench-report bench-distances bench-hooks bench-mpi budget matrix conformance check checks clean $(CHECKS:%=check-%) check-long $(LONG_CHECKS:%=check-%)
