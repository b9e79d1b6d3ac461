#!/bin/bash
# Usage: run.sh OPGEN : gives it small operator files whose second derivatives are sound or not, and checks what it says.
set -u
opgen=$1
export ASAN_OPTIONS=detect_leaks=0 # it lives for a moment and frees nothing
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
mkdir -p "$work/src/formulas"

entry() { # SCHEMA LINE...: an operator file's entry; how it is computed does not matter here
    printf -- '- op: %s\n  raw: {CPU: some_kernel}\n  combines: nothing\n  doc: For a test.\n' "$1"
    shift
    printf '  %s\n' "$@"
}

composite() { # SCHEMA FUNCTION
    printf -- '- op: %s\n  composite: %s\n  doc: For a test.\n' "$1" "$2"
}

# expect NAME STATUS PATTERN: runs the generator over a.yaml and the C files; without a pattern it should say nothing
expect() {
    local got pattern=${3-}
    "$opgen" -o "$work/out" "$work/a.yaml" $(find "$work/src" -name "*.[ch]" | sort) >"$work/said" 2>&1
    got=$?
    if [ $got != "$2" ] || { [ -n "$pattern" ] && ! grep -Eq -- "$pattern" "$work/said"; } ||
        { [ -z "$pattern" ] && [ -s "$work/said" ]; }; then
        echo "$1: exit status $got (expected $2), messages (expected /$pattern/):"
        cat "$work/said"
        failed=1
    fi
}

schema='(Tensor self) -> Tensor'
wall=$(entry "wall$schema" 'grad:' '  self: unsupported("nobody knows it")')
mask=$(entry "mask$schema" 'nondifferentiable: the result is a boolean')
ok=$(entry "ok$schema" 'grad:' '  self: grad')
reach=$(entry "start$schema" 'grad:' '  self: start_grad(grad)')

helper='#include "formulas/brief.h"
/* fac__s_wall in a comment, and "fac__s_wall" in a text, are no calls */
static const char *const text = "fac__s_wall(x)";
static fac_tensor *hop(fac_tensor *x) { return step(x); }
fac_tensor *start_grad(fac_tensor *grad) { return hop(grad); }'
brief() { printf 'static inline fac_tensor *step(fac_tensor *x) { return %s(x); }\n' "$1" >"$work/src/formulas/brief.h"; }
files() { # YAML C
    printf '%s\n' "$1" >"$work/a.yaml"
    printf '%s\n' "$2" >"$work/src/formulas/a.c"
}

files "$wall
$(entry "start$schema" 'grad:' '  self: wall(grad)')" ''
brief fac__s_ok
expect 'an expression' 1 "a.yaml:[0-9]+: error: start: the gradient of 'self' .*: wall, whose own .*nobody knows it"

files "$wall
$ok
$mask
$reach" "$helper"
expect 'a sound C function' 0
mkdir -p "$work/src/include/facula"
printf '\n/* Nothing. */\n' >"$work/src/include/facula/nothing.h"
expect 'a header that begins with an empty line' 0
rm -r "$work/src/include"
brief fac__s_mask
expect 'an operator whose derivative is zero' 0
for name in fac__s_wall fac__c_wall fac_wall; do
    brief $name
    expect "$name" 1 'start: .*: start_grad \(.*a.c:5\) -> hop \(.*a.c:4\) -> step \(.*brief.h:1\) -> wall,'
done
brief fac__redispatch_ok
expect 'below autograd' 1 'step .* -> fac__redispatch_ok, which passes autograd by'

brief fac__s_ok
files "$ok
$reach" 'static fac_fn const table[] = {fac__s_ok, lost};
static void lost(void) { fac__redispatch_ok(); }
fac_tensor *start_grad(fac_tensor *grad) { return table[1](grad); }'
expect 'a table of functions' 1 'start_grad .* -> table .* -> lost .* -> fac__redispatch_ok'

files "$ok
$reach" '#define CALL(name, x) \
    fac__s_##name(x)
fac_tensor *start_grad(fac_tensor *grad) { return CALL(ok, grad); }'
expect 'names pasted together' 1 'CALL .* -> ##, which hides'

files "$reach" ''
expect 'a formula that is nowhere' 1 'start_grad, which is neither an operator nor'

