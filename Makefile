# Thin, over Meson. `make` builds build/vipd and build/vipctl, no tests; what a fresh Debian lacks is
# installed first (tools/install-deps). B=DIR chooses another build folder.
B ?= build
PYTHON ?= /usr/bin/python3

.PHONY: all demo test bench deb rpm test-deb test-arm64 static image test-image release install install-deps format check coverage analyze clean

all: $(B)/build.ninja
	@ninja -C $(B)

$(B)/build.ninja:
	@tools/install-deps build
	@meson setup $(B) -Dtests=false

# Serve examples/ in private network namespaces, with traffic, while it changes.
demo:
	@tools/install-deps demo
	@$(MAKE) --no-print-directory all
	@ninja -C $(B) tests/tools/flow
	@VIPD_BUILD=$(abspath $(B)) $(PYTHON) tools/demo

# The whole suite; the last line is "N passed, N failed".
test:
	@tools/install-deps test
	@$(PYTHON) tools/run-tests

# What the documents claim about speed. A build of its own, optimised.
bench:
	@tools/install-deps test
	@test -e build-bench/build.ninja || meson setup build-bench --buildtype=release -Db_ndebug=false
	@ninja -C build-bench
	@tools/bench build-bench

# Programs, systemd unit, documents; DESTDIR and Meson's -Dprefix are honoured.
install: all
	@meson install -C $(B) --no-rebuild

RPM_NAME = vipd-$(shell sed -n 's/^Version: *//p' deploy/vipd.spec)
# Debian packages of the files that git lists, in build-deb/. DEB= runs the unit tests, too.
DEB ?= DEB_BUILD_OPTIONS=nocheck
deb:
	@tools/install-deps deb
	@rm -rf build-deb && mkdir -p build-deb/vipd
	@git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C build-deb/vipd
	@! git diff --quiet HEAD || git rev-parse HEAD >build-deb/vipd/src/cli/commit
	@cd build-deb/vipd && env $(DEB) dpkg-buildpackage -b -us -uc
	@rm -r build-deb/vipd
	@lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs build-deb/*.changes

# RPM packages, in build-rpm/RPMS/. On Debian: make rpm RPM=--nodeps
rpm:
	@rm -rf build-rpm && mkdir -p build-rpm/SOURCES
	@git ls-files -z --cached --others --exclude-standard | tar -cz --null -T - --transform 's,^,$(RPM_NAME)/,' \
		-f build-rpm/SOURCES/$(RPM_NAME).tar.gz
	@rpmbuild -bb --define '_topdir $(abspath build-rpm)' $(RPM) deploy/vipd.spec

# Installs, upgrades under load, removes them in a Debian that it downloads, and in a virtual machine; root. VIPD_SUITE=trixie: that Debian's.
test-deb: deb all
	@tools/install-deps test
	@ninja -C $(B) tests/tools/flow
	@VIPD_BUILD=$(abspath $(B)) $(PYTHON) -m pytest -q -s tests/deploy/debs_in_container.py tests/deploy/debs_in_machine.py

# Cross-builds the packages for arm64, runs unit tests under qemu-user and network tests in an emulated machine; root.
test-arm64:
	@tools/install-deps arm64
	@tools/test-arm64 build-arm64

# Static programs, one file each, in build-static/; image: and an OCI image archive of them.
static:
	@tools/install-deps static
	@tools/build-static build-static

image: static
	@tools/make-image build-static

test-image: image all
	@tools/install-deps test
	@ninja -C $(B) tests/tools/flow
	@VIPD_BUILD=$(abspath $(B)) $(PYTHON) -m pytest -q tests/deploy/image_in_namespace.py

# All artifacts of a release, with checksums, in build-release/: doc/release.md.
release:
	@tools/release build-release

install-deps:
	@tools/install-deps test

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

# The quick part of `make test`: needs no root, takes a minute. Builds the tests in $(B), too.
check: $(B)/build.ninja
	@tools/install-deps check
	@$(PYTHON) tools/run-tests --quick --build $(B)

# Line coverage of `make check`: build-coverage/report/index.html, and a summary. A build of its own, with gcov.
coverage:
	@tools/install-deps coverage
	@test -e build-coverage/build.ninja || meson setup build-coverage -Db_coverage=true
	@find build-coverage -name '*.gcda' -delete
	@$(PYTHON) tools/run-tests --quick --build build-coverage
	@mkdir -p build-coverage/report
	@gcovr --root . --filter src/ --object-directory build-coverage --print-summary \
		--html-details build-coverage/report/index.html

# gcc's static analyzer over src/; a finding is an error. A build of its own: takes minutes.
analyze:
	@tools/install-deps build
	@test -e build-analyze/build.ninja || \
		CC=gcc meson setup build-analyze -Dtests=false -Dwerror=true -Dc_args=-fanalyzer
	@ninja -C build-analyze

clean:
	@test ! -e $(B)/build.ninja || ninja -C $(B) -t clean
