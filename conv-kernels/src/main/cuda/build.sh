#!/bin/sh
# Compiles the kernels for every GPU generation named below into one file per source, in the folder $1. Without nvcc it
# says that it skipped: the rest of the project builds and runs, on the CPU.
set -eu
out=$1
source=$(CDPATH='' cd -P "$(dirname "$0")" && pwd)

if [ "${KCP_GPU_GENERATIONS-}" = none ]; then
  echo "GPU kernels skipped: KCP_GPU_GENERATIONS=none"
  exit 0
fi

nvcc=
for candidate in "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" "$(command -v nvcc || true)"; do
  if [ -x "$candidate" ]; then
    nvcc=$candidate
    break
  fi
done
if [ -z "$nvcc" ]; then
  echo "GPU kernels skipped: no nvcc in CUDA_HOME, /usr/local/cuda or PATH"
  exit 0
fi

# Fewer of them make a quicker build, "none" the quickest.
generations=${KCP_GPU_GENERATIONS:-80 90 100 120}
targets=
for generation in $generations; do
  targets="$targets -gencode arch=compute_$generation,code=sm_$generation"
done

mkdir -p "$out"
for file in conv_forward conv_backward conv_check rows mail train train_products; do
  made=$out/$file.fatbin
  if [ -f "$made" ] && [ -z "$(find "$source" -type f -newer "$made")" ]; then
    continue
  fi
  echo "GPU kernels: compiling $file for sm_$(echo "$generations" | sed 's/ /, sm_/g')"
  # shellcheck disable=SC2086 # targets is a list of words
  "$nvcc" -std=c++20 -O3 -fmad=false --threads 0 $targets -Xptxas -v -fatbin -o "$made.$$" "$source/$file.cu" \
    >"$made.log" 2>&1 || {
    cat "$made.log" >&2
    rm -f "$made.$$"
    exit 1
  }
  # A program that spills registers is slow; it must be given another shape, not shipped.
  if grep -E '[1-9][0-9]* bytes spill' "$made.log" >&2; then
    echo "GPU kernels: $file spills registers" >&2
    rm -f "$made.$$"
    exit 1
  fi
  rm -f "$made.log"
  mv "$made.$$" "$made"
done
