#!/bin/bash
# attack.sh BUILD SECONDS SEED [OPTION...]: attacks every operator on the CPU and on two simulated devices, side by side.
# BUILD is a build folder, sanitized if it is to see more than crashes; findings and logs go to BUILD/attack.
set -u
build=$(realpath "$1") seconds=$2 seed=$3
shift 3
export FACULA_TEST_DATA=$(realpath "$(dirname "$0")/../tests/data") FACULA_SIMCUDA_LIBRARY=$build/libfacula-simcuda.so
export UBSAN_OPTIONS=print_stacktrace=1
mkdir -p "$build/attack"
attack() { # attack DEVICE OPTION...
    "$build/tests/attack/attack" --device "$1" --seconds "$seconds" --seed "$seed" --out "$build/attack/$1" "${@:2}"
}
FACULA_CUDA=sim:2,mem=64M attack cuda "$@" >"$build/attack/cuda.txt" 2>&1 &
cuda=$!
attack cpu "$@" >"$build/attack/cpu.txt" 2>&1
status=$?
wait $cuda || status=1
cat "$build/attack/cpu.txt" "$build/attack/cuda.txt"
exit $status
