/* Packed sequences, and recurrent networks over them. */
#include "keywords_gen.h"
#include "modules_gen.h"
#include "nn/kind.h"
#include "nn/module.h"
#include <facula/nn_utils.h>
#include <facula/ops.h>

/* Where each of the sorted sequences goes: NULL for NULL, or on failure. */
static fac_tensor *inverse(fac_tensor *permutation) { return permutation ? fac_argsort(permutation) : NULL; }

static fac_status pack(fac_tensor *input, fac_tensor *lengths, bool batch_first, fac_packed_sequence *out) {
    fac_pack_padded_sequence_result r = fac_pack_padded_sequence(input, lengths, batch_first);
    out->data = r.result0, out->batch_sizes = r.result1;
    out->unsorted_indices = inverse(out->sorted_indices);
    return fac_error();
}

fac_status(fac_rnn_pack_padded_sequence)(fac_tensor *input, fac_tensor *lengths, fac_packed_sequence *out,
                                         const fac_rnn_pack_padded_sequence_kw *kw) {
    fac_rnn_pack_padded_sequence_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_rnn_pack_padded_sequence_kw(&k, kw));
    FAC_CHECK(out, FAC_ERR_ARGUMENT, "rnn_pack_padded_sequence: out is NULL");
    *out = (fac_packed_sequence){0};
    if (!fac__open(input, "rnn_pack_padded_sequence", "input") ||
        !fac__open(lengths, "rnn_pack_padded_sequence", "lengths") || !(lengths = fac_to(lengths, .dtype = FAC_I64)))
        return fac_error();
    if (k.enforce_sorted) return pack(input, lengths, k.batch_first, out);
    fac_sort_result s = fac_sort(lengths, .descending = true);
    if (!s.indices) return fac_error();
    out->sorted_indices = fac_to(s.indices, .device = fac_tensor_device(input));
    input = fac_index_select(input, k.batch_first ? 0 : 1, out->sorted_indices);
    return pack(input, s.values, k.batch_first, out);
}

static fac_status check_packed(const fac_packed_sequence *s) {
    FAC_CHECK(s && s->data && s->batch_sizes, FAC_ERR_ARGUMENT, "a packed sequence is NULL or has no data");
    return FAC_OK;
}

fac_status(fac_rnn_pad_packed_sequence)(const fac_packed_sequence *sequence, fac_tensor **padded, fac_tensor **lengths,
                                        const fac_rnn_pad_packed_sequence_kw *kw) {
    fac_rnn_pad_packed_sequence_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_rnn_pad_packed_sequence_kw(&k, kw));
    FAC_TRY(check_packed(sequence));
    FAC_CHECK(padded, FAC_ERR_ARGUMENT, "rnn_pad_packed_sequence: there is no room for the result");
    const int64_t longest = fac_tensor_numel(sequence->batch_sizes);
    FAC_CHECK(k.total_length == FAC_UNSET || k.total_length >= longest, FAC_ERR_ARGUMENT,
              "total_length should be at least the length of the longest sequence, %lld, but is %lld",
              (long long)longest, (long long)k.total_length);
    fac_pad_packed_sequence_result r =
        fac_pad_packed_sequence(sequence->data, sequence->batch_sizes, k.batch_first, k.padding_value,
                                k.total_length == FAC_UNSET ? longest : k.total_length);
    if (sequence->unsorted_indices && r.result0) {
        r.result0 = fac_index_select(r.result0, k.batch_first ? 0 : 1, sequence->unsorted_indices);
        r.result1 =
            fac_index_select(r.result1, 0, fac_to(sequence->unsorted_indices, .device = fac_device_make(FAC_CPU, -1)));
    }
    *padded = r.result0;
    if (lengths) *lengths = r.result1;
    return fac_error();
}

fac_status(fac_rnn_pack_sequence)(fac_tensors sequences, fac_packed_sequence *out, const fac_rnn_pack_sequence_kw *kw) {
    fac_rnn_pack_sequence_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_rnn_pack_sequence_kw(&k, kw));
    FAC_CHECK(sequences.n && fac__list_given(sequences.v, sequences.n, "sequences"), FAC_ERR_ARGUMENT,
              "rnn_pack_sequence: there are no sequences");
    fac_tensor *lengths =
        fac_empty(FAC_INTS((int64_t)sequences.n), .dtype = FAC_I64, .device = fac_device_make(FAC_CPU, -1));
    for (size_t i = 0; i < sequences.n && lengths; i++) {
        if (!fac__open(sequences.v[i], "rnn_pack_sequence", "sequences")) return fac_error();
        FAC_CHECK(fac_tensor_ndim(sequences.v[i]) > 0, FAC_ERR_SHAPE, "rnn_pack_sequence: sequence %zu is a number", i);
        ((int64_t *)fac_tensor_data(lengths))[i] = fac_tensor_size(sequences.v[i], 0);
    }
    return fac_rnn_pack_padded_sequence(fac_pad_sequence(sequences), lengths, out, .enforce_sorted = k.enforce_sorted);
}

