/* Tensors as text, as PyTorch's repr writes them: all numbers of a tensor get one width and one style, chosen from those
   that are shown. */
#include "core/coded.h"
#include "core/handle.h"
#include "core/names.h"
#include "core/nested.h"
#include "core/read.h"
#include "core/scalar.h"
#include "core/sparse.h"
#include "core/tensor_make.h"
#include <math.h>
#include <stdlib.h>

static const char prefix[] = "tensor(";
enum { INDENT = sizeof prefix - 1, NUMBER_SIZE = 512 };

static atomic_int option_precision = 4, option_threshold = 1000, option_edge = 3, option_width = 80;

void fac_set_print_options(fac_print_options o) {
    if (o.precision > 0) atomic_store(&option_precision, o.precision < 100 ? o.precision : 100);
    if (o.threshold > 0) atomic_store(&option_threshold, o.threshold);
    if (o.edge_items > 0) atomic_store(&option_edge, o.edge_items);
    if (o.line_width > 0) atomic_store(&option_width, o.line_width);
}

/* ---- numbers -------------------------------------------------------------------------------------------------------- */

/* How the real or the imaginary parts of a tensor are written. */
typedef struct style {
    bool floating, integral_values, scientific;
    int width, precision;
    /* while looking at the values */
    double least, most; /* magnitudes of finite non-zero values; least 0 while there are none */
} style;

typedef struct printer {
    fac_buf out;
    const fac_tensor *t; /* in CPU memory */
    bool summarize, complex;
    bool break_first; /* the next suffix begins a line */
    int64_t edge, line_width;
    style parts[2];
} printer;

static int format_float(char *buf, const style *s, double x) {
    if (isnan(x)) return snprintf(buf, NUMBER_SIZE, "nan");
    if (isinf(x)) return snprintf(buf, NUMBER_SIZE, x < 0 ? "-inf" : "inf");
    if (s->scientific) return snprintf(buf, NUMBER_SIZE, "%.*e", s->precision, x);
    return s->integral_values ? snprintf(buf, NUMBER_SIZE, "%.0f.", x)
                              : snprintf(buf, NUMBER_SIZE, "%.*f", s->precision, x);
}

static int format_value(char *buf, const style *s, fac_scalar v) {
    if (v.kind == FAC_KIND_BOOL) return snprintf(buf, NUMBER_SIZE, "%s", v.bits ? "True" : "False");
    if (v.kind == FAC_KIND_INT) return snprintf(buf, NUMBER_SIZE, "%lld", (long long)v.bits);
    return format_float(buf, s, fac__scalar_f64(v));
}

/* Part 0 or 1 of an element: a real number. */
static fac_scalar element(const printer *p, const char *at, int part) {
    double re_im[2];
    fac_scalar v = fac__load(at, (fac_dtype)p->t->dtype, re_im);
    if (v.kind != FAC_KIND_COMPLEX) return v;
    return fac_scalar_f_(re_im[part]);
}

/* ---- what is shown ------------------------------------------------------------------------------------------------------ */

/* After index i of n, the next one that is shown. */
static int64_t next_shown(const printer *p, int64_t i, int64_t n) {
    return p->summarize && n > 2 * p->edge && i + 1 == p->edge ? n - p->edge : i + 1;
}

typedef void (*visit_fn)(const printer *p, style *s, fac_scalar v);

static void visit(const printer *p, int dim, const char *at, int part, visit_fn fn, style *s) {
    if (dim == p->t->ndim) {
        fn(p, s, element(p, at, part));
        return;
    }
    int64_t n = p->t->sizes[dim], step = p->t->strides[dim] * fac__item_size(p->t);
    for (int64_t i = 0; i < n; i = next_shown(p, i, n)) visit(p, dim + 1, at + i * step, part, fn, s);
}

static void note_range(const printer *p, style *s, fac_scalar v) {
    (void)p;
    double x = fac__scalar_f64(v), a = fabs(x);
    if (!isfinite(x) || x == 0) return;
    if (s->least == 0 || a < s->least) s->least = a;
    if (a > s->most) s->most = a;
    if (x != ceil(x)) s->integral_values = false;
}

