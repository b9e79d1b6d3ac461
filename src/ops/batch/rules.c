/* The rules that many operators share. What they have in common: samples go to dimension 0, and what the arguments
   say of dimensions is said of one more. */
#include "ops/batch/rules.h"
#include "core/scalar.h"
#include "ops_gen.h"

/* ---- pointwise -------------------------------------------------------------------------------------------------- */

/* What chooses between elements has no part in their dtype. */
static bool chooses(const batch_call *b, const batch_tensor *x) {
    const char *name = b->schema->args[x->arg].name;
    return strcmp(name, "condition") == 0 || strcmp(name, "mask") == 0;
}

/* The dtype that one sample would be computed in: a tensor without dimensions ranks below others, which it no longer
   does with a dimension for the samples. */
static fac_dtype sample_dtype(const batch_call *b) {
    fac_promotion types = {0};
    for (size_t i = 0; i < b->n; i++)
        if (!chooses(b, &b->v[i])) fac__promote_tensor(&types, b->v[i].given);
    return fac__promote_result(&types);
}

static bool is_alone(const batch_call *b) {
    for (size_t i = 1; i < b->n; i++)
        if (b->v[i].given->dtype != b->v[0].given->dtype) return false;
    return true;
}

/* Bools are the weakest either way, and may be conditions. */
static fac_status settle_dtype(batch_call *b, batch_tensor *x, fac_dtype dtype) {
    fac_tensor *next = NULL;
    const fac_dtype own = (fac_dtype)x->given->dtype;
    if (!x->batched || x->written || x->rank || chooses(b, x) || own == FAC_BOOL || own == dtype || dtype == FAC_BOOL)
        return FAC_OK;
    FAC_TRY(batch_front(b, x, false));
    return batch_become(x,
                        fac__c__to_copy(x->t, dtype, FAC_STRIDED, (fac_device){0, 0}, (fac_opt_num){0}, false,
                                        FAC_FORMAT_DEFAULT, &next),
                        &next);
}

int batch_most_dims(const batch_call *b) {
    int most = 0;
    for (size_t i = 0; i < b->n; i++) most = b->v[i].rank > most ? b->v[i].rank : most;
    return most;
}

/* Aligned at the right as one sample's would be, with the samples before all of it. */
fac_status batch_align(batch_call *b) {
    const int most = batch_most_dims(b);
    for (size_t i = 0; i < b->n; i++) {
        batch_tensor *x = &b->v[i];
        FAC_TRY(batch_front(b, x, false));
        if (x->front) FAC_TRY(batch_insert(x, 1, most - x->rank));
    }
    return FAC_OK;
}

/* An operator that brings its tensors to no common dtype has the number 1 in its entry. */
static fac_status pointwise(batch_call *b) {
    if (!is_alone(b) && !batch_number(b, 0)) {
        const fac_dtype dtype = sample_dtype(b);
        for (size_t i = 0; i < b->n; i++) FAC_TRY(settle_dtype(b, &b->v[i], dtype));
    }
    /* What is written keeps its dimensions: an operand with more of them is an error, as it is for one sample. An
       argument that the entry names is one number, and cannot have a dimension for the samples. */
    for (size_t i = 0; i < b->n; i++)
        if ((b->v[i].written && b->v[i].rank < batch_most_dims(b)) || (batch_told(b, b->v[i].arg) && b->v[i].batched))
            return fac__batch_loop(b);
    FAC_TRY(batch_align(b));
    return batch_call_op(b);
}

/* ---- as they are ------------------------------------------------------------------------------------------------ */

/* Orders in memory are for four or five dimensions, and say nothing of values. */
static fac_status plain_format(batch_call *b) {
    const int i = batch_find(b, "memory_format");
    if (i < 0 || b->stack[i].tag == FAC_TAG_NONE) return FAC_OK;
    const fac_memory_format f = fac_value_as_format(b->stack[i]);
    return f == FAC_CHANNELS_LAST || f == FAC_CHANNELS_LAST_3D
               ? batch_set(b, (size_t)i, fac_value_format(FAC_CONTIGUOUS))
               : FAC_OK;
}

