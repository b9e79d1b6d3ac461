/* Races in words. A site remembers one access: what it was, in which stream, and from where it was called. */
#define _GNU_SOURCE /* dladdr */
#include "backend/cuda/runtime/race.h"
#include <dlfcn.h>
#include <execinfo.h>

enum { FRAMES = 16, RING = 8192, SHOWN = 6 };

typedef struct site {
    uint32_t number; /* 0: free */
    uint32_t agent;
    bool write;
    char op[64], argument[32];
    void *frames[FRAMES];
    int n_frames;
} site;

/* The latest RING accesses; older ones are forgotten, but not that they happened. */
static site *ring;
static uint32_t last_site;

/* Stays where it is until the reset: users hold its strings. */
typedef struct filed {
    fac_race race;
    char *text, *stacks[2];
    char *untold;     /* the text, until the warning handler has had it */
    void *pair[2][2]; /* two frames of each side, to file a pair of call sites once */
    char ops[2][64], arguments[2][32];
} filed;

static struct {
    filed **v;
    size_t n, cap;
} found;
static atomic_size_t n_untold;

uint32_t fac__race_site(const char *op, const char *argument, uint32_t agent, bool write) {
    if (!ring && !(ring = fac__alloc_zero(RING * sizeof *ring))) return 0;
    if (++last_site == 0) last_site = 1;
    site *s = &ring[last_site % RING];
    *s = (site){.number = last_site, .agent = agent, .write = write};
    const char *within = fac__race_operator();
    snprintf(s->op, sizeof s->op, "%s", within ? within : op ? op : "");
    snprintf(s->argument, sizeof s->argument, "%s", argument ? argument : "");
    s->n_frames = backtrace(s->frames, FRAMES);
    return last_site;
}

static const site *find_site(uint32_t number) {
    return ring && ring[number % RING].number == number ? &ring[number % RING] : NULL;
}

/* Frames of the library itself say little: those from the first one outside, or the last ones if there is none. */
static int first_outside(const site *s) {
    Dl_info own, frame;
    if (!dladdr((void *)(uintptr_t)fac__race_site, &own)) return 0;
    for (int i = 0; i < s->n_frames; i++)
        if (dladdr(s->frames[i], &frame) && frame.dli_fbase != own.dli_fbase) return i;
    return s->n_frames > SHOWN + 4 ? 4 : 0; /* linked statically */
}

static char *stack_text(const site *s) {
    fac_buf b = {0};
    int from = s ? first_outside(s) : 0;
    for (int i = from; s && i < s->n_frames && i < from + SHOWN; i++) {
        Dl_info f = {0};
        dladdr(s->frames[i], &f);
        const char *object = f.dli_fname ? strrchr(f.dli_fname, '/') : NULL;
        object = object ? object + 1 : f.dli_fname ? f.dli_fname : "?";
        uintptr_t at = (uintptr_t)s->frames[i];
        if (f.dli_sname)
            (void)fac__buf_printf(&b, "    %s+0x%zx (%s)\n", f.dli_sname, (size_t)(at - (uintptr_t)f.dli_saddr),
                                  object);
        else
            (void)fac__buf_printf(&b, "    %s+0x%zx\n", object, (size_t)(at - (uintptr_t)f.dli_fbase));
    }
    if (!b.data) return fac__strdup("");
    return b.data;
}

static fac_stream stream_of(uint32_t agent) {
    const race_agent *a = fac__race_agent(agent);
    fac_stream none = {{0, 0}, 0};
    if (a->device < 0) return none;
    return (fac_stream){fac_device_make(FAC_CUDA, a->device), fac__cuda_stream_id_of(a->device, a->stream)};
}

static const char *stream_name(fac_stream s, char *buf, size_t size) {
    char device[24];
    fac_device_format(s.device, device, sizeof device);
    if (!s.device.type)
        snprintf(buf, size, "the host");
    else if (s.id == 0)
        snprintf(buf, size, "the default stream of %s", device);
    else
        snprintf(buf, size, "stream %lld of %s", (long long)s.id, device);
    return buf;
}

static void fill_side(filed *f, int i, const site *s, uint32_t agent_if_lost, bool write) {
    fac_race_side *side = i ? &f->race.later : &f->race.earlier;
    snprintf(f->ops[i], sizeof f->ops[i], "%s", s ? s->op : "an access long ago");
    snprintf(f->arguments[i], sizeof f->arguments[i], "%s", s ? s->argument : "");
    f->stacks[i] = stack_text(s);
    side->write = write;
    side->stream = stream_of(s ? s->agent : agent_if_lost);
    int from = s ? first_outside(s) : 0;
    for (int k = 0; s && k < 2 && from + k < s->n_frames; k++) f->pair[i][k] = s->frames[from + k];
}

static void point(filed *f) {
    f->race.text = f->text;
    for (int i = 0; i < 2; i++) {
        fac_race_side *side = i ? &f->race.later : &f->race.earlier;
        side->op = f->ops[i];
        side->argument = f->arguments[i];
        side->stack = f->stacks[i] ? f->stacks[i] : "";
    }
}

