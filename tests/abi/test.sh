#!/bin/sh
# Usage: test.sh SOURCE: the check of the interface sees what breaks programs, and lets pass what does not. A small library is released
# and then changed in each way.
set -eu
source=$1
room=$(mktemp -d "${TMPDIR:-/tmp}/facula-abi-test.XXXXXX")
trap 'rm -rf "$room"' EXIT INT TERM
mkdir "$room/include" "$room/releases"

cat >"$room/include/small.h" <<'C'
typedef struct fac_small_kw { unsigned kw_size; double alpha; } fac_small_kw;
typedef struct fac_place { int line; } fac_place;
typedef enum { FAC_SMALL_A, FAC_SMALL_B } fac_small_enum;
typedef struct fac_hidden fac_hidden;
int fac_one(fac_hidden *h, const fac_small_kw *kw);
int fac_two(fac_place place, fac_small_enum e);
C
cat >"$room/small.c" <<'C'
#include "small.h"
struct fac_hidden { int inside; };
int fac_one(fac_hidden *h, const fac_small_kw *kw) { return h->inside + (int)kw->alpha; }
int fac_two(fac_place place, fac_small_enum e) { return place.line + (int)e; }
C

# build SED [SONAME]: the library with its sources changed.
build() {
    rm -rf "$room/now"
    mkdir -p "$room/now/include"
    sed "$1" "$room/include/small.h" >"$room/now/include/small.h"
    sed "$1" "$room/small.c" >"$room/now/small.c"
    ${CC:-cc} -g -shared -fPIC -I"$room/now/include" "$room/now/small.c" -Wl,-soname,"${2-libsmall.so.1}" -o "$room/now/libsmall.so"
}
abi() { "$source/scripts/abi.sh" "$1" "$room/now/libsmall.so" "$room/releases" "$room/now/include" >"$room/log" 2>&1; }

expect() { # expect 0|1 WHAT SED [SONAME]: the status of the check after a change
    what=$2 wanted=$1 status=0
    shift 2
    build "$@"
    abi check || status=$?
    if [ $status != "$wanted" ]; then
        cat "$room/log"
        echo "abi test: $what: status $status, expected $wanted"
        exit 1
    fi
    echo "ok: $what: $([ "$wanted" = 0 ] && echo passes || echo fails)"
}

build ''
abi dump
expect 0 'nothing changed' ''
expect 0 'a function more' 's/^int fac_one.*}$/& int fac_three(void) { return 3; }/'
expect 0 'a keyword at the end' 's/double alpha;/& double beta;/'
expect 0 'an enumerator at the end' 's/FAC_SMALL_B/&, FAC_SMALL_C/'
expect 0 'what no header shows' 's/int inside;/long before; int inside;/'
expect 0 'another SONAME, and a function less' '/fac_two/d' libsmall.so.2
expect 1 'a function less' '/fac_two/d'
expect 1 'a parameter of another type' 's/int fac_two(fac_place place/int fac_two(long place_line/; s/place\.line/(int)place_line/'
expect 1 'a result of another type' 's/^int fac_one/long fac_one/'
expect 1 'a struct that grows' 's/int line;/& int column;/'
expect 1 'a keyword before others' 's/double alpha;/double beta; &/'
expect 1 'an enumerator before others' 's/FAC_SMALL_A,/FAC_SMALL_0, &/'
build ''
strip --strip-debug "$room/now/libsmall.so"
status=0
abi check || status=$?
[ $status = 2 ] || { echo "abi test: a library without debug information: status $status" && exit 1; }
echo "ok: a library without debug information: fails"
