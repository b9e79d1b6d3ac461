/* Predicts classes of images: of PNG and JPEG files, of those in folders, and of IDX files. */
#include "image_files.h"
#include "predict.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the run ---- */

/* Classes of IDX files are numbers. */
static fac_status number_classes(predictor *p, int64_t n) {
    char name[24];
    fac_status st = FAC_OK;
    for (int64_t k = 0; k < n && !st; k++) {
        snprintf(name, sizeof name, "%lld", (long long)k);
        st = names_add(&p->classes, name);
    }
    return st;
}

static fac_status read_classes(predictor *p, int64_t n) {
    const fac_status st = p->run.labels ? number_classes(p, n) : run_classes(&p->notes, &p->classes);
    if (st || (int64_t)p->classes.n == n) return st;
    return fac_error_set(FAC_ERR_FORMAT, "the checkpoint says classes = %lld, but has the names of %lld; train anew",
                         (long long)n, (long long)p->classes.n);
}

static fac_status make(predictor *p) {
    if (p->options->keep) return predict_misused(p, "--keep is for tables, and '%s' is a run on images");
    const int64_t classes = notes_int(&p->notes, "classes");
    p->shape = (image_shape){p->run.labels ? 1 : p->run.channels, notes_int(&p->notes, "height"),
                             notes_int(&p->notes, "width")};
    fac_status st = fac_error();
    if (!st) st = image_model_check(p->run.out, &p->shape, classes);
    if (!st) st = read_classes(p, classes);
    if (!st) p->model = image_model_new(&p->shape, classes, 0);
    return st ? st : fac_error();
}

/* ---- batches ---- */

typedef struct sample {
    const char *file; /* borrowed from the list */
    int64_t index;    /* in an IDX file; -1: the file is the image */
} sample;

typedef struct batch {
    predictor *p;
    int64_t n, most, bytes; /* images that are there, that fit, and the size of one */
    uint8_t *pixels;        /* owned: [most, channels, height, width] */
    sample *samples;        /* owned: what each is */
} batch;

/* The class that is true is that whose name the file's folder has, as in the training's folders. */
static void count(predictor *p, const char *file, const float *said) {
    const char *end = strrchr(file, '/'), *begin = end;
    while (begin && begin > file && begin[-1] != '/') begin--;
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", begin ? (int)(end - begin) : 0, begin ? begin : "");
    predict_compare(p, names_find(&p->classes, folder), said);
}

static fac_status put_sample(predictor *p, const sample *s, const float *said) {
    const bool json = p->options->format[0] == 'j';
    char name[4096 + 32];
    snprintf(name, sizeof name, json || s->index < 0 ? "%s" : "%s:%lld", s->file, (long long)s->index);
    fac_status st = output_put(&p->out, (output_cell){.name = "file", .text = name});
    if (!st && json && s->index >= 0)
        st = output_put(&p->out, (output_cell){.name = "index", .number = (double)s->index, .whole = true});
    if (!st) st = predict_put(p, said);
    if (!st && p->options->metrics) count(p, s->file, said);
    return st;
}

/* Predicts for what is there. */
static fac_status flush(batch *b) {
    FAC_SCOPE(s);
    predictor *p = b->p;
    if (b->n == 0) return FAC_OK;
    fac_tensor *x =
        fac_tensor_from(b->pixels, FAC_U8, FAC_INTS(b->n, p->shape.channels, p->shape.height, p->shape.width));
    fac_tensor *said = predict_batch(p, image_model_input(x));
    const float *v = said ? fac_tensor_data(said) : NULL;
    fac_status st = fac_error();
    for (int64_t i = 0; i < b->n && !st; i++) st = put_sample(p, &b->samples[i], v + i * (int64_t)p->classes.n);
    b->n = 0;
    predict_progress(p);
    return st;
}

/* Where the next image goes. */
static uint8_t *next(const batch *b) { return b->pixels + b->n * b->bytes; }

/* The next image is there. */
static fac_status take(batch *b, const char *file, int64_t index) {
    b->samples[b->n++] = (sample){file, index};
    return b->n == b->most ? flush(b) : FAC_OK;
}

static fac_status batch_open(batch *b, predictor *p) {
    *b = (batch){.p = p, .most = p->options->batch, .bytes = p->shape.channels * p->shape.height * p->shape.width};
    if (b->most < PTRDIFF_MAX / b->bytes) b->pixels = malloc((size_t)(b->most * b->bytes));
    b->samples = malloc((size_t)b->most * sizeof *b->samples);
    if (b->pixels && b->samples) return FAC_OK;
    return fac_error_set(FAC_ERR_MEMORY, "no memory for %lld %s; try a smaller --batch", (long long)b->most,
                         cli_word(b->most, "image", "images"));
}

static void batch_close(batch *b) {
    free(b->pixels);
    free(b->samples);
}

