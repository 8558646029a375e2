# The two commands of the README are `make demo` and `make test`; both do all their set-up.
SHELL := bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Where cargo puts what a profile builds. `quick` is for a first try; `release` is what one ships (Cargo.toml).
QUICK := target/quick
RELEASE := target/release

PREFIX ?= /usr/local

# What packages are built as; another one for a try.
PACKAGE_PROFILE ?= release

.PHONY: help demo install deb wheel packages test-packages release-check test lint bench fuzz profiles clean

help:  ## What can be asked for
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo:  ## The main job: real programs on a classic machine and on a server of today, every policy, the optimum; leaves two pages
	@scripts/setup.sh build
	cargo build --profile quick --locked -p corun
	scripts/demo.sh $(QUICK)/corun

install:  ## corun, corun-study, the tracer's plug-in, manual pages and completions, under PREFIX (/usr/local)
	@scripts/setup.sh build
	cargo build --release --locked -p corun -p corun-studies
	install -D -m 755 $(RELEASE)/corun $(DESTDIR)$(PREFIX)/bin/corun
	install -D -m 755 $(RELEASE)/corun-study $(DESTDIR)$(PREFIX)/bin/corun-study
	install -D -m 755 $(RELEASE)/deps/libcorun_trace.so $(DESTDIR)$(PREFIX)/lib/corun/libcorun_trace.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system packaging/corun.service packaging/corun-page.service packaging/corun.socket
	install -D -m 644 packaging/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/corun.conf
	scripts/install-documentation.sh $(RELEASE)/corun $(DESTDIR)$(PREFIX)/share

deb:  ## A Debian package of corun, its daemon, manual pages and completions: target/corun_VERSION_ARCHITECTURE.deb
	@scripts/setup.sh deb
	cargo build --release --locked -p corun
	scripts/build-deb.sh $(RELEASE) target

wheel:  ## The Python package as a wheel for any Python from 3.10 on, its name checked: target/packages/corun-*.whl
	@scripts/setup.sh packages
	scripts/build-wheel.sh $(PACKAGE_PROFILE) target/packages

packages:  ## Debian package, wheel, source crates and static binary: target/packages
	@scripts/setup.sh packages
	scripts/build-packages.sh $(PACKAGE_PROFILE) target/packages

test-packages:  ## Installs and purges the package of `make packages` in fresh Debians 12 and 13; needs root, network, debootstrap
	@scripts/setup.sh test-packages
	for suite in bookworm trixie; do scripts/test-deb.sh target/packages/corun_*.deb $$suite; done

release-check:  ## The check-list of a release
	scripts/release-check.sh

lint:  ## Format, clippy and documentation, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

# The same cases of the property tests in each run; empty for others: `make test PROPTEST_SEED=`.
PROPTEST_SEED ?= 20261124

# The Python package's native part is built by the package's own build (scripts/test-python.sh), and by nothing before it.
TESTED := --workspace --exclude corun-python --locked

test:  ## All that CI runs
	@scripts/setup.sh test
	mkdir -p target
	# While crates are checked and built: what the Python package needs is mostly waited for.
	scripts/test-python.sh --environment >target/test-python.log 2>&1 & environment=$$!
	trap 'kill $$environment $${python:-} $${guests:-} 2>/dev/null || true' EXIT
	$(MAKE) --no-print-directory lint
	failed=0
	$(if $(PROPTEST_SEED),export PROPTEST_RNG_SEED=$(PROPTEST_SEED))
	cargo test $(TESTED) --no-run
	wait $$environment || true
	# Beside the others, since much of it is waiting: the guests, and the Python package.
	cargo test $(TESTED) --test guest -- --show-output >target/test-guests.log 2>&1 & guests=$$!
	scripts/test-python.sh >>target/test-python.log 2>&1 & python=$$!
	# The log has what tests print, where count-tests.sh finds those that skip; the terminal has it of failures alone.
	cargo test $(TESTED) --no-fail-fast -- --show-output --skip all_cases_of_the_guest 2>&1 | tee target/test.log \
	  | sed -u '/^successes:$$/,/^\(failures:\|test result:\)/{/^\(failures:\|test result:\)/!d}' || failed=1
	wait $$guests || failed=1
	wait $$python || failed=1
	cat target/test-guests.log target/test-python.log
	@scripts/count-tests.sh target/test.log target/test-guests.log target/test-python.log
	exit $$failed

bench:  ## The benchmarks; docs/benchmarks.md has the last figures
	@scripts/setup.sh build
	cargo bench --workspace --locked

fuzz:  ## Each fuzz target for a minute (SECONDS_EACH=n to change); needs cargo-fuzz
	@command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
	for target in $$(RUSTC_BOOTSTRAP=1 cargo fuzz list); do
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none "$$target" -- -max_total_time=$${SECONDS_EACH:-60}
	done

profiles:  ## Records the shipped profile library again (some two minutes on 2 cores)
	@scripts/setup.sh test
	scripts/record-library.sh -j 2

clean:  ## Removes what was built
	cargo clean
	rm -f report.html report-epyc-9554.html
