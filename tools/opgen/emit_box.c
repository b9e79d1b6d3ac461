/* What operators of one signature share: calls of the kernel that serves a set of keys, and adapters: boxed entry over a typed kernel,
   typed entry over a boxed kernel, and the way to a user's typed kernel. In them the arguments are a0, a1, ... */
#include "opgen.h"

/* ---- calls ---- */

static char *typed_params(const op *o) {
    return fill(o, xformat("const fac_call_info *c%s$,out", each(o, NULL, "", ", $type$nth")));
}

static char *call_params(const op *o) {
    return fill(o, xformat("const fac_operator *op, fac_keyset keys%s$,out", each(o, NULL, "", ", $type$nth")));
}

static const char *call_args(const op *o) {
    return xformat("%s%s", each(o, NULL, "", ", $nth"), o->s->n_rets ? ", res_" : "");
}

void emit_redispatch(FILE *f, const op *o) {
    if (o == example_of(o->m, o->sig))
        emit(f, o, "fac_status fac__dispatch_$sig(%s);\nfac_status fac__redispatch_$sig(%s);\n", call_params(o),
             call_params(o));
    emit(f, o,
         "static inline fac_status fac__redispatch_$id(fac_keyset keys_$,params) {\n"
         "    return fac__redispatch_$sig(&fac_op_$id, keys_$,args);\n}\n");
}

/* An observed call is a function of its own, so that the other needs no frame; the kernel is picked in one place for both. */
void emit_shared_calls(FILE *f, const char *signature, const op *example) {
    fprintf(f, "\n/* %s */\n", signature);
    emit(f, example,
         "FAC_NOINLINE fac_status fac__redispatch_$sig(%s) {\n"
         "    const fac_kernel *k_ = fac__pick(op, &keys);\n"
         "    const fac_call_info c = {op, keys, k_, k_->context};\n"
         "    return ((fac_status (*)(%s))k_->typed)(&c%s);\n}\n",
         call_params(example), typed_params(example), call_args(example));
    emit(f, example,
         "static FAC_COLD fac_status observed_$sig(%s) {\n"
         "    fac_status e = fac__observe(op, keys, true);\n"
         "    if (!e) e = fac__redispatch_$sig(op, keys%s);\n"
         "    (void)fac__observe(op, keys, false);\n    return e;\n}\n",
         call_params(example), call_args(example));
    emit(f, example,
         "fac_status fac__dispatch_$sig(%s) {\n"
         "    if (FAC_UNLIKELY(fac__is_observed())) return observed_$sig(op, keys%s);\n"
         "    return fac__redispatch_$sig(op, keys%s);\n}\n",
         call_params(example), call_args(example), call_args(example));
}

/* ---- adapters ---- */

static const char *result_kind(const op *o) { return spelt[type_of(&o->s->rets[0].type)].kind; }

static void emit_unbox(FILE *f, const op *o) {
    const char *call =
        xformat("((fac_status (*)(%s))c->kernel->typed)(c%s", typed_params(o), each(o, NULL, "", ", $nth"));
    emit(f, o, "static fac_status unbox_$sig(const fac_call_info *c, fac_value *st) {\n");
    if (o->s->n_args) fputs("    const fac_schema_arg *const as = c->op->schema->args;\n", f);
    fputs(each(o, NULL, "", "    $type$nth;\n    FAC_TRY(fac__unbox_$kind(&st[$i], ${asked}as[$i].name, &$nth));\n"),
          f);
    if (o->s->n_rets == 0) {
        fprintf(f, "    return %s);\n}\n", call);
        return;
    }
    if (returns_lists(o)) {
        emit(f, o, "    fac_tensor_list out[$rets] = {{0}};\n    FAC_TRY(%s, out));\n", call);
        fputs("    return fac__box_lists(c, out, st);\n}\n", f);
        return;
    }
    if (returns_list(o))
        fprintf(f, "    fac_tensor_list out = {0};\n    FAC_TRY(%s, &out));\n    st[0] = fac__box_owned_list(&out);\n",
                call);
    else if (returns_tensors(o))
        emit(f, o, "    fac_tensor *out[$rets] = {NULL};\n    FAC_TRY(%s, out));\n%s", call,
             each_result(o, "", "    st[$i] = fac__value_owned_tensor(out[$i]);\n"));
    else
        emit(f, o, "    ${result}out = {0};\n    FAC_TRY(%s, &out));\n    st[0] = fac_value_%s(out);\n", call,
             result_kind(o));
    fputs("    return fac_error();\n}\n", f);
}

