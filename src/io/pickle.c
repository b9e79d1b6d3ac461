/* The stack machine of pickles, without what calls anything. source: Python's Lib/pickletools.py */
#include "io/pickle.h"
#include "base/utf8.h"

/* ---- what may be named -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *module, *name;
    pickle_role role;
    fac_dtype dtype;
} names[] = {
    {"collections", "OrderedDict", ROLE_DICT, 0},
    {"torch._utils", "_rebuild_tensor", ROLE_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v2", ROLE_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v3", ROLE_TENSOR3, 0},
    {"torch._utils", "_rebuild_parameter", ROLE_PARAMETER, 0},
    {"torch", "Size", ROLE_SIZE, 0},
    {"torch", "device", ROLE_DEVICE, 0},
    {"torch", "BoolStorage", ROLE_STORAGE, FAC_BOOL},
    {"torch", "ByteStorage", ROLE_STORAGE, FAC_U8},
    {"torch", "CharStorage", ROLE_STORAGE, FAC_I8},
    {"torch", "ShortStorage", ROLE_STORAGE, FAC_I16},
    {"torch", "IntStorage", ROLE_STORAGE, FAC_I32},
    {"torch", "LongStorage", ROLE_STORAGE, FAC_I64},
    {"torch", "HalfStorage", ROLE_STORAGE, FAC_F16},
    {"torch", "BFloat16Storage", ROLE_STORAGE, FAC_BF16},
    {"torch", "FloatStorage", ROLE_STORAGE, FAC_F32},
    {"torch", "DoubleStorage", ROLE_STORAGE, FAC_F64},
    {"torch", "ComplexFloatStorage", ROLE_STORAGE, FAC_C64},
    {"torch", "ComplexDoubleStorage", ROLE_STORAGE, FAC_C128},
    {"torch.storage", "UntypedStorage", ROLE_BYTES, 0},
    {"torch", "UntypedStorage", ROLE_BYTES, 0},
    {"torch", "bool", ROLE_DTYPE, FAC_BOOL},
    {"torch", "uint8", ROLE_DTYPE, FAC_U8},
    {"torch", "int8", ROLE_DTYPE, FAC_I8},
    {"torch", "int16", ROLE_DTYPE, FAC_I16},
    {"torch", "int32", ROLE_DTYPE, FAC_I32},
    {"torch", "int64", ROLE_DTYPE, FAC_I64},
    {"torch", "float16", ROLE_DTYPE, FAC_F16},
    {"torch", "bfloat16", ROLE_DTYPE, FAC_BF16},
    {"torch", "float32", ROLE_DTYPE, FAC_F32},
    {"torch", "float64", ROLE_DTYPE, FAC_F64},
    {"torch", "complex64", ROLE_DTYPE, FAC_C64},
    {"torch", "complex128", ROLE_DTYPE, FAC_C128},
    {"torch", "float8_e4m3fn", ROLE_DTYPE, FAC_F8_E4M3FN},
    {"torch", "float8_e5m2", ROLE_DTYPE, FAC_F8_E5M2},
};

static fac_status bad(const fac_pickle *p, const char *why) {
    return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is damaged: at byte %zu of its pickle %s", p->path, p->at, why);
}

/* ---- values ------------------------------------------------------------------------------------------------------------- */

static pickle_value *new_value(fac_pickle *p, pickle_kind kind) {
    if (FAC_VEC_GROW(&p->all) != FAC_OK) return NULL;
    pickle_value *v = fac__alloc_zero(sizeof *v);
    if (!v) return NULL;
    v->kind = kind;
    return p->all.v[p->all.n++] = v;
}

static fac_status push(fac_pickle *p, pickle_value *v) {
    if (!v) return fac_error();
    FAC_TRY(FAC_VEC_GROW(&p->stack));
    p->stack.v[p->stack.n++] = v;
    return FAC_OK;
}

static fac_status push_number(fac_pickle *p, pickle_kind kind, int64_t number) {
    pickle_value *v = new_value(p, kind);
    if (v) v->number = number;
    return push(p, v);
}

