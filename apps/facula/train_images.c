/* Training an image classifier. */
#include "image_files.h"
#include "report.h"
#include <stdlib.h>
#include <string.h>

typedef struct image_data {
    samples s; /* first: it is what samples.h takes */
    name_list names;
    image_shape shape;
    char number[24]; /* of a class that has no name */
} image_data;

static fac_tensor *as_input(const samples *s, fac_tensor *bytes) {
    (void)s;
    return image_model_input(bytes);
}

static const char *class_name(const void *s, int64_t k) {
    const image_data *d = s;
    if (k < (int64_t)d->names.n) return d->names.v[k];
    char *number = (char *)(uintptr_t)d->number;
    snprintf(number, sizeof d->number, "%lld", (long long)k);
    return number;
}

/* A part of an image that is larger by a quarter, at a place of its own for each time that it is seen, and for half of them its
   mirror image. */
static fac_status augment(void *context, const fac_sample *at, fac_tensors in, fac_tensor **out) {
    const image_data *d = context;
    const int64_t h = d->shape.height, w = d->shape.width;
    fac_tensor *larger = fac_image_resize(in.v[0], h + h / 4, w + w / 4);
    fac_tensor *part = fac_image_random_crop(larger, h, w, at->seed);
    out[0] = fac_image_random_flip(part, at->seed ^ 0x5bd1e995);
    out[1] = in.v[1];
    return fac_error();
}

/* ---- files ---- */

static fac_tensor *part(fac_tensor *t, int64_t begin, int64_t n) {
    FAC_SCOPE(s);
    return fac_keep(fac_clone(fac_narrow(t, 0, begin, n)));
}

/* The last tenth of IDX files. */
static fac_status hold_out_end(samples *s) {
    const int64_t n = fac_tensor_size(s->x, 0), m = n / 10;
    if (m < 1)
        return fac_error_set(FAC_ERR_ARGUMENT,
                             "%lld %s too few to hold a tenth out; give --test-images and --test-labels", (long long)n,
                             cli_word(n, "image is", "images are"));
    s->test_x = part(s->x, n - m, m);
    s->test_y = part(s->y, n - m, m);
    fac_tensor *x = part(s->x, 0, n - m), *y = part(s->y, 0, n - m);
    fac_release(s->x);
    fac_release(s->y);
    s->x = x;
    s->y = y;
    return fac_error();
}

static fac_status read_idx(image_data *d, const train_options *o) {
    samples *s = &d->s;
    fac_status st = image_idx_read(o->images, o->labels, &s->x, &s->y);
    if (!st && o->test_images)
        st = image_idx_read(o->test_images, o->test_labels, &s->test_x, &s->test_y);
    else if (!st)
        st = hold_out_end(s);
    if (st) return st;
    s->classes = fac_item_int(fac_max(s->y)) + 1;
    if (fac_item_int(fac_max(s->test_y)) >= s->classes)
        fac_error_set(FAC_ERR_FORMAT, "the test labels have classes that the training labels lack");
    return fac_error();
}

static fac_status read_folders(image_data *d, const train_options *o) {
    samples *s = &d->s;
    fac_status st = image_folder_read(o->images, o, &d->names, &s->x, &s->y);
    if (!st && o->test_images)
        st = image_folder_read(o->test_images, o, &d->names, &s->test_x, &s->test_y);
    else if (!st)
        st = samples_split(s, "images");
    s->classes = (int64_t)d->names.n;
    return st;
}

static fac_status check_sizes(image_data *d) {
    const samples *s = &d->s;
    d->shape.channels = fac_tensor_size(s->x, 1);
    d->shape.height = fac_tensor_size(s->x, 2);
    d->shape.width = fac_tensor_size(s->x, 3);
    if (d->shape.height < 4 || d->shape.width < 4 || fac_tensor_size(s->test_x, 2) != d->shape.height ||
        fac_tensor_size(s->test_x, 3) != d->shape.width)
        return fac_error_set(FAC_ERR_SHAPE, "images should all be of one size, at least 4 by 4");
    return fac_error();
}

/* A resumed run must see images of the same size and the same classes, which its model is made by. */
static fac_status keep_shape(train_job *j, const image_data *d) {
    const struct {
        const char *key;
        int64_t is;
    } shape[] = {{"height", d->shape.height}, {"width", d->shape.width}, {"classes", d->s.classes}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const bool known = notes_get(&j->notes, shape[i].key) != NULL;
        const int64_t then = known ? notes_int(&j->notes, shape[i].key) : shape[i].is;
        if (!fac_error() && then != shape[i].is)
            return fac_error_set(FAC_ERR_STATE, "the run in '%s' has images with %s %lld; these have %lld",
                                 j->options->out, shape[i].key, (long long)then, (long long)shape[i].is);
        notes_set_int(&j->notes, shape[i].key, shape[i].is);
    }
    return fac_error();
}

