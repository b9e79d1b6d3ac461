/* Slips that the compiler refuses. Inside a call with keywords it is an error, whatever the program's own warnings are,
   to give a number for a pointer, a list or a device; a pointer for a number or a truth value; a pointer of another
   type; an enumerator of another enumeration; a constant that its type cannot hold. With FACULA_STRICT defined before
   <facula/facula.h> it is also one to give
   - a floating-point number that is no whole one, or a variable of a floating-point type, for an integer;
   - an integer for an enumeration, and a void * for a pointer of a type (gcc); an integer that no enumerator has
     (clang).
   What C does not let a compiler see, and what it then means, stands in docs/keywords.md. */
#ifndef FACULA_STRICT_H
#define FACULA_STRICT_H

#if defined(__GNUC__) && !defined(__cplusplus)
#define FAC_PRAGMA_(text) _Pragma(#text)
#define FAC_REFUSE_(warning) FAC_PRAGMA_(GCC diagnostic error warning)

#ifdef __clang__
#define FAC_MEMBERS_BY_NAME_
#define FAC_REFUSE_OWN_ FAC_REFUSE_("-Wconstant-conversion")
#define FAC_REFUSE_CONVERSIONS_ \
    FAC_REFUSE_("-Wfloat-conversion") FAC_REFUSE_("-Wliteral-conversion") FAC_REFUSE_("-Wassign-enum")
#else
/* A struct of which a number alone is none. gcc says so even where these headers are the system's, inside a call
   only. */
#define FAC_MEMBERS_BY_NAME_ __attribute__((designated_init))
#pragma GCC diagnostic ignored "-Wdesignated-init"
#define FAC_REFUSE_OWN_ FAC_REFUSE_("-Wdesignated-init") FAC_REFUSE_("-Woverflow")
#define FAC_REFUSE_CONVERSIONS_ FAC_REFUSE_("-Wfloat-conversion") FAC_REFUSE_("-Wc++-compat")
#endif

#ifndef FACULA_STRICT
#undef FAC_REFUSE_CONVERSIONS_
#define FAC_REFUSE_CONVERSIONS_
#endif

/* Between the push and the pop of a call. */
#define FAC_REFUSE_SLIPS_                       \
    FAC_REFUSE_("-Wint-conversion")             \
    FAC_REFUSE_("-Wincompatible-pointer-types") \
    FAC_REFUSE_("-Wmissing-braces") FAC_REFUSE_("-Wenum-conversion") FAC_REFUSE_OWN_ FAC_REFUSE_CONVERSIONS_
#else
#define FAC_MEMBERS_BY_NAME_
#endif

#endif
