/* What calls into oneDNN share. */
#ifndef FAC_SRC_BACKEND_CPU_ONEDNN_H
#define FAC_SRC_BACKEND_CPU_ONEDNN_H

/* oneDNN's builds with OpenMP start threads of their own, and its bits then depend on how many. Between these two calls it
   runs on the calling thread alone, and a fork waits: `int was = fac__onednn_begin(); ...; fac__onednn_end(was);`. */
int fac__onednn_begin(void);
void fac__onednn_end(int was);
/* Finds the OpenMP that oneDNN brought with it, if it did. Facula itself is not linked to any. */
void fac__onednn_start(void);

#endif
