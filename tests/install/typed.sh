#!/bin/sh
# Usage: typed.sh README EXAMPLES ROOM: in ROOM, what README.md and the examples' opening comments tell to type works as it stands
# there, with Facula installed where pkg-config and the loader find it.
set -eu
readme=$1
examples=$2
room=$3
fail() {
    echo "install: $*" >&2
    exit 1
}

# The first program of the README, and the line below it that compiles it.
awk '/^```$/ { if (on) exit } on; /^```c$/ { on = 1 }' "$readme" >"$room/ten_lines.c"
compile=$(sed -n 's/^    \(cc ten_lines\.c .*\)/\1/p' "$readme")
[ -n "$compile" ] || fail "the README has no line that compiles ten_lines.c"
(cd "$room" && sh -ec "$compile" && ./a.out) >"$room/ten_lines.out"
grep -q '^tensor(\[ 1\.0000, -2\.0000,  0\.5000\]' "$room/ten_lines.out" || fail "the ten lines print $(cat "$room/ten_lines.out")"

for source in "$examples"/*.c "$examples"/cxx/*.cpp; do
    compile=$(sed -n 's/^       \(c[c+]* .*\) && \.\/.*/\1/p;/\*\/$/q' "$source")
    [ -n "$compile" ] || fail "$source does not tell how it is compiled"
    command -v "${compile%% *}" >/dev/null || continue
    (cd "$(dirname "$source")" && sh -ec "$compile") || fail "$source is not compiled by: $compile"
done
"$examples/moons" >/dev/null
