/* What the stubs check of keywords before they read them: a value that no keyword of the type may hold is an error that names
   the keyword. */
#include "opgen.h"
#include <string.h>

bool is_list(const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    return t == T_TENSORS || t == T_INTS || t == T_FLOATS;
}

static void emit_failure(FILE *f, const char *condition, const char *error, const char *fail) {
    fprintf(f, "    if (FAC_UNLIKELY(%s)) {\n        %s;\n        return %s;\n    }\n", condition, error, fail);
}

static void emit_list_check(FILE *f, const char *op, const char *n, const char *fail) {
    emit_failure(f, xformat("fac__kw_bad_list(k_->%s.v, k_->%s.n)", n, n),
                 xformat("fac__kw_list_error(\"%s\", NULL, \"%s\", SIZE_MAX)", op, n), fail);
}

static void emit_device_check(FILE *f, const char *op, const char *n, const char *fail) {
    emit_failure(f, xformat("fac__kw_bad_device(k_->%s)", n), xformat("fac__kw_device_error(\"%s\", \"%s\")", op, n),
                 fail);
}

void emit_kw_bool_check(FILE *f, const char *op, const char *n, const char *fail) {
    emit_failure(f, xformat("(unsigned)k_->%s > 1", n), xformat("fac__kw_bool_error(\"%s\", \"%s\", k_->%s)", op, n, n),
                 fail);
}

static void emit_optional_bool_check(FILE *f, const char *op, const char *n, const char *fail) {
    emit_failure(f, xformat("k_->%s < -1 || k_->%s > 1", n, n),
                 xformat("fac__kw_bool_error(\"%s\", \"%s\", k_->%s)", op, n, n), fail);
}

static void emit_enum_check(FILE *f, const char *op, const fac_schema_arg *a, const char *last, const char *fail) {
    const char *n = a->name;
    char *type = xformat("%s", kw_type(a));
    type[strlen(type) - 1] = '\0'; /* the space */
    emit_failure(f, xformat("(unsigned)k_->%s > %s", n, last),
                 xformat("fac__kw_enum_error(\"%s\", \"%s\", \"%s\", (int)k_->%s)", op, n, type, n), fail);
}

void emit_kw_check(FILE *f, const char *op, const fac_schema_arg *a, const char *fail) {
    const etype t = type_of(&a->type);
    const char *n = a->name;
    if (is_list(a))
        emit_list_check(f, op, n, fail);
    else if (is_reduction(a))
        emit_enum_check(f, op, a, "FAC_REDUCTION_SUM", fail);
    else if (t == T_DEVICE)
        emit_device_check(f, op, n, fail);
    else if (t == T_BOOL)
        emit_kw_bool_check(f, op, n, fail);
    else if (t == T_OPT_NUM && a->type.kind == FAC_TYPE_BOOL)
        emit_optional_bool_check(f, op, n, fail);
    else if (t == T_DTYPE)
        emit_enum_check(f, op, a, "FAC_DTYPE_COUNT - 1", fail);
    else if (t == T_LAYOUT)
        emit_enum_check(f, op, a, "FAC_VENDOR_LAYOUT", fail);
    else if (t == T_FORMAT)
        emit_enum_check(f, op, a, "FAC_CHANNELS_LAST_3D", fail);
}
