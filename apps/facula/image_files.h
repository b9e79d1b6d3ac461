/* Images and their classes from files: IDX files, or a folder that has a folder for each class. */
#ifndef FACULA_APP_IMAGE_FILES_H
#define FACULA_APP_IMAGE_FILES_H

#include "samples.h"

typedef struct class_names {
    char **v; /* owned */
    int64_t n;
} class_names;

/* Reads pairs of IDX files into x and y of `out`: bytes [N, 1, H, W] and int64 [N], kept. */
fac_status image_idx_read(const char *images, const char *labels, fac_tensor **out_x, fac_tensor **out_y);
/* Reads all PNG and JPEG files in the folders of a folder, in order of name, into bytes [N, channels, size, size] and int64 [N],
   kept: scaled until the smaller side fits, and cut to the middle. The folders' names are the classes, which `names` gets, or, if it has
   some, must be among.
   errors: ARGUMENT if there are no folders, or one has no images; NOT_FOUND for a class that is not among the names; those of reading,
           with the file's name */
fac_status image_folder_read(const char *folder, const train_options *o, class_names *names, fac_tensor **out_x,
                             fac_tensor **out_y);
void class_names_free(class_names *names);

#endif
