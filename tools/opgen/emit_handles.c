/* The handles of a public stub: those it is given are opened, those it gives are made. Between the two everything is a
   header (src/core/handle.h). */
#include "opgen.h"

#define OPEN "    $opener($a, \"$name\", \"$a\", $fail);\n"

bool has_list(const op *o) { return *each_kind(o, NULL, "", "$a", NULL, NULL); }

/* A list goes into one of its own, whose name has "_open_" behind it. Lists are all opened, so that all can be freed, whether
   or not one fails. */
void emit_open_handles(FILE *f, const op *o) {
    emit_each(f, o, is_positional, NULL, OPEN, NULL);
    emit_each(f, o, is_keyword, NULL, "    fac_tensor *$a = $value;\n" OPEN, NULL);
    emit_each(f, o, is_out, NULL, OPEN, NULL);
    if (has_list(o)) fputs("    bool open_ = true;\n", f);
    emit_each(f, o, NULL,
              "    fac_handle_list $a_open_;\n"
              "    open_ &= fac__open_list(&$a_open_, $value, $lacking, \"$name\", \"$a\") == FAC_OK;\n",
              NULL, NULL);
}

void emit_close_handles(FILE *f, const op *o) {
    emit_each(f, o, NULL, "    fac__handle_list_free(&$a_open_);\n", NULL, NULL);
    if (returns_list(o))
        fputs("    r_ = fac__list_to_handles(r_);\n", f);
    else if (returns_tensors(o))
        fputs(o->s->n_rets == 1 ? "    r_ = fac__handle(r_);\n"
                                : each_result(o, "", "    r_.$field = fac__handle(r_.$field);\n"),
              f);
}
