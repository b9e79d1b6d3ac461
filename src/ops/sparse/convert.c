/* Sparse tensors from one layout to another, by way of coordinates. */
#include "ops/sparse/host.h"

static fac_tensor *from_compressed(fac_tensor *t, bool in_any_order);

/* ---- dense and coordinates --------------------------------------------------------------------------------------------- */

/* A tensor of blocks, which are elements with two more dense dimensions, by lines; NULL with no error pending if it is not of blocks,
   or would have too many dimensions. */
static fac_tensor *of_blocks(fac_tensor *t) {
    int64_t block[2], sizes[FAC_MAX_DIMS];
    if (!fac__sparse_block(t, block).n || t->ndim + 2 > FAC_MAX_DIMS) return NULL;
    const fac_sparse *s = fac__sparse_of(t);
    const int batch = s->plain->ndim - 1;
    for (int i = 0; i < t->ndim; i++) sizes[i < batch + 2 ? i : i + 2] = t->sizes[i];
    for (int i = 0; i < 2; i++) sizes[batch + i] /= block[i], sizes[batch + 2 + i] = block[i];
    return fac__sparse_compressed(s->layout == FAC_SPARSE_BSR ? FAC_SPARSE_CSR : FAC_SPARSE_CSC,
                                  (fac_ints){sizes, (size_t)t->ndim + 2}, s->indices, s->plain, s->values);
}

fac_tensor *fac__sparse_dense(fac_tensor *t) {
    if (!t || !fac__sparse_of(t)) return t;
    if (t->device.type == FAC_META) return fac__sparse_zeros(fac__sparse_sizes(t), fac__sparse_dtype(t), t->device);
    fac_tensor *blocks = of_blocks(t);
    if (blocks) {
        const int batch = fac__sparse_of(t)->plain->ndim - 1;
        blocks = fac__sparse_dense(blocks);
        return blocks ? fac__s_reshape(fac__s_transpose_int(blocks, batch + 1, batch + 2), fac__sparse_sizes(t)) : NULL;
    }
    if (fac_error()) return NULL;
    fac_tensor *zeros = fac__sparse_zeros(fac__sparse_sizes(t), fac__sparse_dtype(t), t->device);
    if (t->numel == 0) return zeros;
    /* Elements that are there twice are added to zeros as well as to each other. */
    const bool adds = t->dtype != FAC_BOOL;
    const int dims = t->ndim - fac__sparse_of(t)->dense_dim;
    bool once = true;
    fac_tensor *at = NULL, *values = NULL;
    if (fac__layout_of(t) == FAC_SPARSE_CSR && (at = fac__sparse_host_cells(t))) {
        values = fac__sparse_reshape(fac__sparse_of(t)->values, 0, fac__sparse_of(t)->plain->ndim, FAC_INTS(at->numel));
    } else {
        const bool in_order =
            !adds || fac__layout_of(t) == FAC_SPARSE_CSC; /* or each column's elements lie far apart */
        t = fac_error() ? NULL : in_order ? fac__sparse_as_coo(t) : fac__is_coo(t) ? t : from_compressed(t, true);
        if (!t) return NULL;
        once = fac__sparse_of(t)->coalesced, values = fac__sparse_of(t)->values;
        at = fac__sparse_flat(fac__sparse_of(t)->indices, t->sizes);
    }
    if (!at || !values || !zeros) return NULL;
    if (at->numel == 0) return zeros;
    fac_tensor *cell = fac__sparse_reshape(zeros, 0, dims, FAC_INTS(fac__sparse_numel(t->sizes, dims)));
    if (!cell) return NULL;
    fac_tensor *flat =
        once ? fac__s_index_copy_(cell, 0, at, values) : fac__s_index_add_(cell, 0, at, values, fac_scalar_i_(1));
    return flat ? fac__s_reshape(flat, fac__sparse_sizes(t)) : NULL;
}

