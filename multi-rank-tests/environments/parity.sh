#!/usr/bin/env bash
# Usage: parity.sh SOURCE LAUNCHER ARGS...
# Ranks started by LAUNCHER ARGS... must give what one process gives: every bit of kcp conv on a file whose longest
# document crosses all ranks, and the loss of kcp train. SOURCE is how kcp must name who started them.
# PARITY=conv stops after the first.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source_name=$1
shift
kcp=$root/kcp
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "parity: $*" >&2
  exit 1
}

alone() { env KCP_LAUNCHER=none "$kcp" "$@"; }

golden=$root/conv-kernels/src/test/resources/golden/bias_bf16.safetensors
alone conv --in "$golden" --out "$scratch/one" --backward >/dev/null
for layout in contiguous zigzag; do
  "$@" "$kcp" conv --in "$golden" --out "$scratch/many" --backward --handle --align 64 --layout "$layout" \
    >"$scratch/out" 2>"$scratch/err" || { cat "$scratch/err" >&2; fail "kcp conv failed: layout=$layout"; }
  [ "$(grep -c "ranks started by $source_name" "$scratch/err")" = 1 ] || {
    cat "$scratch/err" >&2
    fail "the launcher was not named once: wanted=$source_name"
  }
  grep -q '"world":3' "$scratch/out" || fail "not three ranks: $(tail -n 1 "$scratch/out")"
  cmp "$scratch/one" "$scratch/many" || fail "bits differ: layout=$layout"
done

if [ "${PARITY:-}" = conv ]; then
  echo "parity: $source_name: bits of kcp conv as with one process"
  exit 0
fi

for i in $(seq 300); do printf 'It was the best of times.\nLine %d of a small text.\n\n' "$i"; done >"$scratch/text.txt"
train=(train --data "$scratch/text.txt" --steps 5 --tokens 512 --channels 64 --layers 2)
alone "${train[@]}" | tail -n 1 >"$scratch/one.json"
"$@" "$kcp" "${train[@]}" 2>"$scratch/err" | tail -n 1 >"$scratch/many.json" || { cat "$scratch/err" >&2; fail "kcp train failed"; }
loss() { sed -n 's/.*"final_loss":\([0-9.]*\).*/\1/p' "$1"; }
awk -v a="$(loss "$scratch/one.json")" -v b="$(loss "$scratch/many.json")" \
  'BEGIN { d = a - b; exit !(a > 0 && d < 1e-3 && d > -1e-3) }' ||
  fail "loss differs: one=$(cat "$scratch/one.json") many=$(cat "$scratch/many.json")"

# A rank that fails must end the others and give its code to the launcher.
set +e
"$@" sh -c '[ "${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}" = 1 ] && exit 3
  exec "$0" conv --in "$1" --out "$2" --backward --deadline 5' "$kcp" "$golden" "$scratch/lost" >"$scratch/out" 2>&1
code=$?
set -e
[ "$code" -ne 0 ] || fail "a rank that exits 3 gave code 0"
[ ! -e "$scratch/lost" ] || fail "a job that failed wrote its output"
echo "parity: $source_name: bits of kcp conv and loss of kcp train as with one process; a failing rank gave code $code"
