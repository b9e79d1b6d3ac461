/* dlopen and dlclose of the library, more than once, and a thread that ends after it was let go of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

typedef struct library {
    void *handle;
    int (*init)(void);
    int (*device_count)(void);
    void (*shutdown)(void);
} library;

static void find(const library *l, const char *name, void *to) {
    void *symbol = dlsym(l->handle, name);
    assert_non_null(symbol);
    memcpy(to, &symbol, sizeof symbol);
}

static library load(void) {
    library l = {.handle = dlopen(FACULA_LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (!l.handle) fail_msg("%s", dlerror());
    find(&l, "fac_init", &l.init);
    find(&l, "fac_cuda_device_count", &l.device_count);
    find(&l, "fac_shutdown", &l.shutdown);
    return l;
}

typedef struct user {
    const library *l;
    sem_t used, end;
    int status;
} user;

/* Leaves its thread-local state to be freed at its end. */
static void *use(void *context) {
    user *u = context;
    u->status = u->l->init();
    sem_post(&u->used);
    sem_wait(&u->end);
    return NULL;
}

static void library_is_loaded_again_after_it_was_let_go_of(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        library l = load();
        user u = {.l = &l};
        assert_int_equal(l.init(), 0);
        assert_int_equal(l.device_count(), 2);
        sem_init(&u.used, 0, 0);
        sem_init(&u.end, 0, 0);
        assert_int_equal(pthread_create(&thread, NULL, use, &u), 0);
        sem_wait(&u.used);
        l.shutdown();
        assert_int_equal(dlclose(l.handle), 0);
        sem_post(&u.end);
        pthread_join(thread, NULL);
        assert_int_equal(u.status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(library_is_loaded_again_after_it_was_let_go_of)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
