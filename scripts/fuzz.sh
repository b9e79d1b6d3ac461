#!/bin/bash
# fuzz.sh BUILD SECONDS RUNS [NAME...]: runs libFuzzer on each reader (tests/fuzz/fuzz_NAME.c), two at a time, from its corpus
# in the repository, for so many seconds or runs (-1: no bound). What an input adds to the corpus stays in BUILD/corpus/NAME;
# tests/fuzz/README.md tells how it goes into the repository. Prints runs, runs a second, and what was found.
set -u
build=$(realpath "$1") seconds=$2 runs=$3
shift 3
corpus=$(realpath "$(dirname "$0")/../tests/fuzz/corpus")
[ $# -gt 0 ] || set -- $(cd "$corpus" && echo *)

fuzz() { # fuzz NAME
    local grown=$build/corpus/$1 bound=-max_total_time=$seconds
    [ "$runs" = -1 ] || bound=-runs=$runs
    mkdir -p "$grown"
    # Leaks are looked for once, at the end: after each input it would take most of the time, since caches stay.
    "$build/tests/fuzz/fuzz_$1" "$bound" -detect_leaks=0 -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$grown.found-" "$grown" "$corpus/$1" >"$grown.log" 2>&1
    local status=$?
    awk -v name="$1" -v status=$status '/number_of_executed_units/ {n = $2} /average_exec_per_sec/ {rate = $2}
        END {printf "%-14s %12d runs %8d a second  %s\n", name, n, rate,
             status == 72 ? "interrupted" : status ? "FOUND: " status : "nothing found"}' "$grown.log"
    [ $status = 0 ] || tail -n 30 "$grown.log"
    return $status
}
export -f fuzz
export build seconds runs corpus
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
