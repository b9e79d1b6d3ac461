/* The loops of pointwise operators: every formula of src/ops/scalar/ is one. A formula's types say what the loop reads and
   writes; from them come loops_gen.h, which back ends make their loops and tables of, and the calls that run a loop. */
#include "opgen.h"
#include <regex.h>
#include <stdlib.h>

static const char intro[] = "FAC_SCALAR_FN ";

/* The forms of formulas that back ends have loops for. A letter stands for each parameter: an input, a number, a divisor, a truth
   value, or a place to write to. */
static const struct form {
    const char *returns, *takes, *result;
} forms[] = {
    {"FAC_T", "^T{1,4}N{0,3}$", "VALUE"}, {"FAC_R", "^T{1,3}N{0,3}$", "PART"}, {"FAC_SAME", "^T$", "SAME"},
    {"bool", "^T{1,3}$", "TRUTH"},        {"void", "^T{1,3}PP$", "PAIR"},      {"FAC_T", "^TD$", "QUOTIENT"},
    {"FAC_T", "^BTT$", "SELECTED"},
};

static char letter(const char *parameter) {
    static const char *const types[] = {"FAC_T ", "FAC_NUMBER ", "FAC_DIVISOR ", "bool ", "FAC_T *"};
    char found = '?';
    for (size_t i = 0; i < FAC_COUNT(types); i++)
        if (strncmp(parameter, types[i], strlen(types[i])) == 0) found = "TNDBP"[i];
    return found;
}

static char *letters_of(const char *parameters) {
    char *text = "";
    for (const char *p = parameters; *p; p += strcspn(p, ","), p += *p == ',') {
        p += strspn(p, " ");
        text = xformat("%s%c", text, letter(p));
    }
    return text;
}

static bool matches(const char *text, const char *pattern) {
    regex_t r;
    if (regcomp(&r, pattern, REG_EXTENDED | REG_NOSUB) != 0) abort();
    const bool found = regexec(&r, text, 0, NULL, 0) == 0;
    regfree(&r);
    return found;
}

static const char *result_of(const char *returns, const char *takes) {
    for (size_t i = 0; i < FAC_COUNT(forms); i++)
        if (strcmp(returns, forms[i].returns) == 0 && matches(takes, forms[i].takes)) return forms[i].result;
    return NULL;
}

static int count(const char *text, const char *letters) {
    int n = 0;
    for (; *text; text++) n += strchr(letters, *text) != NULL;
    return n;
}

/* From after FAC_SCALAR_FN: "FAC_T FAC_FN(name)(FAC_T x, FAC_NUMBER by)". */
static loop read_formula(const char *path, int line, const char *p) {
    const char *name = strstr(p, "FAC_FN("), *open = name ? strstr(name, ")(") : NULL,
               *end = open ? strchr(open + 2, ')') : NULL;
    if (!end) die(path, line, "FAC_SCALAR_FN begins no formula");
    const char *returns = squeezed(p, name), *parameters = squeezed(open + 2, end), *takes = letters_of(parameters);
    const loop l = {.file = family_of(path),
                    .name = squeezed(name + strlen("FAC_FN("), open),
                    .result = result_of(returns, takes),
                    .n_in = count(takes, "BTD"),
                    .n_numbers = count(takes, "N")};
    if (!l.result)
        die(path, line,
            "no loop runs a formula like '%s', which returns %s and takes (%s); README.md there lists the forms",
            l.name, returns, parameters);
    if ((strcmp(l.result, "SELECTED") == 0) != (strcmp(l.file, "select") == 0))
        die(path, line, "'%s': formulas that select, and no others, are in select.h", l.name);
    return l;
}

/* Whether a call runs both alike: parts and quotients are like values where the other formula is for something else. */
static bool write_alike(const loop *x, const loop *y) {
    const char *alike = strcmp(x->file, y->file) == 0 ? "VALUE SAME" : "VALUE SAME PART QUOTIENT";
    return strcmp(x->result, y->result) == 0 || (strstr(alike, x->result) && strstr(alike, y->result));
}

/* Formulas of one name are one loop, whatever they compute with. */
static void add_loop(model *m, const char *path, int line, loop l) {
    const loop *other = find_loop(m, l.name);
    if (other && !write_alike(other, &l))
        die(path, line, "'%s' writes a %s, that of %s.h a %s", l.name, l.result, other->file, other->result);
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

/* All formulas of the loops among which an entry chooses. */
typedef LIST(const loop *) choices;

static bool has_result(const choices *c, const char *result) {
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->v[i]->result, result) == 0) return true;
    return false;
}

