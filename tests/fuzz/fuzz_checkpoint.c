/* A run's checkpoint: its notes are read, and it is loaded into a small model and its optimiser. */
#include "input.h"

#include "checkpoint.h"

#include <fcntl.h>

static char folder[64];
static int file;

static void remove_folder(void) {
    char path[96];
    snprintf(path, sizeof path, "%s/" CHECKPOINT_NAME, folder);
    unlink(path);
    rmdir(folder);
}

/* Makes a folder for the one file that is written anew for each input. */
static void begin(void) {
    char path[96];
    snprintf(folder, sizeof folder, "/tmp/facula-fuzz-XXXXXX");
    if (!mkdtemp(folder)) abort();
    snprintf(path, sizeof path, "%s/" CHECKPOINT_NAME, folder);
    file = open(path, O_CREAT | O_RDWR, 0600);
    if (file < 0) abort();
    atexit(remove_folder);
}

static void read_notes(void) {
    notes n = {0};
    if (checkpoint_read_notes(folder, &n) == FAC_OK) {
        (void)notes_int(&n, "layers");
        fac_error_clear();
        (void)notes_double(&n, "lr");
    }
    fac_error_clear();
    notes_free(&n);
}

static void load(void) {
    fac_module *model = fac_linear_new(2, 1);
    fac_optimizer *optimizer = model ? fac_sgd_new(model, 0.1, .momentum = 0.9) : NULL;
    fac_module *averaged = optimizer ? fac_linear_new(2, 1) : NULL;
    fac_grad_scaler *scaler = averaged ? fac_grad_scaler_new() : NULL;
    if (!scaler) abort();
    (void)!checkpoint_load(folder, &(checkpoint_parts){model, averaged, optimizer, scaler});
    fac_error_clear();
    fac_grad_scaler_release(scaler);
    fac_module_release(averaged);
    fac_optimizer_release(optimizer);
    fac_module_release(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!folder[0]) begin();
    if (ftruncate(file, 0) != 0 || pwrite(file, data, n, 0) != (ssize_t)n) abort();
    read_notes();
    load();
    return 0;
}