static fac_status add_item(pickle_value *to, pickle_value *item) {
    FAC_TRY(fac__vec_grow((void **)&to->items, to->n_items, &to->cap_items, sizeof(pickle_value *)));
    to->items[to->n_items++] = item;
    return FAC_OK;
}

/* The topmost value, taken off; a mark is none. */
static fac_status pop(fac_pickle *p, pickle_value **out) {
    if (p->stack.n == 0 || p->stack.v[p->stack.n - 1]->kind == PICKLE_MARK) return bad(p, "its stack has no value");
    *out = p->stack.v[--p->stack.n];
    return FAC_OK;
}

static fac_status take(fac_pickle *p, size_t n, const unsigned char **out) {
    if (n > p->n - p->at) return bad(p, "it ends too early");
    *out = p->bytes + p->at;
    p->at += n;
    return FAC_OK;
}

static uint64_t number_of(const unsigned char *b, int n) {
    uint64_t x = 0;
    for (int i = 0; i < n; i++) x |= (uint64_t)b[i] << 8 * i;
    return x;
}

static fac_status take_number(fac_pickle *p, int n, uint64_t *out) {
    const unsigned char *b;
    FAC_TRY(take(p, (size_t)n, &b));
    *out = number_of(b, n);
    return FAC_OK;
}

/* How many values stand above the topmost mark, which is taken off. */
static fac_status to_mark(fac_pickle *p, size_t *out_first, size_t *out_n) {
    size_t i = p->stack.n;
    while (i > 0 && p->stack.v[i - 1]->kind != PICKLE_MARK) i--;
    if (i == 0) return bad(p, "its stack has no mark");
    *out_first = i;
    *out_n = p->stack.n - i;
    p->stack.n = i - 1;
    return FAC_OK;
}

/* A tuple of the values from `first` on, which have been taken off the stack. */
static fac_status push_tuple(fac_pickle *p, size_t first, size_t n) {
    pickle_value *t = new_value(p, PICKLE_TUPLE);
    if (!t) return fac_error();
    for (size_t i = 0; i < n; i++) FAC_TRY(add_item(t, p->stack.v[first + i]));
    return push(p, t);
}

static fac_status push_text(fac_pickle *p, uint64_t n) {
    const unsigned char *b;
    if (n > p->n - p->at) return bad(p, "a text ends too early");
    FAC_TRY(take(p, (size_t)n, &b));
    if (!fac__utf8_valid((const char *)b, (size_t)n)) return bad(p, "a text is not UTF-8");
    pickle_value *v = new_value(p, PICKLE_TEXT);
    if (!v) return fac_error();
    v->text = (const char *)b;
    v->n = (size_t)n;
    return push(p, v);
}

static bool is(const char *text, size_t n, const char *word) { return strlen(word) == n && memcmp(text, word, n) == 0; }

static fac_status push_name(fac_pickle *p, const char *module, size_t n_module, const char *name, size_t n_name) {
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        if (!is(module, n_module, names[i].module) || !is(name, n_name, names[i].name)) continue;
        pickle_value *v = new_value(p, PICKLE_NAME);
        if (!v) return fac_error();
        v->role = (int)names[i].role;
        v->dtype = names[i].dtype;
        v->text = names[i].name;
        return push(p, v);
    }
    return FAC_FAIL(
        FAC_ERR_UNSUPPORTED,
        "'%s' needs '%.*s.%.*s', which Python would call; only tensors, dicts, lists, tuples, numbers and text are "
        "read (save a state_dict)",
        p->path, (int)fac__min((int64_t)n_module, 100), module, (int)fac__min((int64_t)n_name, 100), name);
}

/* ---- what PyTorch's functions would make ---------------------------------------------------------------------------------- */

static const pickle_value *item(const pickle_value *v, size_t i, pickle_kind kind) {
    return i < v->n_items && v->items[i]->kind == kind ? v->items[i] : NULL;
}