/* ---- apart ---- */

/* Row i of the padded sequences without what lies behind its length. */
static fac_tensor *row_of(fac_tensor *padded, fac_tensor *lengths, int64_t i, bool batch_first) {
    const int64_t n = fac_item_int(fac_select(lengths, 0, i));
    fac_tensor *row = fac_select(padded, batch_first ? 0 : 1, i);
    return row ? fac_slice(row, 0, .start = 0, .end = n) : NULL;
}

/* The list of rows that lie there whole, each then cut. */
static fac_tensors rows_of(fac_tensor *padded, fac_tensor *lengths, bool batch_first) {
    const fac_tensors none = {NULL, 0};
    if (fac_error()) return none;
    fac_tensors rows = fac_unbind(padded, batch_first ? 0 : 1);
    fac_tensor **v = (fac_tensor **)(uintptr_t)rows.v; /* the scope's own list */
    for (size_t i = 0; i < rows.n; i++)
        if (!(v[i] = row_of(padded, lengths, (int64_t)i, batch_first))) return none;
    return rows;
}

fac_tensors(fac_rnn_unpad_sequence)(fac_tensor *padded, fac_tensor *lengths, const fac_rnn_unpad_sequence_kw *kw) {
    const fac_tensors none = {NULL, 0};
    fac_rnn_unpad_sequence_kw k;
    if (fac_error() || fac__open_rnn_unpad_sequence_kw(&k, kw)) return none;
    if (!fac__open(padded, "rnn_unpad_sequence", "padded") || !fac__open(lengths, "rnn_unpad_sequence", "lengths"))
        return none;
    if (fac_tensor_ndim(padded) < 2 || fac_tensor_ndim(lengths) != 1 ||
        fac_tensor_size(padded, k.batch_first ? 0 : 1) != fac_tensor_size(lengths, 0)) {
        FAC_FAIL(FAC_ERR_SHAPE, "rnn_unpad_sequence: there should be one length for each padded sequence");
        return none;
    }
    return rows_of(padded, lengths, k.batch_first);
}

fac_tensors fac_rnn_unpack_sequence(const fac_packed_sequence *sequence) {
    fac_tensor *padded = NULL, *lengths = NULL;
    if (fac_rnn_pad_packed_sequence(sequence, &padded, &lengths, .batch_first = true)) return (fac_tensors){NULL, 0};
    return rows_of(padded, lengths, true);
}

/* ---- networks over packed sequences ---- */

static fac_tensor *permuted(fac_tensor *state, fac_tensor *indices) {
    return state && indices ? fac_index_select(state, 1, indices) : state;
}

fac_status fac_rnn_forward_packed(fac_module *rnn, const fac_packed_sequence *input, fac_tensor *h_0, fac_tensor *c_0,
                                  fac_packed_sequence *out, fac_tensor **h_n, fac_tensor **c_n) {
    FAC_TRY(fac_error());
    if (!fac__given(rnn, "module")) return fac_error();
    const bool lstm = rnn->cls == &fac__lstm_kind.cls;
    FAC_CHECK(lstm || rnn->cls == &fac__gru_kind.cls || rnn->cls == &fac__rnn_kind.cls, FAC_ERR_ARGUMENT,
              "rnn_forward_packed takes an RNN, LSTM or GRU, not %s", rnn->cls->name);
    FAC_CHECK(out, FAC_ERR_ARGUMENT, "rnn_forward_packed: there is no room for the outputs");
    FAC_CHECK(lstm || !c_0, FAC_ERR_ARGUMENT, "rnn_forward_packed: only an LSTM has c_0");
    FAC_TRY(check_packed(input));
    h_0 = permuted(h_0, input->sorted_indices);
    c_0 = permuted(c_0, input->sorted_indices);
    FAC_TRY(fac_error());
    fac_tensor *const for_lstm[] = {input->data, h_0, c_0, input->batch_sizes};
    fac_tensor *const for_others[] = {input->data, h_0, input->batch_sizes};
    fac_tensor *r[3];
    FAC_TRY(fac_forward_all(rnn, lstm ? (fac_tensors){for_lstm, 4} : (fac_tensors){for_others, 3}, r, 3));
    *out = *input;
    out->data = r[0];
    if (h_n) *h_n = permuted(r[1], input->unsorted_indices);
    if (c_n) *c_n = permuted(r[2], input->unsorted_indices);
    return fac_error();
}
