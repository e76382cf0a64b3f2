#!/bin/sh
# Packs the kernels of one module: every file of the folder $1 goes to $2/source, for GPUs that the build has no machine
# code for, and machine code for every GPU generation named below to $2, one file for each .cu. Without nvcc it says that it
# skipped: the rest of the project builds and runs, on the CPU.
#
# What was compiled is kept for all checkouts of this user, under a digest of everything that it depends on.
set -eu
source=$(CDPATH='' cd -P "$1" && pwd)
out=$2
shared=$(CDPATH='' cd -P "$(dirname "$0")" && pwd)

rm -rf "$out/source"
mkdir -p "$out/source"
cp "$shared/integers.cuh" "$source"/*.cu "$out/source/"
for header in "$source"/*.cuh; do
  [ ! -e "$header" ] || cp "$header" "$out/source/"
done

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
flags="-std=c++20 -O3 -fmad=false"
for generation in $generations; do
  flags="$flags -gencode arch=compute_$generation,code=sm_$generation"
done

# Without a home that can be written, each checkout keeps its own.
cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/kcp/fatbin
if ! { mkdir -p "$cache" && [ -w "$cache" ]; } 2>/dev/null; then
  cache=$source/../../../target/fatbin
  mkdir -p "$cache"
fi
compiler=$("$nvcc" --version)

# Compiles $1.cu to the file $2.
compile() {
  made=$2.$$
  echo "GPU kernels: compiling $1 for sm_$(echo "$generations" | sed 's/ /, sm_/g')"
  # shellcheck disable=SC2086 # flags is a list of words
  "$nvcc" $flags --threads 0 -Xptxas -v -fatbin -o "$made" "$out/source/$1.cu" >"$made.log" 2>&1 || {
    cat "$made.log" >&2
    rm -f "$made" "$made.log"
    return 1
  }
  # A program that spills registers is slow; it must be given another shape, not shipped.
  if grep -E '[1-9][0-9]* bytes spill' "$made.log" >&2; then
    echo "GPU kernels: $1 spills registers" >&2
    rm -f "$made" "$made.log"
    return 1
  fi
  rm -f "$made.log"
  mv "$made" "$2"
}

# Makes $out/$1.fatbin.
make() {
  digest=$({ echo "$compiler $flags"; cat "$out/source/$1.cu" "$out/source"/*.cuh; } | sha256sum | cut -c 1-32)
  kept=$cache/$1-$digest.fatbin
  [ -s "$kept" ] || compile "$1" "$kept"
  touch "$kept"
  cmp -s "$kept" "$out/$1.fatbin" || { cp "$kept" "$out/$1.fatbin.$$" && mv "$out/$1.fatbin.$$" "$out/$1.fatbin"; }
}

# All files at once: one long file must not keep the other cores waiting.
running=
for file in "$source"/*.cu; do
  make "$(basename "$file" .cu)" &
  running="$running $!"
done
failed=
for process in $running; do
  wait "$process" || failed=1
done
[ -z "$failed" ] || exit 1
find "$cache" -name '*.fatbin*' -mtime +30 -exec rm -f {} + 2>/dev/null || true
