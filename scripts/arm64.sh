#!/bin/sh
# Usage: arm64.sh BUILD [TEST...]: cross-compiles for 64-bit ARM into BUILD, and runs the unit tests under qemu-user: those named ("conv"), or
# all but the ones below. scripts/setup.sh arm64 installs the compiler, the emulator and the libraries.
set -eu
build=$1
shift
jobs=$(nproc)
mkdir -p "$build"
trap '[ $? = 0 ] || tail -n 40 "$build.log"' EXIT

# What the emulator cannot do: run a compiler or itself as a child (jit), have its own threads not counted (pool_threads); and what takes it
# more than five minutes or a call more than its ten seconds (blas, failed_calls, variations). Tests of other kinds build and load
# programs for this machine, and so say nothing of another.
left_out='jit|pool_threads|blas|failed_calls|variations'

cmake --preset release -B "$build/host" -DFACULA_BENCH=OFF -DFACULA_EXAMPLES=OFF -DFACULA_TESTS=OFF >"$build.log"
cmake --build "$build/host" -j "$jobs" --target opgen >>"$build.log"
cmake --preset debug -B "$build" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/arm64.cmake" -DFACULA_OPGEN="$PWD/$build/host/opgen" \
    -DFACULA_BENCH=OFF -DFACULA_EXAMPLES=OFF -DFACULA_ONEDNN=OFF -DFACULA_CUDA_IMAGES=none -DFACULA_WERROR=ON \
    -DFACULA_DEBUG_INFO=-g0 >>"$build.log"
if [ $# = 0 ]; then
    cmake --build "$build" -j "$jobs" >>"$build.log"
    exec ctest --test-dir "$build" -R "^unit\." -E "^unit\.test_($left_out)\$" -j "$jobs" --output-on-failure
fi
names=$(echo "$*" | tr ' ' '|')
# shellcheck disable=SC2046 # one target a word
cmake --build "$build" -j "$jobs" --target facula_simcuda $(printf 'test_%s ' "$@") >>"$build.log"
exec ctest --test-dir "$build" -R "^unit\.test_($names)\$" -j "$jobs" --output-on-failure