/* ('storage', FloatStorage, '0', 'cpu', 6) */
static fac_status push_storage(fac_pickle *p) {
    pickle_value *id;
    FAC_TRY(pop(p, &id));
    const pickle_value *word = item(id, 0, PICKLE_TEXT), *type = item(id, 1, PICKLE_NAME),
                       *key = item(id, 2, PICKLE_TEXT), *count = item(id, 4, PICKLE_INT);
    if (id->kind != PICKLE_TUPLE || id->n_items != 5 || !word || !is(word->text, word->n, "storage") || !type || !key ||
        !count || count->number < 0 || (type->role != ROLE_STORAGE && type->role != ROLE_BYTES))
        return bad(p, "a storage is not described as one");
    pickle_value *s = new_value(p, PICKLE_STORAGE);
    if (!s) return fac_error();
    s->dtype = type->dtype;
    s->text = key->text;
    s->n = key->n;
    s->number = count->number;
    return push(p, s);
}

static bool are_counts(const pickle_value *t) {
    bool all = t && t->kind == PICKLE_TUPLE && t->n_items <= FAC_MAX_DIMS;
    for (size_t i = 0; all && i < t->n_items; i++) all = t->items[i]->kind == PICKLE_INT && t->items[i]->number >= 0;
    return all;
}

/* (storage, offset, sizes, strides, requires_grad, hooks[, dtype or metadata]) */
static fac_status push_tensor(fac_pickle *p, const pickle_value *args, bool has_dtype) {
    const pickle_value *storage = item(args, 0, PICKLE_STORAGE), *offset = item(args, 1, PICKLE_INT),
                       *sizes = item(args, 2, PICKLE_TUPLE), *strides = item(args, 3, PICKLE_TUPLE),
                       *dtype = has_dtype ? item(args, 6, PICKLE_NAME) : NULL;
    if (!storage || !offset || offset->number < 0 || !are_counts(sizes) || !are_counts(strides) ||
        sizes->n_items != strides->n_items || (has_dtype && (!dtype || dtype->role != ROLE_DTYPE)) ||
        (!has_dtype && storage->dtype == FAC_DTYPE_DEFAULT))
        return bad(p, "a tensor is not described as one");
    pickle_value *t = new_value(p, PICKLE_TENSOR);
    if (!t) return fac_error();
    t->dtype = has_dtype ? dtype->dtype : storage->dtype;
    t->number = offset->number;
    for (size_t i = 0; i < 4; i++)
        if (i != 1) FAC_TRY(add_item(t, args->items[i]));
    return push(p, t);
}

static fac_status call(fac_pickle *p) {
    pickle_value *args, *fn;
    FAC_TRY(pop(p, &args));
    FAC_TRY(pop(p, &fn));
    if (fn->kind != PICKLE_NAME || args->kind != PICKLE_TUPLE) return bad(p, "it calls what is no function");
    switch ((pickle_role)fn->role) {
    case ROLE_DICT:
        if (args->n_items == 0) return push(p, new_value(p, PICKLE_DICT));
        break;
    case ROLE_TENSOR: return push_tensor(p, args, false);
    case ROLE_TENSOR3: return push_tensor(p, args, true);
    case ROLE_PARAMETER:
        if (item(args, 0, PICKLE_TENSOR)) return push(p, args->items[0]);
        break;
    case ROLE_SIZE:
        if (item(args, 0, PICKLE_TUPLE)) return push(p, args->items[0]);
        break;
    case ROLE_DEVICE:
        if (item(args, 0, PICKLE_TEXT)) return push(p, args->items[0]);
        break;
    case ROLE_STORAGE:
    case ROLE_BYTES:
    case ROLE_DTYPE: break;
    }
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' calls %s with arguments that are not read", p->path, fn->text);
}

/* ---- instructions --------------------------------------------------------------------------------------------------------- */

static fac_status append(fac_pickle *p, size_t first, size_t n, pickle_kind kind) {
    pickle_value *to = p->stack.n ? p->stack.v[p->stack.n - 1] : NULL;
    if (!to || to->kind != kind || (kind == PICKLE_DICT && n % 2)) return bad(p, "it fills what is no list or dict");
    for (size_t i = 0; i < n; i++) FAC_TRY(add_item(to, p->stack.v[first + i]));
    return FAC_OK;
}