fac_tensor *fac__sparse_of_dense(fac_tensor *t, int sparse_dim) {
    if (!t) return NULL;
    const int64_t cells = fac__sparse_numel(t->sizes, sparse_dim);
    fac_tensor *flat = fac__sparse_reshape(t, 0, sparse_dim, FAC_INTS(cells));
    fac_tensor *set = fac__s_ne_Scalar(flat, fac_scalar_i_(0));
    if (!set) return NULL;
    if (set->ndim > 1) {
        const int64_t rest = fac__sparse_numel(set->sizes + 1, set->ndim - 1);
        set = fac__s_any_dim(fac__s_reshape(set, FAC_INTS(cells, rest)), 1, false);
    }
    fac_tensor *here = fac__sparse_host_of_set(set, flat, fac__sparse_sizes(t), sparse_dim);
    if (here || fac_error()) return here;
    fac_tensor *at = fac__s_nonzero(set);
    at = at ? fac__s_reshape(at, FAC_INTS(at->sizes[0])) : NULL;
    return fac__sparse_coo(fac__sparse_sizes(t), fac__sparse_unflat(at, t->sizes, sparse_dim),
                           fac__s_index_select(flat, 0, at), true);
}

/* ---- compressed to coordinates -------------------------------------------------------------------------------------------- */

fac_tensor *fac__sparse_compress(fac_tensor *rows, int64_t n) {
    int64_t edges;
    if (!rows) return NULL;
    if (!fac__add(n, 1, &edges))
        return FAC_FAIL(FAC_ERR_OVERFLOW, "a compressed tensor of %lld lines is too large", (long long)n), NULL;
    fac_tensor *here = fac__sparse_host_edges(rows, edges);
    if (here || fac_error()) return here;
    return fac__s_searchsorted_Tensor(rows, fac__sparse_range(edges, rows->device), false, false, NULL, NULL);
}

/* Writes each row's number as often as it has elements. False if rows do not begin in order, from 0 to z. */
static bool repeat_rows(const int64_t *begin, int64_t rows, int64_t z, int64_t *out) {
    if (begin[0] != 0 || begin[rows] != z) return false;
    for (int64_t i = 0; i < rows; i++)
        if (begin[i] > begin[i + 1]) return false;
    for (int64_t i = 0; i < rows; i++) fac__sparse_host_fill(out + begin[i], begin[i + 1] - begin[i], i);
    return true;
}

