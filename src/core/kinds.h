/* Which kinds of tensors a build has, and whether it has loops of special functions. A library with few operators has only
   what its list speaks of: cmake/library.cmake defines the others as 0, and what only they need is then neither started nor
   linked. */
#ifndef FAC_SRC_CORE_KINDS_H
#define FAC_SRC_CORE_KINDS_H

#ifndef FAC_HAVE_SPARSE
#define FAC_HAVE_SPARSE 1
#endif
#ifndef FAC_HAVE_NESTED
#define FAC_HAVE_NESTED 1
#endif
#ifndef FAC_HAVE_VENDOR
#define FAC_HAVE_VENDOR 1
#endif
#ifndef FAC_HAVE_CODED
#define FAC_HAVE_CODED 1
#endif
#ifndef FAC_HAVE_BATCHED
#define FAC_HAVE_BATCHED 1
#endif
#ifndef FAC_HAVE_SPECIAL
#define FAC_HAVE_SPECIAL 1
#endif

#endif
