/* Muon: matrices move along their momentum made orthogonal, so that no direction of it is left behind; all other parameters move by
   AdamW. A kind of optimiser of one's own, from public operators alone.
   source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon */
#ifndef FACULA_APP_MUON_H
#define FACULA_APP_MUON_H

#include <facula/facula.h>

/* An optimiser over the parameters of a model, of which the matrices that `orthogonal` chooses move by Muon; at least one
   other must be left. own: the caller's; NULL on failure */
fac_optimizer *muon_new(fac_module *m, double lr, double weight_decay, bool (*orthogonal)(const fac_named *p));

#endif
