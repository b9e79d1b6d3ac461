#!/bin/sh
# Usage: compile_cxx.sh FOLDER LIBRARIES -I...: compiles the C++ examples with g++ and clang++, those that are there, as C++17 and
# C++20, and runs them. A warning is a failure.
set -eu
folder=$1
libraries=$2
shift 2
room=$(mktemp -d "${TMPDIR:-/tmp}/facula-cxx.XXXXXX")
trap 'rm -rf "$room"' EXIT INT TERM
runs=0
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    for standard in c++17 c++20; do
        for source in "$folder"/*.cpp; do
            $compiler -std=$standard -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror "$@" "$source" -o "$room/program" \
                -L"$libraries" -Wl,-rpath,"$libraries" -lfacula
            "$room/program" >"$room/out"
            runs=$((runs + 1))
        done
    done
done
echo "$runs programs"
[ $runs -gt 0 ]
