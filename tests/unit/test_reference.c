/* Replays data/reference_cases.json: calls at the edges, and what a current PyTorch gave for them. One test per group of cases. */
#include "support/replay.h"

int main(void) {
    enum { MAX_GROUPS = 100 };
    struct CMUnitTest tests[MAX_GROUPS];
    size_t n = 0;
    json_t *all = replay_load("reference_cases.json"), *group;
    const char *name;
    json_object_foreach(json_object_get(all, "groups"), name, group) if (n < MAX_GROUPS) tests[n++] =
        (struct CMUnitTest){name, replay_group, support_setup, support_teardown, group};
    int failed = n ? support_run(tests, n, NULL) : 1;
    json_decref(all);
    return failed;
}