static fac_status make(train_job *j) {
    FAC_SCOPE(s);
    image_data *d = j->data;
    const train_options *o = j->options;
    fac_status st = o->labels ? read_idx(d, o) : read_folders(d, o);
    if (!st) st = check_sizes(d);
    if (!st) st = keep_shape(j, d);
    if (!st && d->names.n) run_keep_classes(&j->notes, &d->names);
    if (!st) st = samples_open(&d->s, j, o->augment ? augment : NULL);
    if (st) return st;
    j->model = image_model_new(&d->shape, d->s.classes, o->dropout);
    return fac_error();
}

static void describe(const train_job *j) {
    const image_data *d = j->data;
    const int64_t parameters = fac_module_parameter_count(j->model);
    printf("images: %lld to train on, %lld held out, %lldx%lld, %lld %s\nmodel: %lld %s\n", (long long)d->s.n,
           (long long)fac_tensor_size(d->s.test_y, 0), (long long)d->shape.height, (long long)d->shape.width,
           (long long)d->s.classes, cli_word(d->s.classes, "class", "classes"), (long long)parameters,
           cli_word(parameters, "parameter", "parameters"));
}

/* ---- report ---- */

static void put_figure(FILE *f, const image_data *d, int64_t i, int64_t said) {
    const samples *s = &d->s;
    const int64_t is = ((const int64_t *)fac_tensor_data(s->test_y))[i],
                  size = d->shape.channels * d->shape.height * d->shape.width;
    fprintf(f, "<figure class='%s'>", said == is ? "right" : "wrong");
    report_image(f, (const uint8_t *)fac_tensor_data(s->test_x) + i * size, d->shape.channels, d->shape.height,
                 d->shape.width);
    fputs("<figcaption><b>", f);
    report_text(f, class_name(d, said));
    fputs("</b>", f);
    if (said != is) {
        fputs("<br>is ", f);
        report_text(f, class_name(d, is));
    }
    fputs("</figcaption></figure>\n", f);
}

/* Up to `most` images, spread over all that are held out, whose prediction is right, or is not. */
static void put_gallery(FILE *f, const image_data *d, const int64_t *said, bool right, int most) {
    const int64_t n = fac_tensor_size(d->s.test_y, 0), *is = fac_tensor_data(d->s.test_y);
    int64_t found = 0, passed = 0;
    for (int64_t i = 0; i < n; i++) found += (said[i] == is[i]) == right;
    const int64_t every = found > most ? found / most : 1;
    fprintf(f, "<h3>%s: %lld of %lld</h3>\n<div class='gallery'>\n", right ? "Right" : "Wrong", (long long)found,
            (long long)n);
    for (int64_t i = 0; i < n && most > 0; i++) {
        if ((said[i] == is[i]) != right || passed++ % every != 0) continue;
        put_figure(f, d, i, said[i]);
        most--;
    }
    fputs("</div>\n", f);
}

static fac_status report(train_job *j, FILE *f) {
    const image_data *d = j->data;
    fac_tensor *logits = samples_predict(j), *said = logits ? fac_argmax(logits, .dim = 1) : NULL;
    if (!said || samples_report_classes(j, f, logits)) return fac_error();
    if (d->shape.channels != 1 && d->shape.channels != 3) return FAC_OK;
    report_section(f, "Images that were held out");
    put_gallery(f, d, fac_tensor_data(said), false, 16);
    put_gallery(f, d, fac_tensor_data(said), true, 16);
    fputs("</section>\n", f);
    return fac_error();
}

static void release(void *data) {
    image_data *d = data;
    samples_close(&d->s);
    names_free(&d->names);
}

static const train_kind images_kind = {.name = "images",
                                       .unit = "images",
                                       .measure = "test loss",
                                       .loss_name = "loss",
                                       .axis = "cross entropy, nats",
                                       .extra = "accuracy",
                                       .percent = true,
                                       .parts = 1,
                                       .make = make,
                                       .describe = describe,
                                       .loss = samples_loss,
                                       .validate = samples_validate,
                                       .save_order = samples_save_order,
                                       .load_order = samples_load_order,
                                       .example = samples_example,
                                       .report = report,
                                       .release = release};

int train_images(const train_options *o) {
    image_data d = {.s = {.input = as_input, .class_name = class_name}};
    return train_run(
        &(train_job){.kind = &images_kind, .options = o, .units_per_step = o->batch, .scale = 1, .data = &d});
}