static fac_status append_marked(fac_pickle *p, pickle_kind kind) {
    size_t first, n;
    FAC_TRY(to_mark(p, &first, &n));
    return append(p, first, n, kind);
}

/* The topmost n values, which are taken off. */
static fac_status append_last(fac_pickle *p, size_t n, pickle_kind kind) {
    pickle_value *v;
    for (size_t i = 0; i < n; i++) FAC_TRY(pop(p, &v));
    return append(p, p->stack.n, n, kind);
}

static fac_status tuple_last(fac_pickle *p, size_t n) {
    pickle_value *v;
    for (size_t i = 0; i < n; i++) FAC_TRY(pop(p, &v));
    return push_tuple(p, p->stack.n, n);
}

static fac_status tuple_marked(fac_pickle *p) {
    size_t first, n;
    FAC_TRY(to_mark(p, &first, &n));
    return push_tuple(p, first, n);
}

/* A pickle has no more values than bytes, so a greater number is no place in its memory. */
static fac_status remember(fac_pickle *p, uint64_t i) {
    if (p->stack.n == 0 || i > p->n) return bad(p, "it remembers nothing");
    while (p->memo.n <= i) {
        FAC_TRY(FAC_VEC_GROW(&p->memo));
        p->memo.v[p->memo.n++] = NULL;
    }
    p->memo.v[i] = p->stack.v[p->stack.n - 1];
    return FAC_OK;
}

static fac_status recall(fac_pickle *p, uint64_t i) {
    if (i >= p->memo.n || !p->memo.v[i] || p->memo.v[i]->kind == PICKLE_MARK) return bad(p, "it recalls nothing");
    return push(p, p->memo.v[i]);
}

/* Two lines: module and name. */
static fac_status name_lines(fac_pickle *p) {
    const char *module = (const char *)p->bytes + p->at;
    const char *end = memchr(module, '\n', p->n - p->at);
    const char *name = end ? end + 1 : NULL;
    const char *stop = end ? memchr(name, '\n', p->n - p->at - (size_t)(name - module)) : NULL;
    if (!stop) return bad(p, "a name does not end");
    p->at += (size_t)(stop + 1 - module);
    return push_name(p, module, (size_t)(end - module), name, (size_t)(stop - name));
}

static fac_status name_on_stack(fac_pickle *p) {
    pickle_value *name, *module;
    FAC_TRY(pop(p, &name));
    FAC_TRY(pop(p, &module));
    if (name->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT) return bad(p, "a name is no text");
    return push_name(p, module->text, module->n, name->text, name->n);
}

/* Whole numbers of up to eight bytes, two's complement. */
static fac_status long_number(fac_pickle *p) {
    uint64_t n, x = 0;
    const unsigned char *b;
    FAC_TRY(take_number(p, 1, &n));
    FAC_CHECK(n <= 8, FAC_ERR_UNSUPPORTED, "'%s' has a whole number of more than 64 bits", p->path);
    FAC_TRY(take(p, (size_t)n, &b));
    x = number_of(b, (int)n);
    if (n > 0 && n < 8 && b[n - 1] & 0x80) x |= UINT64_MAX << 8 * n;
    return push_number(p, PICKLE_INT, (int64_t)x);
}

static fac_status real_number(fac_pickle *p) {
    const unsigned char *b;
    uint64_t x = 0;
    FAC_TRY(take(p, 8, &b));
    for (int i = 0; i < 8; i++) x = x << 8 | b[i];
    pickle_value *v = new_value(p, PICKLE_FLOAT);
    if (v) memcpy(&v->real, &x, sizeof x);
    return push(p, v);
}

/* An object's attributes: those of an OrderedDict, such as a state_dict's versions, do not count. */
static fac_status build(fac_pickle *p) {
    pickle_value *state;
    FAC_TRY(pop(p, &state));
    const pickle_value *of = p->stack.n ? p->stack.v[p->stack.n - 1] : NULL;
    if (of && of->kind == PICKLE_DICT) return FAC_OK;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' gives attributes to an object that is no OrderedDict", p->path);
}

