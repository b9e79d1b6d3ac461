#!/bin/sh
# Usage: run.sh BUILD SOURCE [MAX_BYTES]: installs BUILD into a folder of its own, builds a program against it in each of the ways
# that users have, and runs them. A library of more than MAX_BYTES is too large.
set -eu
build=$1
source=$2
here=$source/tests/install
room=$(mktemp -d "${TMPDIR:-/tmp}/facula-install.XXXXXX")
trap 'rm -rf "$room"' EXIT INT TERM
fail() {
    echo "install: $*" >&2
    exit 1
}

cmake --install "$build" --prefix "$room/prefix" --strip >"$room/log"
grep -q 'The loader does not look into' "$room/log" || fail "nothing was said of the loader"
pc=$(find "$room/prefix" -name facula.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir facula)
cc="${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror"

# Nothing of ours but the interface is seen from outside.
nm -D --defined-only "$libdir/libfacula.so" | grep -Ev ' fac_| FACULA_' && fail "libfacula.so exports more than fac_*"
nm --defined-only -g "$libdir/libfacula.a" | grep -E ' [A-Z] ' | grep -v ' fac_' && fail "libfacula.a shows more than fac_*"
# A program that contains the library may use any other name, the library's internal ones too.
cat >"$room/clash.c" <<'C'
void add_kernel(void);
void add_kernel(void) {}
int fac__thread_start(void);
int fac__thread_start(void) { return 0; }
C

# shellcheck disable=SC2046,SC2086 # flags are meant to be split
{
    $cc "$here/user.c" -o "$room/shared" $(pkg-config --cflags --libs facula)
    LD_LIBRARY_PATH=$libdir "$room/shared"
    $cc -Wl,--gc-sections "$here/user.c" "$room/clash.c" -o "$room/static" $(pkg-config --cflags --libs facula-static)
    "$room/static"
}
readelf -d "$room/static" | grep -q libfacula && fail "the static program needs libfacula.so"

cmake -S "$here/cmake" -B "$room/project" -DSOURCE="$here/user.c" -DCMAKE_PREFIX_PATH="$room/prefix" >>"$room/log"
cmake --build "$room/project" >>"$room/log"
"$room/project/user_shared"
"$room/project/user_static"
readelf -d "$room/project/user_static" | grep -q libfacula && fail "Facula::static needs libfacula.so"

cp -r "$room/prefix/share/facula/examples" "$room/examples"
make -s -C "$room/examples" CFLAGS=-O1 toy_module threads
LD_LIBRARY_PATH=$libdir "$room/examples/toy_module" >/dev/null
LD_LIBRARY_PATH=$libdir "$here/typed.sh" "$source/README.md" "$room/examples" "$room"
[ -f "$room/prefix/share/man/man1/facula.1" ] || fail "the man pages are not there"
[ -f "$room/prefix/share/man/man3/fac_softmax.3" ] || fail "the man pages of the functions are not there"
[ -f "$room/prefix/share/doc/facula/operators.md" ] || fail "the documents are not there"

bytes=$(stat -L -c %s "$libdir/libfacula.so")
echo "libfacula.so $bytes bytes, libfacula.a $(stat -c %s "$libdir/libfacula.a"), the static program $(stat -c %s "$room/static")"
[ "$bytes" -le "${3:-$bytes}" ] || fail "libfacula.so is larger than $3 bytes"
