#!/bin/sh
# Usage: gpu-check.sh BUILD FOLDER: puts all that the CUDA tests need into FOLDER, to be carried to a machine with a GPU, and
# runs it here: on the GPU if there is one, else on the simulator. Nothing is compiled there; glibc 2.36 or newer is needed.
set -eu
build=$1
folder=$2
limit_kib=65536
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib" "$folder/tests" "$folder/bench"

cp "$root/scripts/gpu-check-run.sh" "$folder/run.sh"
cp "$build/bin/facula" "$folder/bin/"
cp -L "$build/libfacula.so" "$folder/lib/$(readlink "$build/libfacula.so")"
cp -L "$build/libfacula-internals.so" "$build/libfacula-simcuda.so" "$folder/lib/"
cp -L "$build"/libfacula-simkernels.so "$folder/lib/"
cp "$build/tests/cuda/cuda_tests" "$build/tests/cuda/libuser_kernels.so" "$folder/bin/"
if [ -f "$build/tests/cuda/user_kernels.fatbin" ]; then
    cp "$build/tests/cuda/user_kernels.fatbin" "$folder/bin/"
else
    echo "gpu-check: built without nvcc: it carries no code for a GPU and is good for the simulator only" >&2
fi
cp "$build/tests/driver_contract/driver_contract" "$folder/tests/"
[ -x "$build/bench/bench_cuda" ] && cp "$build/bench/bench_cuda" "$folder/bench/"

# Every shared library that is not the C library's own.
for program in "$folder"/bin/* "$folder"/tests/* "$folder"/bench/* "$folder"/lib/*.so*; do ldd "$program" 2>/dev/null || true; done |
    sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so|/libfacula' | while read -r library; do
    cp -L "$library" "$folder/lib/"
done
strip --strip-unneeded "$folder"/bin/* "$folder"/tests/* "$folder"/bench/* "$folder"/lib/*.so* 2>/dev/null || true
find "$folder/lib" -size +4096k ! -name 'libfacula*' -exec gzip -9 {} +
kib=$(du -sk "$folder" | cut -f1)
echo "$folder: $kib KiB"
if [ "$kib" -gt "$limit_kib" ]; then
    echo "gpu-check: more than $limit_kib KiB cannot be carried" >&2
    exit 1
fi
exec "$folder/run.sh"
