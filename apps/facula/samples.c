/* Batches of samples, and how well the model does on those that were held out. */
#include "samples.h"
#include "report.h"
#include <math.h>
#include <stdlib.h>

enum { CHUNK = 256, MOST_CLASSES_SHOWN = 40 };

static fac_tensor *as_input(const samples *s, fac_tensor *x) { return s->input ? s->input(s, x) : x; }

/* ---- training ---- */

fac_tensor *samples_loss(train_job *j) {
    samples *s = j->data;
    fac_tensor *columns[2];
    while (!fac_loader_next(s->loader, columns))
        if (fac_error()) return NULL;
    fac_tensor *x = train_on_device(j, as_input(s, columns[0])), *y = train_on_device(j, columns[1]);
    fac_tensor *out = fac_forward(j->model, x);
    return s->classes ? fac_cross_entropy(out, y) : fac_mse_loss(out, y);
}

void samples_save_order(train_job *j) {
    const fac_data_state at = fac_loader_get_state(((const samples *)j->data)->loader);
    notes_set_int(&j->notes, "epoch", at.epoch);
    notes_set_int(&j->notes, "taken", at.at);
    notes_set_int(&j->notes, "batches", at.length);
}

/* In batches of another size the place within the epoch means nothing: it begins anew. */
void samples_load_order(train_job *j) {
    fac_loader *l = ((samples *)j->data)->loader;
    fac_data_state at = fac_loader_get_state(l);
    at.epoch = notes_int(&j->notes, "epoch");
    at.at = notes_int(&j->notes, "taken");
    const bool same = !notes_get(&j->notes, "batches") || notes_int(&j->notes, "batches") == at.length;
    if (fac_error()) return;
    if (same)
        (void)!fac_loader_set_state(l, at);
    else
        fac_loader_start(l, at.epoch);
}

/* ---- what is held out ---- */

bool samples_hold_out(int64_t row) {
    const int64_t ten = row / 10;
    return row % 10 == (int64_t)(((uint64_t)ten * 0x9e3779b97f4a7c15u >> 33) % 10);
}

static fac_tensor *rows_of(fac_tensor *t, const int64_t *rows, int64_t n) {
    return fac_keep(fac_index_select(t, 0, fac_tensor_from(rows, FAC_I64, FAC_INTS(n))));
}

fac_status samples_split(samples *s, const char *what) {
    FAC_SCOPE(scope);
    const int64_t n = fac_tensor_size(s->x, 0);
    int64_t *rows = malloc((size_t)(n + 1) * sizeof *rows), kept = 0, out = 0;
    if (!rows) return fac_error_set(FAC_ERR_MEMORY, "no memory for the numbers of %s", what);
    for (int64_t i = 0; i < n; i++)
        if (!samples_hold_out(i)) rows[kept++] = i;
    for (int64_t i = 0; i < n; i++)
        if (samples_hold_out(i)) rows[kept + out++] = i;
    if (kept && out) {
        fac_tensor *x = rows_of(s->x, rows, kept), *y = rows_of(s->y, rows, kept);
        s->test_x = rows_of(s->x, rows + kept, out);
        s->test_y = rows_of(s->y, rows + kept, out);
        fac_release(s->x);
        fac_release(s->y);
        s->x = x;
        s->y = y;
    } else
        fac_error_set(FAC_ERR_ARGUMENT, "too few %s to hold a tenth of them out: %lld", what, (long long)n);
    free(rows);
    return fac_error();
}

static void hash_tensor(uint64_t *h, fac_tensor *t) {
    const unsigned char *p = fac_tensor_data(t);
    const size_t n = (size_t)fac_tensor_numel(t) * fac_dtype_size(fac_tensor_dtype(t));
    for (size_t i = 0; p && i < n; i++) *h = (*h ^ p[i]) * 0x100000001b3u;
}

/* A run that goes on must see the same samples, or its losses mean nothing. */
static fac_status check_same(const samples *s, train_job *j) {
    uint64_t h = 0xcbf29ce484222325u;
    fac_tensor *const all[] = {s->x, s->y, s->test_x, s->test_y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) hash_tensor(&h, all[i]);
    if (!fac_error() && notes_get(&j->notes, "data_hash") && notes_int(&j->notes, "data_hash") != (int64_t)h)
        fac_error_set(FAC_ERR_STATE, "the data has changed since the run began, or what of it is held out");
    notes_set_int(&j->notes, "data_hash", (int64_t)h);
    return fac_error();
}

