/* The cache of compiled code: an entry is taken if, and only if, it is whole, of the key that was asked for, and nobody else could
   have written it. The first bytes of the input say what lies in the entry's place; the rest are its bytes. */
#include "input.h"
#include "jit/cache.h"
#include <fcntl.h>
#include <sys/stat.h>

enum { FILE_OF_ITS_OWN, LINK, FOLDER, PIPE, NOTHING, PLACES };
enum { OTHERS_WRITE = 3, OWNER = 4, FOLDER_SHIFT = 3 }; /* bits of `rights`; those of the folder are shifted */
enum { FOOTER = 80, MOST = 4096 };

typedef struct input {
    uint8_t place;
    uint8_t rights;
    uint8_t sealed;   /* odd: a footer is computed for the bytes, and put behind them */
    uint8_t distance; /* from the end, of the byte that is changed then */
    uint8_t change;   /* 0: none is */
} input;

typedef struct entry {
    input in;
    uint8_t data[MOST + FOOTER];
    size_t n;
} entry;

static fac_jit_key key;
static char root[32];

/* ---- what an entry is, said once more ------------------------------------------------------------------------------- */

static void seal(const uint8_t *data, size_t n, uint8_t out[FOOTER]) {
    fac_sha256 h;
    memcpy(out, "FACJIT01", 8);
    for (int i = 0; i < 8; i++) out[8 + i] = (uint8_t)((uint64_t)n >> (8 * i));
    memcpy(out + 16, key.bytes, 32);
    fac__sha256_begin(&h);
    fac__sha256_add(&h, data, n);
    fac__sha256_add(&h, out, 48);
    fac__sha256_end(&h, out + 48);
}

static bool is_whole(const entry *e) {
    uint8_t expected[FOOTER];
    if (e->n <= FOOTER) return false;
    seal(e->data, e->n - FOOTER, expected);
    return memcmp(expected, e->data + e->n - FOOTER, FOOTER) == 0;
}

/* Another owner is one that only root can give a file to. */
static bool others_may_write(unsigned rights) {
    return (rights & OTHERS_WRITE) || ((rights & OWNER) && geteuid() == 0);
}

static bool is_to_be_taken(const entry *e) {
    return e->in.place % PLACES == FILE_OF_ITS_OWN && !others_may_write(e->in.rights) && is_whole(e);
}

/* ---- putting it in place -------------------------------------------------------------------------------------------- */

static void check(bool ok) {
    if (!ok) abort();
}

static void give_rights(int fd, unsigned rights, mode_t mode) {
    if (rights & 1) mode |= 020;
    if (rights & 2) mode |= 002;
    check(fchmod(fd, mode) == 0);
    if (geteuid() == 0) check(fchown(fd, rights & OWNER ? 12345 : 0, (gid_t)-1) == 0);
}

static void put_file(int folder, const char *name, const entry *e) {
    const int fd = openat(folder, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, e->data, e->n) == (ssize_t)e->n);
    give_rights(fd, e->in.rights, 0600);
    close(fd);
}

static void put(int folder, const char *name, const entry *e) {
    switch (e->in.place % PLACES) {
    case FILE_OF_ITS_OWN: put_file(folder, name, e); break;
    case LINK:
        put_file(folder, "target", e);
        check(symlinkat("target", folder, name) == 0);
        break;
    case FOLDER: check(mkdirat(folder, name, 0700) == 0); break;
    case PIPE: check(mkfifoat(folder, name, 0600) == 0); break;
    default: break;
    }
}

/* ---- the check ------------------------------------------------------------------------------------------------------ */

static void check_read(int folder, bool taken, const uint8_t *data, size_t n) {
    char *out;
    size_t bytes = 0;
    check(fac__jit_cache_read(folder, &key, ".so", &out, &bytes) == FAC_OK);
    check((out != NULL) == taken);
    if (out) check(bytes == n && memcmp(out, data, n) == 0);
    fac__free(out);
}

static void check_entry(int folder, const entry *e) {
    char name[100];
    struct stat s;
    const bool taken = is_to_be_taken(e), in_the_way = e->in.place % PLACES == FOLDER;
    snprintf(name, sizeof name, "%s.so", key.text);
    put(folder, name, e);
    check_read(folder, taken, e->data, e->n - (taken ? FOOTER : 0));
    check((fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) == 0) == (taken || in_the_way));
    fac__jit_cache_write(folder, &key, ".so", "anew", 4);
    check_read(folder, !in_the_way, (const uint8_t *)"anew", 4);
    unlinkat(folder, name, in_the_way ? AT_REMOVEDIR : 0);
    unlinkat(folder, "target", 0);
}

static void remove_root(void) {
    char path[64];
    snprintf(path, sizeof path, "%s/facula", root);
    rmdir(path);
    rmdir(root);
}

static void begin(void) {
    for (int i = 0; i < FAC_SHA256_BYTES; i++) {
        key.bytes[i] = (uint8_t)i;
        snprintf(key.text + 2 * i, 3, "%02x", (unsigned)i);
    }
    snprintf(root, sizeof root, "%s/fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    check(mkdtemp(root) && setenv("XDG_CACHE_HOME", root, 1) == 0);
    atexit(remove_root);
}

/* The cache's own folder, with the rights of the input; not the cache's any longer if others may write to it. */
static int open_cache(unsigned rights) {
    char path[64];
    snprintf(path, sizeof path, "%s/facula", root);
    mkdir(path, 0700);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(fd >= 0);
    give_rights(fd, rights, 0755);
    const int folder = fac__jit_cache_open();
    check((folder < 0) == others_may_write(rights));
    close(fd);
    return folder;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static entry e;
    if (!root[0]) begin();
    if (n < sizeof e.in || n - sizeof e.in > MOST) return 0;
    memcpy(&e.in, data, sizeof e.in);
    e.n = n - sizeof e.in;
    memcpy(e.data, data + sizeof e.in, e.n);
    if (e.in.sealed & 1) {
        seal(e.data, e.n, e.data + e.n);
        e.n += FOOTER;
    }
    if (e.in.distance < e.n) e.data[e.n - 1 - e.in.distance] ^= e.in.change;
    const int folder = open_cache(e.in.rights >> FOLDER_SHIFT);
    if (folder >= 0) check_entry(folder, &e);
    if (folder >= 0) close(folder);
    return 0;
}
