/* Comparisons and logic over numbers of every kind but complex ones, whose results are truth values; see README.md. */

FAC_SCALAR_FN bool FAC_FN(eq)(FAC_T a, FAC_T b) { return a == b; }
FAC_SCALAR_FN bool FAC_FN(ne)(FAC_T a, FAC_T b) { return a != b; }
FAC_SCALAR_FN bool FAC_FN(lt)(FAC_T a, FAC_T b) { return a < b; }
FAC_SCALAR_FN bool FAC_FN(le)(FAC_T a, FAC_T b) { return a <= b; }
FAC_SCALAR_FN bool FAC_FN(gt)(FAC_T a, FAC_T b) { return a > b; }
FAC_SCALAR_FN bool FAC_FN(ge)(FAC_T a, FAC_T b) { return a >= b; }
FAC_SCALAR_FN bool FAC_FN(logical_and)(FAC_T a, FAC_T b) { return (a != 0) & (b != 0); }
FAC_SCALAR_FN bool FAC_FN(logical_or)(FAC_T a, FAC_T b) { return (a != 0) | (b != 0); }
FAC_SCALAR_FN bool FAC_FN(logical_xor)(FAC_T a, FAC_T b) { return (a != 0) ^ (b != 0); }
FAC_SCALAR_FN bool FAC_FN(logical_not)(FAC_T a) { return a == 0; }
