#!/bin/sh
# Usage: run.sh PROGRAM EXPECTED [ARGUMENT...]: runs an example in a folder of its own. It has to end well and say nothing on
# standard error, each line of EXPECTED, an extended regular expression, has to match a line that it prints, and no file
# may be left.
#        run.sh PROGRAM --fails ARGUMENT...: it has to end with status 1, and to say why in the words of fac_report.
set -eu
program=$1
expected=$2
shift 2
room=$(mktemp -d "${TMPDIR:-/tmp}/facula-example.XXXXXX")
trap 'rm -rf "$room"' EXIT INT TERM
mkdir "$room/work"
status=0
(cd "$room/work" && exec "$program" "$@") >"$room/out" 2>"$room/err" || status=$?
cat "$room/out" "$room/err"
fail() {
    echo "example: $*" >&2
    exit 1
}

if [ "$expected" = --fails ]; then
    [ $status = 1 ] || fail "the status is $status and should be 1"
    grep -Eq '^[^ ]+\.c(pp)?:[0-9]+: (facula: )?STATE error: ' "$room/err" || fail "no reason was given"
    exit 0
fi
[ $status = 0 ] || fail "the status is $status"
[ ! -s "$room/err" ] || fail "something was said on standard error"
[ -z "$(ls -A "$room/work")" ] || fail "a file was left: $(ls -A "$room/work")"
while IFS= read -r line; do
    grep -Eq -e "$line" "$room/out" || fail "no line matches '$line'"
done <"$expected"
