/* Runs a body in a forked child. */
#include "child.h"
#include "support.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_SECONDS = 60 };

int in_child(int (*body)(void)) {
    int status = -1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        memory_hook_fail(0, false); /* that is the parent's */
        alarm(CHILD_SECONDS);
        _exit(body());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}
