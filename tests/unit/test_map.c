/* The map of names: names that collide under a hash that everybody knows, as those of a hostile file would. */
#include "support/files.h"
#include "support/support.h"
#include <facula/facula.h>
#include <stdlib.h>
#include <time.h>

enum {
    NAMES = 200000,
    LETTERS = 12,
    ENTRY = 64 /* bytes of a name's in the header */,
    TABLE = 1 << 19,
    REGION = TABLE / 256
};

static char names[NAMES][LETTERS + 1];

/* FNV-1a from its usual beginning, folded. */
static size_t known_hash(const char *key) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    return (size_t)(h ^ (h >> 32));
}

/* Different names that all belong into one of 256 regions of the table that has them all, and of smaller ones. */
static void choose_names(void) {
    if (names[0][0]) return;
    uint64_t n = 0;
    for (size_t found = 0; found < NAMES; n++) {
        char *at = names[found];
        uint64_t rest = n;
        for (int i = 0; i < LETTERS; i++, rest /= 26) at[i] = (char)('a' + rest % 26);
        found += (known_hash(at) & (TABLE - 1)) < REGION;
    }
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void map_of_names_that_were_made_to_collide_is_fast(void **state) {
    (void)state;
    choose_names();
    fac_map m = {0};
    const double begin = seconds();
    for (size_t i = 0; i < NAMES; i++) {
        assert_ok(fac__map_set(&m, names[i], names[i]));
        if (i % 4096 == 0) assert_true(seconds() - begin < 2);
    }
    for (size_t i = 0; i < NAMES; i++) assert_ptr_equal(fac__map_get(&m, names[i]), names[i]);
    for (size_t i = 0; i < NAMES; i += 2) fac__map_remove(&m, names[i]);
    for (size_t i = 0; i < NAMES; i++) assert_ptr_equal(fac__map_get(&m, names[i]), i % 2 ? names[i] : NULL);
    assert_true(seconds() - begin < 2);
    fac__map_free(&m);
}

/* As tensors without elements in a file, whose header alone has them all. */
static void file_whose_names_were_made_to_collide_loads_fast(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    choose_names();
    enum { ENDS = 16 }; /* the header's length before, the last brace and a zero behind */
    char *header = malloc(NAMES * ENTRY + ENDS), *at = header + 8;
    assert_non_null(header);
    for (size_t i = 0; i < NAMES; i++)
        at += sprintf(at, "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? ',' : '{', names[i]);
    *at++ = '}';
    const uint64_t n = (uint64_t)(at - header - 8);
    memcpy(header, &n, 8);
    const char *path = files_path("collide.safetensors");
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(header, 1, 8 + n, f) == 8 + n && fclose(f) == 0);
    free(header);
    const double begin = seconds();
    fac_state *s = fac_state_load(path);
    assert_non_null(s);
    assert_int_equal(s->n, NAMES);
    assert_non_null(fac_state_get(s, names[NAMES - 1]));
    fac_state_free(s);
    assert_true(seconds() - begin < 8);
    remove(path);
}

FAC_TEST_MAIN(FAC_TEST(map_of_names_that_were_made_to_collide_is_fast),
              FAC_TEST(file_whose_names_were_made_to_collide_loads_fast))