files "$wall
$reach
$(composite "middle$schema" middle_composite)" 'fac_tensor *start_grad(fac_tensor *grad) { return fac__s_middle(grad); }
fac_status middle_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) { return fac__c_wall(self, out); }'
expect 'through a composite' 1 'start_grad .* -> middle -> middle_composite .* -> wall,'

files "$(entry "wall$schema" 'double_backward: "unsupported, nobody knows it"')
$reach" "$helper"
brief fac__s_wall
expect 'declared' 0
grep -q 'fac__not_differentiable("wall", "nobody knows it")' "$work/out/ops_a.c" || { echo 'declared: not refused'; failed=1; }

files "$(entry 'half(Tensor self, Tensor other) -> Tensor' 'grad:' '  self: grad')
$(entry "start$schema" 'grad:' '  self: half(grad, self)')" ''
expect 'an argument without a gradient' 1 "'other' of half, which has no gradient"

files "$(entry "start$schema" 'grad:' '  self: grad' 'double_backward: "unsupported, why"')" ''
expect 'both of one tensor' 1 "leaves no tensor to 'double_backward'"
files "$(entry 'half(Tensor self, Tensor other) -> Tensor' 'grad:' '  self: grad' 'double_backward: "unsupported, why"')" ''
expect 'each of another tensor' 0
grep -q 'fac__not_differentiable("half", "why")' "$work/out/ops_a.c" || { echo 'each of another tensor: not refused'; failed=1; }
files "$(entry "start$schema" 'double_backward: "because"')" ''
expect 'no reason' 1 'should be "unsupported, reason"'
files "$(entry "start$schema" 'double_backward: "unsupported, "')" ''
expect 'a reason of no words' 1 'should be "unsupported, reason"'
files "$(entry "start$schema" 'grad:' '  self: neg(unsupported("why"))')" ''
expect 'a part of a gradient' 1 'takes the place of the whole gradient'
of_size() { # INDEX
    files "$(entry 'start(Tensor self, int dim) -> Tensor' 'grad:' "  self: start_grad(grad, size(self, $1))")" \
        'fac_tensor *start_grad(fac_tensor *grad, int64_t n) { return grad; }'
}
of_size dim
expect 'a size by an argument' 0
grep -q 'node_->v_dim = dim;' "$work/out/ops_a.c" || { echo 'the number of the dimension is not saved'; failed=1; }
of_size None
expect 'a size of no dimension' 1 'the number of a dimension is needed here'

unread() { files "$(entry "start$schema" 'grad:' '  self: grad' 'unread:' "  $1")" ''; }
unread '"self.sizes, self.device": nobody needs them'
expect 'what is unread' 0
unread 'self.sizes: ""'
expect 'unread without a reason' 1 "'unread' of 'self.sizes' should say why"
unread '"self.sizes, self.strides": nobody needs them'
expect 'unread of something else' 1 "'unread' names 'self.strides'"
unread 'other: nobody needs it'
expect 'unread of an argument that is not there' 1 "'unread' names 'other.'"

# the errors of operators that refer to each other
described() { printf '%s\n  errors: %s\n' "$(entry "$1$schema" 'nondifferentiable: the result is a boolean')" "$2"; }
files "$(described one 'as two; DTYPE')
$(described two 'SHAPE; as three')
$(described three 'INDEX if it is none')" ''
expect 'texts of other operators' 0
grep -q 'errors: SHAPE; INDEX if it is none; DTYPE' "$work"/out/include/facula/ops_decl.h || {
    echo 'the text of another operator does not stand in its place'
    failed=1
}
files "$(described one 'as the other')" ''
expect 'a text of no operator' 1 "errors: 'as the other' names no operator"
files "$(described one 'as two')
$(described two 'as one')" ''
expect 'texts in a circle' 1 'refers to itself'
files "$(described one 'as mask')
$mask" ''
expect 'a text that is not there' 1 "'as mask' has no text for it"

