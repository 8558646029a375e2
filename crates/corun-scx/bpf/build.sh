#!/usr/bin/env bash
# Compiles the scheduler with clang, into corun.bpf.o or the file that is named. The result is shipped: who
# builds corun needs no clang.
set -euo pipefail
cd "$(dirname "$0")"
clang=${CLANG:-clang-19}
"$clang" -g -O2 -target bpfel -mcpu=v3 -Wall -Werror -Wno-unused-variable -ffreestanding \
  -fdebug-prefix-map="$PWD"=. -c corun.bpf.c -o "${1:-corun.bpf.o}.part"
"${LLVM_STRIP:-llvm-strip-19}" -g "${1:-corun.bpf.o}.part" -o "${1:-corun.bpf.o}"
rm "${1:-corun.bpf.o}.part"
