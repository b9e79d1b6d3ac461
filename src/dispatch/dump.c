/* The operator tables as text. */
#include "dispatch/registry.h"

static char *slot_name(int f, int b, char *buf, size_t size) {
    fac_key key = {(int16_t)f, (int16_t)(fac__slot_mask[f] ? b : FAC_ALL_BACKENDS), FAC_ALIAS_NONE};
    return fac_key_format(key, buf, size);
}

/* Last backend of the run from b that the same registration serves; runs are printed as one line. */
static int run_end(const fac_operator *op, int f, int b) {
    const fac_registration *r = fac__table_choose(op, f, b);
    while (b + 1 < FAC_BACKEND_COUNT && fac__table_choose(op, f, b + 1) == r) b++;
    return b;
}

static void print_run(const fac_operator *op, int f, int first, int last, FILE *stream) {
    char from[40], to[40], keys[96];
    const fac_registration *r = fac__table_choose(op, f, first);
    slot_name(f, first, from, sizeof from);
    snprintf(keys, sizeof keys, last > first ? "%s .. %s" : "%s", from, slot_name(f, last, to, sizeof to));
    fprintf(stream, "  %-46s %-21s %s\n", keys, r->label, r->where);
}

static void print_row(const fac_operator *op, FILE *stream) {
    for (int f = FAC_KEY_COUNT - 1; f >= 0; f--) {
        int columns = fac__slot_mask[f] ? FAC_BACKEND_COUNT : 1;
        for (int b = 0; b < columns;) {
            int last = columns > 1 ? run_end(op, f, b) : b;
            print_run(op, f, b, last, stream);
            b = last + 1;
        }
    }
}

/* Each registration with what it hides, as it was made. */
static void print_stacks(const fac_operator *op, FILE *stream) {
    char name[40];
    for (size_t i = 0; i < op->registry->n; i++) {
        const fac_registration *r = op->registry->v[i].top;
        if (!r) continue;
        fprintf(stream, "  registered for %s:", fac_key_format(fac__key_of_place(r->place), name, sizeof name));
        for (; r; r = r->below) fprintf(stream, " %s (%s)%s", r->where, r->label, r->below ? ", which hides" : "\n");
    }
}

static void print_operator(const fac_operator *op, FILE *stream) {
    const fac_schema *s = atomic_load_explicit(&op->schema, memory_order_relaxed);
    const fac_registration *declared = op->registry->declared;
    fprintf(stream, "%s::%s\n  declared: %s\n", s->ns, s->text, declared ? declared->where : "not any more");
    if (!declared) return;
    print_row(op, stream);
    print_stacks(op, stream);
}

static char letter(const fac_registration *r) {
    if (r->fallthrough) return '-';
    if (strcmp(r->label, "missing") == 0) return '.';
    if (r->kind == FAC_REG_FALLBACK) return 'f';
    if (r->place == FAC_PLACE_EXPLICIT) return 'e';
    if (r->place == FAC_PLACE_POINTWISE) return 'p';
    return r->place == FAC_PLACE_CATCH_ALL ? 'c' : 'K';
}

static void print_legend(FILE *stream) {
    char name[40];
    fputs("K kernel, p pointwise, e composite explicit, c catch-all, f fallback, - falls through, . missing\n", stream);
    fputs("groups of columns:", stream);
    for (int f = FAC_KEY_COUNT - 1; f >= 0; f--)
        fprintf(stream, " %s",
                fac_key_format((fac_key){(int16_t)f, FAC_ALL_BACKENDS, FAC_ALIAS_NONE}, name, sizeof name));
    fputs("\na group of 16 columns:", stream);
    for (int b = 0; b < FAC_BACKEND_COUNT; b++) fprintf(stream, " %s", slot_name(FAC_KEY_DENSE, b, name, sizeof name));
    fputc('\n', stream);
}

static void print_grid(FILE *stream) {
    fac_operator *const *ops;
    size_t n = fac__listing(&ops);
    print_legend(stream);
    for (size_t i = 0; i < n; i++) {
        for (int f = FAC_KEY_COUNT - 1; f >= 0; f--) {
            for (int b = 0; b < (fac__slot_mask[f] ? FAC_BACKEND_COUNT : 1); b++)
                fputc(letter(fac__table_choose(ops[i], f, b)), stream);
            fputc(' ', stream);
        }
        fprintf(stream, "%s\n", ops[i]->name);
    }
}

fac_status fac_dispatch_dump(const fac_operator *op, FILE *stream) {
    FAC_CHECK(stream, FAC_ERR_ARGUMENT, "fac_dispatch_dump needs a stream, but it is NULL");
    FAC_TRY(fac_init());
    FAC_CHECK(!op || atomic_load_explicit(&op->schema, memory_order_acquire), FAC_ERR_ARGUMENT,
              "the operator is not declared");
    fac__registry_lock();
    if (op) {
        print_operator(op, stream);
    } else {
        fac__namespaces_print(stream);
        print_grid(stream);
    }
    fac__registry_unlock();
    FAC_CHECK(!ferror(stream), FAC_ERR_IO, "the dispatch table could not be written");
    return FAC_OK;
}
