#!/bin/bash
# `penstock simulate` as a person calls it: seeds hold, a record replays to its hash, bad files are named.
set -euo pipefail
penstock=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$penstock" simulate --seeds 40 --first 7 >"$dir/out"
grep -q '^40 seeds held: ' "$dir/out"
[ "$(wc -l <"$dir/out")" = 1 ]

recorded=$("$penstock" simulate --first 3 --record "$dir/record")
replayed=$("$penstock" simulate --replay "$dir/record")
[ "${recorded##*action hash }" = "${replayed##*action hash }" ]

head -c 1000 "$dir/record" >"$dir/short"
if "$penstock" simulate --replay "$dir/short" 2>"$dir/err"; then exit 1; fi
grep -q 'short: record: truncated event at byte' "$dir/err"
if "$penstock" simulate --replay "$dir/missing" 2>"$dir/err"; then exit 1; fi
grep -q 'missing: cannot be read' "$dir/err"
