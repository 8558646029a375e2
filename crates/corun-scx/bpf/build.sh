#!/usr/bin/env bash
# Compiles the programs with clang, each NAME.bpf.c into NAME.bpf.o, here or in the folder that is named. The results are
# shipped: who builds corun needs no clang.
set -euo pipefail
to=$(realpath "${1:-$(dirname "$0")}")
cd "$(dirname "$0")"
clang=${CLANG:-clang-19}
for source in *.bpf.c; do
  object=$to/${source%.c}.o
  "$clang" -g -O2 -target bpfel -mcpu=v3 -Wall -Werror -Wno-unused-variable -ffreestanding \
    -fdebug-prefix-map="$PWD"=. -c "$source" -o "$object.part"
  "${LLVM_STRIP:-llvm-strip-19}" -g "$object.part" -o "$object"
  rm "$object.part"
done
