/* Selection by a truth value, over elements of every kind; see README.md. */

FAC_SCALAR_FN FAC_T FAC_FN(where)(bool take, FAC_T a, FAC_T b) { return take ? a : b; }