static char *describe(const filed *f) {
    char a[64], b[64];
    const fac_race_side *e = &f->race.earlier, *l = &f->race.later;
    stream_name(e->stream, a, sizeof a);
    stream_name(l->stream, b, sizeof b);
    bool host_later = !l->stream.device.type;
    return fac__format(
        "stream race at %p: '%s' in %s %s%s%s memory that '%s' in %s %s%s%s, and nothing orders the two.\n"
        "  %s: %s\n  the later was called from\n%s  the earlier from\n%s",
        f->race.address, l->op, b, l->write ? "writes" : "reads", *l->argument ? " as " : "", l->argument, e->op, a,
        e->write ? "writes" : "reads", *e->argument ? " as " : "", e->argument, "missing",
        host_later ? "the host should wait for that stream (fac_stream_synchronize) first"
                   : "the later stream should wait for the earlier (fac_stream_wait_stream, fac_stream_wait_event); "
                     "memory that was freed and used again needs fac_record_stream before it is freed",
        f->stacks[1] ? f->stacks[1] : "", f->stacks[0] ? f->stacks[0] : "");
}

static bool is_known(const filed *f) {
    for (size_t i = 0; i < found.n; i++)
        if (memcmp(found.v[i]->pair, f->pair, sizeof f->pair) == 0 && strcmp(found.v[i]->ops[0], f->ops[0]) == 0 &&
            strcmp(found.v[i]->ops[1], f->ops[1]) == 0)
            return true;
    return false;
}

static void filed_free(filed *f) {
    if (f->untold) atomic_fetch_sub(&n_untold, 1);
    fac__free(f->untold);
    fac__free(f->text);
    fac__free(f->stacks[0]);
    fac__free(f->stacks[1]);
    fac__free(f);
}

/* In ERROR mode the error is the telling. */
static fac_status complete(filed *f, bool fails) {
    point(f);
    f->text = describe(f);
    if (!f->text) return FAC_ERR_MEMORY;
    point(f);
    FAC_TRY(FAC_VEC_GROW(&found));
    if (fails) return FAC_OK;
    f->untold = fac__strdup(f->text);
    if (!f->untold) return FAC_ERR_MEMORY;
    atomic_fetch_add(&n_untold, 1);
    return FAC_OK;
}

fac_status fac__race_report(uint32_t earlier, uint32_t earlier_agent, bool earlier_writes, uint32_t later,
                            bool later_writes, uintptr_t address) {
    filed *f = fac__alloc_zero(sizeof *f);
    if (!f) return FAC_ERR_MEMORY;
    const site *l = find_site(later);
    f->race.address = (const void *)address;
    fill_side(f, 0, find_site(earlier), earlier_agent, earlier_writes);
    fill_side(f, 1, l, l ? l->agent : 0, later_writes);
    bool fails = atomic_load(&fac__race_mode_now) == FAC_RACE_ERROR, known = is_known(f) && !fails;
    fac_status st = known ? FAC_OK : complete(f, fails);
    if (known || st != FAC_OK) {
        filed_free(f);
        return st;
    }
    found.v[found.n++] = f;
    return fails ? FAC_FAIL(FAC_ERR_STATE, "%s", f->text) : FAC_OK;
}

static char *take_untold(void) {
    char *text = NULL;
    fac__mutex_lock(&fac__race_lock);
    for (size_t i = 0; i < found.n && !text; i++) {
        text = found.v[i]->untold;
        found.v[i]->untold = NULL;
    }
    if (text) atomic_fetch_sub(&n_untold, 1);
    fac__mutex_unlock(&fac__race_lock);
    return text;
}

void fac__race_tell(void) {
    while (FAC_UNLIKELY(atomic_load(&n_untold) != 0)) {
        char *text = take_untold();
        if (!text) return;
        fac__warn("%s", text);
        fac__free(text);
    }
}

size_t fac_cuda_race_count(void) {
    fac__mutex_lock(&fac__race_lock);
    size_t n = found.n;
    fac__mutex_unlock(&fac__race_lock);
    return n;
}

bool fac_cuda_race_get(size_t i, fac_race *out_race) {
    fac__mutex_lock(&fac__race_lock);
    bool there = i < found.n && out_race;
    if (there) *out_race = found.v[i]->race;
    fac__mutex_unlock(&fac__race_lock);
    return there;
}

static void reset(void) {
    for (size_t i = 0; i < found.n; i++) filed_free(found.v[i]);
    fac__free(found.v);
    memset(&found, 0, sizeof found);
}

void fac_cuda_race_reset(void) {
    fac__mutex_lock(&fac__race_lock);
    reset();
    fac__mutex_unlock(&fac__race_lock);
}

void fac__race_report_free(void) {
    fac__free(ring);
    ring = NULL;
    reset();
}
