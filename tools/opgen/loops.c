/* The loops of pointwise operators: every formula of src/ops/scalar/ is one. A formula's types say what the loop reads and
   writes; from them come loops_gen.h, which back ends make their loops and tables of, and the calls that run a loop. */
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>

static const char intro[] = "FAC_SCALAR_FN ";

static bool word_at(const char *p, const char *word) {
    size_t n = strlen(word);
    return strncmp(p, word, n) == 0 && !in_word(p[n]);
}

/* Counts parameters by type. Those that are written follow the others. */
static void read_parameters(const char *path, int line, char *text, loop *l) {
    bool selects = false, divides = false;
    int outputs = 0;
    for (char *p = strtok(text, ","); p; p = strtok(NULL, ",")) {
        while (isspace((unsigned char)*p)) p++;
        if (strchr(p, '*'))
            outputs++;
        else if (word_at(p, "FAC_NUMBER"))
            l->n_numbers++;
        else if (word_at(p, "FAC_T") || word_at(p, "FAC_DIVISOR") || (word_at(p, "bool") && l->n_in == 0))
            l->n_in++;
        else
            die(path, line,
                "the parameter '%s' of '%s' is no FAC_T, FAC_NUMBER or FAC_DIVISOR, nor a bool at the front", p,
                l->name);
        selects |= word_at(p, "bool");
        divides |= word_at(p, "FAC_DIVISOR");
    }
    if (selects) l->result = "SELECTED";
    if (divides) l->result = "QUOTIENT";
    if (outputs == 2) l->result = "PAIR";
    if (!l->result) die(path, line, "'%s' should return FAC_T, FAC_SAME, FAC_R or bool, or write two FAC_T", l->name);
}

/* From after FAC_SCALAR_FN: "FAC_T FAC_FN(name)(FAC_T x, FAC_NUMBER by)". */
static loop read_formula(const char *path, int line, const char *p) {
    loop l = {.file = family_of(path)};
    if (word_at(p, "FAC_T")) l.result = "VALUE";
    if (word_at(p, "FAC_SAME")) l.result = "SAME";
    if (word_at(p, "FAC_R")) l.result = "PART";
    if (word_at(p, "bool")) l.result = "TRUTH";
    const char *name = strstr(p, "FAC_FN("), *open = name ? strstr(name, ")(") : NULL,
               *end = open ? strchr(open + 2, ')') : NULL;
    if (!end) die(path, line, "FAC_SCALAR_FN begins no formula");
    l.name = squeezed(name + strlen("FAC_FN("), open);
    read_parameters(path, line, squeezed(open + 2, end), &l);
    return l;
}

/* Formulas of one name are one loop, whatever they compute with. */
static void add_loop(model *m, const char *path, int line, loop l) {
    const loop *other = find_loop(m, l.name);
    if (other && (other->n_in != l.n_in || other->n_numbers != l.n_numbers))
        die(path, line, "'%s' takes %d inputs and %d numbers, that of %s.h %d and %d", l.name, l.n_in, l.n_numbers,
            other->file, other->n_in, other->n_numbers);
    PUSH(m->loops, l);
}

void load_formulas(const char *path, model *m) {
    char *text = read_text(path);
    int line = 1;
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n', line++)
        if (strncmp(p, intro, strlen(intro)) == 0) add_loop(m, path, line, read_formula(path, line, p + strlen(intro)));
}

const loop *find_loop(const model *m, const char *name) { return FIND(m->loops, name, name); }

static bool has_result(const model *m, const char *name, const char *result) {
    for (size_t i = 0; i < m->loops.n; i++)
        if (strcmp(m->loops.v[i].name, name) == 0 && strcmp(m->loops.v[i].result, result) == 0) return true;
    return false;
}

static const loop *loop_of(const model *m, const entry *e, const char *begin, const char *end) {
    char *name = squeezed(begin, end);
    const loop *l = find_loop(m, name);
    if (!l) die(e->file, e->line, "%s: no file of src/ops/scalar/ has a formula '%s'", e->op, name);
    return l;
}