static fac_status with_number(fac_pickle *p, int bytes, fac_status (*then)(fac_pickle *p, uint64_t x)) {
    uint64_t x;
    FAC_TRY(take_number(p, bytes, &x));
    return then(p, x);
}

static fac_status push_int(fac_pickle *p, uint64_t x) { return push_number(p, PICKLE_INT, (int64_t)x); }
static fac_status push_int32(fac_pickle *p, uint64_t x) { return push_number(p, PICKLE_INT, (int32_t)(uint32_t)x); }
static fac_status ignore(fac_pickle *p, uint64_t x) {
    (void)p, (void)x;
    return FAC_OK;
}

static fac_status pop_any(fac_pickle *p) {
    pickle_value *v;
    return pop(p, &v);
}

static fac_status run(fac_pickle *p, int code) {
    switch (code) {
    case 0x80: return with_number(p, 1, ignore); /* PROTO */
    case 0x95: return with_number(p, 8, ignore); /* FRAME */
    case '(': return push(p, new_value(p, PICKLE_MARK));
    case '0': return pop_any(p);
    case 'N': return push(p, new_value(p, PICKLE_NONE));
    case 0x88: return push_number(p, PICKLE_BOOL, 1);
    case 0x89: return push_number(p, PICKLE_BOOL, 0);
    case 'K': return with_number(p, 1, push_int);
    case 'M': return with_number(p, 2, push_int);
    case 'J': return with_number(p, 4, push_int32);
    case 0x8a: return long_number(p);
    case 'G': return real_number(p);
    case 'X': return with_number(p, 4, push_text);
    case 0x8c: return with_number(p, 1, push_text);
    case 0x8d: return with_number(p, 8, push_text);
    case ')': return push(p, new_value(p, PICKLE_TUPLE));
    case 't': return tuple_marked(p);
    case 0x85: return tuple_last(p, 1);
    case 0x86: return tuple_last(p, 2);
    case 0x87: return tuple_last(p, 3);
    case ']': return push(p, new_value(p, PICKLE_LIST));
    case 'a': return append_last(p, 1, PICKLE_LIST);
    case 'e': return append_marked(p, PICKLE_LIST);
    case '}': return push(p, new_value(p, PICKLE_DICT));
    case 's': return append_last(p, 2, PICKLE_DICT);
    case 'u': return append_marked(p, PICKLE_DICT);
    case 'q': return with_number(p, 1, remember);
    case 'r': return with_number(p, 4, remember);
    case 0x94: return remember(p, p->memo.n);
    case 'h': return with_number(p, 1, recall);
    case 'j': return with_number(p, 4, recall);
    case 'c': return name_lines(p);
    case 0x93: return name_on_stack(p);
    case 'Q': return push_storage(p);
    case 'R': return call(p);
    case 'b': return build(p);
    default: break;
    }
    return FAC_FAIL(FAC_ERR_UNSUPPORTED,
                    "'%s' has the instruction 0x%02x in its pickle, which torch.save does not write", p->path,
                    (unsigned)code);
}

fac_status fac__pickle_read(fac_pickle *p, const char *path, const void *bytes, size_t n) {
    *p = (fac_pickle){.path = path, .bytes = bytes, .n = n};
    for (;;) {
        const unsigned char *code;
        FAC_TRY(take(p, 1, &code));
        if (*code == '.') break;
        FAC_TRY(run(p, *code));
    }
    FAC_TRY(pop(p, &p->root));
    return p->stack.n == 0 && p->at == n ? FAC_OK : bad(p, "it goes on behind its end");
}

void fac__pickle_free(fac_pickle *p) {
    for (size_t i = 0; i < p->all.n; i++) {
        fac__free(p->all.v[i]->items);
        fac__free(p->all.v[i]);
    }
    fac__free(p->all.v);
    fac__free(p->stack.v);
    fac__free(p->memo.v);
    *p = (fac_pickle){0};
}
