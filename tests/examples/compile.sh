#!/bin/sh
# Usage: compile.sh FOLDER -I...: compiles every example with gcc and clang, those that are there, as a user may who wants to hear
# of everything, with and without FACULA_STRICT. A warning is a failure.
folder=$1
shift
failed=0
compilers=0
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    compilers=$((compilers + 1))
    for strict in -UFACULA_STRICT -DFACULA_STRICT; do
        $compiler -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only $strict "$@" "$folder"/*.c || failed=1
    done
done
[ $compilers -gt 0 ] || { echo "there is no gcc and no clang" >&2; exit 1; }
exit $failed
