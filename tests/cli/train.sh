#!/bin/bash
# Usage: train.sh FACULA TEXT_FOLDER : trains small models as a user would. A run that was stopped and resumed, and runs with
# one and two threads, must agree bit for bit with one that was left alone.
set -u
facula=$1
text=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
tiny="--steps 40 --eval-every 10 --save-every 20 --batch 4 --context 32 --dim 32 --heads 2 --layers 2 --dropout 0.1 --sample 0 --quiet"

tiny_time="--eval-every 50 --save-every 5 --batch 2 --context 16 --dim 16 --heads 2 --layers 1 --sample 0 --threads 1 --quiet"

problem() {
    echo "train: $*"
    failed=1
}

# expect STATUS PATTERN ARGUMENT...
expect() {
    local status=$1 pattern=$2 got
    shift 2
    "$facula" "$@" >"$work/out" 2>&1
    got=$?
    if [ $got != "$status" ] || ! grep -aEq -- "$pattern" "$work/out"; then
        problem "facula $*: exit status $got (expected $status), output (expected /$pattern/): $(cat "$work/out")"
    fi
}

same() { cmp -s "$1" "$2" || problem "$1 and $2 differ"; }

"$facula" train $tiny --threads 1 --out "$work/one" "$text" || problem "one thread"
"$facula" train $tiny --threads 2 --out "$work/two" "$text" || problem "two threads"
same "$work/one/log.tsv" "$work/two/log.tsv"
same "$work/one/checkpoint.safetensors" "$work/two/checkpoint.safetensors"
grep -q '<svg' "$work/one/loss.svg" || problem "no loss curve"
awk -F'\t' 'NR==2 {first=$3} $3 != "-" {last=$3} END {exit !(last + 0 < first + 0)}' "$work/one/log.tsv" || problem "the loss did not fall"

# Stopped by Ctrl-C somewhere in the middle, then resumed.
"$facula" train $tiny --out "$work/cut" "$text" &
child=$!
for _ in $(seq 200); do
    [ -f "$work/cut/log.tsv" ] && [ "$(wc -l <"$work/cut/log.tsv")" -ge 5 ] && break
    sleep 0.05
done
kill -INT $child 2>/dev/null
wait $child
status=$?
[ $status = 130 ] || [ $status = 0 ] || problem "Ctrl-C ended with status $status"
if [ $status = 130 ]; then "$facula" train --resume --quiet --sample 0 --out "$work/cut" || problem "resume"; fi
same "$work/one/log.tsv" "$work/cut/log.tsv"
same "$work/one/checkpoint.safetensors" "$work/cut/checkpoint.safetensors"

# A training that is given a time is that of as many steps as it found to fit, and so is one that was stopped and goes on.
"$facula" train $tiny_time --seconds 2 --out "$work/timed" "$text" || problem "a time"
steps=$("$facula" inspect "$work/timed" | sed -n 's/^steps: //p')
[ "$steps" -ge 4 ] || problem "2 seconds were $steps steps"
"$facula" train $tiny_time --steps "$steps" --out "$work/counted" "$text" || problem "$steps steps"
same "$work/timed/log.tsv" "$work/counted/log.tsv"
"$facula" train $tiny_time --seconds 3 --out "$work/cut_time" "$text" &
child=$!
for _ in $(seq 400); do
    "$facula" inspect "$work/cut_time" 2>/dev/null | grep -q '^steps: ' && break
    sleep 0.02
done
kill -INT $child 2>/dev/null
wait $child
status=$?
[ $status = 130 ] || [ $status = 0 ] || problem "Ctrl-C ended a timed training with status $status" # 0: it was done before
steps=$("$facula" inspect "$work/cut_time" | sed -n 's/^steps: //p')
"$facula" train --resume --quiet --out "$work/cut_time" || problem "resume with a time"
"$facula" train $tiny_time --steps "$steps" --out "$work/counted" "$text" || problem "$steps steps"
same "$work/cut_time/log.tsv" "$work/counted/log.tsv"
# Stopped before it knows (if the machine lets it be), it goes on with the rest of the time.
rm -rf "$work/cut_time"
"$facula" train $tiny_time --seconds 4 --out "$work/cut_time" "$text" &
child=$!
for _ in $(seq 400); do
    [ -f "$work/cut_time/log.tsv" ] && [ "$(wc -l <"$work/cut_time/log.tsv")" -ge 3 ] && break
    sleep 0.02