static void note_width(const printer *p, style *s, fac_scalar v) {
    (void)p;
    char buf[NUMBER_SIZE];
    double x = fac__scalar_f64(v);
    if (s->floating && (!isfinite(x) || x == 0)) return;
    int n = format_value(buf, s, v);
    if (n > s->width) s->width = n;
}

static void choose_style(printer *p, int part, const char *data) {
    style *s = &p->parts[part];
    fac_dtype d = (fac_dtype)p->t->dtype;
    *s = (style){.floating = fac_dtype_is_floating(d) || fac_dtype_is_float8(d) || p->complex,
                 .integral_values = true,
                 .width = 1};
    s->precision = atomic_load(&option_precision);
    if (s->floating) {
        visit(p, 0, data, part, note_range, s);
        if (s->least == 0) return; /* nothing finite and non-zero */
        s->scientific = s->most / s->least > 1000 || s->most > 1e8 || (!s->integral_values && s->least < 1e-4);
    }
    visit(p, 0, data, part, note_width, s);
}

/* ---- layout ---------------------------------------------------------------------------------------------------------------- */

static void add(printer *p, const char *text, size_t n) { (void)fac__buf_add(&p->out, text, n); }
static void add_spaces(printer *p, int64_t n) { (void)fac__buf_printf(&p->out, "%*s", (int)n, ""); }

/* A number, padded on the left to the style's width. The imaginary part is not padded, and always has a sign. */
static void add_element(printer *p, const char *at) {
    char buf[NUMBER_SIZE];
    int n = format_value(buf, &p->parts[0], element(p, at, 0));
    add_spaces(p, p->parts[0].width > n ? p->parts[0].width - n : 0);
    add(p, buf, (size_t)n);
    if (!p->complex) return;
    n = format_value(buf, &p->parts[1], element(p, at, 1));
    if (buf[0] != '-') add(p, "+", 1);
    add(p, buf, (size_t)n);
    add(p, "j", 1);
}

static void add_vector(printer *p, const char *at, int64_t indent) {
    int64_t n = p->t->sizes[p->t->ndim - 1], step = p->t->strides[p->t->ndim - 1] * fac__item_size(p->t);
    int64_t width = p->parts[0].width + 2 + (p->complex ? p->parts[1].width + 1 : 0);
    int64_t per_line = fac__max(1, (p->line_width - indent) / width), column = 0;
    add(p, "[", 1);
    for (int64_t i = 0, next; i < n; i = next) {
        next = next_shown(p, i, n);
        /* The element, and the dots that follow the last before the gap. */
        for (int gap = next > i + 1; gap >= 0; gap--) {
            if (column == per_line) {
                add(p, ",\n", 2);
                add_spaces(p, indent + 1);
                column = 0;
            } else if (i > 0 || column > 0) {
                add(p, ", ", 2);
            }
            column++;
            if (gap == 0 && next > i + 1)
                add(p, " ...", 4);
            else
                add_element(p, at + i * step);
        }
    }
    add(p, "]", 1);
}

static void add_dimension(printer *p, int dim, const char *at, int64_t indent) {
    int rest = p->t->ndim - dim;
    if (rest == 0) {
        add_element(p, at);
        return;
    }
    if (rest == 1) {
        add_vector(p, at, indent);
        return;
    }
    int64_t n = p->t->sizes[dim], step = p->t->strides[dim] * fac__item_size(p->t);
    add(p, "[", 1);
    for (int64_t i = 0, next; i < n && !p->out.failed; i = next) {
        next = next_shown(p, i, n);
        add_dimension(p, dim + 1, at + i * step, indent + 1);
        for (int parts = (next > i + 1) + (next < n); parts > 0; parts--) {
            add(p, ",", 1);
            for (int k = 1; k < rest; k++) add(p, "\n", 1);
            add_spaces(p, indent + 1);
            if (parts == 2) add(p, "...", 3);
        }
    }
    add(p, "]", 1);
}

static fac_status write_header(fac_tensor *t, printer *p);

/* ---- suffixes ----------------------------------------------------------------------------------------------------------------- */

/* Columns of the last line, as PyTorch counts them: two too many. */
static int64_t last_line(const printer *p) {
    const char *data = p->out.data ? p->out.data : "", *newline = strrchr(data, '\n');
    return newline ? (int64_t)strlen(newline) + 1 : (int64_t)strlen(data) + 2;
}

