/* Replays data/subscript_cases.json: Python's subscripts, read with gradients and assigned to, and what PyTorch made of them. */
#include "support/replay.h"

int main(void) {
    enum { MAX_GROUPS = 8 };
    struct CMUnitTest tests[MAX_GROUPS];
    size_t n = 0;
    json_t *all = replay_load("subscript_cases.json"), *group;
    const char *name;
    json_object_foreach(json_object_get(all, "groups"), name, group) if (n < MAX_GROUPS) tests[n++] =
        (struct CMUnitTest){name, replay_group, support_setup, support_teardown, group};
    int failed = n ? support_run(tests, n, NULL) : 1;
    json_decref(all);
    return failed;
}
