/* What reading and writing safetensors share. A file is: header length (8 bytes, little-endian), header (JSON), data.

   Facula's checksum is a CRC-32 of the whole file, computed with the eight digits of the checksum itself as '0'. The digits
   stand at a fixed place, right behind FAC_CHECKSUM_LEAD at the start of the header. A second entry names Facula as
   the writer, so that a bit flipped in one key still leaves the other to say that there should be a checksum. */
#ifndef FAC_SRC_IO_SAFETENSORS_H
#define FAC_SRC_IO_SAFETENSORS_H

#include "core/tensor.h"
#include <facula/io.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they lie in memory");

#define FAC_CHECKSUM_KEY "facula.crc32"
#define FAC_WRITER_KEY "facula.writer"
#define FAC_CHECKSUM_LEAD "{\"__metadata__\":{\"" FAC_CHECKSUM_KEY "\":\""
#define FAC_CHECKSUM_ZERO "00000000"
#define FAC_CHECKSUM_DIGITS (sizeof FAC_CHECKSUM_ZERO - 1)
#define FAC_HEADER_MAX 100000000 /* bytes; the format's own limit */

typedef struct fac_safetensors_type {
    const char *name;
    fac_dtype dtype; /* FAC_DTYPE_DEFAULT: known, but Facula has no such type */
    int bytes;
} fac_safetensors_type;
/* NULL if there is none. */
const fac_safetensors_type *fac__safetensors_type_named(const char *name);

#endif
