/* Kinds of complex quotients by PyTorch 2.15.0+cu132. Written by gen_complex_cases.py. */
/* clang-format off */
static const double complex_parts[] = {0.0, -0.0, 1.0, INFINITY, -INFINITY, NAN};
/* By numerator (a + bi, b fastest); in a row by denominator, for each the kind of the real and of the imaginary
   part: f finite, n not a number, + and - infinite. */
static const char *const complex_quotients[] = {
    "nnnnffffffnnnnnnffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "nnnnffffffnnnnnnffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "n+n+ffffffnnn+n+ffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "n+n++nnnnnnnn+n++nnnnnnnn+n+++nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "n-n--nnnnnnnn-n--nnnnnnnn-n---nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnffffffnnnnnnffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "nnnnffffffnnnnnnffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "n+n+ffffffnnn+n+ffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "n+n++nnnnnnnn+n++nnnnnnnn+n+++nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "n-n--nnnnnnnn-n--nnnnnnnn-n---nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "+n+nffffffnn+n+nffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "+n+nffffffnn+n+nffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "++++ffffffnn++++ffffffnnffffffffffnnffffffnnnnnnffffffnnnnnnnnnnnnnnnnnn",
    "+++++nnnnnnn+++++nnnnnnnn+n+++nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "+-+--nnnnnnn+-+--nnnnnnnn-n---nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "+n+nnnnnnnnn+n+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "+n+nn-nnnnnn+n+nn-nnnnnn+n+n+-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "+n+nn-nnnnnn+n+nn-nnnnnn+n+n+-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "++++n-nnnnnn++++n-nnnnnn+n+n+-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "++++nnnnnnnn++++nnnnnnnnnnnn+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "+-+-nnnnnnnn+-+-nnnnnnnnnnnnn-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "+n+nnnnnnnnn+n+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "-n-nn+nnnnnn-n-nn+nnnnnn-n-n-+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "-n-nn+nnnnnn-n-nn+nnnnnn-n-n-+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "-+-+n+nnnnnn-+-+n+nnnnnn-n-n-+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "-+-+nnnnnnnn-+-+nnnnnnnnnnnnn+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "----nnnnnnnn----nnnnnnnnnnnn-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "-n-nnnnnnnnn-n-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "n+n+nnnnnnnnn+n+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "n+n+nnnnnnnnn+n+nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "n-n-nnnnnnnnn-n-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
};
/* clang-format on */
