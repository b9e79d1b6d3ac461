/* The functions that the public headers define, as symbols of the library: for pointers to them, and for bindings. */
#define FAC_INLINE_ FAC_API
#include <facula/facula.h>
