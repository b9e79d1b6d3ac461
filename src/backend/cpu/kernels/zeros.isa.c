/* A zero is looked for 4096 integers at a time: no branch within, so that the compiler makes vectors of it. */
#include "backend/cpu/kernels/zeros.h"

enum { STRETCH = 4096 };

#define SOME_ZERO(bits)                                                \
    static bool some_zero_##bits(const uint##bits##_t *p, int64_t n) { \
        for (int64_t i = 0; i < n; i += STRETCH) {                     \
            const int64_t end = fac__min(n, i + STRETCH);              \
            uint##bits##_t found = 0;                                  \
            for (int64_t k = i; k < end; k++) found |= p[k] == 0;      \
            if (found) return true;                                    \
        }                                                              \
        return false;                                                  \
    }
SOME_ZERO(8)
SOME_ZERO(16)
SOME_ZERO(32)
SOME_ZERO(64)

bool FAC_ISA_NAME(fac__some_zero)(const void *p, size_t item, int64_t n) {
    switch (item) {
    case 1: return some_zero_8(p, n);
    case 2: return some_zero_16(p, n);
    case 4: return some_zero_32(p, n);
    default: return some_zero_64(p, n);
    }
}