static char *choose(const model *m, const entry *e, const char *begin, const char *end, choices *out) {
    char *name = squeezed(begin, end);
    if (!find_loop(m, name)) die(e->file, e->line, "%s: no file of src/ops/scalar/ has a formula '%s'", e->op, name);
    EACH_ITEM(const loop, l, m->loops)
        if (strcmp(l->name, name) == 0) PUSH(*out, l);
    return name;
}

/* "loop: c ? a : b" as C, with FAC_LOOP_ before the loops' names. */
static char *choice(const model *m, const entry *e, choices *out) {
    char *text = "";
    const char *p = e->loop;
    for (const char *q; (q = strchr(p, '?'));) {
        const char *colon = strchr(q, ':');
        if (!colon) die(e->file, e->line, "%s: 'loop' has a ? without a :", e->op);
        text = xformat("%s%s? FAC_LOOP_%s : ", text, cut(p, q), choose(m, e, q + 1, colon, out));
        p = colon + 1 + strspn(colon + 1, " ");
    }
    return xformat("%sFAC_LOOP_%s", text, choose(m, e, p, p + strlen(p), out));
}

/* Tensors, and Scalars that are none of the numbers, which are given as C. */
static bool is_operand(const fac_schema_arg *a, const char *numbers) {
    const bool number = a->type.kind == FAC_TYPE_SCALAR && !strstr(numbers, xformat("(%s)", a->name));
    return !a->type.list && (a->type.kind == FAC_TYPE_TENSOR || number);
}

/* Loops trust that the inputs, numbers and results that they read and write are there. */
static void check_fit(const op *o, const loop *l, const char *numbers, int n_numbers) {
    const entry *e = o->e;
    const fac_schema *s = base_of(o)->s;
    const size_t n_out = strcmp(l->result, "PAIR") == 0 ? 2 : 1;
    int most = 0, optional = 0;
    for (const fac_schema_arg *a = s->args; a < s->args + s->n_args; a++)
        if (is_operand(a, numbers)) most++, optional += a->type.optional;
    if (l->n_numbers != n_numbers)
        die(e->file, e->line, "%s: '%s' takes %d numbers, 'numbers' has %d", e->op, l->name, l->n_numbers, n_numbers);
    if (l->n_in > most || l->n_in < most - optional || n_out != s->n_rets)
        die(e->file, e->line,
            "%s: '%s' reads %d inputs and writes %zu; there are %d, the Scalars that 'numbers' does not name among "
            "them, of which %d may be left out, and %zu results",
            e->op, l->name, l->n_in, n_out, most, optional, s->n_rets);
}

static void check_choices(const op *o, const choices *c) {
    for (size_t i = 0; i < c->n * c->n; i++) {
        const loop *x = c->v[i / c->n], *y = c->v[i % c->n];
        if (!write_alike(x, y))
            die(o->e->file, o->e->line, "%s: '%s' writes a %s, '%s' a %s", o->e->op, x->name, x->result, y->name,
                y->result);
    }
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

/* The dtype that the loops write, as C; 0: the one they read. */
static const char *result_dtype(const choices *c) {
    if (has_result(c, "TRUTH")) return "FAC_BOOL";
    return has_result(c, "PART") ? "fac__part_of(&s_)" : "0";
}

void emit_loop_call(FILE *f, const op *o) {
    const entry *e = o->e;
    choices loops = {0};
    char *call = choice(o->m, e, &loops), *numbers = "";
    int n = 0;
    for (char **v = e->numbers; v && *v; v++, n++) numbers = listed(numbers, number(o, *v));
    for (size_t i = 0; i < loops.n; i++) check_fit(o, loops.v[i], numbers, n);
    check_choices(o, &loops);
    if (has_result(&loops, "QUOTIENT"))
        call = xformat("st_ = fac__divide(&s_, %s);\n", call);
    else
        call = xformat("st_ = fac__pointwise(&s_, %s, %s, %s);\n", call, result_dtype(&loops), n ? "&args_" : "NULL");
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
    fputs("\n/* All names, each once: X(name, inputs, numbers). */\n#define FAC_LOOP_NAMES(X)", f);
    for (size_t i = 0, n = 0; i < m->loops.n; i++) {
        const loop *l = &m->loops.v[i];
        if (first_of_name(m, i))
            fprintf(f, "%s X(%s, %d, %d)", n++ % 5 ? "" : " \\\n   ", l->name, l->n_in, l->n_numbers);
    }
    fputs("\n\n#endif\n", f);
}
