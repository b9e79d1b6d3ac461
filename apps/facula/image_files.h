/* Images and their classes from files: IDX files, or a folder that has a folder for each class; and images alone. */
#ifndef FACULA_APP_IMAGE_FILES_H
#define FACULA_APP_IMAGE_FILES_H

#include "models.h"
#include "names.h"
#include "samples.h"

/* Reads pairs of IDX files into x and y of `out`: bytes [N, 1, H, W] and int64 [N], kept. */
fac_status image_idx_read(const char *images, const char *labels, fac_tensor **out_x, fac_tensor **out_y);
/* Reads all PNG and JPEG files in the folders of a folder, in order of name, into bytes [N, channels, size, size] and int64 [N],
   kept: scaled until the smaller side fits, and cut to the middle. The folders' names are the classes, which `names` gets, or, if it has
   some, must be among.
   errors: ARGUMENT if there are no folders, or one has no images; NOT_FOUND for a class that is not among the names; those of reading,
           with the file's name */
fac_status image_folder_read(const char *folder, const train_options *o, name_list *names, fac_tensor **out_x,
                             fac_tensor **out_y);
/* Reads a PNG or JPEG file into bytes [channels, height, width]: scaled until one side fits and the other one is not smaller, and cut
   to the middle. errors: those of fac_image_read */
fac_status image_file_read(const char *path, const image_shape *shape, uint8_t *out);
/* Adds what a folder has that is wanted, in order of name, if the list was empty; hidden entries are left out. errors: IO; MEMORY */
fac_status folder_list(const char *dir, bool (*wanted)(const char *dir, const char *name), name_list *out);
/* Whether a name is that of a PNG or JPEG file. */
bool folder_has_image(const char *dir, const char *name);

#endif
