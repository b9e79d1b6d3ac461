/* Makes the calls of the shared objects named on the command line, and says what became of what was written in each.
   Every operator has a kernel at the Trace key that keeps the boxed arguments and lets nothing go on; functions of the
   library's own are stopped by recorders.h, once they have read their keywords. Prints a line per call: the number of its
   object, its own, and the outcome. */
#include "dispatch/operator.h"
#include "keywords_gen.h"
#include "modules_gen.h"
#include "slip.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

fac_tensor *slip_tensor, *slip_number_tensor, *slip_index_tensor, *slip_result;
fac_generator *slip_generator;
fac_module *slip_module;
fac_optimizer *slip_optimizer;
double (*slip_factor)(void *context, size_t group, int64_t step);
void *slip_pointer;
const char *slip_path = "/none/such";
bool slip_yes = true, slip_no;
double slip_half = 0.5;
int slip_three = 3;

/* ---- what reaches the function that was called ---- */

typedef struct seen {
    size_t n;
    const char *names[32];
    fac_value values[32];
} seen;
static seen usual, now, *into;
static bool let_through; /* calls go on, to show what only a result can */

static void forget(seen *s) {
    for (size_t i = 0; i < s->n; i++) fac_value_release(&s->values[i]);
    s->n = 0;
}

static void record(const char *name, fac_value v) {
    if (!into) { /* what every call is given must be made by functions without keywords, which are not recorded */
        fprintf(stderr, "slips: a function with the keyword '%s' was called before the first call\n", name);
        exit(1);
    }
    into->names[into->n] = name;
    into->values[into->n++] = v;
}

static fac_status stop(void) { return fac_error_set(FAC_ERR_INTERRUPTED, "recorded"); }

static fac_status record_operator(const fac_call_info *c, fac_value *stack) {
    if (let_through) return fac_redispatch_below(c, FAC_KEY_TRACE, stack);
    const fac_schema *s = c->op->schema;
    for (size_t i = 0; i < s->n_args; i++) record(s->args[i].name, fac_value_copy(stack[i]));
    return stop();
}

#include "recorders.h"

static fac_status record_operators(void) {
    for (size_t i = 0; i < fac_operator_count(); i++)
        if (!fac_register_boxed(fac_operator_name(fac_operator_at(i)), "Trace", record_operator, NULL, FAC_HERE))
            return fac_error();
    (void)fac_thread_include(fac_keyset_of(FAC_KEY_TRACE));
    return FAC_OK;
}

static const fac_value *find(const seen *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->names[i], name) == 0) return &s->values[i];
    return NULL;
}

/* ---- comparing ---- */

static bool same_ints(fac_ints a, fac_ints b) {
    return a.n == b.n && (!a.n || memcmp(a.v, b.v, a.n * sizeof *a.v) == 0);
}
static bool same_floats(fac_floats a, fac_floats b) {
    return a.n == b.n && (!a.n || memcmp(a.v, b.v, a.n * sizeof *a.v) == 0);
}
static bool same_tensors(fac_tensors a, fac_tensors b) {
    return a.n == b.n && (!a.n || memcmp(a.v, b.v, a.n * sizeof *a.v) == 0);
}

static bool same_value(fac_value a, fac_value b) {
    if (a.tag != b.tag) return false;
    switch (a.tag) {
    case FAC_TAG_INTS: return same_ints(fac_value_as_ints(a), fac_value_as_ints(b));
    case FAC_TAG_FLOATS: return same_floats(fac_value_as_floats(a), fac_value_as_floats(b));
    case FAC_TAG_TENSORS: return same_tensors(fac_value_as_tensors(a), fac_value_as_tensors(b));
    case FAC_TAG_STRING: return strcmp(fac_value_as_string(a), fac_value_as_string(b)) == 0;
    case FAC_TAG_OBJECT: return fac_value_as_object(a) == fac_value_as_object(b);
    case FAC_TAG_TENSOR: return fac_value_as_tensor(a) == fac_value_as_tensor(b);
    default: return a.payload == b.payload;
    }
}