fac_status samples_open(samples *s, train_job *j, fac_dataset_map_fn change) {
    const train_options *o = j->options;
    if (check_same(s, j)) return fac_error();
    fac_tensor *columns[] = {s->x, s->y};
    fac_dataset *rows = fac_dataset_of_tensors(fac_tensors_of(columns, 2)),
                *changed = change ? fac_dataset_map(rows, change, s, 2) : NULL;
    if (change)
        s->loader = fac_loader_of(changed, .batch_size = o->batch, .shuffle = true, .seed = o->seed);
    else
        s->loader =
            fac_loader_new(fac_tensors_of(columns, 2), .batch_size = o->batch, .shuffle = true, .seed = o->seed);
    fac_dataset_release(changed);
    fac_dataset_release(rows);
    s->n = fac_tensor_size(s->x, 0);
    j->epoch = s->loader ? fac_loader_batches(s->loader) : 0;
    return fac_error();
}

void samples_close(samples *s) {
    fac_loader_release(s->loader);
    fac_release(s->x);
    fac_release(s->y);
    fac_release(s->test_x);
    fac_release(s->test_y);
}

/* ---- validation ---- */

static fac_tensor *chunk_output(train_job *j, int64_t begin, int64_t n) {
    const samples *s = j->data;
    return fac_forward(j->shown, train_on_device(j, as_input(s, fac_narrow(s->test_x, 0, begin, n))));
}

/* Sum of squares of the differences from the mean. */
static double spread(fac_tensor *y) { return fac_item(fac_sum(fac_square(fac_sub(y, fac_mean(y))))); }

/* Always on all of them; *extra is the part of classes that are right, or of the numbers' variance that is explained. */
fac_status samples_validate(train_job *j, bool whole, double *out_loss, double *extra) {
    (void)whole;
    const samples *s = j->data;
    const int64_t n = fac_tensor_size(s->test_y, 0);
    double loss = 0, right = 0;
    for (int64_t i = 0; i < n && !fac_error(); i += CHUNK) {
        FAC_SCOPE(scope);
        const int64_t k = n - i < CHUNK ? n - i : CHUNK;
        fac_tensor *out = chunk_output(j, i, k), *y = train_on_device(j, fac_narrow(s->test_y, 0, i, k));
        loss += fac_item(s->classes ? fac_cross_entropy(out, y) : fac_mse_loss(out, y)) * (double)k;
        if (s->classes) right += fac_item(fac_sum(fac_eq(fac_argmax(out, .dim = 1), y)));
    }
    *out_loss = loss / (double)n;
    *extra = s->classes ? right / (double)n : 1 - loss / spread(s->test_y);
    return fac_error();
}

fac_tensor *samples_example(train_job *j) {
    const samples *s = j->data;
    return as_input(s, fac_narrow(s->x, 0, 0, 1));
}

fac_tensor *samples_predict(train_job *j) {
    const samples *s = j->data;
    const int64_t n = fac_tensor_size(s->test_y, 0);
    fac_tensor *all = fac_empty(FAC_INTS(n, s->classes ? s->classes : 1), .dtype = FAC_F32);
    for (int64_t i = 0; i < n && !fac_error(); i += CHUNK) {
        FAC_SCOPE(scope);
        const int64_t k = n - i < CHUNK ? n - i : CHUNK;
        fac_copy_(fac_narrow(all, 0, i, k), chunk_output(j, i, k));
    }
    return fac_error() ? NULL : all;
}

/* ---- report ---- */

fac_status samples_report_classes(train_job *j, FILE *f, fac_tensor *logits) {
    const samples *s = j->data;
    fac_tensor *counts = fac_confusion_matrix(logits, s->test_y, s->classes);
    const fac_scores mean = fac_confusion_scores(counts);
    if (fac_error()) return fac_error();
    report_section(f, "Confusion");
    fprintf(
        f,
        "<p>Of %lld held out, %.2f %% are right. Means over the classes: precision %.3f, recall %.3f, F1 %.3f.</p>\n",
        (long long)fac_tensor_size(s->test_y, 0), 100 * mean.accuracy, mean.precision, mean.recall, mean.f1);
    if (s->classes <= MOST_CLASSES_SHOWN) report_confusion(f, fac_tensor_data(counts), s->classes, s->class_name, s);
    fputs("</section>\n", f);
    return fac_error();
}