static void add_suffix(printer *p, int64_t *line, const char *format, const char *text) {
    char suffix[320];
    int n = snprintf(suffix, sizeof suffix, format, text);
    if (n >= (int)sizeof suffix) n = (int)sizeof suffix - 1;
    const bool wraps = p->break_first || *line + n + 2 > p->line_width;
    p->break_first = false;
    if (wraps) {
        add(p, ",\n", 2);
        add_spaces(p, INDENT);
        *line = INDENT + n;
    } else {
        add(p, ", ", 2);
        *line += n + 2;
    }
    add(p, suffix, (size_t)n);
}

/* "(2, 3)", "(2,)", "()". */
static const char *tuple_text(const fac_tensor *t, char *buf, size_t size) {
    size_t n = strlen(fac__shape_text(t->sizes, t->ndim, buf, size - 1));
    buf[0] = '(';
    if (t->ndim == 1)
        buf[n - 1] = ',', buf[n++] = ')', buf[n] = '\0';
    else
        buf[n - 1] = ')';
    return buf;
}

/* As Python writes a float: the fewest digits that give it back. */
static const char *shortest(double x, char *buf, size_t size) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, x);
        if (strtod(buf, NULL) == x) break;
    }
    if (!strpbrk(buf, ".ein")) strncat(buf, ".0", size - strlen(buf) - 1);
    return buf;
}

static void add_long_suffix(printer *p, const char *name, const char *text) {
    fac__buf_printf(&p->out, ", %s=%s", name, text);
}

static fac_status add_channels(printer *p, const fac_quantizer *q) {
    fac_tensor *lists[2];
    FAC_TRY(fac__quantizer_lists(q, &lists[0], &lists[1]));
    fac_status st = FAC_OK;
    for (int i = 0; i < 2 && st == FAC_OK; i++) {
        printer inner = {.line_width = p->line_width};
        st = write_header(lists[i], &inner);
        if (st == FAC_OK) add_long_suffix(p, i ? "zero_point" : "scale", inner.out.data);
        fac__buf_free(&inner.out);
    }
    fac__unref(lists[0]);
    fac__unref(lists[1]);
    return st;
}

static fac_status add_quantizer(printer *p, const fac_quantizer *q, int64_t *line) {
    char text[40];
    const bool channels = q->axis >= 0;
    add_suffix(p, line, "quantization_scheme=torch.%s", channels ? "per_channel_affine" : "per_tensor_affine");
    if (channels) FAC_TRY(add_channels(p, q));
    if (!channels) add_suffix(p, line, "scale=%s", shortest(q->scales[0], text, sizeof text));
    snprintf(text, sizeof text, "%lld", (long long)(channels ? q->axis : q->zero_points[0]));
    add_suffix(p, line, channels ? "axis=%s" : "zero_point=%s", text);
    return FAC_OK;
}

static fac_status add_suffixes(printer *p, fac_tensor *t) {
    char text[300];
    fac_dtype d = (fac_dtype)t->dtype, standard = fac_default_dtype();
    bool meta = t->device.type == FAC_META || fac__stands_for_another(t), empty = t->numel == 0;
    bool usual = d == standard || d == fac__complex_of(standard) || d == FAC_I64 || d == FAC_BOOL;
    int64_t line = last_line(p);
    if (!fac__is_cpu(t)) add_suffix(p, &line, "device='%s'", fac_device_format(t->device, text, sizeof text));
    const fac_quantizer *quantizer = fac__quantizer_of(t);
    if (meta || quantizer || (empty && t->ndim != 1)) add_suffix(p, &line, "size=%s", tuple_text(t, text, sizeof text));
    if (meta || empty ? d != standard : !usual) add_suffix(p, &line, "dtype=torch.%s", fac_dtype_name(d));
    if (quantizer) FAC_TRY(add_quantizer(p, quantizer, &line));
    if (fac__layout_of(t) != FAC_STRIDED) add_suffix(p, &line, "layout=torch.%s", fac__layout_name(fac__layout_of(t)));
    if (t->names && !fac__names_masked()) {
        fac_dim_names l;
        fac__names_of(t, &l);
        add_suffix(p, &line, "names=%s", fac__names_text(&l, text, sizeof text));
    }
    if (fac__stands_for_another(t)) add_suffix(p, &line, "%s", t->cls->name);
    if (t->ag) fac__autograd.describe(t, text, sizeof text);
    if (t->ag && *text) add_suffix(p, &line, "%s", text);
    add(p, ")", 1);
    return FAC_OK;
}

