/* attack [--device cpu|cuda] [--seconds N] [--calls N] [--seed N] [--lanes N] [--only NAME] [--out FOLDER]
   attack --replay FILE    makes the calls of the file, one a line, in this process
   attack --list           prints operators without a valid call, and how many calls there are to start from

   Prints what it counted, and ends with status 1 if anything was found. */
#define _GNU_SOURCE
#include "attack.h"
#include "base/sanitizers.h"

#include <facula/facula.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 20000, HANG_MS = 10000, STUCK_MS = 60000, MOST_LANES = 64, MOST_FINDINGS = 1000, CAUSE = 512 };

#if FAC_UNDER_ASAN
/* The environment's own options come after these. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:detect_leaks=1:quarantine_size_mb=16:malloc_context_size=12:handle_abort=1";
}
#endif

/* ---- one child --------------------------------------------------------------------------------------------------- */

typedef struct runner {
    attack_lane *lane;
    pid_t pid; /* 0: none */
    uint64_t first;
    char log[1100];
} runner;

/* Crashes and the like, by cause. */
typedef struct findings {
    char causes[MOST_FINDINGS][CAUSE];
    int n;
    uint64_t crashes, reports, hangs, leaks;
} findings;

static void start_child(const attack_options *o, const attack_seeds *s, runner *r, uint64_t first, uint64_t n) {
    r->first = first;
    atomic_store(&r->lane->begun_ms, 0);
    fflush(NULL);
    r->pid = fork();
    if (r->pid != 0) return;
    int fd = open(r->log, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd >= 0) dup2(fd, 1), dup2(fd, 2);
    attack_work(o, s, r->lane, first, n);
    exit(0);
}

/* ---- what was found ---------------------------------------------------------------------------------------------- */

static void copy_log(FILE *to, const char *log) {
    char line[2048];
    FILE *f = fopen(log, "r");
    for (int n = 0; f && n < 60 && fgets(line, sizeof line, f); n++) fprintf(to, "# %s", line);
    if (f) fclose(f);
}

static bool is_new(findings *f, const char *cause) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->causes[i], cause) == 0) return false;
    if (f->n < MOST_FINDINGS) memcpy(f->causes[f->n++], cause, strlen(cause) + 1);
    return true;
}

/* Saves the call that was under way, in fewer words, below the child's log. */
static void save(const attack_options *o, const findings *f, const runner *r, const char *cause, bool reduce) {
    static char text[SAMPLE_TEXT];
    char path[1100];
    snprintf(path, sizeof path, "%s/found-%03d.txt", o->out, f->n);
    FILE *file = fopen(path, "w");
    snprintf(text, sizeof text, "%s", r->lane->text);
    if (file) fprintf(file, "# %s\n", cause), copy_log(file, r->log), fprintf(file, "# as it was: %s\n", text);
    if (reduce) attack_reduce(o, cause, text);
    if (file) fprintf(file, "%s\n", text), fclose(file);
    printf("FOUND   %s\n        %s\n        %s\n", cause, text, path);
    fflush(stdout);
}