/* Padding that one sample has no dimensions for would be the batch's. */
static bool is_too_long(const batch_call *b) {
    for (size_t i = 0; i < b->op->n_args; i++)
        if (batch_told(b, i) && fac_value_as_ints(b->stack[i]).n > 2 * (size_t)b->v[0].rank) return true;
    return false;
}

/* What is read as items of another size gives or takes elements of the last dimension, which would be the batch's. */
static bool lacks_last(const batch_call *b) {
    if (b->v[0].rank >= batch_number(b, 0)) return false;
    const int i = batch_find(b, "dtype");
    return i < 0 || fac__dtype_size(fac_value_as_dtype(b->stack[i])) != fac__item_size(b->v[0].given);
}

static fac_status like(batch_call *b) {
    if (is_too_long(b) || lacks_last(b)) return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(plain_format(b));
    return batch_call_op(b);
}

static fac_status refused(batch_call *b) {
    return batch_refuse(b, b->facts->data_dependent
                               ? "the size of its result, or a number that it gives, depends on the values, and would "
                                 "differ between samples"
                               : "it changes what a tensor is made of, which a sample is only a part of");
}

/* ---- arguments that name dimensions ----------------------------------------------------------------------------- */

static bool names_dims(const char *name) {
    static const char *const names[] = {"dim", "dims", "dim0", "dim1", "dim2", "dimension", "axis"};
    for (size_t i = 0; i < FAC_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Argument i, one dimension or a list of them, said of one more; after `lead` when that is wanted. */
static fac_status shift(batch_call *b, size_t i, int rank, bool lead) {
    const fac_value v = *batch_arg(b, i);
    int64_t d, dims[FAC_MAX_DIMS + 1];
    if (v.tag == FAC_TAG_INT) {
        FAC_TRY(fac__wrap_dim(fac_value_as_int(v), rank, &d));
        return batch_set(b, i, fac_value_int(d + 1));
    }
    const fac_ints l = fac_value_as_ints(v);
    size_t n = 0;
    FAC_CHECK(l.n <= FAC_MAX_DIMS, FAC_ERR_ARGUMENT, "a list of %zu dimensions; there are at most %d", l.n,
              FAC_MAX_DIMS);
    if (lead) dims[n++] = 0;
    for (size_t k = 0; k < l.n; k++, n++) {
        FAC_TRY(fac__wrap_dim(l.v[k], rank, &d));
        dims[n] = d + 1;
    }
    return v.tag == FAC_TAG_NONE ? FAC_OK : batch_set_ints(b, i, dims, n);
}

static fac_status shift_all(batch_call *b, int rank, bool lead) {
    for (size_t i = 0; i < b->op->n_args; i++)
        if (names_dims(b->schema->args[i].name)) FAC_TRY(shift(b, i, rank, lead));
    return FAC_OK;
}

/* Of samples without dimensions, whose only one is 0 or -1: they are taken as of one element. */
static fac_status lift_all(batch_call *b, int most) {
    for (size_t i = 0; i < b->n && most == 0; i++) FAC_TRY(batch_insert(&b->v[i], 1, 1));
    return FAC_OK;
}

static fac_status lower_out(batch_call *b, fac_tensor *t, fac_tensor **out) {
    (void)b;
    if (t->ndim == 2) return fac__c_squeeze_dim(t, 1, out);
    *out = fac__ref(t);
    return FAC_OK;
}

/* All tensors have the dimensions of one, but for those that the entry names, which must be the same for all samples.
   */
static bool fits_dim(const batch_call *b, int most) {
    for (size_t i = 0; i < b->n; i++) {
        const bool apart = batch_told(b, b->v[i].arg);
        if (apart ? b->v[i].batched : b->v[i].rank != most) return false;
    }
    return true;
}

static int dims_of_samples(const batch_call *b) {
    int most = 0;
    for (size_t i = 0; i < b->n; i++)
        if (!batch_told(b, b->v[i].arg) && b->v[i].rank > most) most = b->v[i].rank;
    return most;
}

/* Whether a call is not the same for samples without dimensions as for samples of one element: what is joined needs dimensions,
   and of several indices each would be an element. The loop says what is wrong. */
static bool wants_dims(const batch_call *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->schema->args[b->v[i].arg].type.list || (batch_told(b, b->v[i].arg) && b->v[i].given->numel != 1))
            return true;
    return false;
}

static fac_status dim(batch_call *b) {
    const int most = dims_of_samples(b);
    if (!fits_dim(b, most) || (most == 0 && wants_dims(b))) return fac__batch_loop(b);
    for (size_t i = 0; i < b->n; i++)
        if (!batch_told(b, b->v[i].arg)) FAC_TRY(batch_front(b, &b->v[i], true));
    for (size_t i = 0; i < b->n && most == 0; i++)
        if (!batch_told(b, b->v[i].arg)) FAC_TRY(batch_insert(&b->v[i], 1, 1));
    FAC_TRY(shift_all(b, most ? most : 1, false));
    FAC_TRY(batch_call_op(b));
    return most ? FAC_OK : batch_each_out(b, lower_out);
}

/* Where tensors without dimensions have none to name. */
static fac_status place(batch_call *b) {
    const int rank = b->v[0].rank + batch_number(b, 0);
    if (rank == 0 && !batch_number(b, 1)) return fac__batch_loop(b); /* which says what is wrong, if anything is */
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(shift_all(b, rank, batch_number(b, 1) != 0));
    return batch_call_op(b);
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* A list that is not given, or empty where that means the same, stands for all dimensions; a single one that is not
   given for a row of all elements. */
static fac_status name_dims(batch_call *b, size_t i, int rank, bool *flat) {
    const fac_value v = b->stack[i];
    int64_t dims[FAC_MAX_DIMS];
    const bool list = b->schema->args[i].type.list;
    if (v.tag == FAC_TAG_NONE && !list) {
        *flat = true;
        FAC_TRY(batch_flatten(&b->v[0], 1, b->v[0].t->ndim - 1));
        return batch_set(b, i, fac_value_int(1));
    }
    if (list && v.tag != FAC_TAG_INT && fac_value_as_ints(v).n == 0 && !(batch_number(b, 0) && v.tag != FAC_TAG_NONE)) {
        for (int d = 0; d < rank; d++) dims[d] = d + 1;
        return batch_set_ints(b, i, dims, (size_t)rank);
    }
    return shift(b, i, rank, false);
}

static bool keeps_dims(const batch_call *b) {
    const int i = batch_find(b, "keepdim");
    return i >= 0 && fac_value_as_bool(b->stack[i]);
}

/* [B, 1] -> [B, 1, 1...], as many as a sample has dimensions. */
static fac_status spread_out(batch_call *b, fac_tensor *t, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    sizes[0] = t->sizes[0];
    for (int d = 0; d < b->v[0].rank; d++) sizes[d + 1] = 1;
    return fac__c_reshape(t, (fac_ints){sizes, (size_t)b->v[0].rank + 1}, out);
}

static fac_status reduce(batch_call *b) {
    const int rank = b->v[0].rank ? b->v[0].rank : 1;
    bool flat = false;
    if (b->n > 1) return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(lift_all(b, b->v[0].rank));
    for (size_t i = 0; i < b->op->n_args; i++)
        if (names_dims(b->schema->args[i].name)) FAC_TRY(name_dims(b, i, rank, &flat));
    FAC_TRY(batch_call_op(b));
    if (flat && keeps_dims(b)) return batch_each_out(b, spread_out);
    return b->v[0].rank ? FAC_OK : batch_each_out(b, lower_out);
}

/* Over all elements: of the row of each sample, by the operator that reduces a dimension. */
static fac_status all(batch_call *b) {
    const int64_t one = 1;
    const fac_schema *s = atomic_load_explicit(&b->facts->batch_op->schema, memory_order_acquire);
    FAC_CHECK(s, FAC_ERR_NOT_FOUND, "vmap of %s needs an operator that this program has left out", b->op->name);
    if (s->n_rets > 1 && b->v[0].given->numel == 0) return fac__batch_loop(b); /* none has an index */
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(batch_flatten(&b->v[0], 1, b->v[0].t->ndim - 1));
    fac_value args[4] = {fac__value_tensor(b->v[0].t),
                         s->args[1].type.list ? fac_value_ints(&one, 1) : fac_value_int(1), fac_value_bool(false)};
    size_t n = 3;
    fac_value made[2] = {fac_value_none(), fac_value_none()}; /* indices too, which nobody wants */
    const int dtype = batch_find(b, "dtype");
    if (dtype >= 0) args[n++] = fac_value_copy(b->stack[dtype]);
    fac_status st = fac_error();
    if (st == FAC_OK) st = fac_call_op(b->facts->batch_op, args, n, made);
    for (size_t i = 0; i < n; i++) fac_value_release(&args[i]);
    fac_value_release(&made[1]);
    b->outs[0] = made[0];
    return st;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

/* A list of sizes gets the batch's in front, dimensions are counted among them. */
static fac_status size(batch_call *b) {
    static const char *const names[] = {"size", "input_sizes"};
    int64_t sizes[FAC_MAX_DIMS + 1];
    int i = -1;
    for (size_t k = 0; k < FAC_COUNT(names); k++) {
        const int found = batch_find(b, names[k]);
        if (found >= 0 && b->schema->args[found].type.list) i = found;
    }
    const fac_ints l = fac_value_as_ints(b->stack[i]);
    FAC_CHECK(l.n < FAC_MAX_DIMS, FAC_ERR_SHAPE, "%zu sizes; with one for the batch there are at most %d", l.n,
              FAC_MAX_DIMS);
    FAC_TRY(batch_front_all(b, true));
    sizes[0] = b->level->size;
    for (size_t d = 0; d < l.n; d++) sizes[d + 1] = l.v[d];
    FAC_TRY(batch_set_ints(b, (size_t)i, sizes, l.n + 1));
    FAC_TRY(shift_all(b, (int)l.n, false));
    return batch_call_op(b);
}

/* ---- matrices and images in the last dimensions ----------------------------------------------------------------- */

/* Dimensions before those of the matrices are aligned at the right and broadcast; each tensor has the batch's before
   them. */
static fac_status trailing(batch_call *b) {
    int lead = 0;
    for (size_t i = 0; i < b->n; i++) {
        const int own = b->v[i].rank - batch_number(b, (int)i);
        if (own < 0) return fac__batch_loop(b); /* which says what is wrong with it */
        lead = own > lead ? own : lead;
    }
    FAC_TRY(batch_front_all(b, true));
    for (size_t i = 0; i < b->n; i++)
        FAC_TRY(batch_insert(&b->v[i], 1, lead - (b->v[i].rank - batch_number(b, (int)i))));
    return batch_call_op(b);
}

/* One image in a tensor that the entry names serves all of the first tensor's; false if others have not as many. */
static fac_status spread_images(batch_call *b, bool *fit) {
    int64_t sizes[FAC_MAX_DIMS];
    const int64_t images = b->v[0].given->sizes[0];
    *fit = true;
    for (size_t i = 1; i < b->n; i++) {
        batch_tensor *x = &b->v[i];
        fac_tensor *next = NULL;
        if (x->given->sizes[0] == images) continue;
        *fit = *fit && x->given->sizes[0] == 1 && batch_told(b, x->arg);
        if (!*fit) return FAC_OK;
        for (int d = 0; d < x->t->ndim; d++) sizes[d] = d == 1 ? images : -1;
        FAC_TRY(batch_become(x, fac__c_expand(x->t, (fac_ints){sizes, x->t->ndim}, false, &next), &next));
    }
    return FAC_OK;
}

/* The first size of a list of N, C and so on. */
static fac_status scale_sizes(batch_call *b) {
    int64_t sizes[FAC_MAX_DIMS];
    for (size_t i = 0; i < b->op->n_args; i++) {
        if (!batch_told(b, i) || !b->schema->args[i].type.list) continue;
        const fac_ints l = fac_value_as_ints(b->stack[i]);
        FAC_CHECK(l.n && l.n <= FAC_MAX_DIMS, FAC_ERR_ARGUMENT, "'%s' has %zu sizes", b->schema->args[i].name, l.n);
        for (size_t d = 0; d < l.n; d++) sizes[d] = l.v[d];
        FAC_CHECK(fac__mul(sizes[0], b->level->size, &sizes[0]), FAC_ERR_OVERFLOW,
                  "a batch of %lld images is too large", (long long)sizes[0]);
        FAC_TRY(batch_set_ints(b, i, sizes, l.n));
    }
    return FAC_OK;
}

static fac_status unfold_outs(batch_call *b) {
    for (size_t i = 0; i < b->schema->n_rets; i++) FAC_TRY(batch_split(&b->outs[i], b->level->size));
    return FAC_OK;
}

/* Fractional pooling has two or three random numbers for each plane, [N, C, d]; N is 1 beside a sample that is one image. */
static fac_status fold_with_numbers(batch_call *b, int inner) {
    batch_tensor *input = &b->v[0], *numbers = &b->v[1];
    const bool one = input->rank == inner;
    if ((!one && input->rank != inner + 1) || numbers->rank != 3 || input->given->numel == 0 ||
        numbers->given->sizes[0] != (one ? 1 : input->given->sizes[0]))
        return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(batch_flatten(numbers, 0, 2));
    if (one) return batch_call_op(b);
    FAC_TRY(batch_flatten(input, 0, 2));
    FAC_TRY(batch_call_op(b));
    return unfold_outs(b);
}

/* The batch joins the dimension of the images; a sample that is one image has none, and gets the batch's. */
static fac_status fold(batch_call *b) {
    const int inner = batch_number(b, 0), rank = b->v[0].rank;
    bool fit;
    if (batch_find(b, "random_samples") > 0) return fold_with_numbers(b, inner);
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].rank != rank) return fac__batch_loop(b);
    if (rank != inner && rank != inner + 1) return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    if (rank == inner) return batch_call_op(b);
    FAC_TRY(spread_images(b, &fit));
    if (!fit) return fac__batch_loop(b);
    for (size_t i = 0; i < b->n; i++) {
        if (b->v[i].t->sizes[0] == 0 || b->v[i].t->sizes[1] == 0) return fac__batch_loop(b);
        FAC_TRY(batch_flatten(&b->v[i], 0, 2));
    }
    FAC_TRY(scale_sizes(b));
    FAC_TRY(batch_call_op(b));
    return unfold_outs(b);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

/* Composites reach this only when their own kernel is not registered: their parts have rules. */
const batch_rule fac__batch_rules[FAC_BATCH_COUNT] = {
    [FAC_BATCH_LOOP] = fac__batch_loop,
    [FAC_BATCH_PARTS] = fac__batch_loop,
    [FAC_BATCH_OUT] = fac__batch_out,
    [FAC_BATCH_INPLACE] = fac__batch_inplace,
    [FAC_BATCH_POINTWISE] = pointwise,
    [FAC_BATCH_REFUSED] = refused,
    [FAC_BATCH_LIKE] = like,
    [FAC_BATCH_DIM] = dim,
    [FAC_BATCH_PLACE] = place,
    [FAC_BATCH_REDUCE] = reduce,
    [FAC_BATCH_ALL] = all,
    [FAC_BATCH_SIZE] = size,
    [FAC_BATCH_TRAILING] = trailing,
    [FAC_BATCH_FOLD] = fold,
    [FAC_BATCH_LOSS] = fac__batch_loss,
    [FAC_BATCH_EXPAND] = fac__batch_expand,
    [FAC_BATCH_TRANSPOSE] = fac__batch_t,
    [FAC_BATCH_SQUEEZE] = fac__batch_squeeze,
    [FAC_BATCH_AS_STRIDED] = fac__batch_as_strided,
    [FAC_BATCH_ROLL] = fac__batch_roll,
    [FAC_BATCH_MATMUL] = fac__batch_matmul,
    [FAC_BATCH_ADDMATMUL] = fac__batch_addmatmul,
    [FAC_BATCH_SOLVE] = fac__batch_solve,
    [FAC_BATCH_CONVOLUTION] = fac__batch_convolution,
    [FAC_BATCH_EMBEDDING] = fac__batch_embedding,
    [FAC_BATCH_INDEX] = fac__batch_index,
    [FAC_BATCH_INDEX_PUT] = fac__batch_index_put,
    [FAC_BATCH_NORMALIZED] = fac__batch_normalized,
    [FAC_BATCH_CHANNELS] = fac__batch_channels,
    [FAC_BATCH_NLL] = fac__batch_nll,
    [FAC_BATCH_SEQUENCES] = fac__batch_sequences,
};
