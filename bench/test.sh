#!/bin/sh
# Usage: test.sh BENCH: what a call costs is measured and reported, by the row of an addition of one element.
set -eu
bench=$1
row=$(printf 'add 1\t1\t20\n' | "$bench" --serve)
echo "$row"
# section, name, threads, median and least microseconds: the least is not spoilt by a busy machine
echo "$row" | awk -F '\t' '{ ok = NF == 5 && $1 == "overhead" && $2 == "add 1" && $5 > 0.01 && $5 < 20 && $4 >= $5 } END { exit !ok }'
for table in "$(dirname "$0")"/results/*.tsv; do
    head -n 1 "$table" | grep -q "CUDA tests" || grep -q "^overhead	add 1	" "$table" || { echo "$table has no such row"; exit 1; }
done
