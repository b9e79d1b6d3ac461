#!/bin/sh
# Trains a small GPT on this repository's own text and lets it write. usage: scripts/demo.sh BUILD [OPTION of facula train...]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
facula=$build/bin/facula
run=runs/demo
n=1
while [ -e "$run/checkpoint.safetensors" ]; do # an earlier demo is kept
    n=$((n + 1))
    run=runs/demo-$n
done
[ "$n" -eq 1 ] || echo "earlier demos are kept; go on with the last by: $facula train --resume --out runs/demo$([ "$n" -eq 2 ] || echo "-$((n - 1))")"
status=0
"$facula" train --out "$run" --steps 1000 --lr 0.002 --warmup 50 --eval-every 100 --save-every 250 "$@" \
    README.md ARCHITECTURE.md CONTRIBUTING.md docs include src apps examples tools || status=$?
[ "$status" -eq 0 ] || exit "$status"
echo
echo "the loss curve:   $run/loss.svg"
echo "more of its text: $facula generate $run --prompt 'static '"
