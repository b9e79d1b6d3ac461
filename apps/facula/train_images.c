/* Training an image classifier on IDX files: two convolutions with pooling, two linear layers. */
#include "train.h"
#include <math.h>
#include <stdlib.h>

typedef struct image_data {
    fac_tensor *images, *labels;           /* [N, H, W] u8, [N] u8: kept */
    fac_tensor *test_images, *test_labels; /* NULL: the last tenth of the training files was held out */
    int64_t n_train, height, width, classes;
    fac_loader *loader;
    int64_t taken; /* batches of the present epoch */
    int64_t epoch;
} image_data;

/* [N, H, W] bytes -> [N, 1, H, W] floats around zero. */
static fac_tensor *as_input(const image_data *d, fac_tensor *bytes) {
    fac_tensor *x = fac_to(bytes, .dtype = FAC_F32);
    return fac_sub(fac_div(fac_view(x, FAC_INTS(-1, 1, d->height, d->width)), 127.5), 1.0);
}

static fac_tensor *as_target(fac_tensor *labels) { return fac_to(labels, .dtype = FAC_I64); }

static fac_tensor *batch_loss(train_job *j) {
    image_data *d = j->data;
    fac_tensor *columns[2];
    while (!fac_loader_next(d->loader, columns)) {
        if (fac_error()) return NULL;
        d->epoch++;
        d->taken = 0;
    }
    d->taken++;
    fac_tensor *x = train_on_device(j, as_input(d, columns[0])), *y = train_on_device(j, as_target(columns[1]));
    return fac_cross_entropy(fac_forward(j->model, x), y);
}

static void save_order(train_job *j) {
    const image_data *d = j->data;
    notes_set_int(&j->notes, "epoch", d->epoch);
    notes_set_int(&j->notes, "taken", d->taken);
}

/* Goes to the start of the epoch and passes over the batches that were used. */
static void load_order(train_job *j) {
    image_data *d = j->data;
    d->epoch = notes_int(&j->notes, "epoch");
    d->taken = notes_int(&j->notes, "taken");
    fac_loader_start(d->loader, d->epoch);
    for (int64_t i = 0; i < d->taken && !fac_error(); i++) {
        FAC_SCOPE(s);
        fac_tensor *columns[2];
        if (!fac_loader_next(d->loader, columns)) break;
    }
}

/* Always on all of them. */
static fac_status validate(train_job *j, bool whole, double *out_loss, double *extra) {
    (void)whole;
    const image_data *d = j->data;
    const int64_t n = fac_tensor_size(d->test_labels, 0), chunk = 256;
    double loss = 0, right = 0;
    for (int64_t i = 0; i < n && !fac_error(); i += chunk) {
        FAC_SCOPE(s);
        const int64_t k = n - i < chunk ? n - i : chunk;
        fac_tensor *y = train_on_device(j, as_target(fac_narrow(d->test_labels, 0, i, k)));
        fac_tensor *x = train_on_device(j, as_input(d, fac_narrow(d->test_images, 0, i, k)));
        fac_tensor *logits = fac_forward(j->model, x);
        loss += fac_item(fac_cross_entropy(logits, y)) * (double)k;
        right += fac_item(fac_sum(fac_eq(fac_argmax(logits, .dim = 1), y)));
    }
    *out_loss = loss / (double)n;
    *extra = right / (double)n;
    return fac_error();
}

/* ---- files ---- */

static fac_status read_pair(const char *images, const char *labels, fac_tensor **out_images, fac_tensor **out_labels) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_idx_read(images), *y = x ? fac_idx_read(labels) : NULL;
    if (!y) return fac_error();
    if (fac_tensor_ndim(x) != 3 || fac_tensor_dtype(x) != FAC_U8)
        return fac_error_set(FAC_ERR_FORMAT, "'%s' does not hold images: three dimensions of bytes", images);
    if (fac_tensor_ndim(y) != 1 || fac_tensor_dtype(y) != FAC_U8)
        return fac_error_set(FAC_ERR_FORMAT, "'%s' does not hold labels: one dimension of bytes", labels);
    const int64_t n = fac_tensor_size(x, 0), m = fac_tensor_size(y, 0);
    if (n != m || n == 0)
        return fac_error_set(FAC_ERR_SHAPE, "'%s' holds %lld %s, '%s' %lld %s", images, (long long)n,
                             cli_word(n, "image", "images"), labels, (long long)m, cli_word(m, "label", "labels"));
    *out_images = fac_keep(x);
    *out_labels = fac_keep(y);
    return FAC_OK;
}

static fac_tensor *part(fac_tensor *t, int64_t begin, int64_t n) {
    FAC_SCOPE(s);
    return fac_keep(fac_clone(fac_narrow(t, 0, begin, n)));
}