/* ---- elements ------------------------------------------------------------------------------------------------------------------ */

static fac_status add_values_at(printer *p, fac_tensor *t, int64_t indent) {
    fac_tensor *cpu;
    FAC_TRY(fac__readable(t, &cpu));
    p->t = cpu;
    p->complex = fac_dtype_is_complex((fac_dtype)cpu->dtype);
    p->summarize = cpu->numel > atomic_load(&option_threshold);
    p->edge = atomic_load(&option_edge);
    const char *data = fac__data(cpu);
    for (int part = 0; part <= p->complex; part++) choose_style(p, part, data);
    add_dimension(p, 0, data, indent);
    fac__unref(cpu);
    return FAC_OK;
}

/* "...", "[]" or the numbers. */
static fac_status add_elements(printer *p, fac_tensor *t, int64_t indent) {
    const bool none = t->device.type == FAC_META || fac__stands_for_another(t);
    if (!none && t->numel) return add_values_at(p, t, indent);
    const char *text = none ? "..." : "[]";
    add(p, text, strlen(text));
    return FAC_OK;
}

/* ---- sparse tensors -------------------------------------------------------------------------------------------------------------- */

/* "indices=tensor([[0, 1]])", and what follows it. */
static fac_status add_part(printer *p, const char *name, fac_tensor *t, const char *after) {
    char text[300];
    const int n = snprintf(text, sizeof text, "%s=tensor(", name);
    add(p, text, (size_t)n);
    FAC_TRY(add_elements(p, t, INDENT + n));
    if (t->numel == 0 || t->device.type == FAC_META)
        (void)fac__buf_printf(&p->out, ", size=%s", tuple_text(t, text, sizeof text));
    add(p, after, strlen(after));
    return FAC_OK;
}

static fac_status add_parts(printer *p, const fac_sparse *s) {
    static const char next[] = "),\n       ";
    const bool rows = s->layout == FAC_SPARSE_CSR || s->layout == FAC_SPARSE_BSR;
    if (s->layout == FAC_SPARSE_COO) {
        FAC_TRY(add_part(p, "indices", s->indices, next));
    } else {
        FAC_TRY(add_part(p, rows ? "crow_indices" : "ccol_indices", s->indices, next));
        FAC_TRY(add_part(p, rows ? "col_indices" : "row_indices", s->plain, next));
    }
    return add_part(p, "values", s->values, ")");
}

static void add_sparse_suffixes(printer *p, fac_tensor *t, const fac_sparse *s) {
    char text[300];
    const fac_dtype d = (fac_dtype)t->dtype, standard = fac_default_dtype();
    const bool usual = d == standard || d == fac__complex_of(standard) || d == FAC_I64 || d == FAC_BOOL;
    int64_t line = last_line(p);
    p->break_first = s->layout == FAC_SPARSE_COO;
    if (!fac__is_cpu(t)) add_suffix(p, &line, "device='%s'", fac_device_format(t->device, text, sizeof text));
    add_suffix(p, &line, "size=%s", tuple_text(t, text, sizeof text));
    snprintf(text, sizeof text, "%lld", (long long)fac__sparse_nnz(t));
    if (t->device.type != FAC_META) add_suffix(p, &line, "nnz=%s", text);
    if (!usual) add_suffix(p, &line, "dtype=torch.%s", fac_dtype_name(d));
    add_suffix(p, &line, "layout=torch.%s", fac__layout_name(s->layout));
    if (t->ag) fac__autograd.describe(t, text, sizeof text);
    if (t->ag && *text) add_suffix(p, &line, "%s", text);
    add(p, ")", 1);
}

/* ---- nested tensors -------------------------------------------------------------------------------------------------------------- */

