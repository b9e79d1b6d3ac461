/* The networks that images and tables are trained with, what they take, and what of both a run keeps in its notes. */
#ifndef FACULA_APP_MODELS_H
#define FACULA_APP_MODELS_H

#include "checkpoint.h"
#include "names.h"

/* The images that a model takes. */
typedef struct image_shape {
    int64_t channels, height, width;
} image_shape;

/* Two convolutions with pooling, two linear layers. */
fac_module *image_model_new(const image_shape *shape, int64_t classes, double dropout);
/* What it takes: floats around zero of bytes, in the innermost scope. */
fac_tensor *image_model_input(fac_tensor *bytes);
/* Linear layers of these sizes, "64,64", with ReLU and dropout between them. errors: ARGUMENT for other text */
fac_module *table_model_new(int64_t in, int64_t out, const char *hidden, double dropout);
/* Whether a checkpoint has the weights of such layers, and so is about as large as they: numbers in notes may be any.
   errors: FORMAT; those of reading */
fac_status image_model_check(const char *checkpoint, const image_shape *shape, int64_t classes);
fac_status table_model_check(const char *checkpoint, int64_t in, int64_t out, const char *hidden);
/* Mixed precision by its name: "f32" for none, "bf16", "f16". */
fac_autocast_guard model_autocast(fac_device device, const char *precision);
/* The device of a name, NULL: the CPU, which is made the thread's own. errors: those of fac_device_parse; NOT_FOUND */
fac_status model_device(const char *name, fac_device *out);

/* Names of classes, in order of their numbers. A run without them has none. */
void run_keep_classes(notes *n, const name_list *classes);
fac_status run_classes(const notes *n, name_list *out);

#endif
