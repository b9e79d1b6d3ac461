/* Triangles of matrices, moved by element size. */
#include "number.h"

/* x and out [*, rows, columns], without gaps: what lies above (upper: below) the diagonal becomes zero. */
KERNEL(triangle, (OUT, char, out), (IN, char, x), (VAL, int64_t, n), (VAL, int64_t, rows), (VAL, int64_t, columns),
       (VAL, int64_t, diagonal), (VAL, int, item), (VAL, int, upper)) {
    KLOOP(i, n) {
        const int64_t r = i / columns % rows, c = i % columns;
        const int kept = upper ? c - r >= diagonal : c - r <= diagonal;
        for (int b = 0; b < item; b++) out[i * item + b] = kept ? x[i * item + b] : 0;
    }
}