# facts that an entry leaves open
fact() { # SCHEMA LINE...
    printf -- '- op: %s\n  raw: {CPU: some_kernel}\n  nondifferentiable: the result is a boolean\n  doc: For a test.\n' "$1"
    shift
    printf '  %s\n' "$@"
}
files "$(fact "one$schema")" ''
expect 'no word on how elements meet' 1 "one: 'combines' should be nothing, exactly or rounded"
files "$(fact "one$schema" 'combines: somehow')" ''
expect 'another word for it' 1 "a.yaml:5: error: combines: 'somehow' is none of nothing, exactly, rounded"
files "- combines: rounded
$(fact "one$schema")" ''
expect 'a word for the whole file' 0
grep -q 'combines = FAC_COMBINES_ROUNDED' "$work/out/ops_table.c" || { echo 'combines is not in the table'; failed=1; }
files "- combines: rounded
- combines: nothing
$(fact "one$schema")" ''
expect 'two words for the whole file' 1 "a.yaml:2: error: 'combines' of the whole file is given twice"
files "$(fact 'one(Tensor self, Tensor other) -> Tensor' 'combines: nothing' 'batch: trailing 2 1')" ''
expect 'a rule for batches' 0
grep -q 'batch = FAC_BATCH_TRAILING, .batch_ranks = 18,' "$work/out/ops_table.c" || { echo 'batch is not in the table'; failed=1; }
files "$(fact "one$schema" 'combines: nothing')" ''
expect 'no rule for batches' 0
grep -q 'batch = FAC_BATCH' "$work/out/ops_table.c" && { echo 'a rule for batches comes from nowhere'; failed=1; }
files "$(fact "one$schema" 'combines: nothing' 'batch: somehow')" ''
expect 'no kind of rule for batches' 1 "'somehow' is no kind of 'batch'"
files "$(fact "one$schema" 'combines: nothing' 'batch: dim other')" ''
expect 'a rule for batches that names nothing' 1 "'batch' names 'other', which is neither an argument nor an operator"
files "$(composite "one$schema" some_function)
  batch: like" ''
expect 'a rule for batches of a composite' 1 "one is composite: its parts have their own 'batch'"
files "$(fact "one$schema" 'combines: nothing' 'autocast: lower')" ''
expect 'a cast on all devices' 0
grep -q 'autocast = FAC_CASTS_LOWER << 0 | FAC_CASTS_LOWER << 4,' "$work/out/ops_table.c" || { echo 'autocast is not in the table'; failed=1; }
files "$(fact "one$schema" 'combines: nothing' 'autocast: {CPU: f32, CUDA: refused}')" ''
expect 'a cast on each device' 0
grep -q 'autocast = FAC_CASTS_F32 << 0 | FAC_CASTS_REFUSED << 4,' "$work/out/ops_table.c" || { echo 'autocast is not in the table'; failed=1; }
files "$(fact "one$schema" 'combines: nothing' 'autocast: upper')" ''
expect 'no kind of cast' 1 "autocast: 'upper' is none of lower, f32, f32_dtype, widest, refused, none"
files "$(fact "one$schema" 'combines: nothing' 'autocast: {Meta: lower}')" ''
expect 'a cast on another device' 1 "autocast: 'Meta' is none of CPU, CUDA"
files "$(fact "one$schema" 'combines: nothing' 'autocast: f32_dtype')" ''
expect 'a cast by an argument that is not there' 1 "one: autocast 'f32_dtype' is for operators with an argument dtype"
files "$(fact 'one_(Tensor(a!) self) -> Tensor(a!)' 'combines: nothing' 'functional: fills' 'autocast: lower')" ''
expect 'a cast of what is written' 1 "one_: autocast is for operators that write none of their arguments"
files "$(fact 'one(Tensor self, Generator? g) -> Tensor' 'combines: nothing')" ''
expect 'a generator of which nothing is said' 1 "one takes a generator: 'random' should say"
files "$(fact 'one_(Tensor(a!) self) -> Tensor(a!)' 'combines: nothing')" ''
expect 'a writer without a twin' 1 "one_ writes its arguments: 'functional' should name"
files "$(fact 'one_(Tensor(a!) self) -> Tensor(a!)' 'combines: nothing' 'functional: two')" ''
expect 'a twin that is not there' 1 "one_ writes its arguments: 'functional' should name"
files "$(fact 'one_(Tensor(a!) self) -> Tensor(a!)' 'combines: nothing' 'functional: "none, "')" ''
expect 'no twin, without a reason' 1 "one_ writes its arguments: 'functional' should name"
files "$(fact 'one_(Tensor(a!) self) -> Tensor(a!)' 'combines: nothing')
$(fact "one$schema" 'combines: nothing')" ''
expect 'a twin by name' 0
grep -q 'functional = &fac_op_one,' "$work/out/ops_table.c" || { echo 'the twin is not in the table'; failed=1; }
files "$(fact "one$schema" 'combines: nothing' 'updates: [self]')" ''
expect 'a writer beyond its schema without a twin' 1 "one writes its arguments: 'functional' should name"
files "$(fact "one$schema" 'combines: nothing' 'updates: [self]' 'functional: "none, it moves self"')" ''
expect 'a writer beyond its schema' 0
if grep -q 'functional = &fac_op_one,' "$work/out/ops_table.c"; then echo 'a writer is its own twin'; failed=1; fi
files "$(composite 'one_(Tensor(a!) self) -> Tensor(a!)' f)" ''
expect 'a composite writer without a twin' 1 "one_ writes its arguments: 'functional' should name"
lists='one_(Tensor(a!)[] self, Tensor other) -> ()'
files "$(fact "$lists" 'combines: nothing' 'functional: made' 'internal: true')" ''
expect 'a twin that is made' 0
grep -qF '"one(Tensor[] self, Tensor other) -> (Tensor[] self_out)"' "$work/out/ops_test.json" ||
    { echo 'the twin that is made is not there'; failed=1; }