/* Without test files the last tenth is held out. */
static fac_status hold_out(image_data *d) {
    const int64_t n = fac_tensor_size(d->images, 0), m = n / 10;
    if (m < 1)
        return fac_error_set(FAC_ERR_ARGUMENT,
                             "%lld %s too few to hold a tenth out; give --test-images and --test-labels", (long long)n,
                             cli_word(n, "image is", "images are"));
    d->test_images = part(d->images, n - m, m);
    d->test_labels = part(d->labels, n - m, m);
    fac_tensor *x = part(d->images, 0, n - m), *y = part(d->labels, 0, n - m);
    fac_release(d->images);
    fac_release(d->labels);
    d->images = x;
    d->labels = y;
    return fac_error();
}

static fac_status open_images(image_data *d, const train_options *o) {
    FAC_SCOPE(s);
    fac_status st = read_pair(o->images, o->labels, &d->images, &d->labels);
    if (!st && o->test_images)
        st = read_pair(o->test_images, o->test_labels, &d->test_images, &d->test_labels);
    else if (!st)
        st = hold_out(d);
    if (st) return st;
    d->n_train = fac_tensor_size(d->images, 0);
    d->height = fac_tensor_size(d->images, 1);
    d->width = fac_tensor_size(d->images, 2);
    d->classes = fac_item_int(fac_max(d->labels)) + 1;
    if (fac_item_int(fac_max(d->test_labels)) >= d->classes)
        return fac_error_set(FAC_ERR_FORMAT, "the test labels have classes that the training labels lack");
    if (d->height < 4 || d->width < 4 || fac_tensor_size(d->test_images, 1) != d->height ||
        fac_tensor_size(d->test_images, 2) != d->width)
        return fac_error_set(FAC_ERR_SHAPE, "images should all be of one size, at least 4 by 4");
    fac_tensor *columns[] = {d->images, d->labels};
    d->loader = fac_loader_new(fac_tensors_of(columns, 2), .batch_size = o->batch, .shuffle = true, .seed = o->seed);
    return fac_error();
}

/* A resumed run must see images of the same size and as many classes, which its model is made by. */
static fac_status keep_shape(train_job *j, const image_data *d) {
    const struct {
        const char *key;
        int64_t is;
    } shape[] = {{"height", d->height}, {"width", d->width}, {"classes", d->classes}};
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

static fac_module *classifier_new(const image_data *d, const train_options *o) {
    const int64_t features = 32 * (d->height / 4) * (d->width / 4);
    return fac_sequential(fac_conv2d_new(1, 16, FAC_INTS(3), .padding = 1), fac_relu_new(), fac_max_pool2d_new(2),
                          fac_conv2d_new(16, 32, FAC_INTS(3), .padding = 1), fac_relu_new(), fac_max_pool2d_new(2),
                          fac_flatten_new(), fac_linear_new(features, 128), fac_relu_new(), fac_dropout_new(o->dropout),
                          fac_linear_new(128, d->classes));
}

static fac_status make(train_job *j) {
    image_data *d = j->data;
    const train_options *o = j->options;
    fac_status st = open_images(d, o);
    if (!st) st = keep_shape(j, d);
    if (st) return st;
    if (!(j->model = classifier_new(d, o))) return fac_error();
    j->optimizer = fac_adamw_new(j->model, o->lr, .weight_decay = o->weight_decay);
    return fac_error();
}

static void describe(const train_job *j) {
    const image_data *d = j->data;
    const int64_t parameters = fac_module_parameter_count(j->model);
    printf("images: %lld to train on, %lld held out, %lldx%lld, %lld %s\nmodel: %lld %s\n", (long long)d->n_train,
           (long long)fac_tensor_size(d->test_labels, 0), (long long)d->height, (long long)d->width,
           (long long)d->classes, cli_word(d->classes, "class", "classes"), (long long)parameters,
           cli_word(parameters, "parameter", "parameters"));
}

static void release(void *data) {
    image_data *d = data;
    fac_loader_release(d->loader);
    fac_release(d->images);
    fac_release(d->labels);
    fac_release(d->test_images);
    fac_release(d->test_labels);
}

static const train_kind images_kind = {.name = "images",
                                       .unit = "images",
                                       .measure = "test loss",
                                       .loss_name = "loss",
                                       .axis = "cross entropy, nats",
                                       .parts = 1,
                                       .make = make,
                                       .describe = describe,
                                       .loss = batch_loss,
                                       .validate = validate,
                                       .save_order = save_order,
                                       .load_order = load_order,
                                       .release = release};

int train_images(const train_options *o) {
    image_data d = {0};
    return train_run(
        &(train_job){.kind = &images_kind, .options = o, .units_per_step = o->batch, .scale = 1, .data = &d});
}
