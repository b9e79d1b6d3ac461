#!/bin/sh
# Usage: embedded.sh SOURCE BUILD: builds, in the folder BUILD, the library with only the operators that a list names. Both ways of having
# it, shared and in the program, train a small model, refuse what was left out, and take less than 0.85 MB.
set -eu
source=$1
build=$2
most=910000
list=$source/tests/install/toy_module.txt
fail() {
    echo "embedded: $*" >&2
    exit 1
}

# A name that does not exist is said when configuring, with its line, and so is a part of CUDA where that is left out.
mkdir -p "$build"
refused() { # refused NAME WHAT_IS_SAID
    echo "$1" | cat "$list" - >"$build/unknown.txt"
    cmake -S "$source" -B "$build/unknown" -G Ninja -DFACULA_OPERATORS="$build/unknown.txt" >"$build/unknown.log" 2>&1 && fail "$1 exists"
    tr -s ' \n' ' ' <"$build/unknown.log" | grep -q "unknown.txt:$(($(wc -l <"$list") + 1)): $2" ||
        fail "the error does not name $1 and its line: $(cat "$build/unknown.log")"
}
refused conv2dd "there is no operator or function 'conv2dd'"
refused fac_cuda_device_count "'fac_cuda_device_count' is a part of CUDA, which this build leaves out"
refused 'fac_cuda_*' "'fac_cuda_\*' is a part of CUDA"

# A pattern means what the build has of it, and the linker is told of nothing else.
printf 'fac_*_count\nrelu\n' >"$build/pattern.txt"
printf 'relu fac_relu\n' >"$build/names.txt"
said=$("$source/cmake/exports.py" map "$build/pattern.txt" "$source" "$build/names.txt" "$build/pattern.map" --without-cuda)
echo "$said" | grep -q "pattern.txt:1: CUDA is left out" || fail "nothing is said of what a pattern leaves out"
grep -q fac_operator_count "$build/pattern.map" || fail "the pattern's functions are not selected"
grep -q fac_cuda "$build/pattern.map" && fail "functions are selected that the build has not"
"$source/cmake/exports.py" map "$build/pattern.txt" "$source" "$build/names.txt" "$build/pattern.map"
grep -q fac_cuda_device_count "$build/pattern.map" || fail "CUDA's functions are not selected in a build that has them"

# Names may be spelled as the linker spells those that it misses.
printf 'fac_add_scalar\nfac_relu_\nfac_sum_out\nadd.Tensor\nrelu\nrelu\n' >"$build/spellings.txt"
"$source/cmake/exports.py" check "$build/spellings.txt" "$source" || fail "a spelling is not known"

cmake -S "$source" -B "$build" -G Ninja -DFACULA_WERROR=ON -DFACULA_DEBUG_INFO=-g0 -DFACULA_OPERATORS="$list" >"$build/log"
cmake --build "$build" -j "$(nproc)" >>"$build/log" || { tail -n 40 "$build/log" && fail "the library was not built"; }
rm -rf "$build/prefix"
cmake --install "$build" --prefix "$build/prefix" --strip >>"$build/log"
PKG_CONFIG_PATH=$(dirname "$(find "$build/prefix" -name facula.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir facula)

# in_both_ways PROGRAM.c [FLAG]: compiles it to PROGRAM.shared and PROGRAM.static in BUILD.
in_both_ways() {
    program=$build/$(basename "$1" .c)
    # shellcheck disable=SC2046 # flags are meant to be split
    {
        ${CC:-cc} -O2 -std=c11 "$1" -o "$program.shared" $(pkg-config --cflags --libs facula)
        ${CC:-cc} -O2 -std=c11 "$1" -o "$program.static" -s -Wl,--gc-sections -Wl,-z,start-stop-gc ${2+"$2"} \
            $(pkg-config --cflags --libs facula-static)
    }
}
export LD_LIBRARY_PATH="$libdir"

in_both_ways "$source/examples/toy_module.c"
"$build/toy_module.shared" >"$build/shared.out"
"$build/toy_module.static" >"$build/static.out"
cmp "$build/shared.out" "$build/static.out" || fail "the two programs differ"
grep -q 'step 200' "$build/static.out" || fail "the program did not train"

# What was left out does not link; by name it is an error, and nothing worse. A static program says what it calls by name alone.
cat >"$build/conv.c" <<'C'
#include <facula/facula.h>
int main(void) { return fac_conv2d(NULL, NULL, NULL) != NULL; }
C
# shellcheck disable=SC2046
${CC:-cc} -std=c11 "$build/conv.c" -o "$build/conv" $(pkg-config --cflags --libs facula) 2>"$build/conv.log" && fail "conv2d is there"
grep -q 'undefined reference to .fac_conv2d' "$build/conv.log" || fail "the linker did not name fac_conv2d"
in_both_ways "$source/tests/install/by_name.c" -Wl,-u,fac_relu
says() { # says WAY OPERATOR PATTERN: what a call by name ends in
    status=0
    "$build/by_name.$1" "$2" 2>"$build/by_name.log" || status=$?
    if [ $status != 1 ] || ! grep -q "$3" "$build/by_name.log"; then
        fail "$2 ($1, status $status): $(cat "$build/by_name.log")"
    fi
}
for way in shared static; do
    says $way aten::relu 'relu.*argument'
    says $way aten::conv2d "there is no operator 'aten::conv2d'.*[0-9]* operators are left out of this build"
done

for file in "$(readlink -f "$libdir/libfacula.so")" "$build/toy_module.static"; do
    bytes=$(stat -c %s "$file")
    echo "$(basename "$file"): $bytes bytes"
    [ "$bytes" -le $most ] || fail "$(basename "$file") is larger than $most bytes"
done
