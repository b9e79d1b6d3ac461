#!/bin/bash
# Usage: demo.sh BUILD SOURCE : what `make demo` runs, with few steps; and with a text that is damaged.
set -u
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

problem() {
    echo "demo: $*"
    failed=1
}

mkdir -p "$work/build" "$work/tree/scripts" "$work/tree/apps"
ln -s "$build/bin" "$work/build/bin"
small="--steps 40 --batch 8 --dim 32 --heads 2 --layers 1 --sample 20 --sample-every 20 --eval-every 0"

# shellcheck disable=SC2086 # options are meant to be split
"$source/scripts/demo.sh" "$work/build" "$work/run" $small >"$work/out" 2>"$work/err" || problem "exit status $?: $(cat "$work/err")"
grep -q '^text: 620 files, 3.5 MiB' "$work/out" || problem "the text is another one: $(cat "$work/out")"
grep -q '^held out: 356.5 KiB, whole files' "$work/out" || problem "other files are held out: $(cat "$work/out")"
# A model that knows nothing needs 3.6 bits for a byte; so small a one, of a few seconds, needs fewer.
said=$(sed -n 's/^bits per byte of held-out text: \([0-9.]*\),.*/\1/p' "$work/out")
awk -v b="$said" 'BEGIN {exit !(b > 1 && b < 3.3)}' || problem "bits per byte of held-out text: '$said'"
# The training's samples are indented; what generate writes stands below its command, as it is.
grep -q '^after 20 steps it writes:$' "$work/out" || problem "no sample on the way"
sed -n '/generate --prompt/,$p' "$work/out" | grep -q '^fac_tensor \*' || problem "no text from generate"
for file in checkpoint.safetensors log.tsv loss.svg held_out.txt; do
    [ -s "$work/run/$file" ] || problem "no $file"
done
grep -q "$(printf '\033')" "$work/out" "$work/err" && problem "there are escape sequences in a file"

cp "$source/scripts/demo.sh" "$work/tree/scripts"
cp -r "$source/apps/demo" "$work/tree/apps"
printf 'x' >>"$work/tree/apps/demo/text.tar.gz"
rm -rf "$work/run"
# shellcheck disable=SC2086
"$work/tree/scripts/demo.sh" "$work/build" "$work/run" $small >"$work/out" 2>&1 && problem "a damaged text was trained on"
grep -q 'is not what text.tar.gz.sha256 says' "$work/out" || problem "a damaged text: $(cat "$work/out")"
[ ! -e "$work/run" ] || problem "a damaged text left a run"
exit $failed