files "$(fact 'one_(Tensor(a!) self) -> Tensor(a!)' 'combines: nothing' 'functional: made')" ''
expect 'a twin made of what has results' 1 "'functional: made' needs a form in place without results"
files "$(composite 'one(Tensor self) -> (Tensor a, Tensor[] b)' some_kernel)" ''
expect 'a list among results of a public operator' 1 "lists among several results go with 'internal'"
files "$(fact "one$schema" 'combines: nothing' 'updates: [slef]' 'functional: "none, it moves self"')" ''
expect 'an update of no argument' 1 "'updates' names 'slef', which is no argument"
files "$(fact "one$schema" 'combines: nothing' 'shares: [slef]')" ''
expect 'a result that shares memory with no argument' 1 "'shares' names 'slef', which is no argument"
files "$(fact "one$schema" 'combines: nothing' 'forward: self')" ''
expect 'a tangent without a gradient' 1 "one: 'forward' says how a tangent passes where there is no gradient"
files "$(entry "one$schema" 'grad: {self: grad}' 'forward: slef')" ''
expect 'a tangent of no argument' 1 "one: 'forward' names 'slef', which has no gradient"
files "$(entry 'one(Tensor self, Tensor a, Tensor b) -> Tensor' 'grad: {self: grad, a: grad, b: grad}' 'forward: self + a * b')" ''
expect 'a sum of products' 0
grep -q 'forward = "0+1\*2"' "$work/out/ops_table.c" || { echo 'the products are not in the table'; failed=1; }
files "$(fact "one$schema" 'combines: nothing' 'functional: fills')" ''
expect 'a reader that fills' 1 'one writes none of its arguments'
files "$(fact "one$schema" 'combines: nothing' 'random: 1')" ''
expect 'numbers drawn from nothing' 1 "'random' needs an argument of type Generator, or the tag"
files "$(fact "one$schema" 'combines: nothing' 'random: 1' 'tags: [nondeterministic_seeded]')" ''
expect 'numbers drawn from the default generator' 0

# Operators over lists.
lists() { # SCHEMA PART: after the part, which is `one` or `two`
    printf -- '- op: %s\n  foreach: %s\n' "$1" "$2"
}
one=$(fact "one$schema" 'combines: nothing')
two=$(fact 'two(Tensor self, Tensor other) -> Tensor' 'combines: nothing')
files "$one
$(lists '_each_one(Tensor[] self) -> Tensor[]' one)" ''
expect 'an operator over a list' 0
grep -q 'fac__c_one(self.v\[i_\], &res_->v\[i_\])' "$work"/out/ops_a.c || { echo 'no entry is given to the part'; failed=1; }
files "$one
$(lists '_each_one(Tensor[] self) -> Tensor[]' three)" ''
expect 'an operator over lists without a part' 1 "foreach: there is no operator 'three'"
files "$two
$(lists '_each_two(Tensor[] self) -> Tensor[]' two)" ''
expect 'an argument of a part that nothing stands for' 1 "nothing stands for 'other' of aten::two"
files "$two
$(lists '_each_two(Tensor self, Tensor other) -> Tensor[]' two)" ''
expect 'an operator over lists without one' 1 "'foreach' needs a list of tensors"
files "$(fact 'many(Tensor[] self) -> Tensor[]' 'combines: nothing' 'variants: [function, inplace]')" ''
expect 'a list in place without a part' 1 "a list can have an in-place form by 'foreach' alone"

