/* Loads a shared object from memory, through a file without a name. */
#define _GNU_SOURCE 1 /* memfd_create */
#include "jit/load.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int fd, const char *p, size_t n) {
    while (n > 0) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* A path of the descriptor that no library was loaded under: the loader takes a path it has seen for the library it has. Each
   bit of a running number makes a step "/." or "//.", which lead nowhere. */
static void path_of(int fd, char *path, size_t size) {
    static atomic_uint serial;
    size_t n = (size_t)snprintf(path, size, "/proc/self/fd");
    for (unsigned bits = atomic_fetch_add(&serial, 1) + 1; bits; bits >>= 1)
        n += (size_t)snprintf(path + n, size - n, bits & 1 ? "//." : "/.");
    snprintf(path + n, size - n, "/%d", fd);
}

static void *load_from_memory(const char *data, size_t bytes, const char **why) {
    char path[160];
    const int fd = memfd_create("facula", MFD_CLOEXEC);
    *why = "no memory file can be made";
    if (fd < 0) return NULL;
    path_of(fd, path, sizeof path);
    void *library = write_all(fd, data, bytes) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) *why = dlerror();
    close(fd);
    return library;
}

/* Where the system makes no memory files, or lets none of them run: through a folder that nobody else can enter. */
static void *load_from_folder(const char *data, size_t bytes, const char **why) {
    char folder[] = "/tmp/facula-XXXXXX", path[sizeof folder + 16];
    void *library = NULL;
    *why = "no folder can be made in /tmp";
    if (!mkdtemp(folder)) return NULL;
    snprintf(path, sizeof path, "%s/image.so", folder);
    FILE *f = fopen(path, "wb");
    const bool written = f && fwrite(data, 1, bytes, f) == bytes;
    if (f && fclose(f) == 0 && written) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) *why = written ? dlerror() : "nothing can be written in /tmp";
    unlink(path);
    rmdir(folder);
    return library;
}

fac_status fac__jit_load(const char *data, size_t bytes, const char *name, void **out_library) {
    const char *why = NULL;
    *out_library = load_from_memory(data, bytes, &why);
    if (!*out_library) *out_library = load_from_folder(data, bytes, &why);
    FAC_CHECK(*out_library, FAC_ERR_IO, "%s: it was compiled, but cannot be loaded: %s", name,
              why ? why : "the loader does not say why");
    return FAC_OK;
}
