#!/usr/bin/env bash
# Compiles a crate of the workspace with clippy, which lints and compiles in one pass, and holds the documentation of a library
# or a program against rustdoc's lints; warnings are errors. `make test` builds by this (RUSTC_WORKSPACE_WRAPPER), so that no
# crate is checked apart from its build. `make lint` finds the same and builds nothing: it checks all crates, those of others too.
#
#   scripts/rustc-with-lints.sh RUSTC ARGUMENT...
#
# CORUN_SYSROOT: where clippy-driver and rustdoc are (rustc --print sysroot). CLIPPY_ARGS: clippy's own arguments. cargo builds a
# crate anew when these change, so that they stand in cargo's environment and not here.
set -euo pipefail
: "${CLIPPY_ARGS:?}"
bin=$CORUN_SYSROOT/bin

documented=() name='' source='' folder='' suffix='' is_test='' is_program=''
arguments=("${@:2}")
for ((at = 0; at < ${#arguments[@]}; at++)); do
  argument=${arguments[at]}
  case $argument in
    --test) is_test=1 ;;
    # What rustdoc has no use for: how to generate code, and how cargo wants to be told of it.
    --emit=* | --json=* | --error-format=*) ;;
    -C | -l | --out-dir)
      at=$((at + 1))
      [[ $argument != --out-dir ]] || folder=${arguments[at]}
      [[ ${arguments[at]} != extra-filename=* ]] || suffix=${arguments[at]#*=}
      ;;
    --crate-name | --crate-type)
      documented+=("$argument" "${arguments[at + 1]}")
      at=$((at + 1))
      [[ $argument != --crate-name ]] || name=${arguments[at]}
      [[ ${arguments[at]} != bin ]] || is_program=1
      ;;
    *.rs)
      source=$argument
      documented+=("$argument")
      ;;
    *) documented+=("$argument") ;;
  esac
done

# A benchmark is checked and not built, since no test runs one. An empty file stands for the program: without the file cargo would
# check the benchmark anew each time.
if [[ $source == */benches/* ]]; then
  "$bin/clippy-driver" "${@/#--emit=*/--emit=dep-info,metadata}"
  : >"$folder/$name$suffix"
  exit
fi

# Most of what these tests run is the libraries, which stay optimised: so built, they take a fifth to four fifths of the CPU time
# and run as long. docs/benchmarks.md has figures, also of those that would run longer.
cheap=()
if [[ -n $is_test && $source =~ ^crates/corun-((cache|optimal|policy|profile|scx|sim|trace)/src/lib.rs$|(model|optimal|sim|trace)/tests/) ]]; then
  cheap=(-C opt-level=0)
elif [[ -n $is_test && $source == crates/corun-model/src/lib.rs ]]; then
  cheap=(-C opt-level=1)
fi
"$bin/clippy-driver" "$@" "${cheap[@]}"

# The programs' own documentation is read whole, as by `cargo doc`.
[[ -z $is_program ]] || documented+=(--document-private-items)
if [[ -z $is_test && ($source == */src/* || $name == kernels) ]]; then
  # --check, which writes no pages, is not stable.
  RUSTC_BOOTSTRAP=1 "$bin/rustdoc" -Z unstable-options --check -D warnings "${documented[@]}"
fi