done
kill -INT $child 2>/dev/null
wait $child
"$facula" train --resume --quiet --out "$work/cut_time" || problem "resume with a time that is not known in steps"
steps=$("$facula" inspect "$work/cut_time" | sed -n 's/^steps: //p')
"$facula" train $tiny_time --steps "$steps" --out "$work/counted" "$text" || problem "$steps steps"
same "$work/cut_time/log.tsv" "$work/counted/log.tsv"

# What is held out: whole files, listed; the figure is that of the log; samples on the way are set apart.
expect 0 'held out: .*, whole files' train --steps 4 --sample-every 2 --batch 2 --dim 16 --heads 2 --layers 1 --sample 5 --out "$work/held" "$text"
grep -q '^after 2 steps it writes:$' "$work/out" || problem "no sample on the way"
sed -n '/a sample of what/,$p' "$work/out" | tail -n +3 | grep -qv '^    ' && problem "the sample is not set apart"
said=$(sed -n 's/^bits per byte of held-out text: \([0-9.]*\),.*/\1/p' "$work/out")
logged=$(tail -1 "$work/held/log.tsv" | cut -f3)
awk -v a="$said" -v b="$logged" 'BEGIN {exit !(a > 0 && (a - b) ^ 2 < 1e-6)}' || problem "the figure is $said, the log says $logged"
while IFS=$(printf '\t') read -r from path; do
    [ "$from" = 0 ] && [ -f "$path" ] || problem "held_out.txt: $from $path"
