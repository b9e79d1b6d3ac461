/* A data set of tensors that are headers already. */
#ifndef FAC_SRC_DATA_DATASET_TENSORS_H
#define FAC_SRC_DATA_DATASET_TENSORS_H

#include "data/dataset.h"

/* fac_dataset_of_tensors; `whose` says in errors what the columns are for. */
fac_dataset *fac__dataset_of_headers(fac_tensors columns, const char *whose);

#endif
