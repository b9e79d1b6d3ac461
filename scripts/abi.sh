#!/bin/sh
# Usage: abi.sh check LIBRARY RELEASES HEADERS...   compares a library with the release that has its SONAME: what it offered has to be there
#        abi.sh dump LIBRARY RELEASES HEADERS...    writes the library's interface into the folder RELEASES, when it is released
# The library needs its debug information. HEADERS are the folders of the public headers: other types may change as they like.
# Debian: abigail-tools. The rule and its reasons: tests/abi/README.md.
set -eu
here=$(dirname "$0")/../tests/abi
command=$1
library=$2
releases=$3
shift 3
room=$(mktemp -d "${TMPDIR:-/tmp}/facula-abi.XXXXXX")
trap 'rm -rf "$room"' EXIT INT TERM

folders=
for folder in "$@"; do folders="$folders --headers-dir $folder"; done
soname=$(readelf -d "$library" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
if [ -z "$soname" ] || ! readelf -SW "$library" | grep -q '\.debug_info'; then
    echo "abi: $library has no SONAME, or no debug information, without which types cannot be compared" >&2
    exit 2
fi
# shellcheck disable=SC2086 # the folders are meant to be split
abidw $folders --drop-private-types --no-show-locs --no-corpus-path --no-comp-dir-path --out-file "$room/now.abi" "$library"
release=$releases/$soname.abi.xz

case $command in
dump)
    if [ -f "$release" ]; then
        echo "abi: $release is there: what was released does not change" >&2
        exit 1
    fi
    xz -9ec "$room/now.abi" >"$release"
    echo "abi: $release"
    ;;
check)
    if [ ! -f "$release" ]; then
        echo "abi: no release has $soname: its interface may still change"
        exit 0
    fi
    xz -dc "$release" >"$room/release.abi"
    # Any change but an addition may break a program. Those that abidiff calls harmless it does not count.
    if ! abidiff --no-added-syms --suppressions "$here/allowed.abignore" "$room/release.abi" "$room/now.abi"; then
        echo "abi: programs linked with the release of $soname may break: keep what it offered, or raise the version, and with it the SONAME"
        exit 1
    fi
    echo "abi: $soname offers what its release did"
    ;;
*)
    echo "abi.sh: unknown command '$command'; there are check and dump" >&2
    exit 2
    ;;
esac