# what would be lost, or would be found out by the compiler at best
files "$ok
  doc: Again." ''
expect 'a key twice' 1 "a.yaml:7: error: 'doc' is given twice; the first is in line 4"
files "$(entry "ok$schema" 'grad: {self: grad, self: neg(grad)}')" ''
expect 'a key of a key twice' 1 "a.yaml:5: error: 'self' is given twice"
files "$(fact "one$schema" 'combines: nothing' | sed 's/CPU/CPUU/')" ''
expect 'a key of no backend' 1 "a.yaml:2: error: raw: 'CPUU' is none of CPU, CUDA, Meta"
for wrong in 'view: mutli' 'view: ""' 'view: default,' 'device_check: NoChek' 'variants: [function, in_place]' 'variants: ["function, out"]' \
    'tags: [cores]' 'kernels: {cpu: f}' 'raw: {Cpu: f}'; do
    files "$(composite "one$schema" f)
  $wrong" ''
    expect "$wrong" 1 "a.yaml:4: error: ${wrong%%:*}: '.*' is none of [A-Za-z]"
done
files "$(composite "one$schema" f)
  view: default" ''
expect 'a composite view' 1 "'view' needs 'explicit'"
files "$(composite "one$schema" f)
  device_check: NoCheck" ''
expect 'a check that nobody makes' 1 "'device_check' needs 'kernels'"
files "$(composite "one$schema" f)
  positional:" ''
expect 'a count of nothing' 1 "a.yaml:4: error: 'positional' should be a count"
files "$(entry "one$schema" 'nondifferentiable: ""')" ''
expect 'not differentiable without a reason' 1 "exactly one of 'grad'"
files "$(composite "one$schema" f)
  out_overload: a b" ''
expect 'an overload of two words' 1 "out_overload: 'a b' is no name in C"
files "- combines: rounded
  raw: {CPU: some_kernel}
  doc: For a test." ''
expect 'an entry that lost its name' 1 "a.yaml:1: error: an entry should have one of 'op:', 'fn:' and 'module:'"
module() { # SCHEMA LINE...: the description of a module
    printf -- '- module: Some\n  new: %s\n  section: some\n  doc: For a test.\n' "$1"
    shift
    printf '  %s\n' "$@"
}
files "$(module 'some(int[2] a, str b="x", *, Tensor? c=None)' 'choices: {b: x y}' 'zero_means: {a: a}' 'forward: fac_relu(x)')" ''
expect 'a module' 0
files "$(module 'some(int a)')" ''
expect 'a module that computes nothing' 1 "a.yaml:1: error: module Some has no 'forward' or 'forward_all'"
files "$(module 'some(int a)' 'forward: x' 'outputs: y, z')" ''
expect 'results without what gives them' 1 "a.yaml:1: error: module Some: 'forward_all' and 'outputs' go together"
files "$(module 'some(int a' 'forward: x')" ''
expect 'a constructor that is no schema' 1 "a.yaml:1: error:"
files "$(module 'some(Tensor a)' 'forward: x')" ''
expect 'a tensor that must be given' 1 "a.yaml:1: error: 'a': a module takes no such argument that is required"
files "$(module 'some(Generator? a=None)' 'forward: x')" ''
expect 'an argument that no module keeps' 1 "a.yaml:1: error: 'a': a module takes no such argument"
files "$(module 'some(str a="x")' 'forward: x')" ''
expect 'a text without choices' 1 "a.yaml:1: error: 'a' has no choices"
files "$(module 'some(int a)' 'choices: {a: x}' 'forward: x')" ''
expect 'choices of a number' 1 "a.yaml:[0-9]+: error: choices: 'a' is no argument of type str"
files "$(module 'some(int[2] a=0)' 'zero_means: {a: b}' 'forward: x')" ''
expect 'the value of nothing' 1 "a.yaml:1: error: zero_means: 'b' is no argument"
files "$ok
---
$ok" ''
expect 'a second document' 1 "a.yaml:[0-9]+: error: there is more after the end of the list"
for name in 'k$v' 'a b' '' 7up 'f()'; do
    files "$(fact "one$schema" 'combines: nothing' | sed "s/some_kernel/'$name'/")" ''
    expect "a kernel '$name'" 1 "a.yaml:2: error: CPU: '.*' is no name in C"
    files "$(composite "one$schema" "'$name'")" ''
    expect "a composite '$name'" 1 "a.yaml:1: error: composite: '.*' is no name in C"
