/* A run's vocabulary, as the notes of its checkpoint hold it. */
#ifndef FACULA_APP_RUN_VOCAB_H
#define FACULA_APP_RUN_VOCAB_H

#include "checkpoint.h"

/* Keeps a vocabulary of characters, or of byte pairs. */
void run_keep_vocab(notes *n, const fac_vocab *v, bool characters);
/* The vocabulary, which the caller releases; those of Facula 0.1, bytes or characters, are also read. NULL, with an error, if the
   notes hold none, or one of another size than the model's. */
fac_vocab *run_vocab(const notes *n);

#endif