static void note(const attack_options *o, findings *f, const runner *r, int status, bool hung) {
    char cause[CAUSE];
    if (hung)
        snprintf(cause, sizeof cause, "hangs: %.*s", (int)strcspn(r->lane->text, "("), r->lane->text);
    else
        attack_cause(status, r->log, cause, sizeof cause);
    bool leak = strstr(cause, "leak") || strstr(cause, "LeakSanitizer");
    bool report = strstr(cause, "runtime error") || strstr(cause, "AddressSanitizer") || strstr(cause, "attack: ");
    ++*(hung ? &f->hangs : leak ? &f->leaks : report ? &f->reports : &f->crashes);
    if (is_new(f, cause)) save(o, f, r, cause, !hung && atomic_load(&r->lane->begun_ms));
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

static int64_t cpu_ms(pid_t pid) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A call hangs that has computed for long, or has done nothing for longer: the machine may be busy with others. */
static bool hangs(const runner *r, int64_t *cpu_at_begin, int64_t *seen_begin) {
    int64_t begun = atomic_load(&r->lane->begun_ms);
    if (begun != *seen_begin) {
        *seen_begin = begun;
        *cpu_at_begin = cpu_ms(r->pid);
        return false;
    }
    int64_t wall = begun ? attack_now_ms() - begun : 0;
    return wall > STUCK_MS || (wall > HANG_MS && cpu_ms(r->pid) - *cpu_at_begin > HANG_MS - 2000);
}

/* The cases of a child that ended with a leak, halved until one is left, whose text stands in the lane. */
static void find_leak(const attack_options *o, const attack_seeds *s, runner *r, uint64_t first, uint64_t end) {
    bool stop = atomic_exchange(&r->lane->stop, false);
    while (end - first > 1) {
        uint64_t half = first + (end - first) / 2;
        int status = 0;
        start_child(o, s, r, first, half - first);
        if (r->pid < 0 || waitpid(r->pid, &status, 0) != r->pid) break;
        if (status)
            end = half;
        else
            first = half;
    }
    int status;
    start_child(o, s, r, first, end - first);
    waitpid(r->pid, &status, 0);
    atomic_store(&r->lane->stop, stop);
}

/* Where the next child goes on, after one that ended with this status. */
static uint64_t after(const attack_options *o, const attack_seeds *s, findings *f, runner *r, int status, bool hung) {
    uint64_t next = atomic_load(&r->lane->next);
    if (hung || status) {
        bool at_end = WIFEXITED(status) && WEXITSTATUS(status) == ATTACK_LEAK && !atomic_load(&r->lane->begun_ms);
        if (at_end && next - r->first > 1) find_leak(o, s, r, r->first, next);
        note(o, f, r, status, hung);
        atomic_store(&r->lane->next, next);
    }
    return next;
}

typedef struct watch {
    int64_t cpu, begun;
} watch;

/* Looks at one child; starts the next when it has ended and there is more to do. False when the lane is done. */
static bool attend(const attack_options *o, const attack_seeds *s, findings *f, runner *r, watch *w, uint64_t end) {
    int status = 0;
    bool hung = false;
    pid_t done = waitpid(r->pid, &status, WNOHANG);
    if (done == 0) {
        if (!(hung = hangs(r, &w->cpu, &w->begun))) return true;
        kill(r->pid, SIGKILL);
        waitpid(r->pid, &status, 0);
    }
    uint64_t next = after(o, s, f, r, status, hung);
    *w = (watch){0};
    r->pid = 0;
    if (next >= end || atomic_load(&r->lane->stop)) return false;
    start_child(o, s, r, next, end - next < BATCH ? end - next : BATCH);
    return true;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void *shared(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void add_counts(attack_counts *to, const attack_counts *from) {
    to->calls += from->calls;
    to->unmade += from->unmade;
    to->backward += from->backward;
    to->double_backward += from->double_backward;
    for (int i = 0; i < ATTACK_CODES; i++) to->by_status[i] += from->by_status[i];
    for (int i = 0; i < ATTACK_OPS; i++) to->reached[i] |= from->reached[i];
}

static void print_counts(const attack_options *o, const attack_seeds *s, const attack_counts *c, const findings *f,
                         double seconds) {
    int reached = 0;
    for (int i = 0; i < ATTACK_OPS; i++) reached += c->reached[i];
    printf("device            %s\nseed              %llu\nseconds           %.1f\n",
           o->device == FAC_CUDA ? "cuda" : "cpu", (unsigned long long)o->seed, seconds);
    printf("calls             %llu (%.0f a second)\n", (unsigned long long)c->calls, (double)c->calls / seconds);
    printf("succeeded         %llu\n", (unsigned long long)c->by_status[FAC_OK]);
    for (int i = 1; i < ATTACK_CODES; i++)
        if (c->by_status[i])
            printf("failed %-11s%llu\n", fac_status_name((fac_status)i), (unsigned long long)c->by_status[i]);
    printf("not made          %llu\n", (unsigned long long)c->unmade);
    printf("backward          %llu\ndouble backward   %llu\n", (unsigned long long)c->backward,
           (unsigned long long)c->double_backward);
    printf("operators         %d of %zu\n", reached, s->n_ops);
    printf("crashes           %llu\nreports           %llu\nhangs             %llu\nleaks             %llu\n",
           (unsigned long long)f->crashes, (unsigned long long)f->reports, (unsigned long long)f->hangs,
           (unsigned long long)f->leaks);
    printf("causes            %d\n", f->n);
}

static const uint64_t FAR = UINT64_C(1) << 40; /* cases between two lanes */

static int run(const attack_options *o, const attack_seeds *s) {
    static findings found;
    static attack_counts total;
    static runner runners[MOST_LANES];
    watch watches[MOST_LANES] = {{0}};
    int64_t begun = attack_now_ms();
    int at_work = o->lanes;
    uint64_t each = o->calls ? o->calls / (uint64_t)o->lanes : FAR;
    for (int i = 0; i < o->lanes; i++) {
        uint64_t first = i ? (uint64_t)i * FAR : 0;
        runners[i].lane = shared(sizeof(attack_lane));
        if (!runners[i].lane) return 1;
        snprintf(runners[i].log, sizeof runners[i].log, "%s/lane-%d.log", o->out, i);
        start_child(o, s, &runners[i], first, each < BATCH ? each : BATCH);
    }
    while (at_work) {
        bool late = o->seconds > 0 && (double)(attack_now_ms() - begun) > o->seconds * 1000;
        for (int i = 0; i < o->lanes; i++) {
            if (late) atomic_store(&runners[i].lane->stop, true);
            uint64_t first = i ? (uint64_t)i * FAR : 0;
            if (runners[i].pid && !attend(o, s, &found, &runners[i], &watches[i], first + each)) at_work--;
        }
        usleep(20000);
    }
    for (int i = 0; i < o->lanes; i++) add_counts(&total, &runners[i].lane->counts);
    print_counts(o, s, &total, &found, (double)(attack_now_ms() - begun) / 1000);
    return found.n != 0;
}

/* ---- seeds, from a child ----------------------------------------------------------------------------------------- */

/* A child loads and completes the samples, since the parent does not start the library, and leaves them in a file. */
static bool write_seeds(const char *path, bool list) {
    pid_t pid = fork();
    if (pid == 0) {
        sample_set set;
        if (!samples_load(&set)) _exit(1);
        FILE *f = fopen(path, "w");
        for (size_t i = 0; f && i < set.n; i++) fprintf(f, "%s\n", set.texts[i]);
        size_t n, missing = 0;
        for (size_t i = 0; i < fac_operator_count(); i++) {
            samples_of(&set, fac_operator_name(fac_operator_at(i)), &n);
            if (!n && list) printf("no call: %s\n", fac_operator_schema(fac_operator_at(i)));
            missing += !n;
        }
        if (list) printf("%zu operators, %zu without a call, %zu calls\n", fac_operator_count(), missing, set.n);
        fflush(stdout);
        _exit(f && fclose(f) == 0 ? 0 : 1);
    }
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool read_seeds(const attack_options *o, attack_seeds *s) {
    char path[1100];
    snprintf(path, sizeof path, "%s/seeds", o->out);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) return false;
    snprintf(path, sizeof path, "%s/seeds/seeds.txt", o->out);
    if (!write_seeds(path, o->list)) return false;
    snprintf(path, sizeof path, "%s/seeds", o->out);
    const char *data = getenv("FACULA_TEST_DATA");
    if (!samples_read(&s->samples, path) || !attack_index_seeds(o, s)) return false;
    snprintf(path, sizeof path, "%s/attack", data ? data : "tests/data");
    return o->only || samples_read(&s->kept, path);
}

static int replay(const attack_options *o) {
    sample_set calls = {0};
    attack_counts counts = {0};
    if (!samples_read_file(&calls, o->replay)) return 1;
    attack_start();
    for (size_t i = 0; i < calls.n; i++) {
        printf("%s\n", calls.texts[i]);
        fflush(stdout);
        attack_replay_text(o, calls.texts[i], &counts);
    }
    for (int i = 0; i < ATTACK_CODES; i++)
        if (counts.by_status[i])
            printf("%s %llu\n", fac_status_name((fac_status)i), (unsigned long long)counts.by_status[i]);
    printf("not made %llu, backward %llu, double backward %llu\n", (unsigned long long)counts.unmade,
           (unsigned long long)counts.backward, (unsigned long long)counts.double_backward);
    samples_free(&calls);
    fac_shutdown();
    return 0;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static const struct option long_options[] = {
    {"device", required_argument, NULL, 'd'}, {"seconds", required_argument, NULL, 's'},
    {"calls", required_argument, NULL, 'n'},  {"seed", required_argument, NULL, 'r'},
    {"lanes", required_argument, NULL, 'j'},  {"only", required_argument, NULL, 'o'},
    {"out", required_argument, NULL, 'f'},    {"replay", required_argument, NULL, 'p'},
    {"list", no_argument, NULL, 'l'},         {NULL, 0, NULL, 0},
};

static bool read_options(int argc, char **argv, attack_options *o) {
    for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) switch (c) {
        case 'd': o->device = strcmp(optarg, "cuda") == 0 ? FAC_CUDA : FAC_CPU; break;
        case 's': o->seconds = atof(optarg); break;
        case 'n': o->calls = strtoull(optarg, NULL, 10); break;
        case 'r': o->seed = strtoull(optarg, NULL, 10); break;
        case 'j': o->lanes = atoi(optarg); break;
        case 'o': o->only = optarg; break;
        case 'f': o->out = optarg; break;
        case 'p': o->replay = optarg; break;
        case 'l': o->list = true; break;
        default: return false;
        }
    return o->lanes >= 1 && o->lanes <= MOST_LANES;
}

int main(int argc, char **argv) {
    attack_options o = {.device = FAC_CPU, .seed = 1, .lanes = 1, .out = "attack-out"};
    static attack_seeds seeds;
    if (!read_options(argc, argv, &o)) return 2;
    if (o.replay) return replay(&o);
    if (mkdir(o.out, 0755) != 0 && errno != EEXIST) return perror(o.out), 1;
    if (o.seconds <= 0 && !o.calls) o.seconds = 60;
    bool ready = read_seeds(&o, &seeds);
    if (!ready) fprintf(stderr, "attack: no seeds\n");
    int status = !ready ? 1 : o.list ? 0 : run(&o, &seeds);
    samples_free(&seeds.samples);
    samples_free(&seeds.kept);
    free(seeds.first);
    free(seeds.count);
    return status;
}