/* Owned: component i of the elements, a plain vector, without a history. */
static fac_status view_of_component(fac_tensor *elements, const fac_nested *t, int64_t i, fac_tensor **out) {
    int64_t stored[FAC_MAX_DIMS], sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
    const fac_ragged *r = t->shape;
    fac__row_major(r->sizes + i * r->d, r->d, stored);
    for (int k = 0; k < r->d; k++) {
        sizes[k] = fac__nested_size(t, i, k);
        strides[k] = stored[t->order[k]] * elements->strides[0];
    }
    const int64_t first = elements->offset + r->offsets[i] * elements->strides[0];
    return fac__view(elements, sizes, strides, r->d, first, false, out);
}

/* The same of the buffer's. It may carry a tangent, which is left out. */
static fac_status component_of(const fac_nested *t, int64_t i, fac_tensor **out) {
    fac_tensor *elements;
    FAC_TRY(fac__alias_header(t->buffer, false, &elements));
    elements->keys &= ~fac__func_bit(FAC_KEY_FORWARD_AD);
    const fac_status st = view_of_component(elements, t, i, out);
    fac__unref(elements);
    return st;
}

/* Its text, each line two spaces further in. */
static fac_status add_component(printer *p, const fac_nested *t, int64_t i) {
    printer inner = {.line_width = p->line_width};
    fac_tensor *component;
    FAC_TRY(component_of(t, i, &component));
    const fac_status st = write_header(component, &inner);
    fac__unref(component);
    add(p, "\n  ", 3);
    for (const char *c = inner.out.data; st == FAC_OK && *c; c++) {
        add(p, c, 1);
        if (*c == '\n') add(p, "  ", 2);
    }
    fac__buf_free(&inner.out);
    return st;
}

static fac_status add_components(printer *p, const fac_nested *t) {
    char text[300];
    const int64_t n = t->shape->n, edge = atomic_load(&option_edge);
    const bool shortened = t->buffer->numel > atomic_load(&option_threshold) && n > 2 * edge;
    add(p, "nested_tensor([", sizeof "nested_tensor([" - 1);
    for (int64_t i = 0; i < n; i++) {
        if (shortened && i == edge) {
            add(p, "\n  ...,", 7);
            i = n - edge;
        }
        FAC_TRY(add_component(p, t, i));
        if (i + 1 < n) add(p, ",", 1);
    }
    add(p, n ? "\n]" : "]", n ? 2 : 1);
    int64_t line = last_line(p);
    if (t->buffer->ag) fac__autograd.describe(t->buffer, text, sizeof text);
    if (t->buffer->ag && *text) add_suffix(p, &line, "%s", text);
    add(p, ")", 1);
    return FAC_OK;
}

/* ---- public ------------------------------------------------------------------------------------------------------------------- */

static fac_status write_header(fac_tensor *t, printer *p) {
    if (fac__nested_of(t)) {
        FAC_TRY(add_components(p, fac__nested_of(t)));
        return p->out.failed ? FAC_ERR_MEMORY : FAC_OK;
    }
    add(p, prefix, INDENT);
    const fac_sparse *sparse = fac__sparse_of(t);
    if (sparse) {
        FAC_TRY(add_parts(p, sparse));
        add_sparse_suffixes(p, t, sparse);
    } else {
        FAC_TRY(add_elements(p, t, INDENT));
        FAC_TRY(add_suffixes(p, t));
    }
    return p->out.failed ? FAC_ERR_MEMORY : FAC_OK;
}

static fac_status write_text(fac_tensor *t, printer *p) {
    FAC_TRY(fac_error());
    FAC_OPEN(t, "fac_print", "t", fac_error());
    p->line_width = atomic_load(&option_width);
    return write_header(t, p);
}

char *fac_tensor_string(fac_tensor *t) {
    printer p = {0};
    if (write_text(t, &p) == FAC_OK) return p.out.data;
    fac__buf_free(&p.out);
    return NULL;
}

void fac_string_free(char *s) { fac__free(s); }

fac_status fac_print(fac_tensor *t, FILE *stream) {
    FAC_CHECK(stream, FAC_ERR_ARGUMENT, "fac_print: the stream is NULL");
    char *text = fac_tensor_string(t);
    if (!text) return fac_error();
    int written = fprintf(stream, "%s\n", text);
    fac_string_free(text);
    FAC_CHECK(written >= 0, FAC_ERR_IO, "the text of a tensor cannot be written to the stream");
    return FAC_OK;
}
