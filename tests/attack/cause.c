/* Why a child ended, as a line that two ends of the same cause share, and the shortest call that still has it. */
#include "attack.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Lines of a log that tell a cause, the best first. */
static const char *const marks[] = {"runtime error: ", "SUMMARY: ", "attack: ", "LeakSanitizer"};

/* Operands differ from case to case; the place does not. */
static void mask_numbers(char *text) {
    for (char *p = text; p && *p; p++)
        if (*p >= '0' && *p <= '9') *p = '#';
}

/* The first line with the mark, from the mark on, without addresses and numbers of processes. */
static bool marked_line(const char *log, const char *mark, char *out, size_t size) {
    char line[2048];
    bool found = false;
    FILE *f = fopen(log, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, mark);
        if (!(found = at != NULL)) continue;
        line[strcspn(line, "\n")] = '\0';
        bool whole = strcmp(mark, "runtime error: ") == 0; /* the place stands before it */
        snprintf(out, size, "%s", whole ? line : at);
        if (whole) mask_numbers(strstr(out, mark));
    }
    if (f) fclose(f);
    return found;
}

void attack_cause(int status, const char *log, char *out, size_t size) {
    for (size_t i = 0; i < FAC_COUNT(marks); i++)
        if (marked_line(log, marks[i], out, size)) return;
    if (WIFSIGNALED(status))
        snprintf(out, size, "signal %d", WTERMSIG(status));
    else
        snprintf(out, size, "exit status %d", WEXITSTATUS(status));
}

/* ---- fewer words ------------------------------------------------------------------------------------------------- */

enum { TRY_SECONDS = 12 };

/* Makes the call in a child; whether it ends for the cause. */
static bool has_cause(const attack_options *o, const sample_call *c, const char *cause) {
    static char text[SAMPLE_TEXT];
    char log[1100], now[512];
    snprintf(log, sizeof log, "%s/reduce.log", o->out);
    sample_print(c, text, sizeof text);
    pid_t pid = fork();
    if (pid == 0) {
        attack_counts counts = {0};
        int fd = open(log, O_CREAT | O_TRUNC | O_WRONLY, 0644);
        if (fd >= 0) dup2(fd, 1), dup2(fd, 2);
        alarm(TRY_SECONDS);
        attack_start();
        attack_replay_text(o, text, &counts);
        exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status == 0) return false;
    attack_cause(status, log, now, sizeof now);
    return strcmp(now, cause) == 0;
}

/* The n-th way to say less in the i-th tensor; false if there is no such. */
static bool simpler_tensor(sample_tensor *t, int way) {
    switch (way) {
    case 0: t->flags = 0; return true;
    case 1: t->place = SAMPLE_HERE; return true;
    case 2: t->offset = 0; return true;
    case 3: t->strided = false; return true;
    case 4: t->n_elements = 0; return true;
    case 5: t->dtype = FAC_F32; return true;
    case 6: t->base = -1; return true;
    case 7: t->flags &= SAMPLE_GRAD; return true;
    default: return false;
    }
}

static void keep_if_same(const attack_options *o, const char *cause, sample_call *best, sample_call *candidate) {
    static char before[SAMPLE_TEXT], after[SAMPLE_TEXT];
    sample_tidy(candidate);
    if (strcmp(sample_print(best, before, sizeof before), sample_print(candidate, after, sizeof after)) == 0) return;
    if (has_cause(o, candidate, cause)) *best = *candidate;
}

void attack_reduce(const attack_options *o, const char *cause, char *text) {
    static sample_call best, candidate;
    if (!sample_parse(text, &best, NULL) || !has_cause(o, &best, cause)) return;
    while (best.n_args > 0) {
        int n = best.n_args;
        candidate = best;
        candidate.n_args--;
        keep_if_same(o, cause, &best, &candidate);
        if (best.n_args == n) break;
    }
    for (int i = 0; i < best.n_tensors; i++)
        for (int way = 0; candidate = best, simpler_tensor(&candidate.tensors[i], way); way++)
            keep_if_same(o, cause, &best, &candidate);
    for (int i = 0; i < best.n_args; i++) {
        candidate = best;
        if (candidate.args[i].kind == SAMPLE_TENSOR) continue;
        candidate.args[i] = (sample_value){.kind = SAMPLE_NONE};
        keep_if_same(o, cause, &best, &candidate);
    }
    sample_print(&best, text, SAMPLE_TEXT);
}