done <"$work/held/held_out.txt"
cat "$text"/*.md >"$work/single.md"
expect 0 'held out: .*, the end of the text, as there are too few files' train --steps 1 --batch 2 --dim 16 --heads 2 --layers 1 --sample 0 --out "$work/held" "$work/single.md"
grep -Eq "^[1-9][0-9]*	$work/single.md\$" "$work/held/held_out.txt" || problem "held_out.txt of a single file"

# Bits per byte by hand: of a line "aaaa" and its end two tokens are made, of 258 kinds; a model that has learned nothing takes each
# for about equally likely, and needs 2 log2(258) bits for 5 bytes.
yes aaaa | head -1000 >"$work/a.txt"
expect 0 '258 kinds, 2.50 bytes each' train --lr 0 --steps 1 --batch 2 --dim 16 --heads 2 --layers 1 --sample 0 --out "$work/a" "$work/a.txt"
awk -F'\t' 'END {wanted = 2 * log(258) / log(2) / 5; exit !(($3 / wanted - 1) ^ 2 < 0.02 ^ 2 && ($2 / wanted - 1) ^ 2 < 0.02 ^ 2)}' "$work/a/log.tsv" ||
    problem "bits per byte of a model that knows nothing: $(tail -1 "$work/a/log.tsv")"

# Writing text: the same seed, the same text.
"$facula" generate "$work/one" --tokens 30 --prompt 'The ' --seed 3 >"$work/text1" || problem "generate"
"$facula" generate "$work/one" --tokens 30 --prompt 'The ' --seed 3 >"$work/text2"
same "$work/text1" "$work/text2"
head -c 4 "$work/text1" | grep -q 'The ' || problem "the prompt is not there"
expect 0 '' generate "$work/one" --tokens 5 --temperature 0 --top-k 0

# Characters as tokens.
expect 0 'characters|tokens of [0-9]+ kinds' train --steps 2 --batch 2 --context 16 --dim 16 --heads 2 --layers 1 --sample 5 --characters --out "$work/chars" "$text"

# Digits.
python3 "$here/draw_digits.py" "$work" 2000
expect 0 'accuracy (9[0-9]|100)' train --images "$work/images.idx" --labels "$work/labels.idx" --steps 120 --eval-every 60 --out "$work/digits"
expect 0 'accuracy' train --images "$work/images.idx.gz" --labels "$work/labels.idx.gz" --steps 2 --out "$work/digits-gz"

# A run that lies in the folder it is trained on is no part of the text; Ctrl-C before the first step saves as well.
mkdir "$work/project" && cp "$text"/*.md "$work/project"
cd "$work/project" || exit 1
expect 0 'finished after 4 steps' train --steps 4 --batch 2 --dim 16 --heads 2 --layers 1 --sample 0 .
expect 0 'finished after 6 steps' train --resume --steps 6 --sample 0
expect 0 'the run has its 6 steps' train --resume --sample 0
expect 0 '^model.head.weight' inspect runs/last
cd "$here" || exit 1
"$facula" train --quiet --batch 64 --sample 0 --out "$work/early" "$text" &
child=$!
for _ in $(seq 400); do
    [ -f "$work/early/log.tsv" ] && break
    sleep 0.05
done
kill -INT $child
wait $child
[ $? = 130 ] && [ -f "$work/early/checkpoint.safetensors" ] || problem "Ctrl-C at the start"

# Wrong use.
expect 1 'is not the run of a text model' generate "$work/digits"
expect 1 "cannot read '$work/absent': No such file" train --out "$work/never" "$text" "$work/absent"
expect 1 "cannot read '$work/absent': No such file" train --out "$work/never" --images "$work/absent" --labels "$work/absent"
[ ! -e "$work/never" ] || problem "a run that could not begin left a folder"
expect 1 'cannot (open|read)' generate "$work/none"
expect 1 'there is no run to go on with' train --resume --out "$work/none"
expect 1 'cannot (open|read)' train --out "$work/x" "$work/none"
expect 2 'the run has 40 steps: --steps changes that, --seconds cannot' train --resume --seconds 5 --out "$work/one"
printf abcd >"$work/four.txt"
expect 1 'too few to hold a part of them out' train --context 1 --out "$work/x" "$work/four.txt"

# As many tokens as before, of which others are held out.
mkdir "$work/renamed"
for i in $(seq 10 49); do seq "${i}00" "${i}60" >"$work/renamed/a$i"; done
expect 0 'whole files' train --steps 2 --batch 2 --dim 16 --heads 2 --layers 1 --sample 0 --out "$work/renamed_run" "$work/renamed"
for i in $(seq 10 49); do mv "$work/renamed/a$i" "$work/renamed/b$i"; done
expect 1 'the text has changed since the run began' train --resume --steps 4 --out "$work/renamed_run"
echo short >"$work/short.txt"
expect 1 'needs at least' train --out "$work/x" "$work/short.txt"
expect 2 'give a file or folder' train
expect 2 'go together' train --images "$work/images.idx"
expect 2 'multiple of --heads' train --dim 7 "$text"
expect 2 'not both' train --steps 5 --seconds 5 "$text"
expect 2 'takes a whole number from 256 to 65536' train --vocab 100 "$text"
expect 2 'takes a whole number from 1' train --steps 0 "$text"
expect 2 'takes a whole number' train --steps 2.5 "$text"
expect 2 'takes a number from 0' train --lr -1 "$text"
expect 2 '--quiet takes no value' train --quiet=yes "$text"
expect 2 'takes a whole number' generate --tokens 99999999999
expect 2 'one run folder is enough' generate "$work/one" "$work/two"
expect 2 "no option '--nonsense'" generate --nonsense
expect 2 'no option' train --nonsense "$text"
expect 1 'labels' train --images "$work/images.idx" --labels "$work/images.idx" --out "$work/x"
head -c 1000 "$work/one/checkpoint.safetensors" >"$work/two/checkpoint.safetensors"
expect 1 'safetensors' train --resume --out "$work/two"
for command in train generate; do expect 0 "usage: facula $command" $command --help; done
exit $failed