char *boxed(const fac_schema_type *t, const char *name) {
    const etype e = type_of(t);
    /* A list of numbers without entries may have no array; it is not given only where it may be left out. */
    const bool may_lack = t->optional && (e == T_INTS || e == T_FLOATS);
    return may_lack ? xformat("fac__box_%s(%s)", spelt[e].kind, name) : fill_words((words){.v = name}, spelt[e].box);
}

static void emit_boxed(FILE *f, const op *o) {
    const size_t n = o->s->n_args, r = o->s->n_rets, room = n > r ? n : r;
    emit(f, o, "static fac_status box_$sig(%s) {\n    fac_value own[%zu] = {%s}, st[%zu] = {{0, 0}};\n",
         typed_params(o), n ? n : 1, n ? each(o, NULL, ", ", "$boxednth") : "{0, 0}", room ? room : 1);
    emit(f, o,
         "    memcpy(st, own, $n * sizeof *st);\n    fac_status e = fac_error();\n"
         "    if (!e) e = c->kernel->boxed(c, st);\n"
         "    for (int i = 0; i < $n; i++) fac_value_release(&own[i]);\n    if (e) return e;\n");
    if (!r)
        fputs("    return FAC_OK;\n}\n", f);
    else if (returns_lists(o))
        fputs("    return fac__take_lists(c, st, res_);\n}\n", f);
    else if (returns_list(o))
        fputs("    return fac__take_list(&st[0], res_);\n}\n", f);
    else if (returns_tensors(o))
        fprintf(f, "%s    return e;\n}\n",
                each_result(o, "", "    if (!e) e = fac__take_tensor(&st[$i], &res_[$i]);\n"));
    else if (strcmp(result_kind(o), "scalar") == 0)
        fputs("    *res_ = fac__take_scalar(&st[0]);\n    return fac_error();\n}\n", f);
    else
        fprintf(f, "    *res_ = fac_value_as_%s(st[0]);\n    fac_value_release(&st[0]);\n    return fac_error();\n}\n",
                result_kind(o));
}

/* Around a user's typed kernel: handles of its tensors in, headers of its results out. */
static void emit_door(FILE *f, const op *o) {
    emit(f, o, "static fac_status door_$sig(%s) {\n    fac_status e = FAC_OK;\n%s", typed_params(o),
         returns_list(o)    ? "    *res_ = (fac_tensor_list){NULL, 0};\n"
         : returns_lists(o) ? fill(o, "    memset(res_, 0, $rets * sizeof *res_);\n")
                            : "");
    emit_each(f, o, NULL, "    fac_handle_list l$i;\n    if (fac__handle_list(&l$i, $nth)) e = fac_error();\n",
              "    $nth = fac__handle($nth);\n", NULL);
    fprintf(f, "    if (!e) FAC_CALLBACK(e = ((fac_status (*)(%s))c->kernel->direct_typed)(c%s%s));\n%s",
            typed_params(o), each_kind(o, NULL, "", ", l$i.l", ", $nth", ", $nth"), o->s->n_rets ? ", res_" : "",
            each_kind(o, NULL, "", "    fac__handle_list_free(&l$i);\n", NULL, NULL));
    if (returns_lists(o))
        emit(f, o,
             "    for (int i = 0; i < $rets; i++) e = fac__results_given(c, e, res_[i].v, res_[i].v ? res_[i].n : 0);\n"
             "    return e;\n}\n");
    else if (returns_list(o))
        fputs("    return fac__results_given(c, e, res_->v, res_->v ? res_->n : 0);\n}\n", f);
    else
        emit(f, o,
             returns_tensors(o) ? "    return fac__results_given(c, e, res_, $rets);\n}\n" : "    return e;\n}\n");
}

void emit_adapter(FILE *f, const char *signature, const op *example) {
    fprintf(f, "\n/* %s */\n", signature);
    emit_door(f, example);
    emit_unbox(f, example);
    emit_boxed(f, example);
}
