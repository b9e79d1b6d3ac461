/* Parsing subscripts.

       subscript: item (',' item)* [',']
       item:      '...' | 'None' | 'newaxis' | '%' | number | [number] ':' [number] [':' [number]]
       number:    ['+' | '-'] digits | '#' */
#include "ops/composite/subscript.h"

typedef struct parser {
    const char *at; /* the next character */
    fac_subscript *out;
    fac_tensors tensors;
    fac_ints ints;
    size_t n_tensors, n_ints; /* taken so far */
    bool ellipsis;
} parser;

static int column(const parser *p) { return (int)(p->at - p->out->text) + 1; }

static void skip_blanks(parser *p) {
    while (*p->at == ' ' || (*p->at >= '\t' && *p->at <= '\r')) p->at++;
}

static bool accept(parser *p, char c) {
    skip_blanks(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool accept_word(parser *p, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0 || is_letter(p->at[n]) || is_digit(p->at[n])) return false;
    p->at += n;
    return true;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------- */

static fac_status digits(parser *p, bool negative, int64_t *out) {
    const int begin = column(p);
    FAC_CHECK(is_digit(*p->at), FAC_ERR_ARGUMENT, "a sign should stand before a number" FAC_SUBSCRIPT_PLACE, begin,
              p->out->text);
    int64_t value = 0;
    for (; is_digit(*p->at); p->at++) {
        const int64_t digit = negative ? '0' - *p->at : *p->at - '0';
        FAC_CHECK(fac__mul(value, 10, &value) && fac__add(value, digit, &value), FAC_ERR_OVERFLOW,
                  "a number does not fit 64 bits" FAC_SUBSCRIPT_PLACE, begin, p->out->text);
    }
    *out = value;
    return FAC_OK;
}

static fac_status next_int(parser *p, int64_t *out) {
    FAC_CHECK(p->n_ints < p->ints.n, FAC_ERR_ARGUMENT, "there are more '#' than the %zu ints given" FAC_SUBSCRIPT_PLACE,
              p->ints.n, column(p) - 1, p->out->text);
    *out = p->ints.v[p->n_ints++];
    return FAC_OK;
}

/* A number, if one begins here. */
static fac_status number(parser *p, fac_opt_int *out) {
    *out = (fac_opt_int){0};
    skip_blanks(p);
    const bool is_signed = *p->at == '-' || *p->at == '+';
    if (*p->at != '#' && !is_signed && !is_digit(*p->at)) return FAC_OK;
    out->set = true;
    if (accept(p, '#')) return next_int(p, &out->v);
    const bool negative = *p->at == '-';
    p->at += is_signed;
    return digits(p, negative, &out->v);
}

/* ---- items --------------------------------------------------------------------------------------------------------------- */

static fac_status step_of(parser *p, int64_t *out) {
    fac_opt_int step;
    skip_blanks(p);
    const int begin = column(p);
    FAC_TRY(number(p, &step));
    FAC_CHECK(!step.set || step.v > 0, FAC_ERR_ARGUMENT,
              "the step of a slice should be positive, but is %lld" FAC_SUBSCRIPT_PLACE, (long long)step.v, begin,
              p->out->text);
    if (step.set) *out = step.v;
    return FAC_OK;
}

/* What is none of the words: nothing, a truth value, or anything else. */
static fac_status unreadable(const parser *p) {
    const char *text = p->out->text, c = *p->at;
    FAC_CHECK(c && c != ',', FAC_ERR_ARGUMENT, "an index is missing" FAC_SUBSCRIPT_PLACE, column(p), text);
    FAC_CHECK(strncmp(p->at, "True", 4) != 0 && strncmp(p->at, "False", 5) != 0, FAC_ERR_ARGUMENT,
              "a truth value is no index; give a mask as a tensor, '%%'" FAC_SUBSCRIPT_PLACE, column(p), text);
    return FAC_FAIL(FAC_ERR_ARGUMENT,
                    "an index is an integer, a slice, '...', 'None', '#' or '%%', not '%c'" FAC_SUBSCRIPT_PLACE, c,
                    column(p), text);
}

static fac_status slice_or_integer(parser *p, fac_subscript_item *item) {
    FAC_TRY(number(p, &item->start));
    item->kind = FAC_SUBSCRIPT_INTEGER;
    if (!accept(p, ':')) return item->start.set ? FAC_OK : unreadable(p);
    item->kind = FAC_SUBSCRIPT_SLICE;
    FAC_TRY(number(p, &item->stop));
    return accept(p, ':') ? step_of(p, &item->step) : FAC_OK;
}

static fac_status next_tensor(parser *p, fac_subscript_item *item) {
    FAC_CHECK(p->n_tensors < p->tensors.n, FAC_ERR_ARGUMENT,
              "there are more '%%' than the %zu tensors given" FAC_SUBSCRIPT_PLACE, p->tensors.n, item->column,
              p->out->text);
    item->kind = FAC_SUBSCRIPT_TENSOR;
    item->tensor = p->tensors.v[p->n_tensors++];
    return FAC_OK;
}

static fac_status one_ellipsis(parser *p, fac_subscript_item *item) {
    FAC_CHECK(!p->ellipsis, FAC_ERR_ARGUMENT, "there may be only one '...'" FAC_SUBSCRIPT_PLACE, item->column,
              p->out->text);
    p->ellipsis = true;
    p->at += 3;
    item->kind = FAC_SUBSCRIPT_ELLIPSIS;
    return FAC_OK;
}

static fac_status parse_item(parser *p) {
    skip_blanks(p);
    FAC_CHECK(p->out->n < FAC_SUBSCRIPT_MAX, FAC_ERR_ARGUMENT, "there are more than %d indices" FAC_SUBSCRIPT_PLACE,
              FAC_SUBSCRIPT_MAX, column(p), p->out->text);
    fac_subscript_item *item = &p->out->items[p->out->n++];
    *item = (fac_subscript_item){.column = column(p), .step = 1};
    if (strncmp(p->at, "...", 3) == 0) return one_ellipsis(p, item);
    if (accept(p, '%')) return next_tensor(p, item);
    if (!accept_word(p, "None") && !accept_word(p, "newaxis")) return slice_or_integer(p, item);
    item->kind = FAC_SUBSCRIPT_NEW_DIM;
    return FAC_OK;
}

static fac_status parse_items(parser *p) {
    do {
        FAC_TRY(parse_item(p));
        if (!accept(p, ',')) break;
        skip_blanks(p);
    } while (*p->at);
    skip_blanks(p);
    FAC_CHECK(!*p->at, FAC_ERR_ARGUMENT, "a ',' or the end should stand in place of '%c'" FAC_SUBSCRIPT_PLACE, *p->at,
              column(p), p->out->text);
    return FAC_OK;
}

fac_status fac__subscript_parse(fac_subscript *out, const char *text, fac_tensors tensors, fac_ints ints) {
    FAC_CHECK(text, FAC_ERR_ARGUMENT, "the subscript is NULL");
    out->text = text;
    out->n = 0;
    parser p = {.at = text, .out = out, .tensors = tensors, .ints = ints};
    FAC_TRY(parse_items(&p));
    FAC_CHECK(p.n_tensors == tensors.n, FAC_ERR_ARGUMENT, "%zu tensors are given, but \"%s\" has %zu '%%'", tensors.n,
              text, p.n_tensors);
    FAC_CHECK(p.n_ints == ints.n, FAC_ERR_ARGUMENT, "%zu ints are given, but \"%s\" has %zu '#'", ints.n, text,
              p.n_ints);
    return FAC_OK;
}
