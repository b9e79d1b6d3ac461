#!/bin/bash
# Usage: run.sh FACULA : runs the command as a user would, and checks output and exit status.
set -u
facula=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# expect STATUS PATTERN ARGUMENT...: the exit status, and a pattern that the output (both streams) matches
expect() {
    local status=$1 pattern=$2 got
    shift 2
    "$facula" "$@" >"$work/out" 2>&1
    got=$?
    if [ $got != "$status" ] || ! grep -Eq -- "$pattern" "$work/out"; then
        echo "facula $*: exit status $got (expected $status), output (expected /$pattern/):"
        cat "$work/out"
        failed=1
    fi
}

# made FILE HEADER: a safetensors file with that header and no data
made() {
    printf "\\x$(printf %02x ${#2})\0\0\0\0\0\0\0%s" "$2" >"$1"
}

expect 2 'usage: facula'
expect 0 'usage: facula' --help
expect 0 '^facula [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 2 "there is no command 'nonsense'" nonsense
for command in info ops dispatch inspect; do
    expect 0 "usage: facula $command" $command --help
    expect 0 "  $command " --help
    expect 2 "'--nonsense' is not understood" $command --nonsense
done

expect 0 '^instructions +(default|avx2|avx512)$' info
expect 0 '^operators +[1-9][0-9]*$' info
FACULA_ISA=default expect 0 '^instructions +default$' info
FACULA_CUDA=sim:3 expect 0 '^cuda +3 devices, the simulated driver of CUDA [0-9]+\.[0-9]+$' info
FACULA_CUDA=sim:3 expect 0 '^cuda:2 +Simulated GPU 2, 16\.0 GiB, compute capability 9\.0, 2 multiprocessors, 0000:' info
FACULA_CUDA=sim:3 CUDA_VISIBLE_DEVICES=1 expect 0 '^cuda +1 device,' info
FACULA_CUDA=off expect 0 '^cuda +off: CUDA is turned off by FACULA_CUDA=off$' info
FACULA_CUDA=nonsense expect 0 '^cuda +off: FACULA_CUDA=nonsense is not understood' info

expect 0 '^add\.Tensor\(Tensor self, Tensor other, \*, Scalar alpha=1\) -> Tensor$' ops
expect 0 '^mm\(' ops --grep '^mm\('
expect 0 '^mm\(' ops --grep='^MM\('
expect 0 '^    .*\.$' ops --docs --grep '^mm\('
expect 0 'writes=- .*combines=rounded functional=aten::mm batch=matmul$' ops --facts --grep '^mm\('
expect 0 'writes=0 .*functional=aten::silu batch=pointwise$' ops --facts '^silu_\('
expect 0 'gradient: none: an index does not change smoothly$' ops --facts '^argmax\('
expect 0 '^  mul.Tensor +CPU Meta CUDA +gradient: self, other$' ops --coverage '^mul.Tensor$'
expect 0 '^1 operator: 1 there, 0 missing; kernels: CPU 1, Meta 1, CUDA 1; gradients: 1, ' ops --coverage '^mul.Tensor$'
expect 2 'coverage goes with --grep alone' ops --coverage --docs
expect 0 '^mm\(' ops '^MM\('
expect 2 "'mul' is not understood" ops add mul
expect 1 'no operator matches' ops --grep 'no such operator'
expect 2 'not a regular expression' ops --grep '('
expect 2 'needs a value' ops --grep

expect 0 'CPU' dispatch add.Tensor
expect 0 'CPU' dispatch aten::add.Tensor
expect 0 'add\.Tensor' dispatch --grid
expect 1 'add' dispatch add.Tensr
expect 2 'either one operator or --grid' dispatch
expect 2 'either one operator or --grid' dispatch add.Tensor --grid

made "$work/empty.safetensors" '{"a":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},"__metadata__":{"k":"v"}}'
expect 0 '^a +F32 +\[0, 3\] +0$' inspect "$work/empty.safetensors"
expect 0 '^k: v$' inspect "$work/empty.safetensors"
expect 0 '^1 tensor, 0 B$' inspect "$work/empty.safetensors"
expect 0 '^no checksum$' inspect --verify "$work/empty.safetensors"
made "$work/control.safetensors" '{"\u001b[2J":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
expect 0 '^\\x1b\[2J +U8' inspect "$work/control.safetensors"
made "$work/bad.safetensors" '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
expect 1 'is not a valid safetensors file: .*not inside' inspect "$work/bad.safetensors"
expect 1 'cannot open' inspect "$work/none"
expect 1 "cannot open '.*/checkpoint.safetensors'" inspect "$work"
expect 2 '--verify takes no value' inspect --verify=yes "$work/empty.safetensors"
expect 2 '--grid takes no value' dispatch --grid=all
expect 2 '--docs takes no value' ops --docs=all
expect 2 'which file' inspect
expect 2 'is not understood' inspect "$work/none" "$work/none"

"$facula" ops >/dev/full 2>"$work/out"
if [ $? != 1 ] || ! grep -q 'cannot write the output' "$work/out"; then
    echo "a full disk behind stdout goes unnoticed"
    failed=1
fi
exit $failed
