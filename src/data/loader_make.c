/* Making one batch: drawing its samples, joining them, moving it to page-locked memory. */
#include "data/loader.h"
#include "ops/call.h"
#include <facula/autograd.h>
#include <facula/ops.h>

static fac_tensor **room_for(int64_t n, size_t columns) {
    int64_t room;
    if (fac__mul(n, (int64_t)columns, &room)) return fac__alloc_array((size_t)room, sizeof(fac_tensor *));
    return FAC_FAIL(FAC_ERR_OVERFLOW, "a batch of %lld samples is too large", (long long)n), NULL;
}

fac_status fac__loader_job_new(const fac_loader *l, loader_job *j, int worker) {
    *j = (loader_job){.worker = worker};
    j->indices = fac__alloc_array((size_t)l->most, sizeof *j->indices);
    j->raw = room_for(l->sampler ? 0 : l->most, l->set->raw_columns);
    j->samples = room_for(l->most, l->set->columns);
    j->column = room_for(l->most, 1);
    j->out = room_for(1, l->n_out);
    return j->indices && j->raw && j->samples && j->column && j->out ? FAC_OK : fac_error();
}

void fac__loader_job_free(loader_job *j) {
    fac__free(j->indices);
    fac__free(j->raw);
    fac__free(j->samples);
    fac__free(j->column);
    fac__free(j->out);
    *j = (loader_job){0};
}

static fac_sample item_of(const fac_loader *l, const loader_job *j, int64_t k) {
    const int64_t place = j->ticket * l->batch + k;
    return (fac_sample){l->sampler ? j->indices[k] : place, j->epoch,
                        fac__item_seed((uint64_t)l->seed, j->epoch, place), j->worker};
}

fac_status fac__loader_draw(fac_loader *l, loader_job *j) {
    if (l->sampler) {
        j->n = fac__sampler_take(l->sampler, j->indices, l->most);
        if (l->drop_last && j->n < l->batch) j->n = 0;
        return fac_error();
    }
    for (j->n = 0; j->n < l->batch; j->n++) {
        const fac_sample at = item_of(l, j, j->n);
        if (!fac__dataset_draw(l->set, &at, j->raw + (size_t)j->n * l->set->raw_columns)) break;
    }
    if (l->drop_last && j->n < l->batch) j->n = 0;
    return fac_error();
}

static fac_status make_samples(const fac_loader *l, loader_job *j) {
    fac_dataset *d = l->set;
    for (int64_t k = 0; k < j->n; k++) {
        const fac_sample at = item_of(l, j, k);
        fac_tensor **to = j->samples + (size_t)k * d->columns;
        const fac_tensors raw = {j->raw + (size_t)k * d->raw_columns, d->raw_columns};
        FAC_TRY(l->sampler ? fac__dataset_item(d, &at, to) : fac__dataset_finish(d, &at, raw, to));
    }
    return FAC_OK;
}

static fac_status stack(const fac_loader *l, loader_job *j) {
    const size_t columns = l->set->columns;
    for (size_t c = 0; c < columns; c++) {
        for (int64_t k = 0; k < j->n; k++) j->column[k] = j->samples[(size_t)k * columns + c];
        j->out[c] = fac_stack(fac_tensors_of(j->column, (size_t)j->n), 0);
        if (j->out[c]) continue;
        char name[48];
        snprintf(name, sizeof name, "column %zu of the batch", c);
        return fac__error_prefix(name);
    }
    return FAC_OK;
}

static fac_status collate(const fac_loader *l, loader_job *j) {
    fac_status st;
    memset(j->out, 0, l->n_out * sizeof *j->out);
    FAC_CALLBACK(
        st = l->collate(l->collate_context, fac_tensors_of(j->samples, (size_t)j->n * l->set->columns), j->n, j->out));
    return fac__dataset_check(st, j->out, l->n_out, "collate function");
}

static fac_status check_indices(const fac_loader *l, const loader_job *j) {
    for (int64_t k = 0; l->sampler && k < j->n; k++)
        FAC_CHECK(j->indices[k] >= 0 && j->indices[k] < l->set->length, FAC_ERR_INDEX,
                  "the order names sample %lld, but the data set has %lld", (long long)j->indices[k],
                  (long long)l->set->length);
    return FAC_OK;
}

/* As handles of the open scope. */
static fac_status make_handles(const fac_loader *l, loader_job *j) {
    FAC_TRY(check_indices(l, j));
    if (!l->collate && l->sampler && l->set->kind->gather)
        return l->set->kind->gather(l->set, j->indices, j->n, j->out);
    FAC_TRY(make_samples(l, j));
    return l->collate ? collate(l, j) : stack(l, j);
}

fac_status fac__loader_make(const fac_loader *l, loader_job *j) {
    FAC_NO_GRAD(g);
    FAC_TRY(make_handles(l, j));
    for (size_t i = 0; i < l->n_out && l->pin; i++)
        if (!(j->out[i] = fac_pin_memory(j->out[i]))) return fac_error();
    for (size_t i = 0; i < l->n_out; i++) j->out[i] = fac__take(fac__header(j->out[i]));
    return FAC_OK;
}