/* All arguments but `name` are what they are when no keyword is given. */
static bool others_are_usual(const char *name) {
    bool same = usual.n == now.n;
    for (size_t i = 0; same && i < now.n; i++)
        same = strcmp(now.names[i], name) == 0 || same_value(now.values[i], usual.values[i]);
    return same;
}

/* ---- outcomes ---- */

typedef enum outcome { MEANT, NAMED, CONVERTED, SILENT } outcome;
static const char *const outcome_names[] = {"meant", "named", "converted", "SILENT"};

static bool is_enumeration(const char *type) {
    return strcmp(type, "fac_dtype") == 0 || strcmp(type, "fac_layout") == 0 ||
           strcmp(type, "fac_memory_format") == 0 || strcmp(type, "fac_loss_reduction") == 0;
}

/* A value, or a list that holds one value n times, as a number. False if it is none. */
static bool number_of(fac_value v, long double *out) {
    fac_ints l = {0};
    switch (v.tag) {
    case FAC_TAG_FLOAT: *out = fac_value_as_float(v); return true;
    case FAC_TAG_INTS: l = fac_value_as_ints(v); break;
    case FAC_TAG_NONE: *out = 0; return true;
    case FAC_TAG_INT:
    case FAC_TAG_BOOL:
    case FAC_TAG_DTYPE:
    case FAC_TAG_LAYOUT:
    case FAC_TAG_FORMAT: *out = v.payload; return true;
    }
    for (size_t i = 1; i < l.n; i++)
        if (l.v[i] != l.v[0]) return false;
    if (l.n) *out = l.v[0];
    return l.n > 0;
}

/* A number, bool or enumerator was written, and `v` came. */
static outcome judge_number(const slip *s, fac_value v) {
    long double came = 0;
    const bool pointer = s->field[strlen(s->field) - 1] == '*';
    if (!number_of(v, &came)) return SILENT;
    if (v.tag == FAC_TAG_NONE && !pointer && !is_enumeration(s->field)) return SILENT;
    const bool exact = came == s->number, truth = v.tag == FAC_TAG_BOOL;
    const bool converted = exact || came == (int64_t)s->number || came == (double)s->number;
    if (exact && s->enumeration[0] && strcmp(s->enumeration, s->field) == 0) return MEANT;
    if (exact && !is_enumeration(s->field) && !pointer)
        if (s->written == W_NUMBER || (s->written == W_BOOL && truth)) return MEANT;
    return converted ? CONVERTED : SILENT;
}

static bool came_as_written(const slip *s, fac_value v) {
    long double number = 0;
    switch (s->written) {
    case W_TENSOR: return v.tag == FAC_TAG_TENSOR && fac_value_as_tensor(v) == slip_tensor;
    case W_TEXT: return v.tag == FAC_TAG_STRING && strcmp(fac_value_as_string(v), "sum") == 0;
    case W_NULL: return v.tag == FAC_TAG_NONE;
    case W_INTS: return v.tag == FAC_TAG_INTS && same_ints(fac_value_as_ints(v), SLIP_INTS);
    case W_FLOATS: return v.tag == FAC_TAG_FLOATS && same_floats(fac_value_as_floats(v), SLIP_FLOATS);
    case W_TENSORS: return v.tag == FAC_TAG_TENSORS && same_tensors(fac_value_as_tensors(v), SLIP_TENSORS);
    case W_DEVICE: return same_value(v, fac_value_device(fac_device_make(FAC_CPU, -1)));
    case W_SCALAR: return v.tag == FAC_TAG_INT && number_of(v, &number) && number == s->number;
    case W_GENERATOR: return v.tag == FAC_TAG_GENERATOR && fac_value_as_generator(v) == slip_generator;
    default: return false;
    }
}

/* Any address becomes the pointer that is wanted; it is the right one here. */
static void *pointer_for(const char *field) {
    if (strncmp(field, "fac_generator", 13) == 0) return slip_generator;
    return strncmp(field, "const char", 10) == 0 ? (void *)(uintptr_t) "sum" : (void *)slip_tensor;
}

