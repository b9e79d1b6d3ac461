/* An open safetensors file: shared by the reader of headers and the reader of data. */
#ifndef FAC_SRC_IO_SAFETENSORS_FILE_H
#define FAC_SRC_IO_SAFETENSORS_FILE_H

#include "io/safetensors.h"
#include <jansson.h>

typedef struct fac_safetensors_item {
    const char *name; /* owned by the JSON */
    const char *type;
    fac_dtype dtype;
    int ndim;
    int64_t *sizes;     /* owned */
    int64_t begin, end; /* in the data */
} fac_safetensors_item;

struct fac_safetensors {
    char *path;
    int fd;
    int64_t file_bytes, header_bytes, data_bytes; /* file = 8 + header + data */
    char *header;                                 /* as read, not terminated */
    json_t *json;
    fac_safetensors_item *items; /* in the order of their data */
    size_t n;
    fac_map by_name; /* -> fac_safetensors_item */
    fac_metadata *metadata;
    size_t n_metadata;
    bool has_checksum;
};

#endif
