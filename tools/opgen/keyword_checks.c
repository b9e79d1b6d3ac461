/* What the stubs check of keywords before they read them: a value that no keyword of the type may hold is an error that names
   the keyword. */
#include "opgen.h"

typedef struct check {
    const char *bad, *error;
} check;

#define A_LIST \
    { "fac__kw_bad_list(k_->$v.v, k_->$v.n)", "fac__kw_list_error(\"$name\", NULL, \"$v\", SIZE_MAX)" }
#define ENUMERATION(type, last) \
    { "(unsigned)k_->$v > " last, "fac__kw_enum_error(\"$name\", \"$v\", \"" type "\", (int)k_->$v)" }
#define BOOL(bad) \
    { bad, "fac__kw_bool_error(\"$name\", \"$v\", k_->$v)" }

static const check checks[T_NONE] = {
    [T_TENSORS] = A_LIST,
    [T_INTS] = A_LIST,
    [T_FLOATS] = A_LIST,
    [T_BOOL] = BOOL("(unsigned)k_->$v > 1"),
    [T_DEVICE] = {"fac__kw_bad_device(k_->$v)", "fac__kw_device_error(\"$name\", \"$v\")"},
    [T_DTYPE] = {"(unsigned)k_->$v >= FAC_DTYPE_COUNT && !fac__dtype_size(k_->$v)",
                 "fac__kw_enum_error(\"$name\", \"$v\", \"fac_dtype\", (int)k_->$v)"},
    [T_LAYOUT] = ENUMERATION("fac_layout", "FAC_SPARSE_BSC"),
    [T_FORMAT] = ENUMERATION("fac_memory_format", "FAC_CHANNELS_LAST_3D"),
};
static const check optional_bool = BOOL("k_->$v < -1 || k_->$v > 1");
static const check reduction = ENUMERATION("fac_loss_reduction", "FAC_REDUCTION_SUM");

static void emit_check(FILE *f, const op *o, const check *c, const char *keyword) {
    const char *text =
        xformat("    if (FAC_UNLIKELY(%s)) {\n        %s;\n        return $fail;\n    }\n", c->bad, c->error);
    if (c->bad) fputs(fill_words((words){o, .v = keyword}, text), f);
}

void emit_kw_check(FILE *f, const op *o, const fac_schema_arg *a) {
    const bool is_optional_bool = a->type.kind == FAC_TYPE_BOOL && a->type.optional;
    emit_check(f, o,
               is_reduction(a)    ? &reduction
               : is_optional_bool ? &optional_bool
                                  : &checks[type_of(&a->type)],
               a->name);
}

void emit_kw_bool_check(FILE *f, const op *o, const char *keyword) { emit_check(f, o, &checks[T_BOOL], keyword); }
