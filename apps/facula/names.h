/* Lists of names: of classes, files and columns; and as text in a checkpoint's notes, from which they are read back exactly, whatever
   bytes they have. */
#ifndef FACULA_APP_NAMES_H
#define FACULA_APP_NAMES_H

#include <facula/facula.h>
#include <stdio.h>

typedef struct name_list {
    char **v; /* owned, as are the names */
    size_t n;
} name_list;

/* Adds a copy. errors: MEMORY */
fac_status names_add(name_list *l, const char *name);
void names_free(name_list *l);
/* Sorts by bytes, as names_find_sorted wants them. */
void names_sort(name_list *l);
/* The place of a name among those of a list, or of a sorted list; -1 if it is not there. */
int64_t names_find(const name_list *l, const char *name);
int64_t names_find_sorted(const name_list *l, const char *name);

/* Length of the UTF-8 character that p begins with; 0 if there is none. */
size_t utf8_length(const char *p);
/* Writes a name as a part of a note: backslashes, control characters and what is no UTF-8 as "\x5c". */
void names_put(FILE *f, const char *name);
/* Adds the names that names_put wrote into n bytes of text, of which each ends at a separator or at the end. */
fac_status names_split(name_list *l, const char *text, size_t n, char separator);

#endif