/* The same on the host; NULL if operators have to find what there is to say, or with an error pending. */
static fac_tensor *rows_here(fac_tensor *compressed, int64_t batches, int64_t z) {
    fac_tensor *begin = fac__s_contiguous(fac__sparse_long(compressed), FAC_FORMAT_DEFAULT),
               *rows = fac__s_empty_memory_format(FAC_INTS(batches, z), FAC_I64, FAC_STRIDED, compressed->device,
                                                  (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    if (!begin || !rows) return NULL;
    const int64_t n = begin->sizes[1];
    for (int64_t b = 0; b < batches; b++)
        if (!repeat_rows((const int64_t *)fac__data(begin) + b * n, n - 1, z, (int64_t *)fac__data(rows) + b * z))
            return NULL;
    return rows;
}

/* [b, n + 1] row beginnings and z elements in each batch: row numbers [b, z]. */
static fac_tensor *rows_of(fac_tensor *compressed, int64_t batches, int64_t z) {
    if (!compressed) return NULL;
    fac_tensor *here = compressed->device.type == FAC_CPU && z ? rows_here(compressed, batches, z) : NULL;
    if (here || fac_error()) return here;
    fac_tensor *places = fac__s_expand(fac__sparse_range(z, compressed->device), FAC_INTS(batches, z), false);
    fac_tensor *ends = fac__s_slice_Tensor(fac__sparse_long(compressed), 1, fac_opt_int_(1), (fac_opt_int){0}, 1);
    return fac__s_searchsorted_Tensor(fac__s_contiguous(ends, FAC_FORMAT_DEFAULT),
                                      fac__s_contiguous(places, FAC_FORMAT_DEFAULT), false, true, NULL, NULL);
}

/* Coordinates inside blocks: z coordinates of blocks of height h and width w to those of z * h * w elements. */
static void unblock(fac_tensor **row, fac_tensor **column, int64_t h, int64_t w) {
    const fac_device d = *row ? (*row)->device : (fac_device){0};
    const int64_t z = *row ? (*row)->numel : 0;
    if (!*row || !*column) return;
    fac_tensor *in_row = fac__s_reshape(fac__sparse_range(h, d), FAC_INTS(1, h, 1)),
               *in_column = fac__s_reshape(fac__sparse_range(w, d), FAC_INTS(1, 1, w));
    fac_tensor *r = fac__s_add_Tensor(in_row, fac__s_reshape(*row, FAC_INTS(z, 1, 1)), fac_scalar_i_(h));
    fac_tensor *c = fac__s_add_Tensor(in_column, fac__s_reshape(*column, FAC_INTS(z, 1, 1)), fac_scalar_i_(w));
    *row = fac__s_reshape(fac__s_expand(r, FAC_INTS(z, h, w), false), FAC_INTS(z * h * w));
    *column = fac__s_reshape(fac__s_expand(c, FAC_INTS(z, h, w), false), FAC_INTS(z * h * w));
}

/* Coordinates of one matrix of compressed rows on the host. */
static fac_tensor *coordinates_here(fac_tensor *begin, fac_tensor *columns) {
    if (!fac__sparse_on_host(begin) || !fac__sparse_on_host(columns)) return NULL;
    const int64_t z = columns->numel, rows = begin->numel - 1, *from = fac__sparse_host_numbers(&begin),
                  *column = from ? fac__sparse_host_numbers(&columns) : NULL;
    fac_tensor *indices = column && z ? fac__sparse_host_empty(FAC_INTS(2, z), FAC_I64) : NULL;
    if (!indices || !repeat_rows(from, rows, z, fac__data(indices))) return NULL;
    memcpy((int64_t *)fac__data(indices) + z, column, (size_t)z * sizeof *column);
    return indices;
}

/* In order, and each once, unless any order will do. */
static fac_tensor *from_compressed(fac_tensor *t, bool in_any_order) {
    const fac_sparse *s = fac__sparse_of(t);
    int64_t block[2];
    const fac_ints b = fac__sparse_block(t, block);
    const bool by_row = s->layout == FAC_SPARSE_CSR || s->layout == FAC_SPARSE_BSR;
    const int batch_dims = s->plain->ndim - 1;
    const int64_t batches = fac__sparse_numel(t->sizes, batch_dims), z = s->plain->sizes[batch_dims],
                  lines = s->indices->sizes[batch_dims] - 1;
    fac_tensor *here = by_row && !b.n && !batch_dims ? coordinates_here(s->indices, s->plain) : NULL;
    if (here || fac_error()) return fac__sparse_coo(fac__sparse_sizes(t), here, s->values, true);
    if (b.n && !batch_dims && fac__sparse_on_host(s->values)) {
        fac_tensor *blocks = fac__sparse_as_coo(of_blocks(t));
        const fac_sparse *parts = blocks ? fac__sparse_of(blocks) : NULL;
        fac_tensor *indices = parts ? parts->indices : NULL, *values = parts ? parts->values : NULL;
        if (parts && fac__sparse_host_unblock(&indices, &values, block[0], block[1]))
            return fac__sparse_coo(fac__sparse_sizes(t), indices, values, true);
        if (fac_error()) return NULL;
    }
    fac_tensor *line = rows_of(fac__s_reshape(s->indices, FAC_INTS(batches, lines + 1)), batches, z);
    if (!line) return NULL;
    line = fac__s_reshape(line, FAC_INTS(batches * z));
    fac_tensor *place = fac__s_reshape(fac__sparse_long(s->plain), FAC_INTS(batches * z));
    fac_tensor *row = by_row ? line : place, *column = by_row ? place : line;
    fac_tensor *batch = NULL;
    if (batch_dims || b.n)
        batch =
            fac__s_reshape(fac__s_expand(fac__s_reshape(fac__sparse_range(batches, t->device), FAC_INTS(batches, 1)),
                                         FAC_INTS(batches, z), false),
                           FAC_INTS(batches * z));
    fac_tensor *values = fac__sparse_reshape(s->values, 0, batch_dims + 1, FAC_INTS(batches * z));
    if (b.n) {
        batch = fac__s_reshape(fac__s_expand(fac__s_reshape(batch, FAC_INTS(batches * z, 1)),
                                             FAC_INTS(batches * z, block[0] * block[1]), false),
                               FAC_INTS(batches * z * block[0] * block[1]));
        unblock(&row, &column, block[0], block[1]);
        values = fac__sparse_reshape(values, 0, 3, FAC_INTS(batches * z * block[0] * block[1]));
    }
    fac_tensor *in_batch = batch_dims ? fac__sparse_unflat(batch, t->sizes, batch_dims) : NULL;
    fac_tensor *ij = fac__s_stack(FAC_TENSORS(row, column), 0);
    fac_tensor *indices = batch_dims ? fac__s_cat(FAC_TENSORS(in_batch, ij), 0) : ij;
    if (!by_row && !b.n && !batch_dims && !in_any_order && indices) {
        indices = fac__s_stack(FAC_TENSORS(line, place), 0);
        if (indices && fac__sparse_host_turn(&indices, &values, t->sizes[0]))
            return fac__sparse_coo(fac__sparse_sizes(t), indices, values, true);
        if (fac_error()) return NULL;
        indices = ij;
    }
    fac_tensor *coo = fac__sparse_coo(fac__sparse_sizes(t), indices, values, by_row && !b.n);
    return (by_row && !b.n) || in_any_order ? coo : fac__sparse_coalesced(coo);
}

fac_tensor *fac__sparse_to_coo(fac_tensor *t) {
    return t && fac__sparse_of(t) && !fac__is_coo(t) ? from_compressed(t, false) : t;
}
fac_tensor *fac__sparse_as_coo(fac_tensor *t) { return fac__sparse_coalesced(fac__sparse_to_coo(t)); }

/* ---- coordinates to compressed -------------------------------------------------------------------------------------------------- */

/* Elements in batches of equal numbers, as compressed layouts need them; an error if they are not. */
static fac_status per_batch(const fac_tensor *batch, int64_t batches, int64_t nnz, int64_t *out) {
    (void)batch;
    FAC_CHECK(batches == 0 || nnz % batches == 0, FAC_ERR_ARGUMENT,
              "every batch of a compressed tensor needs the same number of elements");
    *out = batches ? nnz / batches : 0;
    return FAC_OK;
}

/* The matrices of a coalesced tensor whose sparse dimensions are batches and two more, compressed along `line` of the two (0: rows).
   Its lines are already in order. */
static fac_tensor *compress(fac_tensor *coo, fac_layout layout, fac_ints sizes, int64_t lines) {
    const fac_sparse *s = fac__sparse_of(coo);
    const int batch_dims = s->sparse_dim - 2;
    const int64_t batches = fac__sparse_numel(coo->sizes, batch_dims), nnz = s->indices->sizes[1];
    int64_t z, edges, head[FAC_MAX_DIMS + 2];
    if (!fac__add(lines, 1, &edges))
        return FAC_FAIL(FAC_ERR_OVERFLOW, "a compressed tensor of %lld lines is too large", (long long)lines), NULL;
    fac_tensor *line = fac__s_select_int(s->indices, 0, batch_dims),
               *place = fac__s_select_int(s->indices, 0, batch_dims + 1);
    if (!line || per_batch(line, batches, nnz, &z) != FAC_OK) return NULL;
    for (int i = 0; i < batch_dims; i++) head[i] = coo->sizes[i];
    fac_tensor *compressed;
    if (batch_dims == 0) {
        compressed = fac__sparse_compress(line, lines);
    } else {
        fac_tensor *flat = fac__sparse_flat(
            fac__s_slice_Tensor(s->indices, 0, fac_opt_int_(0), fac_opt_int_(batch_dims), 1), coo->sizes);
        fac_tensor *wanted =
            fac__s_reshape(fac__s_expand(fac__s_reshape(fac__sparse_range(batches, coo->device), FAC_INTS(batches, 1)),
                                         FAC_INTS(batches, z), false),
                           FAC_INTS(batches * z));
        bool same = false;
        if (!flat || !wanted || fac__c_equal(flat, wanted, &same) != FAC_OK) return NULL;
        if (!same) {
            FAC_FAIL(FAC_ERR_ARGUMENT, "every batch of a compressed tensor needs the same number of elements");
            return NULL;
        }
        fac_tensor *asked = fac__s_contiguous(
            fac__s_expand(fac__sparse_range(edges, coo->device), FAC_INTS(batches, edges), false), FAC_FORMAT_DEFAULT);
        compressed = fac__s_searchsorted_Tensor(
            fac__s_contiguous(fac__s_reshape(line, FAC_INTS(batches, z)), FAC_FORMAT_DEFAULT), asked, false, false,
            NULL, NULL);
    }
    head[batch_dims] = edges;
    compressed = compressed ? fac__s_reshape(compressed, (fac_ints){head, (size_t)batch_dims + 1}) : NULL;
    head[batch_dims] = z;
    const fac_ints each = {head, (size_t)batch_dims + 1};
    return fac__sparse_compressed(layout, sizes, compressed,
                                  place ? fac__s_contiguous(fac__s_reshape(place, each), FAC_FORMAT_DEFAULT) : NULL,
                                  fac__sparse_reshape(s->values, 0, 1, each));
}

/* Rows and columns of indices exchanged, in order again. */
static fac_tensor *with_columns_first(fac_tensor *coo) {
    const fac_sparse *s = fac__sparse_of(coo);
    const int d = s->sparse_dim;
    int64_t order[FAC_MAX_DIMS], sizes[FAC_MAX_DIMS];
    for (int i = 0; i < d; i++) order[i] = i;
    order[d - 2] = d - 1, order[d - 1] = d - 2;
    for (int i = 0; i < coo->ndim; i++) sizes[i] = coo->sizes[i < d ? order[i] : i];
    fac_tensor *indices = s->indices, *values = s->values;
    if (d == 2 && fac__sparse_host_turn(&indices, &values, coo->sizes[1]))
        return fac__sparse_coo((fac_ints){sizes, coo->ndim}, indices, values, true);
    if (fac_error()) return NULL;
    fac_tensor *at = fac__sparse_numbers((fac_ints){order, (size_t)d}, coo->device);
    return fac__sparse_coalesced(
        fac__sparse_coo((fac_ints){sizes, coo->ndim}, fac__s_index_select(s->indices, 0, at), s->values, false));
}

/* Elements gathered into blocks: the last two sparse dimensions count blocks, whose elements are two more dense dimensions. */
static fac_tensor *in_blocks(fac_tensor *coo, fac_ints block) {
    const fac_sparse *s = fac__sparse_of(coo);
    const int d = s->sparse_dim;
    int64_t sizes[FAC_MAX_DIMS + 2], inner[FAC_MAX_DIMS + 2];
    const int64_t z = s->indices->sizes[1];
    int64_t cells;
    if (!fac__mul(block.v[0], block.v[1], &cells))
        return FAC_FAIL(FAC_ERR_OVERFLOW, "blocks of %lld x %lld elements are too large", (long long)block.v[0],
                        (long long)block.v[1]),
               NULL;
    for (int i = 0; i < d; i++) sizes[i] = coo->sizes[i] / (i == d - 2 ? block.v[0] : i == d - 1 ? block.v[1] : 1);
    fac_tensor *row = fac__s_select_int(s->indices, 0, d - 2), *column = fac__s_select_int(s->indices, 0, d - 1),
               *head[3];
    fac_tensor *r = fac__s_div_Scalar_mode(row, fac_scalar_i_(block.v[0]), "floor"),
               *c = fac__s_div_Scalar_mode(column, fac_scalar_i_(block.v[1]), "floor");
    fac_tensor *in =
        fac__s_add_Tensor(fac__s_remainder_Scalar(column, fac_scalar_i_(block.v[1])),
                          fac__s_remainder_Scalar(row, fac_scalar_i_(block.v[0])), fac_scalar_i_(block.v[1]));
    head[0] = fac__s_slice_Tensor(s->indices, 0, fac_opt_int_(0), fac_opt_int_(d - 2), 1);
    head[1] = fac__s_unsqueeze(r, 0), head[2] = fac__s_unsqueeze(c, 0);
    fac_tensor *blocks = fac__s_cat((fac_tensors){head, 3}, 0);
    if (!in || !blocks) return NULL;
    /* Each block once, with the number of its block beside each element. */
    fac_tensor *flat = fac__sparse_flat(blocks, sizes);
    fac_sparse_order o = fac__sparse_order_of(flat);
    if (!o.order) return NULL;
    const int64_t n = o.n;
    fac_tensor *to = fac__s_add_Tensor(fac__s_index_select(in, 0, o.order), o.group, fac_scalar_i_(cells));
    inner[0] = n * cells;
    for (int i = 1; i < s->values->ndim; i++) inner[i] = s->values->sizes[i];
    fac_tensor *zeros = fac__sparse_zeros((fac_ints){inner, s->values->ndim}, fac__sparse_dtype(coo), coo->device);
    fac_tensor *values = z ? fac__s_index_copy(zeros, 0, to, fac__s_index_select(s->values, 0, o.order)) : zeros;
    values = fac__sparse_reshape(values, 0, 1, FAC_INTS(n, block.v[0], block.v[1]));
    sizes[d] = block.v[0], sizes[d + 1] = block.v[1];
    for (int i = d; i < coo->ndim; i++) sizes[i + 2] = coo->sizes[i];
    return fac__sparse_coo((fac_ints){sizes, (size_t)coo->ndim + 2}, fac__s_index_select(blocks, 1, o.first), values,
                           true);
}

fac_tensor *fac__sparse_from_coo(fac_tensor *t, fac_layout layout, fac_ints block) {
    t = fac__sparse_coalesced(t);
    if (!t || layout == FAC_SPARSE_COO) return t;
    const bool by_row = layout == FAC_SPARSE_CSR || layout == FAC_SPARSE_BSR,
               blocks = layout == FAC_SPARSE_BSR || layout == FAC_SPARSE_BSC;
    const fac_sparse *s = fac__sparse_of(t);
    if (s->sparse_dim < 2) {
        FAC_FAIL(FAC_ERR_SHAPE, "a tensor of the layout %s needs two dimensions with indices, but there are %d",
                 fac__layout_name(layout), s->sparse_dim);
        return NULL;
    }
    fac_tensor *m = blocks ? in_blocks(t, block) : t;
    if (!m) return NULL;
    const int64_t lines = m->sizes[s->sparse_dim - (by_row ? 2 : 1)];
    if (!by_row) m = with_columns_first(m);
    return m ? compress(m, layout, fac__sparse_sizes(t), lines) : NULL;
}

fac_tensor *fac__sparse_blocks_turned(fac_tensor *t, fac_layout layout) {
    fac_tensor *blocks = fac__sparse_as_coo(of_blocks(t));
    if (!blocks) return NULL;
    const bool by_row = layout == FAC_SPARSE_BSR;
    const int64_t lines = blocks->sizes[fac__sparse_of(blocks)->sparse_dim - (by_row ? 2 : 1)];
    if (!by_row) blocks = with_columns_first(blocks);
    return blocks ? compress(blocks, layout, fac__sparse_sizes(t), lines) : NULL;
}

fac_tensor *fac__sparse_lines_of_dense(fac_tensor *t, int dense_dim, fac_layout layout, fac_ints block) {
    const int batch = t->ndim - dense_dim - 2, n = t->ndim + 2;
    const bool by_row = layout == FAC_SPARSE_CSR || layout == FAC_SPARSE_BSR;
    if (block.n == 0) {
        fac_tensor *lines =
                       by_row ? t : fac__s_contiguous(fac__s_transpose_int(t, batch, batch + 1), FAC_FORMAT_DEFAULT),
                   *coo = fac__sparse_of_dense(lines, batch + 2);
        return coo ? compress(coo, layout, fac__sparse_sizes(t), t->sizes[batch + !by_row]) : NULL;
    }
    const int64_t h = block.v[0], w = block.v[1];
    if (t->numel == 0 || n > FAC_MAX_DIMS) return NULL;
    int64_t sizes[FAC_MAX_DIMS], order[FAC_MAX_DIMS];
    for (int i = 0; i < n; i++) order[i] = i, sizes[i] = i < batch ? t->sizes[i] : i >= batch + 4 ? t->sizes[i - 2] : 0;
    sizes[batch] = t->sizes[batch] / h, sizes[batch + 1] = h;
    sizes[batch + 2] = t->sizes[batch + 1] / w, sizes[batch + 3] = w;
    order[batch] = by_row ? batch : batch + 2, order[batch + 1] = by_row ? batch + 2 : batch;
    order[batch + 2] = batch + 1;
    fac_tensor *parts = fac__s_permute(fac__s_reshape(t, (fac_ints){sizes, (size_t)n}), (fac_ints){order, (size_t)n});
    fac_tensor *coo = fac__sparse_of_dense(fac__s_contiguous(parts, FAC_FORMAT_DEFAULT), batch + 2);
    return coo ? compress(coo, layout, fac__sparse_sizes(t), sizes[order[batch]]) : NULL;
}

fac_tensor *fac__sparse_in_layout_of(fac_tensor *coo, const fac_tensor *like) {
    int64_t room[2];
    if (!coo) return NULL;
    if (!fac__sparse_of(like)) return fac__sparse_dense(coo);
    return fac__sparse_from_coo(coo, fac__layout_of(like), fac__sparse_block(like, room));
}

fac_sparse_cells fac__sparse_cells_of(fac_tensor *t) {
    if (!t) return (fac_sparse_cells){0};
    fac_tensor *at = fac__is_coo(t) ? NULL : fac__sparse_host_cells(t);
    if (at) {
        const fac_sparse *s = fac__sparse_of(t);
        fac_tensor *values = fac__sparse_reshape(s->values, 0, s->plain->ndim, FAC_INTS(at->numel));
        return (fac_sparse_cells){values ? t : NULL, at, values};
    }
    t = fac_error() ? NULL : fac__sparse_as_coo(t);
    at = t ? fac__sparse_flat(fac__sparse_of(t)->indices, t->sizes) : NULL;
    return at ? (fac_sparse_cells){t, at, fac__sparse_of(t)->values} : (fac_sparse_cells){0};
}

fac_tensor *fac__sparse_with_cells(fac_sparse_cells c, fac_tensor *values, const fac_tensor *like) {
    if (!values) return NULL;
    if (fac__is_coo(c.t)) return fac__sparse_in_layout_of(fac__sparse_with_values(c.t, values), like);
    return fac__sparse_with_values(c.t, fac__s_reshape(values, fac__sparse_sizes(fac__sparse_of(c.t)->values)));
}

fac_sparse_rows fac__sparse_rows_of(fac_tensor *matrix) {
    fac_tensor *csr = matrix && fac__layout_of(matrix) == FAC_SPARSE_CSR
                          ? matrix
                          : fac__sparse_from_coo(fac__sparse_to_coo(matrix), FAC_SPARSE_CSR, (fac_ints){0});
    if (!csr) return (fac_sparse_rows){0};
    const fac_sparse *s = fac__sparse_of(csr);
    return (fac_sparse_rows){s->indices, s->plain, s->values};
}

fac_tensor *fac__sparse_values_at(fac_tensor *t, fac_tensor *mask) {
    const fac_sparse *s = t ? fac__sparse_of(t) : NULL, *m = mask ? fac__sparse_of(mask) : NULL;
    if (!s || !m) return NULL;
    if (fac__sparse_host_same(s->indices, m->indices)) return fac__s_clone(s->values, FAC_CONTIGUOUS);
    fac_tensor *have = fac__sparse_flat(s->indices, t->sizes), *want = fac__sparse_flat(m->indices, mask->sizes);
    if (!have || !want) return NULL;
    int64_t sizes[FAC_MAX_DIMS + 1] = {want->numel};
    for (int i = 1; i < s->values->ndim; i++) sizes[i] = s->values->sizes[i];
    if (have->numel == 0) return fac__sparse_zeros((fac_ints){sizes, s->values->ndim}, fac__sparse_dtype(t), t->device);
    fac_tensor *at = fac__sparse_host_places(have, want);
    if (!at && !fac_error()) at = fac__s_searchsorted_Tensor(have, want, false, false, NULL, NULL);
    at = fac__s_clamp_max(at, fac_scalar_i_(have->numel - 1));
    fac_tensor *found = fac__s_eq_Tensor(fac__s_index_select(have, 0, at), want);
    fac_tensor *values = fac__s_index_select(s->values, 0, at);
    int64_t shape[FAC_MAX_DIMS + 1] = {want->numel};
    for (int i = 1; i < s->values->ndim; i++) shape[i] = 1;
    found = found ? fac__s_reshape(found, (fac_ints){shape, s->values->ndim}) : NULL;
    return fac__s_where_self(found, values,
                             fac__s_zeros_like(values, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                               (fac_opt_num){0}, FAC_FORMAT_DEFAULT));
}
