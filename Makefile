# The two commands of the README are `make demo` and `make test`; both do all their set-up.
SHELL := bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CORUN := target/release/corun

.PHONY: help demo test lint bench fuzz profiles clean

help:  ## What can be asked for
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo:  ## The main job: eight real programs, every policy, the optimum; leaves report.html
	@scripts/setup.sh build
	cargo build --release --locked -p corun
	$(CORUN) compare --report report.html

lint:  ## Format, clippy and documentation, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

test:  ## All that CI runs
	@scripts/setup.sh test
	$(MAKE) --no-print-directory lint
	cargo test --workspace --locked

bench:  ## The benchmarks; docs/benchmarks.md has the last figures
	@scripts/setup.sh build
	cargo bench --workspace --locked

fuzz:  ## Each fuzz target for a minute (SECONDS_EACH=n to change); needs cargo-fuzz
	@command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
	for target in $$(RUSTC_BOOTSTRAP=1 cargo fuzz list); do
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none "$$target" -- -max_total_time=$${SECONDS_EACH:-60}
	done

profiles:  ## Records the shipped profile library again (half an hour)
	@scripts/setup.sh test
	scripts/record-library.sh

clean:  ## Removes what was built
	cargo clean
	rm -f report.html
