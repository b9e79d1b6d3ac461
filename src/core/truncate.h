/* Floating to integral numbers: the one rule, for conversions, reductions and single elements, on the CPU and in device code.

   The fraction is dropped, and NaN gives 0. An int64 saturates: what is out of its range gives the nearest end of it; so does
   an int32. A narrower integer takes the low bits of an int32, so that -1 becomes 255 in uint8; what not even an int32
   holds saturates in the narrower range.

   A template, included without guards: define FAC_FROM (the floating type), FAC_TRUNCATE(name) and FAC_TRUNCATE_FN (how
   functions are declared) before; it undefines them. Conditions select values that are there, so that loops vectorise. */

FAC_TRUNCATE_FN int64_t FAC_TRUNCATE(to_i64)(FAC_FROM x) {
    if (!(x == x)) return 0;
    return x >= (FAC_FROM)0x1p63 ? INT64_MAX : x < -(FAC_FROM)0x1p63 ? INT64_MIN : (int64_t)x;
}
FAC_TRUNCATE_FN int32_t FAC_TRUNCATE(to_i32)(FAC_FROM x) {
    if (!(x == x)) return 0;
    return x >= (FAC_FROM)0x1p31 ? INT32_MAX : x < -(FAC_FROM)0x1p31 ? INT32_MIN : (int32_t)x;
}
FAC_TRUNCATE_FN int16_t FAC_TRUNCATE(to_i16)(FAC_FROM x) {
    return x >= (FAC_FROM)0x1p31 ? INT16_MAX : x < -(FAC_FROM)0x1p31 ? INT16_MIN : (int16_t)FAC_TRUNCATE(to_i32)(x);
}
FAC_TRUNCATE_FN int8_t FAC_TRUNCATE(to_i8)(FAC_FROM x) {
    return x >= (FAC_FROM)0x1p31 ? INT8_MAX : x < -(FAC_FROM)0x1p31 ? INT8_MIN : (int8_t)FAC_TRUNCATE(to_i32)(x);
}
FAC_TRUNCATE_FN uint8_t FAC_TRUNCATE(to_u8)(FAC_FROM x) {
    return x >= (FAC_FROM)0x1p31 ? UINT8_MAX : x < -(FAC_FROM)0x1p31 ? (uint8_t)0 : (uint8_t)FAC_TRUNCATE(to_i32)(x);
}

#undef FAC_FROM
#undef FAC_TRUNCATE
#undef FAC_TRUNCATE_FN
