/* Makes the networks that images and tables are trained with. */
#include "models.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- images ---- */

fac_module *image_model_new(const image_shape *shape, int64_t classes, double dropout) {
    const int64_t features = 32 * (shape->height / 4) * (shape->width / 4);
    return fac_sequential(fac_conv2d_new(shape->channels, 16, FAC_INTS(3), .padding = 1), fac_relu_new(),
                          fac_max_pool2d_new(2), fac_conv2d_new(16, 32, FAC_INTS(3), .padding = 1), fac_relu_new(),
                          fac_max_pool2d_new(2), fac_flatten_new(), fac_linear_new(features, 128), fac_relu_new(),
                          fac_dropout_new(dropout), fac_linear_new(128, classes));
}

fac_status image_model_check(const char *checkpoint, const image_shape *shape, int64_t classes) {
    const int64_t h = shape->height, w = shape->width;
    if (classes < 1) return fac_error_set(FAC_ERR_FORMAT, "the checkpoint says classes = %lld", (long long)classes);
    if (h < 4 || w < 4 || h > INT32_MAX || w > INT32_MAX)
        return fac_error_set(FAC_ERR_FORMAT, "the checkpoint is of images of %lld x %lld", (long long)h, (long long)w);
    const fac_status st = checkpoint_check_matrix(checkpoint, "model.7.weight", 128, 32 * (h / 4) * (w / 4));
    return st ? st : checkpoint_check_matrix(checkpoint, "model.10.weight", classes, 128);
}

fac_tensor *image_model_input(fac_tensor *bytes) {
    return fac_sub(fac_div(fac_to(bytes, .dtype = FAC_F32), 127.5), 1.0);
}

/* ---- tables ---- */

/* The next size of a list such as "64,64"; 0 at its end, -1 for what is none. */
static int64_t next_size(const char **text) {
    char *end;
    if (!**text) return 0;
    errno = 0;
    const long long v = strtoll(*text, &end, 10);
    if (errno || end == *text || v < 1 || v > 65536 || (*end && *end != ',')) return -1;
    *text = end + (*end == ',');
    return v;
}

static void add_layer(fac_module *net, int *n, fac_module *layer) {
    char name[16];
    snprintf(name, sizeof name, "%d", (*n)++);
    fac_module_add(net, name, layer);
}

fac_module *table_model_new(int64_t in, int64_t out, const char *hidden, double dropout) {
    fac_module *net = fac_sequential_new(NULL, 0);
    const char *rest = hidden;
    int n = 0;
    for (int64_t size; net && (size = next_size(&rest)) != 0; in = size) {
        if (size < 0) {
            fac_error_set(FAC_ERR_ARGUMENT, "--hidden takes sizes from 1 to 65536 with commas between them, not '%s'",
                          hidden);
            break;
        }
        add_layer(net, &n, fac_linear_new(in, size));
        add_layer(net, &n, fac_relu_new());
        add_layer(net, &n, fac_dropout_new(dropout));
    }
    if (net && !fac_error()) add_layer(net, &n, fac_linear_new(in, out));
    if (!fac_error()) return net;
    fac_module_release(net);
    return NULL;
}

fac_status table_model_check(const char *checkpoint, int64_t in, int64_t out, const char *hidden) {
    char name[40];
    const char *rest = hidden;
    fac_status st = FAC_OK;
    for (int64_t size = 1, n = 0; size > 0 && !st; in = size, n += 3) {
        size = next_size(&rest);
        snprintf(name, sizeof name, "model.%lld.weight", (long long)n);
        st = checkpoint_check_matrix(checkpoint, name, size > 0 ? size : out, in);
    }
    return st;
}

/* ---- where and how ---- */

fac_autocast_guard model_autocast(fac_device device, const char *precision) {
    return fac_autocast_begin(.device = device, .dtype = strcmp(precision, "f16") == 0 ? FAC_F16 : FAC_BF16,
                              .enabled = strcmp(precision, "f32") != 0);
}

fac_status model_device(const char *name, fac_device *out) {
    *out = fac_device_parse(name ? name : "cpu");
    if (fac_error() || out->type == FAC_CPU) return fac_error();
    return fac_set_device(*out);
}

/* ---- classes ---- */

#define CLASSES_NOTE "class_names"

/* One a line. */
void run_keep_classes(notes *n, const name_list *classes) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (size_t k = 0; f && k < classes->n; k++) {
        names_put(f, classes->v[k]);
        fputc('\n', f);
    }
    if (f && fclose(f) == 0)
        notes_set(n, CLASSES_NOTE, text);
    else
        fac_error_set(FAC_ERR_MEMORY, "no memory for the names of classes");
    free(text);
}

fac_status run_classes(const notes *n, name_list *out) {
    const char *text = notes_get(n, CLASSES_NOTE);
    return text ? names_split(out, text, strlen(text), '\n') : FAC_OK;
}
