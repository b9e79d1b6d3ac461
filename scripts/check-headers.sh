#!/bin/sh
# Usage: check-headers.sh CC -I... : compiles every public header by itself, as C11 and (if c++ exists) as C++17.
cc=$1
shift
root=$(dirname "$0")/..
failed=0
for header in "$root"/include/facula/*.h; do
    name=facula/$(basename "$header")
    echo "#include <$name>" | "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$@" -x c - ||
        { echo "$name does not compile alone as C11"; failed=1; }
    if command -v c++ >/dev/null; then
        echo "#include <$name>" | c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$@" -x c++ - ||
            { echo "$name does not compile alone as C++17"; failed=1; }
    fi
done
exit $failed