/* ---- files ---- */

/* IDX files, plain or gzipped, by their first bytes. */
static bool is_idx(const char *path) {
    unsigned char head[2] = {0};
    struct stat st;
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    const bool read = f && fread(head, 1, sizeof head, f) == sizeof head;
    if (f) fclose(f);
    return read && ((head[0] == 0 && head[1] == 0) || (head[0] == 0x1f && head[1] == 0x8b));
}

static fac_status check_idx(const predictor *p, const char *path, fac_tensor *x) {
    if (fac_tensor_ndim(x) != 3 || fac_tensor_dtype(x) != FAC_U8)
        return fac_error_set(FAC_ERR_FORMAT, "'%s' does not hold images: three dimensions of bytes", path);
    const int64_t h = fac_tensor_size(x, 1), w = fac_tensor_size(x, 2);
    if (p->shape.channels != 1)
        return fac_error_set(FAC_ERR_SHAPE, "'%s' has grey images, but the run is on images with colours", path);
    if (h != p->shape.height || w != p->shape.width)
        return fac_error_set(FAC_ERR_SHAPE, "'%s' has images of %lld x %lld, but the run is on %lld x %lld", path,
                             (long long)h, (long long)w, (long long)p->shape.height, (long long)p->shape.width);
    return FAC_OK;
}

static fac_status predict_idx(batch *b, const char *path) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_idx_read(path);
    if (!x || check_idx(b->p, path, x)) return predict_complain(b->p), FAC_OK;
    const int64_t n = fac_tensor_size(x, 0);
    const uint8_t *pixels = fac_tensor_data(x);
    fac_status st = FAC_OK;
    b->p->total += n - 1;
    for (int64_t i = 0; i < n && !st && !cli_stop; i++) {
        memcpy(next(b), pixels + i * b->bytes, (size_t)b->bytes);
        st = take(b, path, i);
    }
    return st;
}

static fac_status predict_file(batch *b, const char *path) {
    if (is_idx(path)) return predict_idx(b, path);
    if (image_file_read(path, &b->p->shape, next(b))) return predict_complain(b->p), FAC_OK;
    return take(b, path, -1);
}

/* Links to folders are not followed, so that there is no circle. What has too long a path is left to be complained of. */
static bool wanted(const char *dir, const char *name) {
    char path[4096];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return true;
    if (lstat(path, &st) != 0) return false;
    return S_ISDIR(st.st_mode) || folder_has_image(dir, name);
}

static bool is_folder(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The images of a folder and of those below it, whose names are put behind the folder's for that time. */
static fac_status list_below(predictor *p, char *path, size_t size, name_list *out) {
    const size_t length = strlen(path);
    name_list here = {0};
    if (folder_list(path, wanted, &here)) predict_complain(p);
    fac_status st = FAC_OK;
    for (size_t i = 0; i < here.n && !st; i++) {
        const bool fits = snprintf(path + length, size - length, "/%s", here.v[i]) < (int)(size - length);
        if (fits) st = is_folder(path) ? list_below(p, path, size, out) : names_add(out, path);
        path[length] = 0;
        if (fits) continue;
        fac_error_set(FAC_ERR_ARGUMENT, "the path '%s/%s' is too long", path, here.v[i]);
        predict_complain(p);
    }
    names_free(&here);
    return st;
}

static fac_status list_folder(predictor *p, const char *path, name_list *out) {
    char room[4096];
    const size_t before = out->n;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    snprintf(room, sizeof room, "%.*s", (int)n, path);
    const fac_status st = list_below(p, room, sizeof room, out);
    if (st || out->n > before) return st;
    fac_error_set(FAC_ERR_ARGUMENT, "the folder '%s' has no PNG or JPEG files", path);
    return predict_complain(p), FAC_OK;
}

static fac_status list_one(predictor *p, const char *path, name_list *out) {
    struct stat st;
    if (strcmp(path, "-") == 0) return predict_misused(p, "standard input is for tables, and '%s' is a run on images");
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? list_folder(p, path, out) : names_add(out, path);
}

static fac_status predict_list(predictor *p, const name_list *files) {
    batch b;
    fac_status st = batch_open(&b, p);
    p->total = (int64_t)files->n;
    for (size_t i = 0; i < files->n && !st && !cli_stop; i++) st = predict_file(&b, files->v[i]);
    if (!st && !cli_stop) st = flush(&b);
    batch_close(&b);
    return st;
}

static fac_status predict(predictor *p) {
    name_list files = {0};
    fac_status st = FAC_OK;
    for (size_t i = 0; i < p->options->n_files && !st; i++) st = list_one(p, p->options->files[i], &files);
    if (!st) st = predict_list(p, &files);
    names_free(&files);
    return st;
}

const predict_kind predict_images = {"images", make, predict};