/* "loop: c ? a : b" as C, with FAC_LOOP_ before the loops' names; *out_last is the last of them. */
static char *choice(const model *m, const entry *e, bool *divides, const loop **out_last) {
    char *text = "";
    const char *p = e->loop;
    for (const char *q; (q = strchr(p, '?'));) {
        const char *colon = strchr(q, ':');
        if (!colon) die(e->file, e->line, "%s: 'loop' has a ? without a :", e->op);
        const loop *l = loop_of(m, e, q + 1, colon);
        *divides |= has_result(m, l->name, "QUOTIENT");
        text = xformat("%s%s? FAC_LOOP_%s : ", text, cut(p, q), l->name);
        p = colon + 1 + strspn(colon + 1, " ");
    }
    *out_last = loop_of(m, e, p, p + strlen(p));
    *divides |= has_result(m, (*out_last)->name, "QUOTIENT");
    return xformat("%sFAC_LOOP_%s", text, (*out_last)->name);
}

static bool is_scalar(const op *o, const char *name) {
    const int i = find_arg(o->s, name);
    return i >= 0 && type_of(&o->s->args[i].type) == T_SCALAR;
}

/* A number of 'numbers': an argument as it is, or an expression over arguments as doubles. */
static char *number(const op *o, const char *text) {
    if (is_scalar(o, text)) return xformat("fac__number(%s)", text);
    char *made = "{.real = ";
    for (const char *p = text, *end; *p; p = end) {
        end = in_word(*p) ? word_end(p) : p + 1;
        made = xformat(is_scalar(o, cut(p, end)) ? "%sfac__scalar_f64(%s)" : "%s%s", made, cut(p, end));
    }
    return xformat("%s}", made);
}

/* The dtype that loops of this name write, as C; 0: the one they read. */
static const char *result_dtype(const model *m, const loop *l) {
    if (strcmp(l->result, "TRUTH") == 0) return "FAC_BOOL";
    return has_result(m, l->name, "PART") ? "fac__part_of(&s_)" : "0";
}

void emit_loop_call(FILE *f, const op *o) {
    const entry *e = o->e;
    bool divides = false;
    const loop *last;
    char *call = choice(o->m, e, &divides, &last), *numbers = "";
    int n = 0;
    for (char **v = e->numbers; v && *v; v++, n++) numbers = listed(numbers, number(o, *v));
    if (n != last->n_numbers)
        die(e->file, e->line, "%s: '%s' takes %d numbers, 'numbers' has %d", e->op, last->name, last->n_numbers, n);
    if (divides)
        call = xformat("st_ = fac__divide(&s_, %s);\n", call);
    else
        call =
            xformat("st_ = fac__pointwise(&s_, %s, %s, %s);\n", call, result_dtype(o->m, last), n ? "&args_" : "NULL");
    if (n)
        fprintf(f, "    if (FAC_LIKELY(!st_)) {\n        fac_loop_args args_ = {.v = {%s}};\n        %s    }\n",
                numbers, call);
    else
        fprintf(f, "    if (FAC_LIKELY(!st_)) %s", call);
}

/* ---- loops_gen.h ---- */

static bool first_of_name(const model *m, size_t i) { return find_loop(m, m->loops.v[i].name) == &m->loops.v[i]; }

static void emit_list(FILE *f, const model *m, const char *file) {
    size_t column = 0;
    fprintf(f, "\n#define FAC_LOOPS_%s(X)", upper(file));
    for (size_t i = 0; i < m->loops.n; i++) {
        const loop *l = &m->loops.v[i];
        if (strcmp(l->file, file) != 0) continue;
        char *item = xformat("X(%s, %s, %d, %d)", l->name, l->result, l->n_in, l->n_numbers);
        if (column == 0 || column + strlen(item) > 110) {
            fputs(" \\\n   ", f);
            column = 3;
        }
        column += (size_t)fprintf(f, " %s", item);
    }
    fputc('\n', f);
}

void emit_loops(FILE *f, const model *m) {
    fputs("#ifndef FAC_LOOPS_GEN_H\n#define FAC_LOOPS_GEN_H\n\n"
          "/* The loops of each file of formulas: X(name, what it writes, inputs, numbers). */",
          f);
    for (size_t i = 0; i < m->loops.n; i++)
        if (i == 0 || strcmp(m->loops.v[i].file, m->loops.v[i - 1].file) != 0) emit_list(f, m, m->loops.v[i].file);
    fputs("\n/* All names, each once: X(name, numbers). */\n#define FAC_LOOP_NAMES(X)", f);
    for (size_t i = 0, n = 0; i < m->loops.n; i++)
        if (first_of_name(m, i))
            fprintf(f, "%s X(%s, %d)", n++ % 5 ? "" : " \\\n   ", m->loops.v[i].name, m->loops.v[i].n_numbers);
    fputs("\n\n#endif\n", f);
}