done
for key in c macro; do
    files "$(fact "one$schema" 'combines: nothing' "$key: 'k\$v'")" ''
    expect "$key" 1 "a.yaml:1: error: $key: 'k.v' is no name in C"
done

# loops
mkdir -p "$work/src/ops/scalar"
pointwise() { # LINE...
    printf -- '- op: one(Tensor self, Scalar by=1) -> Tensor\n  meta: some\n  nondifferentiable: it is a step\n  doc: For a test.\n'
    printf '  %s\n' "$@"
}
formula() { printf 'FAC_SCALAR_FN %s { return x; }\n' "$1" >"$work/src/ops/scalar/real.h"; }
formula 'FAC_T FAC_FN(one)(FAC_T x, FAC_NUMBER by)'
files "$(pointwise 'loop: one' 'numbers: [by]')" ''
expect 'a loop' 0
grep -q 'X(one, VALUE, 1, 1)' "$work/out/loops_gen.h" || { echo 'the loop is not listed'; failed=1; }
grep -q 'fac__pointwise(&s_, FAC_LOOP_one, 0, &args_)' "$work/out/ops_a.c" || { echo 'the loop is not run'; failed=1; }
files "$(pointwise 'loop: two')" ''
expect 'a loop without a formula' 1 "no file of src/ops/scalar/ has a formula 'two'"
files "$(pointwise 'loop: one')" ''
expect 'a number too few' 1 "'one' takes 1 numbers, 'numbers' has 0"
files "$(pointwise "loop: 'by > 1 ? one'" 'numbers: [by]')" ''
expect 'half a choice' 1 "'loop' has a \? without a :"
files "$(pointwise 'loop: one' 'kernel: two' 'numbers: [by]')" ''
expect 'two ways' 1 'exactly one of loop, kernel and kernels'

# formulas that no back end has a loop for
misformed() { # NAME RESULT PARAMETERS
    formula "$2 FAC_FN(one)($3)"
    expect "$1" 1 "real.h:1: error: no loop runs a formula like 'one', which returns $2 and takes \\(${3//\*/.}\\)"
}
misformed 'a formula of something else' FAC_T 'double x'
misformed 'a result of something else' double 'FAC_T x'
misformed 'a formula of nothing' FAC_T ''
misformed 'a formula of a number alone' FAC_T 'FAC_NUMBER by'
misformed 'five inputs' FAC_T 'FAC_T a, FAC_T b, FAC_T c, FAC_T d, FAC_T e'
misformed 'four numbers' FAC_T 'FAC_T x, FAC_NUMBER a, FAC_NUMBER b, FAC_NUMBER c, FAC_NUMBER d'
misformed 'a number before an input' FAC_T 'FAC_NUMBER by, FAC_T x'
misformed 'a truth value with a number' bool 'FAC_T x, FAC_NUMBER by'
misformed 'a copy of one of two' FAC_SAME 'FAC_T a, FAC_T b'
misformed 'a selection of one' FAC_T 'bool c, FAC_T x'
misformed 'a selection with a number' FAC_T 'bool c, FAC_T x, FAC_NUMBER by'
misformed 'a selection of truth values' bool 'bool c, FAC_T a, FAC_T b'
misformed 'a truth value behind' FAC_T 'FAC_T a, bool c, FAC_T b'
misformed 'a quotient of three' FAC_T 'FAC_T a, FAC_DIVISOR b, FAC_T c'
misformed 'a divisor in front' FAC_T 'FAC_DIVISOR a, FAC_T b'
misformed 'a quotient with a number' FAC_T 'FAC_T a, FAC_DIVISOR b, FAC_NUMBER by'
misformed 'one result aside' void 'FAC_T x, FAC_T *a'
misformed 'three results' void 'FAC_T x, FAC_T *a, FAC_T *b, FAC_T *c'
misformed 'two results with a number' void 'FAC_T x, FAC_NUMBER by, FAC_T *a, FAC_T *b'
misformed 'two results and a third' FAC_T 'FAC_T x, FAC_T *a, FAC_T *b'
formula 'FAC_T FAC_FN(one)(bool c, FAC_T a, FAC_T b)'
expect 'a selection elsewhere' 1 "'one': formulas that select, and no others, are in select.h"
well_formed() { # NAME RESULT PARAMETERS LISTED
    formula "$2 FAC_FN(one)($3)"
    files "$(entry "ok$schema" 'nondifferentiable: it is a step')" ''
    expect "$1" 0
    grep -q "X(one, $4)" "$work/out/loops_gen.h" || { echo "$1: not listed"; failed=1; }
}
well_formed 'a truth value of three' bool 'FAC_T a, FAC_T b, FAC_T c' 'TRUTH, 3, 0'
well_formed 'a part with a number' FAC_R 'FAC_T x, FAC_NUMBER by' 'PART, 1, 1'
well_formed 'a copy' FAC_SAME 'FAC_T x' 'SAME, 1, 0'
well_formed 'two results' void 'FAC_T a, FAC_T b, FAC_T *x, FAC_T *y' 'PAIR, 2, 0'
well_formed 'a quotient' FAC_T 'FAC_T a, FAC_DIVISOR b' 'QUOTIENT, 2, 0'
files "$(pointwise 'loop: one')" ''
printf 'FAC_SCALAR_FN FAC_T FAC_FN(one)(FAC_T x, FAC_T y) { return x; }\n' >"$work/src/ops/scalar/integer.h"
formula 'FAC_T FAC_FN(one)(FAC_T x)'
expect 'formulas of one name and two shapes' 1 "'one' takes 1 inputs and 0 numbers, that of integer.h 2 and 0"

