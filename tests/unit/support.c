#define _GNU_SOURCE /* nftw */
#include "support.h"
#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static atomic_llong countdown = -1;
static atomic_bool refused;

static void *counting_alloc(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    long long left = atomic_load(&countdown);
    if (left == 0) {
        atomic_store(&refused, true);
        return NULL;
    }
    if (left > 0) atomic_store(&countdown, left - 1);
    void *p = NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes) == 0 ? p : NULL;
}

static void counting_free(void *ctx, void *p) {
    (void)ctx;
    free(p);
}

void unit_fail_allocation(int64_t n) {
    fac__memory_hook = (fac_memory_hook){counting_alloc, counting_free, NULL};
    atomic_store(&countdown, n);
    atomic_store(&refused, false);
}

bool unit_allocation_failed(void) { return atomic_load(&refused); }

/* ---- each test --------------------------------------------------------------------------------------------------------- */

static int64_t live_before;

int unit_setup(void **state) {
    (void)state;
    unit_fail_allocation(-1);
    fac_error_clear();
    if (fac_init() != FAC_OK) return -1;
    live_before = fac_live();
    return 0;
}

int unit_teardown(void **state) {
    (void)state;
    unit_fail_allocation(-1);
    int64_t leaked = fac_live() - live_before;
    if (fac_error()) print_error("an error is left pending: %s\n", fac_error_message());
    if (leaked) print_error("%lld objects are left over\n", (long long)leaked);
    int bad = fac_error() != FAC_OK || leaked != 0;
    fac_error_clear();
    return bad;
}

void unit_check_error(fac_status code, const char *text, const char *file, int line) {
    if (fac_error() != code || !strstr(fac_error_message(), text)) {
        print_error("expected %s with '%s', but there is %s: %s\n", fac_status_name(code), text, fac_status_name(fac_error()),
                    fac_error_message());
        _fail(file, line);
    }
    fac_error_clear();
}

/* ---- files ---------------------------------------------------------------------------------------------------------------- */

static char folder[64];

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void remove_folder(void) { nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

static void make_folder(void) {
    if (folder[0]) return;
    strcpy(folder, "/tmp/facula-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    atexit(remove_folder);
}

const char *unit_path(const char *name) {
    static char paths[8][512];
    static int next;
    make_folder();
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void unit_write_file(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

unsigned char *unit_read_file(const char *path, size_t *out_n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *out_n = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(*out_n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *out_n, f), *out_n);
    fclose(f);
    return bytes;
}

int unit_count_files(void) {
    make_folder();
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
