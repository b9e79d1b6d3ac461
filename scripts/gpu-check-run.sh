#!/bin/sh
# Usage: run.sh [RESULTS]: runs the programs beside it on this machine's CUDA devices, or, where there are none, on four
# simulated ones, and says which. One line per test goes to RESULTS (results.tsv beside this script) as soon as it is known.
# Environment: FACULA_CUDA chooses as always; BUDGET is the time in seconds after which no further program is started (480).
here=$(cd "$(dirname "$0")" && pwd)
results=${1:-$here/results.tsv}
budget=${BUDGET:-480}
begun=$(date +%s)
room=$(mktemp -d) # for what is unpacked
trap 'rm -rf "$room"' EXIT INT TERM
LD_LIBRARY_PATH=$here/lib:$room${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
FACULA_SIMCUDA_LIBRARY=$here/lib/libfacula-simcuda.so
USER_KERNELS=$here/bin
CMOCKA_MESSAGE_OUTPUT=tap
export LD_LIBRARY_PATH FACULA_SIMCUDA_LIBRARY USER_KERNELS CMOCKA_MESSAGE_OUTPUT

# Large libraries travel compressed, and the tests as one program that acts as the one whose name it is called by.
for packed in "$here"/lib/*.gz; do
    [ -f "$packed" ] && gzip -dc "$packed" >"$room/$(basename "$packed" .gz)"
done
mkdir "$room/tests"
for program in "$here"/tests/*; do ln -s "$program" "$room/tests/"; done
for name in $("$here/bin/cuda_tests"); do ln -s "$here/bin/cuda_tests" "$room/tests/$name"; done

if [ -z "$FACULA_CUDA" ] && ! "$here/bin/facula" info | grep -q '^cuda:0 '; then
    "$here/bin/facula" info | sed -n 's/^cuda  */no device: /p'
    FACULA_CUDA=sim:4
    export FACULA_CUDA
fi
{
    echo "# Facula's CUDA tests on $("$here/bin/facula" info | sed -n 's/^cuda  *//p')"
    "$here/bin/facula" info | sed -n 's/^\(version\|cuda:\)/# \1/p'
    printf 'program\ttest\tresult\tnote\n'
} | tee "$results"

# The rows of a program from its TAP lines. What it printed before a test's line, and the first remark after it, is the note.
rows() {
    awk -v program="$1" '
        function put() {
            if (name != "") printf "%s\t%s\t%s\t%s\n", program, name, result, result == "passed" ? "" : note
            fflush()
            name = note = ""
        }
        /^(not )?ok [0-9]+ / {
            if (name != "") put()
            result = /# SKIP/ ? "skipped" : $1 == "ok" ? "passed" : "failed"
            name = $0
            sub(/^(not )?ok [0-9]+ (- )?(# SKIP )?/, "", name)
            if (index(name, " ")) { note = note " " substr(name, index(name, " ") + 1); sub(/ .*/, "", name) }
            if (result != "failed") put()
            next
        }
        NF && !/^[0-9]+\.\.[0-9]+$/ {
            gsub(/\t/, " ")
            if (name != "") { note = note " " $0; put() }
            else if (!/^#/) note = substr($0, 1, 300)
        }
        END { put() }'
}

failed=0
status_file=$room/status
for program in "$room"/tests/*; do
    name=$(basename "$program")
    if [ $(($(date +%s) - begun)) -ge "$budget" ]; then
        printf '%s\t*\tnot run\tthe time was up\n' "$name" | tee -a "$results"
        failed=1
        continue
    fi
    { timeout 180 "$program" 2>&1; echo $? >"$status_file"; } | tee "$here/log-$name.txt" | rows "$name" | tee -a "$results"
    status=$(cat "$status_file")
    rm -f "$status_file"
    if [ "$status" != 0 ]; then
        failed=1
        printf '%s\t*\texit status %s\tsee log-%s.txt\n' "$name" "$status" "$name" | tee -a "$results"
    fi
done
for program in "$here"/bench/*; do
    [ -x "$program" ] || continue
    echo "# $(basename "$program")" | tee -a "$results"
    { timeout 120 "$program" 2>&1; echo $? >"$status_file"; } | tee -a "$results"
    [ "$(cat "$status_file")" = 0 ] || failed=1
    rm -f "$status_file"
done
awk -F '\t' '!/^#/ && NR > 1 { n[$3]++ } END { printf "#"; for (r in n) if (r ~ /^(passed|failed|skipped)$/) printf " %d %s", n[r], r; print "" }' "$results" | tee -a "$results"
exit $failed
