#!/usr/bin/env bash
# Step time and activation memory of kcp train by number of layers: activations kept; recomputed with handles; recomputed
# with a second exchange. Runs take turns, ROUNDS times; of each run the median step counts, of its rounds the fastest.
#   checkpoint.sh DATA OUT.json
# KCP names another command than this checkout's.
set -euo pipefail
[ $# = 2 ] || { echo "usage: checkpoint.sh DATA OUT.json" >&2; exit 2; }
data=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
kcp=${KCP:-$here/kcp}
rounds=${ROUNDS:-3} steps=${STEPS:-40} channels=${CHANNELS:-128} tokens=${TOKENS:-1024} world=${WORLD:-2}
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<<"$2"; }
for round in $(seq "$rounds"); do
  for layers in 1 4 16; do
    for mode in "kept --no-checkpoint" "handles --checkpoint" "exchanging --checkpoint --no-handles"; do
      read -r name options <<<"$mode"
      # Word splitting of the options is meant.
      summary=$("$kcp" train --data "$data" --world "$world" --layers "$layers" --channels "$channels" \
        --tokens "$tokens" --steps "$steps" $options 2>/dev/null | tail -n 1)
      echo "$layers $name $(field median_step_ms "$summary") $(field activation_bytes "$summary")" \
        "$(field forward "$(grep -o '"exchanges":{[^}]*}' <<<"$summary")")" \
        "$(field recompute "$(grep -o '"exchanges":{[^}]*}' <<<"$summary")")" \
        "$(field backward "$(grep -o '"exchanges":{[^}]*}' <<<"$summary")")" >>"$lines"
    done
  done
done
commit=$(git -C "$here" describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
awk -v commit="$commit" -v rounds="$rounds" -v steps="$steps" -v channels="$channels" -v tokens="$tokens" -v world="$world" '
  { key = $1 " " $2; if (!(key in ms)) order[n++] = key; if (!(key in ms) || $3 < ms[key]) ms[key] = $3; line[key] = $0 }
  END {
    printf "{\n  \"commit\": \"%s\", \"rounds\": %d, \"steps\": %d, \"channels\": %d, \"tokens\": %d, \"world\": %d,\n  \"rows\": [\n", commit, rounds, steps, channels, tokens, world
    for (i = 0; i < n; i++) {
      split(line[order[i]], f, " ")
      printf "    {\"layers\": %d, \"activations\": \"%s\", \"step_ms\": %s, \"activation_bytes\": %d, \"exchanges\": [%d, %d, %d]}%s\n", f[1], f[2], ms[order[i]], f[4], f[5], f[6], f[7], i < n - 1 ? "," : ""
    }
    print "  ]\n}"
  }' "$lines" >"$out"
cat "$out"
