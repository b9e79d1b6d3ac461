/* One model, many threads: workers answer requests with a network that they share, and everyone gets the same bits.

   Shows what threads may share, scopes and modes that each thread has for itself, the number of threads of a kernel, and errors
   that arise on a thread.

       cc threads.c $(pkg-config --cflags --libs facula) -pthread -o threads && ./threads [workers]

   Prints how many requests a second 1, 2, ... workers answer. Returns 1 if an answer differs by one bit from that of the main
   thread. */
#include <facula/facula.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REQUESTS = 2000, FEATURES = 256, HIDDEN = 256, CLASSES = 10, MOST_WORKERS = 64 };

/* What the workers share. The model and the requests are only read, which needs no lock. */
typedef struct {
    fac_module *model;
    fac_tensor *requests;     /* [REQUESTS, FEATURES] */
    atomic_int next;          /* the request that nobody has taken yet */
    float (*answer)[CLASSES]; /* [REQUESTS]; each is written by the worker that took the request */
} office;

/* Takes requests until none is left, or an error arises. */
static void work(office *o) {
    FAC_INFERENCE(g);                   /* modes are each thread's own */
    if (fac_set_num_threads(1)) return; /* the requests are parallel, not the kernels */
    for (int i; (i = atomic_fetch_add(&o->next, 1)) < REQUESTS;) {
        FAC_SCOPE(s); /* and so are scopes */
        fac_tensor *x = fac_at(o->requests, "#", .ints = FAC_INTS(i));
        fac_tensor *y = fac_softmax(fac_forward(o->model, x), -1);
        if (fac_tensor_read(y, FAC_F32, o->answer[i], CLASSES)) return;
    }
}

/* What a thread runs. An error is its own and goes with it: it is reported here, and something else than NULL returned. */
static void *worker(void *context) {
    work(context);
    return fac_report(stderr) ? context : NULL;
}

/* Lets so many workers answer all requests; returns how many they answer in a second, 0 if something went wrong. */
static double serve(office *o, int workers) {
    pthread_t thread[MOST_WORKERS];
    struct timespec begin, end;
    int started = 0, failed = 0;
    atomic_store(&o->next, 0);
    timespec_get(&begin, TIME_UTC);
    while (started < workers && pthread_create(&thread[started], NULL, worker, o) == 0) started++;
    for (int i = 0; i < started; i++) {
        void *error = NULL;
        failed |= pthread_join(thread[i], &error) != 0 || error != NULL;
    }
    timespec_get(&end, TIME_UTC);
    const double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    return started < workers || failed ? 0 : REQUESTS / seconds;
}

int main(int argc, char **argv) {
    static float expected[REQUESTS][CLASSES], answer[REQUESTS][CLASSES];
    const int most = argc > 1 ? atoi(argv[1]) : 4;
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_module *model = fac_sequential(fac_linear_new(FEATURES, HIDDEN), fac_gelu_new(), fac_dropout_new(0.1),
                                       fac_linear_new(HIDDEN, HIDDEN), fac_gelu_new(), fac_linear_new(HIDDEN, CLASSES));
    fac_tensor *requests = fac_randn(FAC_SHAPE(REQUESTS, FEATURES));
    if (!fac_error()) fac_module_train(model, false); /* before the workers: this writes to the model */

    office o = {.model = model, .requests = requests, .answer = expected};
    if (!fac_error()) work(&o); /* the main thread is as good as any */
    o.answer = answer;
    for (int workers = 1; workers <= most && workers <= MOST_WORKERS && !fac_error(); workers *= 2) {
        memset(answer, 0, sizeof answer);
        const double rate = serve(&o, workers);
        if (rate == 0) fac_error_set(FAC_ERR_STATE, "a worker failed");
        if (memcmp(answer, expected, sizeof answer) != 0)
            fac_error_set(FAC_ERR_STATE, "an answer is not the same");
        else
            printf("%2d worker%s  %7.0f answers a second, all as the main thread gives them\n", workers,
                   workers == 1 ? " " : "s", rate);
    }
    fac_module_release(model);
    return fac_report(stderr);
}
