/* facula inspect: what a safetensors file holds. */
#include "checkpoint.h"
#include "cli.h"
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

typedef struct inspect_options {
    bool verify, whole_metadata;
} inspect_options;

/* "[2, 3]" into buf; a longer list ends in "...". */
static void shape_text(fac_ints sizes, char *buf, size_t size) {
    size_t n = (size_t)snprintf(buf, size, "[");
    for (size_t i = 0; i < sizes.n; i++) {
        int more = snprintf(buf + n, size - n, "%s%" PRId64, i ? ", " : "", sizes.v[i]);
        if (more < 0 || n + (size_t)more + 5 > size) {
            snprintf(buf + n, size - n, "...");
            n = strlen(buf);
            break;
        }
        n += (size_t)more;
    }
    snprintf(buf + n, size - n, "]");
}

static void print_metadata(const fac_safetensors *f, const inspect_options *o) {
    enum { SHOWN = 60 };
    for (size_t i = 0; i < fac_safetensors_metadata_count(f); i++) {
        fac_metadata m = fac_safetensors_metadata_at(f, i);
        size_t length = strlen(m.value);
        cli_put_text(stdout, m.key);
        fputs(": ", stdout);
        if (o->whole_metadata || length <= SHOWN) {
            cli_put_text(stdout, m.value);
        } else {
            char start[SHOWN + 1];
            snprintf(start, sizeof start, "%s", m.value);
            for (size_t n = SHOWN; n && (m.value[n] & 0xc0) == 0x80;) start[--n] = 0; /* no half of a UTF-8 character */
            cli_put_text(stdout, start);
            printf("... (%zu %s; --metadata prints all)", length, cli_word((int64_t)length, "byte", "bytes"));
        }
        fputc('\n', stdout);
    }
}

typedef struct widths {
    int name, type, shape;
} widths;

static void widen(int *width, int wanted) {
    if (wanted > *width) *width = wanted;
}

static void print_row(const fac_safetensors_entry *e, const char *shape, const widths *w) {
    int pad = w->name - cli_put_text(stdout, e->name);
    printf("%*s  %-*s  %-*s  %12" PRId64 "\n", pad, "", w->type, e->type, w->shape, shape, e->bytes);
}

static int print_table(const cli_command *self, const fac_safetensors *f) {
    size_t n = fac_safetensors_count(f);
    widths w = {4, 5, 5};
    char shape[160], total[32];
    fac_safetensors_entry e;
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (fac_safetensors_get(f, i, &e) != FAC_OK) return cli_failed(self);
        shape_text(e.sizes, shape, sizeof shape);
        widen(&w.name, cli_text_width(e.name));
        widen(&w.type, (int)strlen(e.type));
        widen(&w.shape, (int)strlen(shape));
        bytes += e.bytes;
    }
    printf("%-*s  %-*s  %-*s  %12s\n", w.name, "name", w.type, "dtype", w.shape, "shape", "bytes");
    for (size_t i = 0; i < n; i++) {
        if (fac_safetensors_get(f, i, &e) != FAC_OK) return cli_failed(self);
        shape_text(e.sizes, shape, sizeof shape);
        print_row(&e, shape, &w);
    }
    printf("%zu %s, %s\n", n, cli_word((int64_t)n, "tensor", "tensors"), cli_bytes(bytes, total, sizeof total));
    return CLI_OK;
}

static int inspect_file(const cli_command *self, const char *path, const inspect_options *o) {
    fac_safetensors *f = fac_safetensors_open(path);
    if (!f) return cli_failed(self);
    print_metadata(f, o);
    int code = print_table(self, f);
    if (code == CLI_OK && o->verify) {
        if (fac_safetensors_verify(f) != FAC_OK)
            code = cli_failed(self);
        else
            puts(fac_safetensors_metadata(f, "facula.crc32") ? "checksum ok" : "no checksum");
    }
    fac_safetensors_close(f);
    return code;
}

static int inspect(const cli_command *self, int argc, char **argv) {
    cli_args a = {.command = self, .argc = argc, .argv = argv, .at = 1};
    inspect_options o = {0};
    const char *path = NULL;
    bool is_option;
    for (const char *arg; (arg = cli_next(&a, &is_option)) != NULL;) {
        if (is_option && strcmp(arg, "--verify") == 0)
            o.verify = true;
        else if (is_option && strcmp(arg, "--metadata") == 0)
            o.whole_metadata = true;
        else if (is_option || path)
            return cli_usage_error(self, "'%s' is not understood", arg);
        else
            path = arg;
        if (is_option && !cli_no_value(&a, arg)) return CLI_USAGE;
    }
    if (!path) return cli_usage_error(self, "which file?");
    char checkpoint[4096];
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (run_path(path, CHECKPOINT_NAME, checkpoint, sizeof checkpoint)) return cli_failed(self);
        path = checkpoint;
    }
    return inspect_file(self, path, &o);
}

const cli_command cli_inspect = {
    "inspect", "the tensors in a safetensors file",
    "usage: facula inspect [--verify] [--metadata] FILE|FOLDER\n\n"
    "Prints the metadata and, for each tensor, name, dtype, shape and bytes. Only the file's header is read, and\n"
    "all of it is checked. FOLDER is the run of a training: its checkpoint is shown.\n\n"
    "  --verify      read the whole file and compare with its checksum\n"
    "  --metadata    print long metadata whole\n",
    inspect};
