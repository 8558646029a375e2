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

.PHONY: help demo install uninstall deb wheel packages test-packages release-check test lint bench bench-counts fuzz profiles clean

help:  ## What can be asked for
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo:  ## The main job: real programs on a classic machine and on a server of today, every policy, the optimum; leaves two pages
	@scripts/setup.sh build
	cargo build --profile quick --locked -p corun
	scripts/demo.sh $(QUICK)/corun

install:  ## corun, corun-study, the tracer's plug-in, manual pages and completions, under PREFIX (/usr/local)
	@scripts/setup.sh build
	cargo build --release --locked -p corun -p corun-studies
	DESTDIR="$(DESTDIR)" scripts/install.sh $(RELEASE) $(PREFIX)

uninstall:  ## Takes away what `make install` put there; the configuration in /etc/corun stays
	DESTDIR="$(DESTDIR)" scripts/install.sh --remove $(PREFIX)

deb:  ## A Debian package of corun, its daemon, manual pages and completions: target/corun_VERSION_ARCHITECTURE.deb
	@scripts/setup.sh deb
	scripts/build-command.sh release
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

# What clippy has checked rustdoc reads, where cargo finds both to be of one compiler, its arguments and features (an example
# has those of the tests). Where another clippy goes by other names, cargo checks the crates once more, and nothing else changes.
AS_CLIPPY := RUSTC_WORKSPACE_WRAPPER=$$(rustc --print sysroot)/bin/clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

lint:  ## Format, clippy and documentation, warnings denied, without building; `make test` finds the same as it builds
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(AS_CLIPPY) RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --lib --bins --example kernels --locked --quiet

# The same cases of the property tests in each run; empty for others: `make test PROPTEST_SEED=`.
PROPTEST_SEED ?= 20261124

test:  ## All that CI runs
	@scripts/setup.sh test
	$(if $(PROPTEST_SEED),export PROPTEST_RNG_SEED=$(PROPTEST_SEED))
	scripts/test.sh

bench:  ## The benchmarks; docs/benchmarks.md has the last figures
	@scripts/setup.sh build
	cargo bench --workspace --locked

bench-counts:  ## The main benchmarks in counted instructions; names those that take over 5 % more than scripts/bench-counts.tsv has
	@scripts/setup.sh bench-counts
	scripts/bench-counts.py

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