# loops that do not fit their entry, or each other
several() { # FILE FORMULA...: formulas of src/ops/scalar/FILE.h
    printf 'FAC_SCALAR_FN %s { return x; }\n' "${@:2}" >"$work/src/ops/scalar/$1.h"
}
several real 'FAC_T FAC_FN(one)(FAC_T x)' 'FAC_T FAC_FN(two)(FAC_T x, FAC_T y)' 'FAC_T FAC_FN(three)(FAC_T x, FAC_T y, FAC_T z)' \
    'FAC_T FAC_FN(by)(FAC_T x, FAC_NUMBER by)' 'FAC_T FAC_FN(over)(FAC_T x, FAC_T y)' 'FAC_T FAC_FN(part)(FAC_T x)' \
    'void FAC_FN(pair)(FAC_T x, FAC_T *a, FAC_T *b)'
several integer 'FAC_T FAC_FN(two)(FAC_T x, FAC_T y)' 'FAC_T FAC_FN(whole)(FAC_T x, FAC_DIVISOR y)'
several complex 'FAC_R FAC_FN(part)(FAC_T x)' 'FAC_T FAC_FN(one)(FAC_T x)'
several truth 'bool FAC_FN(lt)(FAC_T x, FAC_T y)'
loops() { # NAME STATUS PATTERN ARGUMENTS LINE...
    local lines
    lines=$(printf '  %s\n' "${@:5}")
    files "- op: one($4) -> Tensor
  meta: some
  nondifferentiable: it is a step
  doc: For a test.
$lines" ''
    expect "$1" "$2" "$3"
}
loops 'inputs that are not there' 1 "a.yaml:1: error: one.*: 'three' reads 3 inputs and writes 1; there are 1, " 'Tensor self' 'loop: three'
loops 'an input that no loop reads' 1 "'one' reads 1 inputs and writes 1; there are 2, " 'Tensor self, Tensor other' 'loop: one'
loops 'a Scalar as an input' 0 '' 'Tensor self, Scalar other' 'loop: two'
loops 'a Scalar as a number' 0 '' 'Tensor self, Scalar by' 'loop: by' 'numbers: [2 * by]'
loops 'a Scalar as both' 1 "'two' takes 0 numbers, 'numbers' has 1" 'Tensor self, Scalar by' 'loop: two' 'numbers: [by]'
loops 'inputs that may be left out' 0 '' 'Tensor self, Tensor? a=None, Scalar? b=None' "loop: 'a && b.set ? three : a ? two : one'"
loops 'more inputs than may be given' 1 "'three' reads 3 inputs .* there are 2, .*, of which 1 may" 'Tensor self, Tensor? a=None' "loop: 'a ? three : one'"
loops 'a number of the first of two' 1 "'by' takes 1 numbers, 'numbers' has 0" 'Tensor self' "loop: 'c ? by : one'"
loops 'a number of the last of two' 1 "'one' takes 0 numbers, 'numbers' has 1" 'Tensor self, Scalar by' "loop: 'c ? one : by'" 'numbers: [by]'
loops 'inputs of the first of two' 1 "'two' reads 2 inputs" 'Tensor self' "loop: 'c ? two : one'"
loops 'two results' 1 "'pair' reads 1 inputs and writes 2; .* and 1 results" 'Tensor self' 'loop: pair'
unlike() { loops "$1 or $2" 1 "'$1' writes a [A-Z]*, '$2' a [A-Z]*\$" "$3" "loop: 'c ? $1 : $2'"; }
unlike lt two 'Tensor self, Tensor other'
unlike two lt 'Tensor self, Tensor other'
unlike whole two 'Tensor self, Tensor other'
unlike two whole 'Tensor self, Tensor other'
unlike part one 'Tensor self'
unlike one part 'Tensor self'
loops 'a quotient of integers, or one of what integers are not' 0 '' 'Tensor self, Tensor other' "loop: 'c ? over : whole'"
grep -q 'fac__divide(&s_, c ? FAC_LOOP_over : FAC_LOOP_whole)' "$work/out/ops_a.c" || { echo 'the quotient is not divided'; failed=1; }
several integer 'bool FAC_FN(one)(FAC_T x)'
loops 'formulas of one name and two results' 1 "'one' writes a [A-Z]*, that of [a-z]*.h a [A-Z]*\$" 'Tensor self' 'loop: one'
rm "$work"/src/ops/scalar/*

# other names
named() { # NAME STATUS PATTERN SCHEMA LINE...: an entry beside one(Tensor self) and its form in place
    local lines
    lines=$(printf '  %s\n' "${@:5}")
    files "$(composite "one$schema" f)
  variants: [function, inplace]
- op: $4
$lines" ''
    expect "$1" "$2" "$3"
}
named 'another name' 0 '' "uno$schema" 'alias: one' 'variants: [function, inplace]'
grep -q 'return fac__c_one_(self, res_);' "$work/out/ops_a.c" || { echo 'the form in place of another name does not call that of the operator'; failed=1; }
grep -q '"Another name of one."' "$work/out/ops_table.c" || { echo 'another name has no description'; failed=1; }
named 'another name of nothing' 1 "alias: there is no operator 'two'" "uno$schema" 'alias: two'
named 'a form that the operator has not' 1 "alias: 'one' has no such form as uno.out" "uno$schema" 'alias: one' 'variants: [function, out]'
named 'another name with other arguments' 1 'takes or gives other types than' 'uno(Tensor self, int dim) -> Tensor' 'alias: one'
files "$(composite "one$schema" f)
$(printf -- '- op: %s\n  alias: %s\n' "uno$schema" one "eins$schema" uno)" ''
expect 'another name of another name' 1 "'uno' is another name itself, of one"
named 'another name that is computed' 1 "'alias' says how it is computed" "uno$schema" 'alias: one' 'composite: f'

# what the guides say to type, of an operator that is there
root=$(cd "$(dirname "$0")/../.." && pwd)
grep -oh 'opgen explain [a-z]* src/[^`]*' "$root/CONTRIBUTING.md" "$root"/docs/*.md | sed 's/opgen explain gaussian/opgen explain relu/' >"$work/typed"
[ -s "$work/typed" ] || { echo 'no guide tells how to explain an operator'; failed=1; }
while read -r _ line; do
    (cd "$root" && eval "\"$opgen\" $line") >"$work/said" 2>&1 && grep -q '_Pointwise(' "$work/said" &&
        grep -q '^==== aten::[a-z]*_ ' "$work/said" || {
        echo "opgen $line:"
        tail -n 2 "$work/said"
        failed=1
    }
done <"$work/typed"

exit $failed
