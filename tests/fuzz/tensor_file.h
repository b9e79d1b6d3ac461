/* What fuzzers of files of several tensors share: every entry is described and read. */
#ifndef FAC_TESTS_FUZZ_TENSOR_FILE_H
#define FAC_TESTS_FUZZ_TENSOR_FILE_H

#include <facula/facula.h>

static inline void read_entries(fac_tensor_file *f) {
    for (size_t i = 0; f && i < fac_tensor_file_count(f); i++) {
        FAC_SCOPE(s);
        fac_tensor_file_entry e;
        if (fac_tensor_file_get(f, i, &e) == FAC_OK && fac_tensor_file_find(f, e.name) != (int64_t)i) __builtin_trap();
        (void)!fac_tensor_file_read(f, i);
        fac_error_clear();
    }
    if (!f && !fac_error()) __builtin_trap();
    fac_tensor_file_close(f);
    fac_error_clear();
}

#endif
