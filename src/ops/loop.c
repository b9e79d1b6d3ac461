/* Which kinds of device run the loops of pointwise operators: the library's own, and those for which a program registered a table,
   which is told what is to be computed. */
#include "ops/loop.h"
#include "ops/structured.h"

static fac_pointwise_run runs[FAC_DEVICE_TYPE_COUNT];
static _Atomic(const fac_pointwise_table *) tables[FAC_DEVICE_TYPE_COUNT];

void fac__pointwise_register(fac_device_type type, fac_pointwise_run run) {
    runs[type] = run;
    fac__dispatch_pointwise(type);
}

void fac__pointwise_shutdown(void) {
    for (int i = 0; i < FAC_DEVICE_TYPE_COUNT; i++) {
        runs[i] = NULL;
        atomic_store_explicit(&tables[i], NULL, memory_order_release);
    }
}

static bool has_formula(fac_loop_id id, fac_dtype d) {
#define HAS(name, ...) [FAC_LOOP_##name] = true,
    static const bool real[FAC_LOOP_COUNT] = {FAC_LOOPS_OF_REAL(HAS)},
                      integers[FAC_LOOP_COUNT] = {FAC_LOOPS_OF_INTEGERS(HAS)},
                      truths[FAC_LOOP_COUNT] = {FAC_LOOPS_OF_TRUTHS(HAS)},
                      complex_numbers[FAC_LOOP_COUNT] = {FAC_LOOPS_OF_COMPLEX(HAS)};
#undef HAS
    if (d == FAC_BOOL) return truths[id];
    if (fac_dtype_is_complex(d)) return complex_numbers[id];
    return fac_dtype_is_integral(d, false) ? integers[id] : real[id];
}

fac_status fac__pointwise_run(const fac_structured *s, fac_loop_id id, fac_dtype out, const fac_loop_args *args) {
    const fac_pointwise_run run = runs[s->iter.device.type];
    FAC_CHECK(has_formula(id, s->iter.common), FAC_ERR_DTYPE, "not implemented for '%s'",
              fac_dtype_name(s->iter.common));
    if (s->plan) {
        *s->plan = (fac_pointwise_plan){.id = id, .out = out};
        if (args) s->plan->args = *args;
        return FAC_OK;
    }
    FAC_CHECK(run, FAC_ERR_UNSUPPORTED, "devices of type %d have no way to run pointwise loops",
              (int)s->iter.device.type);
    return run(s, id, out, args);
}

/* ---- tables ------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int n_in, n_numbers;
} loops[] = {
#define ROW(name, inputs, numbers) {#name, inputs, numbers},
    FAC_LOOP_NAMES(ROW)
#undef ROW
};

bool fac__loop_fits(const fac_iter *it, fac_loop_id id) { return it->n - it->n_out >= loops[id].n_in; }

static fac_pointwise_operand operand_of(const fac_iter *it, int i) {
    const fac_iter_operand *o = &it->op[i];
    double parts[2];
    int64_t integer;
    if (!o->is_scalar && !(o->t && fac__is_cpu(o->t)))
        return (fac_pointwise_operand){.data = o->data, .strides = it->nest.stride[i], .dtype = (fac_dtype)o->dtype};
    fac_iter_number(it, i, FAC_C128, parts);
    fac_iter_number(it, i, FAC_I64, &integer);
    return (fac_pointwise_operand){.number = {parts[0], parts[1], integer}};
}

static fac_status run_by_table(const fac_structured *s, fac_loop_id id, fac_dtype out, const fac_loop_args *args) {
    fac_status st;
    const fac_iter *it = &s->iter;
    fac_pointwise_operand operands[FAC_ITER_MAX];
    const fac_pointwise_table *table = atomic_load_explicit(&tables[it->device.type], memory_order_acquire);
    for (int i = 0; i < it->n; i++) operands[i] = operand_of(it, i);
    const fac_pointwise_call call = {
        .op = fac__operator_base_name(s->call->op),
        .loop = loops[id].name,
        .device = it->device,
        .dtype = it->common,
        .out_dtype = out ? out : it->common,
        .ndim = it->nest.ndim,
        .shape = it->nest.size,
        .n_out = it->n_out,
        .n_in = it->n - it->n_out,
        .n_numbers = args ? loops[id].n_numbers : 0,
        .operands = operands,
        .numbers = args ? args->v : NULL,
    };
    if (it->nest.count == 0) return FAC_OK;
    FAC_CALLBACK(st = table->run(table, &call));
    return st;
}

fac_status fac_register_pointwise(const fac_pointwise_table *table) {
    const fac_pointwise_table *none = NULL;
    FAC_CHECK(table && table->size == sizeof *table && table->run, FAC_ERR_ARGUMENT,
              "a pointwise table needs `run`, and `size` as the size of this library's fac_pointwise_table, %zu bytes",
              sizeof *table);
    FAC_CHECK(table->type >= FAC_PRIVATE1 && table->type < FAC_DEVICE_TYPE_COUNT, FAC_ERR_ARGUMENT,
              "device type %d takes no pointwise table", (int)table->type);
    FAC_TRY(fac_init());
    FAC_CHECK(atomic_compare_exchange_strong(&tables[table->type], &none, table) || none == table, FAC_ERR_STATE,
              "devices of type %d have a pointwise table already", (int)table->type);
    fac__pointwise_register(table->type, run_by_table);
    return FAC_OK;
}