static outcome judge(const slip *s, fac_value v) {
    switch (s->written) {
    case W_NUMBER:
    case W_BOOL:
    case W_ENUM: return judge_number(s, v);
    case W_POINTER:
        /* An address with false behind it is how C writes an empty list; the operator refuses that where it cannot be. */
        if (v.tag == FAC_TAG_INTS && fac_value_as_ints(v).n == 0) return CONVERTED;
        return v.tag != FAC_TAG_NONE && s->field[strlen(s->field) - 1] == '*' ? CONVERTED : SILENT;
    default: return came_as_written(s, v) ? MEANT : SILENT;
    }
}

static bool error_names(const slip *s) {
    fac_error_info e;
    if (!fac_error_get(&e)) return false;
    if (!s->argument[0]) return strstr(e.message, "arguments may be given by position") != NULL;
    bool named = strcmp(e.argument, s->argument) == 0;
    for (int i = 0; i < 2; i++) named = named || (s->names[i][0] && strcmp(e.argument, s->names[i]) == 0);
    return named;
}

/* requires_grad is no argument of an operator: the result shows it. */
static outcome try_result(const slip *s) {
    let_through = true;
    slip_result = NULL;
    s->call();
    let_through = false;
    if (!slip_result) return error_names(s) ? NAMED : SILENT;
    return judge(s, fac_value_bool(fac_requires_grad(slip_result)));
}

static outcome try_arguments(const slip *s) {
    forget(&now);
    into = &now;
    s->call();
    if (!now.n) return error_names(s) ? NAMED : SILENT;
    const fac_value *v = find(&now, s->argument);
    return v && others_are_usual(s->argument) ? judge(s, *v) : SILENT;
}

static void take_usual(const slip *s) {
    forget(&usual);
    into = &usual;
    s->usual();
    fac_error_clear();
}

static sigjmp_buf before_call;
static void crashed(int signal) { siglongjmp(before_call, signal); }

static outcome try(const slip *s) {
    if (sigsetjmp(before_call, 1)) return (void)fac_error_set(FAC_ERR_INTERNAL, "a crash"), SILENT;
    return strcmp(s->argument, "requires_grad") ? try_arguments(s) : try_result(s);
}

static void run(int object, const slip *slips, size_t n) {
    for (size_t i = 0; i < n; i++) {
        FAC_SCOPE(scope);
        if (i == 0 || slips[i].usual != slips[i - 1].usual) take_usual(&slips[i]);
        slip_pointer = pointer_for(slips[i].field);
        const outcome o = try(&slips[i]);
        printf("%d %zu %s\t%s\n", object, i, outcome_names[o], o == SILENT ? fac_error_message() : "");
        fac_error_clear();
    }
}

static fac_status no_step(const fac_optimizer_update *u) { return (void)u, FAC_OK; }
static const fac_option rate_alone[] = {{"lr", 0.1}, {0}};
static const fac_optimizer_class still = {.name = "Still", .options = rate_alone, .step = no_step};

int main(int argc, char **argv) {
    FAC_SCOPE(s);
    signal(SIGSEGV, crashed);
    slip_tensor = fac_ones(FAC_SHAPE(2, 3));
    slip_number_tensor = fac_full(FAC_SHAPE(), 2);
    slip_index_tensor = fac_zeros(FAC_SHAPE(1, 2), .dtype = FAC_I64);
    slip_generator = fac_default_generator();
    slip_module = fac_tanh_new();
    slip_optimizer =
        fac_optimizer_of(&still, FAC_TENSORS(fac_ones(FAC_SHAPE(2), .requires_grad = true)), FAC_OPTIONS());
    if (record_operators()) return fac_report(stderr);
    for (int i = 1; i < argc; i++) {
        void *object = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!object) return fprintf(stderr, "%s\n", dlerror()), 1;
        run(i - 1, dlsym(object, "slips"), *(const size_t *)dlsym(object, "n_slips"));
    }
    return fac_report(stderr);
}
