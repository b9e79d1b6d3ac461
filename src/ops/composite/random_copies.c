/* Random fills as functions: a copy, filled in place. The copy keeps what the graph knows of self, so that its gradient is zero. */
#include "ops/call.h"
#include "ops_gen.h"

static fac_tensor *copy(fac_tensor *self) { return fac__s_clone(self, FAC_PRESERVE); }

/* Defines <name>_composite as `fill` of a copy `t` of self. */
#define FILLED_COPY(name, params, fill)  \
    fac_status name##_composite params { \
        (void)c;                         \
        FAC_SCOPE(s);                    \
        fac_tensor *t = copy(self);      \
        return fac__give(out, fill);     \
    }

FILLED_COPY(cauchy,
            (const fac_call_info *c, fac_tensor *self, double median, double sigma, fac_generator *g, fac_tensor **out),
            fac__s_cauchy_(t, median, sigma, g))
FILLED_COPY(exponential, (const fac_call_info *c, fac_tensor *self, double lambd, fac_generator *g, fac_tensor **out),
            fac__s_exponential_(t, lambd, g))
FILLED_COPY(geometric, (const fac_call_info *c, fac_tensor *self, double p, fac_generator *g, fac_tensor **out),
            fac__s_geometric_(t, p, g))
FILLED_COPY(log_normal,
            (const fac_call_info *c, fac_tensor *self, double mean, double std, fac_generator *g, fac_tensor **out),
            fac__s_log_normal_(t, mean, std, g))
FILLED_COPY(normal_functional,
            (const fac_call_info *c, fac_tensor *self, double mean, double std, fac_generator *g, fac_tensor **out),
            fac__s_normal_(t, mean, std, g))
FILLED_COPY(random, (const fac_call_info *c, fac_tensor *self, fac_generator *g, fac_tensor **out),
            fac__s_random_(t, g))
FILLED_COPY(random_from,
            (const fac_call_info *c, fac_tensor *self, int64_t from, fac_opt_int to, fac_generator *g,
             fac_tensor **out),
            fac__s_random__from(t, from, to, g))
FILLED_COPY(random_to, (const fac_call_info *c, fac_tensor *self, int64_t to, fac_generator *g, fac_tensor **out),
            fac__s_random__to(t, to, g))
FILLED_COPY(uniform,
            (const fac_call_info *c, fac_tensor *self, double from, double to, fac_generator *g, fac_tensor **out),
            fac__s_uniform_(t, from, to, g))
FILLED_COPY(zero, (const fac_call_info *c, fac_tensor *self, fac_tensor **out), fac__s_zero_(t))
