/* Reads folders of images. */
#include "image_files.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define MOST_BYTES (INT64_C(8) << 30)

/* ---- folders ---- */

static bool is_folder(const char *dir, const char *name) {
    char path[4096];
    struct stat st;
    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path && stat(path, &st) == 0 &&
           S_ISDIR(st.st_mode);
}

bool folder_has_image(const char *dir, const char *name) {
    static const char *const ends[] = {".png", ".jpg", ".jpeg"};
    (void)dir;
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(end, ends[i]) == 0) return true;
    return false;
}

fac_status folder_list(const char *dir, bool (*wanted)(const char *dir, const char *name), name_list *out) {
    DIR *d = opendir(dir);
    if (!d) return fac_error_set(FAC_ERR_IO, "cannot read the folder '%s': %s", dir, strerror(errno));
    fac_status st = FAC_OK;
    for (struct dirent *e; !st && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && wanted(dir, e->d_name)) st = names_add(out, e->d_name);
    closedir(d);
    names_sort(out);
    return st;
}

/* ---- files ---- */

typedef struct image_list {
    name_list paths;
    int64_t *classes; /* of each path */
} image_list;

static fac_status add_class(image_list *l, const char *folder, const char *name, int64_t k) {
    char dir[4096], path[4096];
    name_list files = {0};
    fac_status st = run_path(folder, name, dir, sizeof dir);
    if (!st) st = folder_list(dir, folder_has_image, &files);
    if (!st && files.n == 0) st = fac_error_set(FAC_ERR_ARGUMENT, "the folder '%s' has no PNG or JPEG files", dir);
    int64_t *classes = st ? NULL : realloc(l->classes, (l->paths.n + files.n) * sizeof *classes);
    if (!st && !classes) st = fac_error_set(FAC_ERR_MEMORY, "no memory for the names of files");
    if (classes) l->classes = classes;
    for (size_t i = 0; !st && i < files.n; i++) {
        st = run_path(dir, files.v[i], path, sizeof path);
        if (!st) st = names_add(&l->paths, path);
        if (!st) l->classes[l->paths.n - 1] = k;
    }
    names_free(&files);
    return st;
}

static fac_status list_images(const char *folder, name_list *names, image_list *out) {
    name_list classes = {0};
    fac_status st = folder_list(folder, is_folder, &classes);
    if (!st && classes.n == 0)
        st = fac_error_set(FAC_ERR_ARGUMENT, "'%s' has no folders: it should have one for each class", folder);
    const bool given = names->n > 0;
    for (size_t i = 0; !st && i < classes.n; i++) {
        const int64_t k = given ? names_find(names, classes.v[i]) : (int64_t)i;
        st = k >= 0 ? add_class(out, folder, classes.v[i], k)
                    : fac_error_set(FAC_ERR_NOT_FOUND, "'%s' has a class '%s' that the training images lack", folder,
                                    classes.v[i]);
    }
    if (st || given)
        names_free(&classes);
    else
        *names = classes;
    return st;
}

/* ---- pixels ---- */

fac_status image_file_read(const char *path, const image_shape *shape, uint8_t *out) {
    FAC_SCOPE(s);
    const int64_t height = shape->height, width = shape->width;
    fac_tensor *image = fac_image_read(path, .channels = (int)shape->channels);
    if (!image) return fac_error();
    const int64_t h = fac_tensor_size(image, 1), w = fac_tensor_size(image, 2);
    /* The side that is smaller for what is wanted fits, the other one is rounded. */
    const bool upright = h * width >= w * height;
    const int64_t scaled_h = upright ? (h * width + w / 2) / w : height,
                  scaled_w = upright ? width : (w * height + h / 2) / h;
    fac_tensor *scaled = fac_image_resize(image, scaled_h, scaled_w);
    fac_tensor *middle = fac_clone(fac_contiguous(fac_image_center_crop(scaled, height, width)));
    if (fac_error()) return fac_error();
    memcpy(out, fac_tensor_data(middle), (size_t)(shape->channels * height * width));
    return FAC_OK;
}

static fac_status read_pixels(const image_list *l, const train_options *o, uint8_t *out) {
    const image_shape shape = {o->channels, o->size, o->size};
    progress bar;
    fac_status st = FAC_OK;
    progress_start(&bar, stderr, 0, o->quiet);
    bar.noun = "image";
    for (size_t i = 0; !st && i < l->paths.n; i++) {
        st = image_file_read(l->paths.v[i], &shape, out + i * (size_t)(o->channels * o->size * o->size));
        progress_update(&bar, (int64_t)i + 1, (int64_t)l->paths.n, "read");
    }
    progress_clear(&bar);
    return st;
}

fac_status image_folder_read(const char *folder, const train_options *o, name_list *names, fac_tensor **out_x,
                             fac_tensor **out_y) {
    FAC_SCOPE(s);
    image_list l = {0};
    fac_status st = list_images(folder, names, &l);
    const int64_t n = (int64_t)l.paths.n, each = o->channels * o->size * o->size;
    if (!st && n > MOST_BYTES / each)
        st = fac_error_set(FAC_ERR_ARGUMENT,
                           "the images would need more than 8 GiB (%lld x %lld B); try a smaller --size", (long long)n,
                           (long long)each);
    fac_tensor *x = st ? NULL : fac_empty(FAC_INTS(n, o->channels, o->size, o->size), .dtype = FAC_U8);
    fac_tensor *y = st ? NULL : fac_tensor_from(l.classes, FAC_I64, FAC_INTS(n));
    if (!st) st = fac_error();
    if (!st) st = read_pixels(&l, o, fac_tensor_data(x));
    if (!st) {
        *out_x = fac_keep(x);
        *out_y = fac_keep(y);
    }
    names_free(&l.paths);
    free(l.classes);
    return st;
}
